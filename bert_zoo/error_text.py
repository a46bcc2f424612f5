"""Formats values and names of any number and size for error messages."""

import difflib
import reprlib
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

_LISTED = 20
_LONGEST_NAME = 80
_MOST_COMPARED = 10_000


def shown(value: Any, limit: int = 200) -> str:
    """`repr(value)`, shortened to at most `limit` characters.

    Values from files may be huge, deep or recursive, so the complete `repr` of strings, bytes, numbers
    and containers is never computed.
    """
    bounded = _Repr(limit)
    return shortened(bounded.repr(value), limit)


def shortened(text: str, limit: int = 200) -> str:
    """Cuts the middle of a text that is longer than `limit` characters, and escapes what UTF-8 cannot encode."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[len(text) - half :]}"


def check_has_utf8(text: str, name: str = "A text") -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} is {shown(text)}, which contains a lone surrogate that UTF-8 cannot encode. Replace it, "
            "for example with text.encode('utf-8', 'replace').decode('utf-8')."
        ) from error


def listing(names: Iterable[Any], limit: int = 200) -> str:
    """Lists names for a message, each shortened to `limit` characters, and counts those after the 20th."""
    names = list(names)
    some = ", ".join(shortened(str(name), limit) for name in names[:_LISTED]) or "nothing"
    return f"{some} and {len(names) - _LISTED} more" if len(names) > _LISTED else some


def quoted(names: Collection[Any]) -> str:
    """Lists names as a Python list, each shortened to 80 characters, and counts those after the 20th."""
    some = ", ".join(shown(name, _LONGEST_NAME) for name in islice(names, _LISTED))
    return f"[{some}] and {len(names) - _LISTED} more" if len(names) > _LISTED else f"[{some}]"


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence that suggests the most similar known name, or "" if none is similar."""
    by_lower_case = {other.casefold(): other for other in islice(known, _MOST_COMPARED)}
    # The time of a comparison is proportional to the product of the lengths.
    short = [other for other in by_lower_case if len(other) <= _LONGEST_NAME]
    similar = difflib.get_close_matches(name.casefold()[:_LONGEST_NAME], short, n=1)
    return f" Did you mean {by_lower_case[similar[0]]!r}?" if similar else ""


class _Repr(reprlib.Repr):
    def __init__(self, limit: int):
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = limit
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 10

    # Python's own computes the complete repr before it cuts.
    repr_bytes = reprlib.Repr.repr_str

    def repr_int(self, number: int, level: int) -> str:
        # Python refuses to print more than 4,300 digits.
        if number.bit_length() > 1_000:
            return f"<an integer of {number.bit_length()} bits>"
        return repr(number)
