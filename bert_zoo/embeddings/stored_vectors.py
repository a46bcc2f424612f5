"""How vectors of texts are stored in numbered parts, and how they are read again.

NumPy, SciPy and pyarrow: nothing here imports TensorFlow or Keras.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bert_zoo.data import files
from bert_zoo.embeddings.quantization import decoded as decoded_values
from bert_zoo.embeddings.quantization import encoded_as, int8_ranges
from bert_zoo.embeddings.stages import is_hybrid, is_sparse, is_tokens
from bert_zoo.embeddings.token_index import DTYPES, TokenIndex
from bert_zoo.error_text import quoted
from bert_zoo.fields import check

# What describes the parts: a file beside them; Parquet files have the form in their metadata too.
MANIFEST = "manifest.json"
_METADATA = b"bert_zoo"
_PART = re.compile(r"part-(\d+)-of-(\d+)(\.parquet|\.npy)")


def arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            f"Parquet files need pyarrow ({error}): pip install 'bert_zoo[tables]'. Or write one vector a text to "
            ".npy files (--part_format npy)."
        ) from error
    return pyarrow


@dataclass(frozen=True, eq=False)
class VectorForm:
    """What stored vectors are.

    Attributes:
        kind: "dense" for one vector a text, "sparse", or "tokens" for a vector a token.
        size: numbers in a vector.
        dtype: "float32", "float16" or "int8".
        ranges: for int8, the `int8_ranges` [2, size].
    """

    kind: str
    size: int
    dtype: str = "float32"
    ranges: np.ndarray | None = None

    @classmethod
    def of(cls, vectors: Any, dtype: str = "float32") -> Self:
        """The form of some texts' vectors, as `embed` returns them.

        Args:
            vectors: for int8 those of about ten thousand texts, whose ranges all vectors are clipped to; else of any
                text.
            dtype: of the stored numbers.

        Raises:
            ValueError: the vectors are of three kinds, or int8 is asked for sparse ones.
        """
        check("dtype", dtype, str, choices=DTYPES)
        if is_hybrid(vectors):
            raise ValueError(
                "The model gives three kinds of vectors of a text, and files hold one kind. Save the model that "
                "bert_zoo.load(name, task=...) gives for one kind, and name its directory."
            )
        if is_sparse(vectors):
            check("dtype of sparse vectors", dtype, str, choices=DTYPES[:2])
            return cls("sparse", vectors.shape[1], dtype)
        kind = "tokens" if is_tokens(vectors) else "dense"
        rows = np.concatenate(vectors) if kind == "tokens" else np.asarray(vectors)
        return cls(kind, rows.shape[1], dtype, int8_ranges(rows) if dtype == "int8" else None)

    def widened(self, other: Self) -> Self:
        """This form with ranges that hold those of another, of more texts."""
        if self.ranges is None:
            return self
        (least, greatest), (low, high) = self.ranges, other.ranges
        ranges = np.stack([np.minimum(least, low), np.maximum(greatest, high)])
        return replace(self, ranges=ranges)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        ranges = values.pop("ranges")
        return cls(**values, ranges=None if ranges is None else np.array(ranges, np.float32))

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"ranges": None if self.ranges is None else self.ranges.tolist()}

    def encoded(self, values: np.ndarray) -> np.ndarray:
        """Float numbers as they are stored; ValueError unless they are finite in this type."""
        return encoded_as(self.dtype, values, self.ranges)

    def schema(self, ids: str = "string") -> Any:
        """The columns of a Parquet file: `id`, of type `ids` ("string" or "int64"), and `vector`, or for sparse vectors
        `indices` and `values`, or for token vectors `vectors`."""
        pa = arrow()
        number = pa.from_numpy_dtype(self.dtype)
        vector = pa.list_(number, self.size)
        columns = {
            "dense": {"vector": vector},
            "sparse": {"indices": pa.list_(pa.int32()), "values": pa.list_(number)},
            "tokens": {"vectors": pa.list_(vector)},
        }[self.kind]
        metadata = {_METADATA: json.dumps(self.to_json())}
        return pa.schema({"id": pa.type_for_alias(ids), **columns}, metadata)

    def table(self, ids: Sequence[int | str], vectors: Any, id_type: str = "string") -> Any:
        """Texts' vectors, as `embed` returns them, as a pyarrow table of `schema(id_type)`."""
        pa, schema = arrow(), self.schema(id_type)
        if self.kind == "sparse":
            ends, lists = pa.array(vectors.indptr, pa.int32()), pa.ListArray.from_arrays
            indices = pa.array(vectors.indices, pa.int32())
            columns = [lists(ends, indices), lists(ends, pa.array(self.encoded(vectors.data)))]
        else:
            rows = np.concatenate(vectors) if self.kind == "tokens" else vectors
            values = pa.array(self.encoded(rows).ravel())
            columns = [pa.FixedSizeListArray.from_arrays(values, self.size)]
            if self.kind == "tokens":
                ends = pa.array([0, *accumulate(map(len, vectors))], pa.int32())
                columns = [pa.ListArray.from_arrays(ends, *columns)]
        return pa.table([pa.array(ids, schema.types[0]), *columns], schema=schema)


# --- Reading ---


class Rows:
    """Rows of several files, read when slices or row numbers ask for them; `search` takes them as a corpus.

    Attributes:
        shape, dtype: of all rows. Ids have the shape [rows].
    """

    def __init__(
        self,
        loads: Sequence[Callable[[], np.ndarray]],
        lengths: Sequence[int],
        *,
        size: tuple,
        dtype,
    ):
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        # Neighbours are often asked for one by one.
        self._load = lru_cache(2)(lambda block: loads[block]())
        self.shape, self.dtype = (int(self._ends[-1]), *size), np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def __getitem__(self, rows: Any) -> Any:
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        flat = np.where(numbers < 0, numbers + len(self), numbers).ravel()
        if len(flat) and not 0 <= flat.min() <= flat.max() < len(self):
            raise IndexError(f"There are {len(self):,} rows; got the row numbers {numbers}.")
        blocks = np.searchsorted(self._ends, flat, "right")
        found = np.empty((len(flat), *self.shape[1:]), self.dtype)
        for block in np.unique(blocks):
            here = blocks == block
            found[here] = self._load(block)[flat[here] - self._starts[block]]
        return found.reshape(numbers.shape + self.shape[1:])[()]


class StoredVectors(NamedTuple):
    """Vectors that `bert_zoo embed` wrote in parts. `search` takes them as a corpus.

    Attributes:
        ids: of the texts [texts]. Slices and row numbers, such as `search`'s, read some of them.
        vectors: for one vector a text [texts, size], read in the same way; for sparse vectors a SciPy CSR array float32
            [texts, vocabulary], and for token vectors a `TokenIndex`, both in memory.
        ranges: for int8, the argument of `search` [2, size]; else None.
    """

    ids: Rows
    vectors: Any
    ranges: np.ndarray | None


def read_vectors(
    directory: str | PathLike[str], *, parts: Sequence[int] | None = None, decoded: bool = False
) -> StoredVectors:
    """Opens the vectors in a directory of parts, of `bert_zoo embed --output DIR/` or `bert_zoo.embeddings.beam`.

    Args:
        directory: of files such as part-00003-of-00016.parquet.
        parts: numbers of those to read, from 0; by default all, in their order.
        decoded: whether to decode float16 and int8 to float32.

    Returns:
        Ids, vectors and ranges.

    Raises:
        FileNotFoundError: there are no parts.
        ValueError: parts are missing, or are not of one run.
        ImportError: Parquet files need pyarrow.
    """
    found = parts_in(Path(directory))
    suffix = next(iter(found.values())).suffix
    total = int(_PART.fullmatch(next(iter(found.values())).name)[2])
    wanted = range(total) if parts is None else parts
    if missing := [part for part in wanted if part not in found]:
        raise ValueError(
            f"{directory} lacks the parts {quoted(missing)} of {total}. Run the command that made the others again, or "
            "name those to read with parts=."
        )
    paths = [found[part] for part in wanted]
    read = _parquet_parts if suffix == ".parquet" else _npy_parts
    return read(paths, decoded)


def parts_in(directory: Path) -> dict[int, Path]:
    """The parts in a directory by their numbers; see `read_vectors` for errors."""
    matches = [match for path in directory.glob("part-*") if (match := _PART.fullmatch(path.name))]
    found = {int(match[1]): directory / match[0] for match in matches}
    if not found:
        raise FileNotFoundError(
            f"{directory} has no vectors in parts. Pass the directory that `bert_zoo embed --output DIR/` wrote."
        )
    if len({match.groups()[1:] for match in matches}) > 1:
        raise ValueError(f"{directory} has parts of several runs. Keep those of one.")
    return found


def _npy_parts(paths: Sequence[Path], decode: bool) -> StoredVectors:
    form = VectorForm.from_json(files.read_json(paths[0].parent / MANIFEST)["form"])
    mapped = partial(files.open_array, shape=(None, form.size), dtype=form.dtype, remedy=_REMEDY)
    lengths = [len(mapped(path)) for path in paths]

    def ids(path: Path) -> np.ndarray:
        return np.array([id for _, id in files.json_lines(ids_beside(path))], object)

    return StoredVectors(
        Rows([partial(ids, path) for path in paths], lengths, size=(), dtype=object),
        *_dense_rows([partial(mapped, path) for path in paths], lengths, form, decode),
    )


def ids_beside(path: Path) -> Path:
    return path.with_suffix(".ids.jsonl")


_REMEDY = "Delete it, and run the command that made it again."


def _dense_rows(loads, lengths, form: VectorForm, decode: bool) -> tuple[Rows, np.ndarray | None]:
    dtype, ranges = form.dtype, form.ranges
    if decode:
        dtype, ranges = "float32", None
        loads = [
            lambda load=load: decoded_values(np.asarray(load()), form.ranges) for load in loads
        ]
    return Rows(loads, lengths, size=(form.size,), dtype=dtype), ranges


def _parquet_parts(paths: Sequence[Path], decode: bool) -> StoredVectors:
    pa = arrow()
    groups, described = [], set()
    for path in paths:
        try:
            metadata = pa.parquet.read_metadata(path)
        except pa.ArrowException as error:
            raise ValueError(f"{path} is not a whole Parquet file ({error}). {_REMEDY}") from error
        schema = metadata.schema.to_arrow_schema()
        described.add((schema.metadata or {}).get(_METADATA))
        groups += [(path, metadata, group) for group in range(metadata.num_row_groups)]
    if len(described) > 1 or None in described:
        raise ValueError(
            f"The parts in {paths[0].parent} are not vectors of one run of bert_zoo. Delete those of others."
        )
    form = VectorForm.from_json(json.loads(described.pop()))

    def columns(group: tuple, *names: str) -> list[Any]:
        path, metadata, number = group
        with pa.parquet.ParquetFile(path, metadata=metadata) as file:
            table = file.read_row_group(number, columns=[*names])
        return [table[name].combine_chunks() for name in names]

    def array(group: tuple, name: str) -> np.ndarray:
        (column,) = columns(group, name)
        return column.to_numpy(zero_copy_only=False)

    def dense(group: tuple) -> np.ndarray:
        (column,) = columns(group, "vector")
        return column.flatten().to_numpy().reshape(-1, form.size)

    lengths = [metadata.row_group(group).num_rows for _, metadata, group in groups]
    ids = Rows(
        [partial(array, group, "id") for group in groups],
        lengths,
        size=(),
        dtype=np.int64 if schema.types[0] == pa.int64() else object,
    )
    if form.kind == "dense":
        loads = [partial(dense, group) for group in groups]
        return StoredVectors(ids, *_dense_rows(loads, lengths, form, decode))
    if form.kind == "sparse":
        vectors = _sparse_array((columns(g, "indices", "values") for g in groups), form.size)
        return StoredVectors(ids, vectors, None)
    ranges = None if decode else form.ranges
    index = TokenIndex("float32" if decode else form.dtype, ranges=ranges)
    for group in groups:
        (column,) = columns(group, "vectors")
        stored = column.flatten().flatten().to_numpy().reshape(-1, form.size)
        stored = decoded_values(stored, form.ranges) if decode else stored
        index.append_stored(stored, column.value_lengths().to_numpy().astype(np.int64))
    return StoredVectors(ids, index, None)


def _sparse_array(columns: Iterator[list[Any]], size: int) -> Any:
    from scipy.sparse import csr_array

    lengths, indices, values = [np.zeros(1, np.int64)], [], []
    for some, weights in columns:
        lengths.append(some.value_lengths().to_numpy())
        indices.append(some.flatten().to_numpy())
        values.append(weights.flatten().to_numpy().astype(np.float32))
    ends = np.cumsum(np.concatenate(lengths))
    return csr_array(
        (np.concatenate(values), np.concatenate(indices), ends), shape=(len(ends) - 1, size)
    )
