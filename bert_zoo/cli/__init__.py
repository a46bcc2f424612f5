"""The command-line programs. The library does not import them."""
