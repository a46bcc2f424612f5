"""Texts and their tokens in files instead of memory, for training data of any size.

Texts are in a temporary file without a name, which goes with the process. Tokens stay in a folder named by what they
depend on, in parts that are complete once they have their name. Several processes that share the folder, and later
runs, make each part once.
"""

import hashlib
import json
import logging
import mmap
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from filelock import FileLock, Timeout
from tqdm import tqdm

import bert_zoo
from bert_zoo.text.numpy_packing import Slices
from bert_zoo.weights.files import (
    cache_directory,
    naming_full_disk,
    remove_leftovers,
    replacing_directory,
)

log = logging.getLogger("bert_zoo")

# A file with more bytes is kept on disk: in memory, its texts and tokens need about ten times as many.
LARGE = 2**28
# Bytes of texts whose tokens are made together: seconds of work, less than a gigabyte of memory.
PART = 2**24
# Bytes that are written, and texts that are read, at a time.
BUFFER, READ = 2**20, 2**12


class StoredTexts(Sequence[str]):
    """Texts in a temporary file: `append` all, then read any. Slices are object arrays of str [n].

    folder: where the file and the texts' tokens are; created if missing.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._file = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115
        self._ends, self._unwritten = array("q", [0]), bytearray()
        self._bytes: mmap.mmap | None = None
        self._rows: np.ndarray | None = None

    def append(self, text: str) -> None:
        # With a byte after it, as an empty file cannot be mapped.
        data = text.encode() + b"\n"
        self._unwritten += data
        self._ends.append(self._ends[-1] + len(data))
        if len(self._unwritten) > BUFFER:
            self._write()

    def _write(self) -> None:
        with naming_full_disk(self.folder / "texts"):
            self._file.write(self._unwritten)
        self._unwritten.clear()

    @property
    def rows(self) -> np.ndarray:
        """Numbers in the file of these texts, int64 [N]."""
        if self._rows is None:
            self._write()
            self._bytes = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._rows = np.arange(len(self._ends) - 1)
        return self._rows

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the texts, in the same file."""
        chosen, found = self.rows[rows], copy(self)
        found._rows = chosen
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, where: Any) -> Any:
        rows = self.rows[where]
        if not isinstance(rows, np.ndarray):
            return self._text(rows)
        found = np.fromiter(map(self._text, rows.tolist()), object, len(rows))
        _release(self._bytes)
        return found

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), READ):
            yield from self[start : start + READ]

    def _text(self, row: int) -> str:
        return self._bytes[self._ends[row] : self._ends[row + 1] - 1].decode()

    def sizes(self) -> np.ndarray:
        """Bytes of each text, int64 [N]."""
        return np.diff(np.frombuffer(self._ends, np.int64))[self.rows]

    def digest(self) -> bytes:
        """A hash of the texts and their order."""
        rows = self.rows  # which maps the file
        found = b"".join(hashlib.sha256(part).digest() for part in (self._bytes, self._ends, rows))
        _release(self._bytes)
        return found


def _release(mapped: mmap.mmap) -> None:
    """Leaves what was read of a file to the system's cache; else it counts as this process's memory."""
    mapped.madvise(mmap.MADV_DONTNEED)


def stored_texts(folder: Path | None) -> list[str] | StoredTexts:
    """An empty list to append texts to, which is in a folder if one is given."""
    return [] if folder is None else StoredTexts(folder)


def folder_of(path: str | Path, folder: str | None) -> Path | None:
    """The folder for the texts and tokens of a file; None if they stay in memory. By default, a large file's are in the
    cache, which is logged."""
    if folder is None and (size := Path(path).stat().st_size) >= LARGE:
        folder = cache_directory() / "tokens"
        log.warning(
            "%s has %d MiB: its texts and tokens are kept in %s instead of memory. Choose another folder with token_dir.",
            *(path, size >> 20, folder),
        )
    return None if folder is None else Path(folder)


# --- Tokens ---


class TokensOfRows(NamedTuple):
    """Rows of tokens, of one table."""

    tokens: dict[str, Any]  # name -> numbers of each token, [tokens of all rows, ...]
    rows: dict[str, np.ndarray]  # name -> one value per row, [rows]
    lengths: np.ndarray  # tokens of each row, int64 [rows]


class SlicesOfParts(NamedTuple):
    """As `Slices`, for tokens in several files."""

    parts: Sequence[np.memmap]  # tokens of each part
    firsts: np.ndarray  # number of each part's first row, int64 [parts]
    starts: np.ndarray  # int64 [rows], start of each row in its part
    lengths: np.ndarray  # int64 [rows], number of its tokens

    def of_rows(self, numbers: np.ndarray) -> Slices:
        lengths = self.lengths[numbers]
        parts = np.searchsorted(self.firsts, numbers, side="right") - 1
        places = zip(parts, self.starts[numbers], lengths, strict=True)
        values = [self.parts[part][start : start + length] for part, start, length in places]
        found = np.concatenate(values)
        for part in np.unique(parts):
            _release(self.parts[part].base)
        return Slices(found, np.cumsum(lengths) - lengths, lengths)


def tables_in_parts(
    columns: Sequence[StoredTexts],
    made_by: Any,
    read: Callable[[int, int], Sequence[TokensOfRows]],
    sample: int,
) -> list[TokensOfRows]:
    """The tables that `read` makes of the rows from a first up to an end, made in parts and kept on disk.

    `made_by` and the tables of the first `sample` rows tell what the tokens depend on, besides the texts.
    """
    known = hashlib.sha256(json.dumps([bert_zoo.__version__, made_by], default=str).encode())
    for column in columns:
        known.update(column.digest())
    for table in read(0, min(sample, len(columns[0]))):
        for name, values in (*table.tokens.items(), *table.rows.items()):
            known.update(name.encode() + np.ascontiguousarray(values).tobytes())
    directory = columns[0].folder / known.hexdigest()[:32]
    ends = np.cumsum(sum(column.sizes() for column in columns))
    bounds = np.searchsorted(ends, np.arange(0, ends[-1], PART), side="left")
    bounds = np.unique([*bounds, len(ends)])
    rows = {f"part-{i:06}": part for i, part in enumerate(pairwise(bounds.tolist()))}
    _make_parts(directory, rows, read)
    parts = [_opened(directory / name, directory) for name in rows]
    return [_joined(of_table, bounds[:-1]) for of_table in zip(*parts, strict=True)]


def _make_parts(directory: Path, rows: Mapping[str, tuple[int, int]], read: Callable) -> None:
    """Makes the parts that no other process has made or is making, and waits for those. `rows` are the first row and the
    end of each."""
    directory.mkdir(parents=True, exist_ok=True)
    left = dict(rows)
    total = sum(end - first for first, end in rows.values())
    with tqdm(total=total, unit=" rows", desc="Tokenizing", disable=None) as bar:
        while left:
            for name, (first, end) in [*left.items()]:
                lock = directory / f"{name}.lock"
                try:
                    with FileLock(lock, timeout=0):
                        if not (directory / name).is_dir():
                            remove_leftovers(directory, name)
                            _write(directory / name, read(first, end))
                        lock.unlink(missing_ok=True)
                except Timeout:
                    continue
                del left[name]
                bar.update(end - first)
            if left:
                time.sleep(1)


def _write(part: Path, tables: Sequence[TokensOfRows]) -> None:
    with replacing_directory(part) as temporary, naming_full_disk(temporary, str(part)):
        temporary.mkdir()
        for number, table in enumerate(tables):
            for kind, values in table._asdict().items():
                for name, array_ in (values if isinstance(values, dict) else {"": values}).items():
                    np.save(temporary / f"{number}.{kind}.{name}.npy", array_)


def _opened(part: Path, directory: Path) -> list[TokensOfRows]:
    """The tables of a part; tokens are memory-mapped."""
    tables: dict[int, TokensOfRows] = {}
    for path in sorted(part.glob("*.npy")):
        number, kind, name = path.stem.split(".", maxsplit=2)
        table = tables.setdefault(int(number), TokensOfRows({}, {}, np.zeros(0)))
        try:
            values = np.load(path, mmap_mode="r" if kind == "tokens" else None)
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{path} is damaged ({error}). Delete {directory} to tokenize the texts again."
            ) from error
        if kind == "lengths":
            tables[int(number)] = table._replace(lengths=values)
        else:
            getattr(table, kind)[name] = values
    return [tables[number] for number in sorted(tables)]


def _joined(parts: Sequence[TokensOfRows], firsts: np.ndarray) -> TokensOfRows:
    lengths = np.concatenate([part.lengths for part in parts])
    starts = np.concatenate([np.cumsum(part.lengths) - part.lengths for part in parts])
    tokens = {
        name: SlicesOfParts([part.tokens[name] for part in parts], firsts, starts, lengths)
        for name in parts[0].tokens
    }
    rows = {name: np.concatenate([part.rows[name] for part in parts]) for name in parts[0].rows}
    return TokensOfRows(tokens, rows, lengths)
