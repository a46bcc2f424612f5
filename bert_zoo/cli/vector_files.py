"""`bert_zoo embed --output`: writes vectors of texts to a .npy file, one part at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_zoo.data import files, tables
from bert_zoo.data.array_files import RowFile

# Texts that are embedded together. A stopped run resumes after a whole number of such parts, so its vectors
# equal those of an uninterrupted run to the bit.
TEXTS_AT_ONCE = 1024


def texts_of(path: str | Path, column: str | None = None, **how: Any) -> Iterator[str]:
    """Yields the texts of a file: its lines, or a column of a table.

    Args:
        path: the file, compressed with gzip if its name ends in ".gz". The suffix before that, or an
            option, makes it a table.
        column: the table's text column; by default "text".
        **how: options of `read_table`: format, delimiter, header, encoding.

    Raises:
        ValueError: an option for tables is given for another file.
    """
    path = Path(path)
    name = path.with_suffix("") if files.is_gzip(path) else path
    by_suffix = tables.SUFFIXES.get(name.suffix.lower())
    if by_suffix is None and not {"format", "delimiter"} & set(how):
        if column is not None or "header" in how:
            raise ValueError(
                f"{path} does not have a table's suffix, so it is read line by line, but column and header are for "
                f"tables. If it is a table, set format to one of {list(tables.FORMATS)}."
            )
        return (text for _, text in files.lines(path, how.get("encoding")))
    if files.is_gzip(path) and "delimiter" not in how:
        how.setdefault("format", by_suffix)
    advice = " Name the column with --column."
    rows = tables.text_rows(path, column or "text", advice=advice, **how)
    return (row.texts[0] for row in rows)


def write_vectors(
    embed: Callable[[list[str]], np.ndarray],
    texts: Iterable[str],
    output: Path,
    *,
    total: int | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> tuple[int, int]:
    """Writes the vectors of texts to a .npy file, which appears once it is complete.

    Memory does not grow with the number of texts.

    Args:
        embed: texts -> float32 [texts, size].
        texts: at least one text.
        output: the file.
        total: number of texts, if known.
        made_from: everything the vectors depend on. A stopped run resumes if this is unchanged; with None,
            every run starts anew.

    Returns:
        The shape of the written array, (texts, size).
    """
    tag = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    partial = output.with_name(f".{output.name}.{tag}.partial")
    for other in output.parent.glob(f".{output.name}.*.partial"):
        if other != partial:
            other.unlink()
    texts = iter(texts)
    with RowFile(output, total, part=partial, resume=made_from is not None) as file:
        if file.done:
            print(f"Resuming after {file.done:,} texts, whose vectors are in {partial}.")
        skipped = sum(1 for _ in islice(texts, file.done))
        with tqdm(total=total, initial=skipped, unit=" texts", disable=None) as progress:
            while some := list(islice(texts, TEXTS_AT_ONCE)):
                file.append(embed(some).astype("<f4", copy=False))
                progress.update(len(some))
    return file.done, file.size
