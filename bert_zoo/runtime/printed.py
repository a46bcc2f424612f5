"""How results print, on a screen and on a page."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

TEXT_WIDTH = 60
# Characters of a text that are shown on each side of what was found in it.
SURROUNDINGS = 30


def flat(text: str) -> str:
    """A text in one line."""
    return " ".join(text.split())


def surroundings(text: str, start: int, end: int) -> tuple[str, str]:
    """What stands before and after some characters of a text, cut where it is long."""
    left, right = text[:start], text[end:]
    return (
        left if len(left) <= SURROUNDINGS else f"…{left[-SURROUNDINGS:]}",
        right if len(right) <= SURROUNDINGS else f"{right[:SURROUNDINGS]}…",
    )


def one_line(text: str | tuple[str, str]) -> str:
    """The beginning of a text, or of a pair."""
    line = flat(text if isinstance(text, str) else " | ".join(text))
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


def number(value: Any) -> str:
    """A measured number with four digits; a count in full; what is no number as it is, None as nothing."""
    if not isinstance(value, Real):
        return "" if value is None else str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if abs(value) < 10:
        return f"{value:.4f}"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


class Row:
    """A result that is a row of a table, of the `cells` that it gives."""

    def cells(self) -> tuple[str, ...]:
        raise NotImplementedError

    def __str__(self) -> str:
        return "  ".join(self.cells())


class Rows(list):
    """A list of results that prints as a table, or as a subclass says."""

    def __str__(self) -> str:
        return table(row.cells() for row in self)

    def __repr__(self) -> str:
        return str(self)


def table(rows: Iterable[Sequence[str]], align: str = "<") -> str:
    """Lines with aligned columns; the last one, the text, is as long as it is.

    Args:
        rows: cells.
        align: "<" for columns flush left, ">" for right.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return "\n".join(
        "  ".join([*(f"{c:{align}{w}}" for c, w in zip(cells, widths, strict=True)), text])
        for *cells, text in rows
    )
