"""Rows of several texts, optionally with a number; remarks on suspicious labelled texts.

Nothing here imports TensorFlow.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import LabelledTexts, Table, number
from bert_zoo.error_text import quoted, shown

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


def read_columns(
    path: str | Path,
    columns: Sequence[str | int],
    label: str | int | None = None,
    *,
    advice: str = _ADVICE,
    **how: Any,
) -> TextColumns:
    """Reads columns of texts from a table, and optionally a column of numbers (`label`).

    In JSON and Parquet, a cell may be a list of texts, which counts as several columns. Every row needs the
    same number of texts. `advice` is what to do about a missing column, for the message; `how` the file's format
    and errors are as for `read_table`.
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
    """Yields sentences about rows that training cannot learn from."""
    rows = list(zip(*data.columns, strict=True))
    kinds = {
        "have an empty text": [not all(text.strip() for text in row) for row in rows],
        "have the same text in two columns": [len(set(row)) < len(row) for row in rows],
    }
    for what, found in kinds.items():
        if any(found):
            first = data.lines[found.index(True)]
            yield f"Of the {len(data):,} rows of {path.name}, {sum(found):,} {what}, the first on line {first:,}."


# -------------------------------------------------------------------------------------------------
# Remarks on suspicious labelled texts. None of them is an error, as a file may be meant this way.
# -------------------------------------------------------------------------------------------------

# What programs write for missing values, in lower case.
MISSING = {"na", "n/a", "<na>", "#n/a", "nan", "null", "none", "nil", "-", "?"}
# With more numbers than this as class names, they are probably scores.
MOST_NUMBERED = 20


def label_remarks(path: Path, data: LabelledTexts) -> Iterator[str]:
    """Yields sentences about texts and labels of a whole file that look like mistakes."""
    if data.skipped:
        rows = data.skipped + len(data)
        yield f"Of the {rows:,} rows of {path.name}, {data.skipped:,} have no label and are left out."
    for texts in data.texts if isinstance(data.texts, tuple) else (data.texts,):
        if empty := [row for row, text in enumerate(texts) if not text.strip()]:
            yield f"{_share(len(empty), data, 'text', path)} empty, {_first(empty, data)}."
    if data.label_names:
        yield from _classes(path, data)


def _classes(path: Path, data: LabelledTexts) -> Iterator[str]:
    classes = data.classes
    counts = Counter(chain.from_iterable(classes))
    for i, name in enumerate(data.label_names):
        if name.strip().casefold() in MISSING and counts[i]:
            yield (
                f"{_share(counts[i], data, 'label', path)} {shown(name)}, "
                f"{_first((row for row, ids in enumerate(classes) if i in ids), data)}. It counts "
                "as the name of a class. Remove these rows if it means that the label is missing."
            )
    count = len(data.label_names)
    is_numbered = count > MOST_NUMBERED and all(
        math.isfinite(number(name)) for name in data.label_names
    )
    if is_numbered:
        yield (
            f"The labels of {path.name} are {count:,} different numbers, each read as a class. "
            "If they are scores, train with --regression (regression=True)."
        )
    rare = [name for i, name in enumerate(data.label_names) if counts[i] == 1]
    if rare and not is_numbered:
        yield (
            f"Of the {count:,} classes of {path.name}, {len(rare):,} have only one row: {quoted(rare)}. "
            "Such a class cannot be both learned and measured."
        )


def _share(count: int, data: LabelledTexts, what: str, path: Path) -> str:
    verb = "is" if count == 1 else "are"
    return f"Of the {len(data):,} {what}s of {path.name}, {count:,} {verb}"


def _first(rows: Iterable[int], data: LabelledTexts) -> str:
    row = next(iter(rows))
    place = f"line {data.lines[row]:,}" if data.lines else f"row {row:,}"
    return f"the first on {place}"
