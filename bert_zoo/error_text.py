"""Values of unknown size and kind in the messages of errors."""

import reprlib
from collections.abc import Iterable
from typing import Any

_LISTED = 20


def shown(value: Any, limit: int = 200) -> str:
    """What `repr` gives, cut where it is long: at most `limit` characters, whatever the value.

    Values that come from files may be huge, deep or contain themselves; no whole `repr` is made of
    strings, bytes, numbers and containers.
    """
    bounded = _Repr(limit)
    return shortened(bounded.repr(value), limit)


def shortened(text: str, limit: int = 200) -> str:
    """A text without its middle where it is longer than `limit` characters, and as UTF-8 has it."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[len(text) - half :]}"


def listing(names: Iterable[Any], limit: int = 200) -> str:
    """Names for a message, in their order, each cut at `limit`, with a count in place of the rest."""
    names = list(names)
    some = ", ".join(shortened(str(name), limit) for name in names[:_LISTED]) or "nothing"
    return f"{some} and {len(names) - _LISTED} more" if len(names) > _LISTED else some


class _Repr(reprlib.Repr):
    def __init__(self, limit: int):
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = limit
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 10

    # Python's own makes the whole of it before it cuts.
    repr_bytes = reprlib.Repr.repr_str

    def repr_int(self, number: int, level: int) -> str:
        # Python refuses to write out more than 4,300 digits.
        if number.bit_length() > 1_000:
            return f"<an integer of {number.bit_length()} bits>"
        return repr(number)
