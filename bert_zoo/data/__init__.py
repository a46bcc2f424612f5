"""Loaders for benchmarks such as GLUE (`glue`), for the data set in the package (`messages`), and for your files."""
