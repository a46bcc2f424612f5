"""Data sets: GLUE (`glue`) and the small labelled set that ships with the package (`messages`)."""
