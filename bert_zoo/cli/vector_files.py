"""`bert_zoo embed --output`: writes vectors of texts to a .npy file, one part at a time."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from bert_zoo.data import files, tables
from bert_zoo.weights.files import naming_full_disk

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
    return (text for (text,) in tables.text_rows(path, column or "text", **how))


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
        if other != partial or made_from is None:
            other.unlink()
    texts = iter(texts)
    with naming_full_disk(output), partial.open("r+b" if partial.exists() else "w+b") as file:
        done, size = _position(file)
        if done:
            print(f"Resuming after {done:,} texts, whose vectors are in {partial}.")
        skipped = sum(1 for _ in islice(texts, done))
        with tqdm(total=total, initial=skipped, unit=" texts", disable=None) as progress:
            while some := list(islice(texts, TEXTS_AT_ONCE)):
                vectors = np.ascontiguousarray(embed(some), "<f4")
                if not done:
                    size = vectors.shape[1]
                    _write_header(file, 0, size)
                file.write(vectors.tobytes())
                file.flush()
                done += len(some)
                progress.update(len(some))
        _write_header(file, done, size)
        os.fsync(file.fileno())
    os.replace(partial, output)
    return done, size


def _write_header(file: BinaryIO, rows: int, size: int) -> None:
    """Writes the header. NumPy gives it the same length for any number of rows."""
    file.seek(0)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, size)}
    np.lib.format.write_array_header_1_0(file, header)


def _position(file: BinaryIO) -> tuple[int, int]:
    """Returns the number of complete vectors, in whole parts, and their size; positions the file after them."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        np.lib.format.read_magic(file)
        (_, size), *_ = np.lib.format.read_array_header_1_0(file)
    except ValueError:
        # The run stopped before the first vectors.
        file.truncate(0)
        return 0, 0
    begin, row = file.tell(), 4 * size
    done = (length - begin) // row // TEXTS_AT_ONCE * TEXTS_AT_ONCE
    file.truncate(begin + done * row)
    file.seek(0, os.SEEK_END)
    return done, size
