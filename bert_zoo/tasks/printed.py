"""How results of verbs print."""

from collections.abc import Iterable, Sequence

TEXT_WIDTH = 60


def one_line(text: str | tuple[str, str]) -> str:
    """The beginning of a text, or of a pair."""
    line = " ".join((text if isinstance(text, str) else " | ".join(text)).split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


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
