"""Writes vectors of texts as numbered parts, by any number of processes that share nothing but a directory.

The first process writes a manifest: how many texts each file has, and the vectors' form with the ranges of int8. From it
each process knows the texts of every part, which it writes whole or not at all.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from tqdm import tqdm

from bert_zoo.data.files import RowFile, read_json
from bert_zoo.embeddings.stored_vectors import MANIFEST, VectorForm, arrow, ids_beside
from bert_zoo.embeddings.text_files import TextFiles, chunks
from bert_zoo.error_text import shown
from bert_zoo.weights.files import remove_leftovers, replacing, write_json

# Texts whose vectors give the ranges of int8.
CALIBRATION_TEXTS = 10_000

# Maps texts to their vectors.
Embed = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Parts:
    """The parts of a directory, as its manifest has them.

    Attributes:
        directory: of the parts.
        num_parts: how many there are. They have consecutive texts, whose numbers differ by at most 1.
        suffix: ".parquet" or ".npy".
        counts: texts of each file.
        ids: type of the ids, "int64" or "string".
        form: of the vectors.
    """

    directory: Path
    num_parts: int
    suffix: str
    counts: Sequence[int]
    ids: str
    form: VectorForm

    @classmethod
    def planned(
        cls,
        directory: Path,
        texts: TextFiles,
        embed: Callable[[], Embed],
        made_from: Mapping[str, Any],
        *,
        num_parts: int,
        dtype: str = "float32",
        suffix: str = ".parquet",
    ) -> Self:
        """Reads the manifest of a directory, or writes it if this is the first process.

        Args:
            embed: loads the model; called if the manifest has to be written.
            made_from: everything else that the vectors depend on.

        Raises:
            ValueError: the directory has vectors that were made otherwise, there are fewer texts than parts, or the
                vectors cannot be stored in this way.
        """
        options = {"num_parts": num_parts, "dtype": dtype, "suffix": suffix}
        asked = json.loads(json.dumps({**made_from, **texts.made_from(), **options}))
        path = directory / MANIFEST
        # Parts are never older than their manifest.
        has_parts = any(directory.glob("part-*"))
        if not path.exists():
            if has_parts:
                raise ValueError(
                    f"{directory} has parts, but no {MANIFEST} that says how they were made. Name another directory."
                )
            census = texts.census(CALIBRATION_TEXTS if dtype == "int8" else 1)
            if sum(census.counts) < num_parts:
                raise ValueError(
                    f"num_parts is {num_parts}, and there are {sum(census.counts):,} texts. Every part needs one."
                )
            forms = (VectorForm.of(embed()(some), dtype) for some in chunks(census.sample))
            form = reduce(VectorForm.widened, forms)
            if suffix == ".npy" and form.kind != "dense":
                raise ValueError(
                    "Parts in .npy files hold one vector a text, and the model makes another kind. Write Parquet files "
                    "(part_format=parquet)."
                )
            ids = "int64" if census.ids_are_numbers else "string"
            found = {"counts": census.counts, "ids": ids, "form": form.to_json()}
            directory.mkdir(parents=True, exist_ok=True)
            # Whole or not at all; of several processes the first wins.
            with TemporaryDirectory(prefix=".", dir=directory) as folder, suppress(FileExistsError):
                write_json(Path(folder) / MANIFEST, {"made_from": asked, **found})
                os.link(Path(folder) / MANIFEST, path)
        found = read_json(path)
        made = found.pop("made_from")
        changed = [name for name in asked if made.get(name) != asked[name]]
        if changed:
            raise ValueError(
                f"{directory} has vectors that were made otherwise: {changed[0]} was {shown(made.get(changed[0]))} and is "
                f"now {shown(asked[changed[0]])}. Name another directory, or delete this one."
            )
        form = VectorForm.from_json(found.pop("form"))
        return cls(directory, num_parts, suffix, form=form, **found)

    def rows(self, part: int) -> range:
        """The rows of all texts that a part has."""
        return _share(part, self.num_parts, sum(self.counts))

    def path(self, part: int) -> Path:
        return self.directory / f"part-{part:05}-of-{self.num_parts:05}{self.suffix}"

    def missing(self, shard: int = 1, num_shards: int = 1) -> list[int]:
        """The parts of a shard, from 1, that are not there yet."""
        parts = _share(shard - 1, num_shards, self.num_parts)
        return [part for part in parts if not self.path(part).exists()]

    def write(self, numbers: Sequence[int], texts: TextFiles, embed: Embed) -> int:
        """Writes parts, which no other process may write at the same time; returns how many texts they have.

        Raises:
            ValueError: a file lost texts, or vectors are not finite in the dtype.
            DiskFullError: there is no room for a part.
        """
        position = None
        total = sum(len(self.rows(part)) for part in numbers)
        with tqdm(total=total, unit=" texts", disable=None) as progress:
            for part in numbers:
                rows = self.rows(part)
                if position != rows.start:
                    stream = texts.starting_at(rows.start, self.counts)
                position = rows.start
                remove_leftovers(self.directory, self.path(part).name)
                with _WRITERS[self.suffix](self, part) as append:
                    for some in chunks(islice(stream, len(rows))):
                        ids, of_chunk = zip(*some, strict=True)
                        append(ids if self.ids == "int64" else [*map(str, ids)], embed([*of_chunk]))
                        position += len(some)
                        progress.update(len(some))
                    if position < rows.stop:
                        raise ValueError(
                            f"The files had {sum(self.counts):,} texts, and now {position:,}. Run the command again."
                        )
        return total


def _share(number: int, of: int, total: int) -> range:
    return range(number * total // of, (number + 1) * total // of)


@contextmanager
def _parquet_part(parts: Parts, part: int) -> Iterator[Callable[[Sequence, Any], None]]:
    """Each chunk becomes a row group."""
    pa, form = arrow(), parts.form
    # Parquet stores int8 in 4 bytes, but in 1 by a dictionary. Floats hardly repeat.
    packed = {"use_dictionary": form.dtype == "int8", "compression": "zstd"}
    with (
        replacing(parts.path(part)) as temporary,
        pa.parquet.ParquetWriter(temporary, form.schema(parts.ids), **packed) as writer,
    ):
        yield lambda ids, vectors: writer.write_table(form.table(ids, vectors, parts.ids))


@contextmanager
def _npy_part(parts: Parts, part: int) -> Iterator[Callable[[Sequence, Any], None]]:
    """Ids are in a file beside the vectors, as JSON lines, which appears before them."""
    path = parts.path(part)
    remove_leftovers(path.parent, ids_beside(path).name)
    with (
        RowFile(path, len(parts.rows(part))) as vectors,
        replacing(ids_beside(path)) as temporary,
        temporary.open("w", encoding="utf-8") as lines,
    ):

        def append(ids: Sequence, some: Any) -> None:
            vectors.append(parts.form.encoded(some))
            lines.writelines(json.dumps(id, ensure_ascii=False) + "\n" for id in ids)

        yield append


_WRITERS = {".parquet": _parquet_part, ".npy": _npy_part}
