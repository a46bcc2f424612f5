"""Texts of many files, read as a stream: lines, or a column of tables.

Nothing here imports TensorFlow or Keras.
"""

import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bert_zoo.data import files, tables
from bert_zoo.error_text import shown

log = logging.getLogger(__name__)

# Texts that are embedded together. A stopped run resumes after a whole number of such chunks, and each part begins
# with one, so vectors equal those of an uninterrupted run to the bit.
TEXTS_AT_ONCE = 1024

Item = TypeVar("Item")


def chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yields the items in lists of `TEXTS_AT_ONCE`."""
    items = iter(items)
    while some := list(islice(items, TEXTS_AT_ONCE)):
        yield some


class Census(NamedTuple):
    """What a pass over all texts finds: how many each file has, whether all ids are whole numbers, and a sample of the
    texts, drawn alike by every process."""

    counts: list[int]
    ids_are_numbers: bool
    sample: list[str]


@dataclass(frozen=True)
class TextFiles:
    """Files of texts, with an id for each text.

    Ids come from `id_column` of a table. Without it, a text of a single file has its row number from 0, and a text of
    several files has "path:line".

    Attributes:
        paths: the files. A table's suffix before ".gz", or an option in `how`, makes a file a table.
        column: the column of texts, by default "text".
        how: options of `bert_zoo.data.tables.Table`.
    """

    paths: Sequence[Path]
    column: str | None = None
    id_column: str | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[int | str, str]]:
        """Yields each text's id and the text; ValueError if a file does not fit the options."""
        for path in self.paths:
            yield from self._of_file(path)

    def starting_at(self, row: int, counts: Sequence[int]) -> Iterator[tuple[int | str, str]]:
        """Like iteration, from the text of a row on, without reading files before it, whose numbers of texts are
        `counts`."""
        for path, count, end in zip(self.paths, counts, accumulate(counts), strict=True):
            if end > row:
                yield from islice(self._of_file(path), max(0, row - (end - count)), count)

    def _of_file(self, path: Path) -> Iterator[tuple[int | str, str]]:
        for row, (line, text, *ids) in enumerate(self._lines(path)):
            if not ids:
                yield (row if len(self.paths) == 1 else f"{path}:{line}"), text
            elif isinstance(ids[0], int | str) and ids[0] != "":
                yield ids[0], text
            else:
                raise ValueError(
                    f"{path}, line {line}: the id in column {self.id_column!r} is {shown(ids[0])}; it must be a whole "
                    "number or a text. Correct the row, or leave out id_column (--id_column)."
                )

    def _lines(self, path: Path) -> Iterator[tuple[Any, ...]]:
        """Yields the number, text and, with `id_column`, id of each line or row."""
        how, name = dict(self.how), path.with_suffix("") if files.is_gzip(path) else path
        by_suffix = tables.SUFFIXES.get(name.suffix.lower())
        if by_suffix is None and not {"format", "delimiter"} & set(how):
            if self.column is not None or self.id_column is not None or "header" in how:
                raise ValueError(
                    f"{path} does not have a table's suffix, so it is read line by line, but column, id_column and "
                    f"header are for tables. If it is a table, set format to one of {list(tables.FORMATS)}."
                )
            yield from files.lines(path, how.get("encoding"))
            return
        if files.is_gzip(path) and "delimiter" not in how:
            how.setdefault("format", by_suffix)
        names = [self.column or "text", *([] if self.id_column is None else [self.id_column])]
        table = tables.Table(path, **how)
        for line, (text, *ids) in table.rows(names, " Name columns with --column and --id_column."):
            yield line, files.string(text, names[0], table.place(line)), *ids

    def census(self, sampled: int = 0) -> Census:
        """Reads all texts once, which shows errors in the files before hours of work.

        The sample has up to `sampled` texts, each as likely as any other.
        """
        counts, empty, are_numbers, number, sample = [], 0, True, 0, []
        draws = random.Random(0)
        for path in self.paths:
            before = number
            for id, text in self._of_file(path):
                number, empty = number + 1, empty + (not text.strip())
                are_numbers &= type(id) is int and id.bit_length() < 64
                if len(sample) < sampled:
                    sample.append(text)
                elif sampled and (place := draws.randrange(number)) < sampled:
                    sample[place] = text
            counts.append(number - before)
        if empty:
            log.warning("%s of %s texts are empty.", f"{empty:,}", f"{number:,}")
        return Census(counts, are_numbers, sample)

    def made_from(self) -> dict[str, Any]:
        """Everything that the texts depend on: files, and how they are read."""
        stats = [(str(path.resolve()), path.stat()) for path in self.paths]
        return {
            "text": [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats],
            "read": [self.column, self.id_column, self.how],
        }
