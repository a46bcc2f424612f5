"""Formats results as people read them: numbers, shortened texts, tables."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

TEXT_WIDTH = 60
# Characters of context that are shown on each side of a match.
SURROUNDINGS = 30


def flat(text: str) -> str:
    """Puts a text on one line."""
    return " ".join(text.split())


def surroundings(text: str, start: int, end: int) -> tuple[str, str]:
    """Returns the shortened text before and after a range of characters."""
    left, right = text[:start], text[end:]
    return (
        left if len(left) <= SURROUNDINGS else f"…{left[-SURROUNDINGS:]}",
        right if len(right) <= SURROUNDINGS else f"{right[:SURROUNDINGS]}…",
    )


def one_line(text: str | tuple[str, str]) -> str:
    """Returns the beginning of a text or pair on one line."""
    line = flat(text if isinstance(text, str) else " | ".join(text))
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


def number(value: Any) -> str:
    """Formats a float with four digits and an integer in full; returns other values as strings, None as ""."""
    if not isinstance(value, Real):
        return "" if value is None else str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if abs(value) < 10:
        return f"{value:.4f}"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def table(rows: Iterable[Sequence[str]], align: str = "<") -> str:
    """Lines with aligned columns: "<" left, ">" right, the last one not."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return "\n".join(
        "  ".join([*(f"{c:{align}{w}}" for c, w in zip(cells, widths, strict=True)), text])
        for *cells, text in rows
    )
