"""Remarks on suspicious labelled texts, before a model is trained on them.

None of them is an error, as a file may be meant this way. Nothing here imports TensorFlow.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from bert_zoo.data.tables import LabelledTexts, number
from bert_zoo.error_text import quoted, shown

# What programs write for missing values, in lower case.
MISSING = {"na", "n/a", "<na>", "#n/a", "nan", "null", "none", "nil", "-", "?"}
# With more numbers than this as class names, they are probably scores.
MOST_NUMBERED = 20


def remarks(path: Path, data: LabelledTexts) -> Iterator[str]:
    """Yields sentences about texts and labels that look like mistakes.

    Args:
        path: the file they were read from.
        data: its whole content.
    """
    if data.skipped:
        rows = data.skipped + len(data)
        yield f"Of the {rows:,} rows of {path.name}, {data.skipped:,} have no label and are left out."
    for texts in data.texts if isinstance(data.texts, tuple) else (data.texts,):
        yield from _texts(path, texts, data)
    if data.label_names:
        yield from _classes(path, data)


def _texts(path: Path, texts: list[str], data: LabelledTexts) -> Iterator[str]:
    if empty := [row for row, text in enumerate(texts) if not text.strip()]:
        yield f"{_share(len(empty), data, 'text', path)} empty, {_first(empty, data)}."


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
