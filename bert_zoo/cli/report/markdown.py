"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence

MARKDOWN = re.compile(r"([\\`*\[\]|#])")


def plain(value: str) -> str:
    """A text as one line that Markdown shows as it is."""
    line = " ".join(value.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", line)


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(map(plain, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(heads)}", *lines[1:]])
