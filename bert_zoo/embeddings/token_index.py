"""Token vectors of documents, stored in one array in little memory or on disk, and pooled to fewer.

NumPy and SciPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_zoo.data.files import RowFile, open_array, require_file
from bert_zoo.embeddings.quantization import decoded, encoded_as
from bert_zoo.fields import check

DTYPES = ("float32", "float16", "int8")
_REMEDY = "Write the index again."


def token_matrices(name: str, matrices: Iterable[Any]) -> list[np.ndarray]:
    """Float32 matrices [tokens, size]; ValueError unless all are of floats and of the same size."""
    matrices = [np.asarray(matrix) for matrix in matrices]
    for row, matrix in enumerate(matrices):
        of_floats = matrix.ndim == 2 and np.issubdtype(matrix.dtype, np.floating)
        if not of_floats or matrix.shape[1] != matrices[0].shape[1]:
            raise ValueError(
                f"Item {row} of {name} has the shape {list(matrix.shape)} and the type {matrix.dtype}; pass a list "
                "of float matrices [tokens, size] of one size, as embed() of a late-interaction model returns them."
            )
    return [matrix.astype(np.float32, copy=False) for matrix in matrices]


class TokenIndex:
    """The token vectors of documents, for `search`: all in one array, and how many each document has.

    Float16 takes half the memory of float32 and ranks alike; int8 takes a quarter. Documents are appended in
    batches, in memory, or with `directory` to files, which are read as memory maps:

    - `vectors.npy`: [vectors, size] of all documents, one after the other;
    - `lengths.npy`: number of vectors of each document, int32 [documents, 1];
    - `ranges.npy`: the ranges of int8, float32 [2, size].

    Indexing gives a document's float32 [tokens, size].

    Args:
        dtype: "float32", "float16" or "int8".
        ranges: for int8, the `int8_ranges` [2, size] of some documents' vectors, such as
            `int8_ranges(np.concatenate(matrices))`.
        directory: where to write a new index; by default it is in memory.

    Attributes:
        lengths: number of vectors of each document, int64 [documents].
        starts: the row of its first one, int64 [documents].
        vectors: as stored, [vectors, size].

    Raises:
        ValueError: int8 lacks ranges.
        FileExistsError: the directory already has an index.
    """

    def __init__(
        self,
        dtype: str = "float16",
        *,
        ranges: np.ndarray | None = None,
        directory: str | PathLike[str] | None = None,
    ):
        check("dtype", dtype, str, choices=DTYPES)
        if (dtype == "int8") != (ranges is not None):
            raise ValueError(
                "int8, and no other type, needs ranges: pass int8_ranges(np.concatenate(matrices)) of some documents."
            )
        self.ranges = ranges
        self._count(np.zeros(0, np.int64))
        self._stored = np.zeros((0, 0), dtype)
        self._directory = None if directory is None else Path(directory)
        if self._directory is not None:
            # The file that is written last.
            if (self._directory / "lengths.npy").exists():
                raise FileExistsError(
                    f"{directory} already has an index. Continue it with TokenIndex.open(...).append(...)."
                )
            self._directory.mkdir(parents=True, exist_ok=True)
            if ranges is not None:
                np.save(self._directory / "ranges.npy", np.asarray(ranges, np.float32))

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Opens an index on disk. What `append` adds is written there too.

        Raises:
            FileNotFoundError: the directory has no index.
            ValueError: its files are damaged.
        """
        directory = Path(directory)
        index = cls.__new__(cls)
        index._directory = directory
        for name in ("vectors.npy", "lengths.npy"):
            require_file(directory / name, advice="Pass the directory of an index.")
        index.ranges = None
        index._map()
        size = index._stored.shape[1]
        if index._stored.dtype == np.int8:
            ranges = open_array(directory / "ranges.npy", (2, size), np.float32, _REMEDY)
            index.ranges = np.array(ranges)
        return index

    def append(self, matrices: Sequence[np.ndarray]) -> None:
        """Adds documents.

        Args:
            matrices: float [tokens, size] of each, as `embed` returns them.

        Raises:
            ValueError: they are of another size, or not finite in this dtype.
            DiskFullError: there is no room for them. The index stays as it was.
        """
        matrices = token_matrices("matrices", matrices)
        if not matrices:
            return
        tokens = np.concatenate(matrices)
        if len(self) and tokens.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"Vectors have {tokens.shape[1]} dimensions and the index {self.vectors.shape[1]}."
            )
        stored = encoded_as(str(self._stored.dtype), tokens, self.ranges)
        self.append_stored(stored, np.array([len(matrix) for matrix in matrices], np.int64))

    def save(self, directory: str | PathLike[str]) -> None:
        """Writes an index to another directory, as the class describes it; errors as for the class and `append`."""
        dtype = str(self._stored.dtype)
        new = type(self)(dtype, ranges=self.ranges, directory=directory)
        new.append_stored(self.vectors, self.lengths)

    @property
    def vectors(self) -> np.ndarray:
        return self._stored[: self._total]

    @property
    def nbytes(self) -> int:
        """Bytes of vectors and lengths."""
        return self.vectors.nbytes + 4 * len(self)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return decoded_tokens(self, np.array([range(len(self))[row]]))

    def append_stored(self, stored: np.ndarray, lengths: np.ndarray) -> None:
        """Adds documents that are stored alike: vectors [vectors, size] of this dtype, and how many each has, int64
        [documents]; DiskFullError as for `append`."""
        used = len(self.vectors)
        if self._directory is not None:
            # Vectors first: those that no length counts are overwritten by the next.
            for name, block, done in (
                ("vectors.npy", stored, used),
                ("lengths.npy", lengths.astype(np.int32)[:, None], len(self)),
            ):
                path = self._directory / name
                with RowFile(path, part=path, resume=True) as file:
                    file.done = done
                    file.append(block)
            self._map()
            return
        if used + len(stored) > len(self._stored):
            # Twice as much as needed before, so that many batches are copied few times.
            grown = np.empty((max(used + len(stored), 2 * used), stored.shape[1]), stored.dtype)
            if used:
                grown[:used] = self.vectors
            self._stored = grown
        self._stored[used : used + len(stored)] = stored
        self._count(np.concatenate([self.lengths, lengths]))

    def _count(self, lengths: np.ndarray) -> None:
        ends = np.cumsum(lengths)
        self.lengths, self.starts = lengths, ends - lengths
        self._total = int(ends[-1]) if len(ends) else 0

    def _map(self) -> None:
        """Maps the files. Behind what they count is what a stopped process wrote."""
        mapped = partial(open_array, remedy=_REMEDY, may_be_longer=True)
        self._stored = mapped(self._directory / "vectors.npy", (None, None), None)
        lengths = mapped(self._directory / "lengths.npy", (None, 1), np.int32)
        self._count(lengths[:, 0].astype(np.int64))
        if str(self._stored.dtype) not in DTYPES or self._total > len(self._stored):
            raise ValueError(
                f"{self._directory} is damaged: vectors.npy has {len(self._stored):,} vectors of "
                f"{self._stored.dtype}, and lengths.npy counts {self._total:,}. {_REMEDY}"
            )


def decoded_tokens(
    documents: Sequence[np.ndarray] | TokenIndex, rows: np.ndarray | slice
) -> np.ndarray:
    """The vectors of some documents, one after the other, float32 [vectors, size]."""
    if not isinstance(documents, TokenIndex):
        rows = range(len(documents))[rows] if isinstance(rows, slice) else rows
        return np.concatenate([documents[row] for row in rows])
    lengths, starts = documents.lengths[rows], documents.starts[rows]
    number = lengths.sum()
    if isinstance(rows, slice):
        start = starts[0] if len(starts) else 0
        stored = documents.vectors[start : start + number]
    else:
        before = np.cumsum(lengths) - lengths
        stored = documents.vectors[np.repeat(starts - before, lengths) + np.arange(number)]
    stored = np.asarray(stored)
    return decoded(stored, documents.ranges)


def pool_tokens(matrix: np.ndarray, factor: float, *, kept_first: int = 1) -> np.ndarray:
    """Pools a document's token vectors to fewer: means of clusters of similar ones.

    Ward's clusters on cosine distances. Half of the vectors (`factor=2`) cost little quality
    (https://arxiv.org/abs/2409.14683). Equals sentence-transformers' `HierarchicalTokenPooling` 6.2.

    Args:
        matrix: float [tokens, size], vectors of length 1.
        factor: about how many vectors become one, at least 1.
        kept_first: number of first vectors that stay alone, such as the one for [CLS].

    Returns:
        Float32 [kept_first + max(1, (tokens - kept_first) // factor), size], vectors of length 1.

    Raises:
        ImportError: SciPy is not installed.
        TypeError: there are several matrices.
    """
    if isinstance(matrix, list | tuple):
        raise TypeError(
            "pool_tokens takes the matrix of one document, but got a list. Call it for each: [pool_tokens(matrix, 2) "
            "for matrix in vectors]."
        )
    check("factor", factor, float, least=1)
    check("kept_first", kept_first, int, least=0)
    try:
        from scipy.cluster.hierarchy import fcluster, ward
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise ImportError(
            f"pool_tokens needs SciPy ({error}): pip install 'bert_zoo[search]'."
        ) from error
    (matrix,) = token_matrices("matrix", [matrix])
    first, others = matrix[:kept_first], matrix[kept_first:]
    number = max(1, int(len(others) // factor))
    if number < len(others):
        distances = np.clip(1 - others @ others.T, 0, 2)
        labels = fcluster(ward(squareform(distances, checks=False)), number, "maxclust")
        _, clusters, counts = np.unique(labels, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), matrix.shape[1]), np.float32)
        np.add.at(sums, clusters, others)
        others = sums / counts[:, None].astype(np.float32)
    pooled = np.concatenate([first, others])
    return pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
