"""Data sets: GLUE (`glue`), the small labelled set that comes with the package (`messages`), and files of users."""
