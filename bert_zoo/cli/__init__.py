"""The programs that come with the package: nothing in the library imports them."""
