"""Rows of several texts, optionally with a number: pairs, triplets, scores, lists of documents.

Nothing here imports TensorFlow.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import Table, number
from bert_zoo.error_text import shown

_ADVICE = " Name the columns with columns= and label= (--columns, --label)."


@dataclass(frozen=True)
class TextColumns:
    """Texts by column, in the order of their file."""

    columns: tuple[list[str], ...]  # strings, [N] each
    labels: list[float] | None = None  # [N], or None
    # First line of each row in the file, [N]; empty if unknown.
    lines: Sequence[int] = field(default=(), compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: Sequence[int]) -> "TextColumns":
        """Some of the rows."""
        columns = tuple([column[row] for row in rows] for column in self.columns)
        labels = None if self.labels is None else [self.labels[row] for row in rows]
        return TextColumns(columns, labels, [self.lines[row] for row in rows] if self.lines else ())


def read_columns(
    path: str | Path,
    columns: Sequence[str | int],
    label: str | int | None = None,
    *,
    advice: str = _ADVICE,
    **how: Any,
) -> TextColumns:
    """Reads columns of texts from a table, and optionally a column of numbers.

    In JSON and Parquet, a cell may be a list of texts, which counts as several columns. Every row needs the
    same number of texts.

    Args:
        path: the file.
        columns: names of the columns of texts; numbers if there is no header.
        label: column of numbers, or None.
        advice: what to do about a missing column, for the message.
        **how: the file's format, as for `read_table`: format, delimiter, header, encoding.

    Raises:
        ValueError: a column is missing, a cell is not a text or number, or rows differ in their number of
            texts. Names file and line.
        FileNotFoundError: the file does not exist.
    """
    table = Table(path, **how)
    asked = (*columns, *(() if label is None else (label,)))
    rows: list[list[str]] = []
    labels: list[float] = []
    lines: list[int] = []
    for line, cells in table.rows(asked, advice):
        place = table.place(line)
        row = list(_texts(cells[: len(columns)], columns, place))
        if rows and len(row) != len(rows[0]):
            raise ValueError(
                f"{place}: the row has {len(row)} texts, but the first one {len(rows[0])}. Every row needs the "
                "same number."
            )
        rows.append(row)
        lines.append(line)
        if label is not None:
            value = math.nan if isinstance(cells[-1], bool) else number(cells[-1])
            if not math.isfinite(value):
                raise ValueError(
                    f"{place}: {str(label)!r} is {shown(cells[-1])}, expected a finite number."
                )
            labels.append(value)
    texts = tuple(map(list, zip(*rows, strict=True)))
    return TextColumns(texts, None if label is None else labels, lines)


def _texts(cells: Sequence[Any], names: Sequence[str | int], place: str) -> Iterator[str]:
    for cell, name in zip(cells, names, strict=True):
        for text in cell if isinstance(cell, list) else [cell]:
            yield files.string(text, str(name), place)


def remarks(path: Path, data: TextColumns) -> Iterator[str]:
    """Yields sentences about rows that training cannot learn from; see `bert_zoo.data.remarks`."""
    rows = list(zip(*data.columns, strict=True))
    kinds = {
        "have an empty text": [not all(text.strip() for text in row) for row in rows],
        "have the same text in two columns": [len(set(row)) < len(row) for row in rows],
    }
    for what, found in kinds.items():
        if any(found):
            first = data.lines[found.index(True)]
            yield f"Of the {len(data):,} rows of {path.name}, {sum(found):,} {what}, the first on line {first:,}."
