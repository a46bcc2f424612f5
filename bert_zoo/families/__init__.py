"""The families of this package, listed by hand; a test holds the list against the files."""

from bert_zoo.families import bert

FAMILIES = (bert.FAMILY,)
