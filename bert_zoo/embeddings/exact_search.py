"""Exact search in float, int8 or binary vectors, block by block, in memory or on disk, and how these are stored.

NumPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.data.files import RowFile
from bert_zoo.fields import check

SIMILARITIES = ("cosine", "dot")
BLOCK_ROWS = 16384
_QUERIES_AT_ONCE = 256
# With more candidates per result than this, a block is first reduced to its own best rows.
_MANY = 4
_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)

# A stored block of the corpus -> float32 [rows, size].
_Decode = Callable[[np.ndarray], np.ndarray]


class Hits(NamedTuple):
    """The best rows of a corpus for each query, best first; equal scores are ordered by row number.

    Attributes:
        indices: row numbers of the corpus, int64 [queries, top_k].
        scores: similarities, float32 [queries, top_k].
    """

    indices: np.ndarray
    scores: np.ndarray


def search(
    queries: np.ndarray,
    corpus: Any,
    top_k: int = 10,
    *,
    similarity: str = "cosine",
    ranges: np.ndarray | None = None,
    rescore_with: Any = None,
    rescore_multiplier: int = 4,
    block_rows: int = BLOCK_ROWS,
) -> Hits:
    """Finds the rows of a corpus that are most similar to each query.

    The search compares every row. Memory holds one block of rows at a time, however large the corpus is.
    The corpus may contain

    - floats: vectors as a model returns them;
    - int8: vectors of `to_int8`, which are decoded before they are compared;
    - uint8: signs of `to_binary`. The `rescore_multiplier * top_k` rows that share the most signs with the
      query are candidates; their signs, as 1 and -1, are then compared with the float query.

    Args:
        queries: float vectors [queries, size].
        corpus: [rows, size], for signs [rows, ceil(size / 8)]: an array, a memory map, an HDF5 data set, or
            anything else with a shape that returns rows by slices.
        top_k: rows per query; at most as many as the corpus has.
        similarity: "cosine", or "dot", which is faster and equals it for vectors of length 1.
        ranges: the `int8_ranges` [2, size] of an int8 corpus or `rescore_with`.
        rescore_with: more exact vectors of the same rows, such as floats on disk for signs in memory.
            The candidates are scored again with them; other rows are not read.
        rescore_multiplier: number of candidates for each of the `top_k`, if candidates are scored again.
        block_rows: rows per block.

    Returns:
        Row numbers and similarities, each [queries, top_k].

    Raises:
        ValueError: shapes or types do not match, an option is unknown, or a similarity is not finite.
    """
    counts = {
        "top_k": top_k,
        "rescore_multiplier": rescore_multiplier,
        "block_rows": block_rows,
    }
    for name, value in counts.items():
        check(name, value, int, least=1)
    check("similarity", similarity, str, choices=SIMILARITIES)
    queries = _checked_queries(queries, similarity)
    size = queries.shape[1]
    decode = _decoder("corpus", corpus, size, ranges)
    rows = len(corpus)
    if not rows:
        raise ValueError("The corpus has no rows.")
    top_k = min(top_k, rows)
    is_binary = _type(corpus) == np.uint8
    scored = _Signs if is_binary else partial(_Vectors, decode, similarity)
    if not is_binary and rescore_with is None:
        return _scan(queries, corpus, scored, top_k, block_rows)

    exact = corpus
    if rescore_with is not None:
        exact, decode = rescore_with, _decoder("rescore_with", rescore_with, size, ranges)
        if len(exact) != rows:
            raise ValueError(
                f"rescore_with has {len(exact):,} rows and the corpus {rows:,}; both must have the same rows."
            )
    candidates = _scan(queries, corpus, scored, min(top_k * rescore_multiplier, rows), block_rows)
    return _rescored(queries, exact, decode, similarity, candidates.indices, top_k)


# --- Checks ---


def _checked_queries(queries: Any, similarity: str) -> np.ndarray:
    """Queries as float32 [queries, size], scaled to length 1 for cosines."""
    queries = np.asarray(queries)
    if queries.ndim != 2 or not np.issubdtype(queries.dtype, np.floating):
        raise ValueError(
            f"queries have the shape {list(queries.shape)} and the type {queries.dtype}; pass float vectors "
            "[queries, size], as embed() returns them."
        )
    queries = queries.astype(np.float32, copy=False)
    return directions(queries) if similarity == "cosine" else queries


def _type(vectors: Any) -> np.dtype:
    return np.asarray(vectors[:1]).dtype


def _decoder(name: str, vectors: Any, size: int, ranges: np.ndarray | None) -> _Decode:
    """Returns a function from stored to float vectors; ValueError if they do not fit the queries."""
    kind, shape = _type(vectors), tuple(getattr(vectors, "shape", ()))
    width = (size + 7) // 8 if kind == np.uint8 else size
    if len(shape) != 2 or shape[1] != width:
        raise ValueError(
            f"{name} has the shape {list(shape)} and the type {kind}; queries have {size} dimensions, so "
            f"it must be [rows, {width}]."
        )
    if kind == np.uint8:
        return partial(from_binary, size=size)
    if kind == np.int8:
        if ranges is None or np.shape(ranges) != (2, size):
            raise ValueError(
                f"{name} is int8. Pass the ranges [2, {size}] that to_int8 used; got "
                f"{'none' if ranges is None else f'the shape {list(np.shape(ranges))}'}."
            )
        return partial(from_int8, ranges=ranges)
    if not np.issubdtype(kind, np.floating):
        raise ValueError(f"{name} has the type {kind}; vectors must be floats, int8 or uint8.")
    return lambda block: block.astype(np.float32, copy=False)


# --- Scores of a block ---


class _Vectors:
    """Scores queries by products with the vectors of a block."""

    def __init__(self, decode: _Decode, similarity: str, block: np.ndarray):
        self.vectors = decode(block)
        lengths = _lengths(self.vectors)
        self.lengths = lengths if similarity == "cosine" else None
        self.longest = 1.0 if similarity == "cosine" else lengths.max()

    def scores(self, queries: np.ndarray) -> np.ndarray:
        """Float32 [queries, rows], whose last bits depend on where a row is: BLAS adds up some in another order."""
        found = queries @ self.vectors.T
        return found if self.lengths is None else np.divide(found, self.lengths, out=found)

    def errors(self, queries: np.ndarray) -> np.ndarray:
        """How much two scores of equal rows may differ at most, [queries, 1]."""
        rounding = queries.shape[1] * np.finfo(np.float32).eps
        return 2 * rounding * self.longest * _lengths(queries)[:, None]

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        """The scores [pairs] of queries `owners` and rows `columns`; those of equal rows are equal."""
        parts = range(0, len(owners), BLOCK_ROWS)
        parts = [(owners[i : i + BLOCK_ROWS], columns[i : i + BLOCK_ROWS]) for i in parts]
        pairs = [np.einsum("ni,ni->n", queries[of], self.vectors[row]) for of, row in parts]
        found = np.concatenate(pairs)
        return found if self.lengths is None else found / self.lengths[columns]


def directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors [rows, size] scaled to length 1; zeros stay zeros."""
    return vectors / _lengths(vectors)[:, None]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """Euclidean lengths [rows]; 1 for zeros, so that zeros are similar to nothing."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.where(lengths == 0, np.float32(1), lengths)


class _Signs:
    """Scores queries by the negative number of bits that differ from the signs of a block."""

    def __init__(self, block: np.ndarray):
        self.columns, self.rows = _words(block), len(block)

    def scores(self, queries: np.ndarray) -> np.ndarray:
        found = np.empty((len(queries), self.rows), np.float32)
        for words, row in zip(_words(np.packbits(queries > 0, axis=-1)).T, found, strict=True):
            np.negative(_count_bits(self.columns ^ words[:, None]).sum(0, dtype=np.int32), out=row)
        return found

    def errors(self, queries: np.ndarray) -> float:
        return 0.0

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        return scores[owners, columns]


def _words(packed: np.ndarray) -> np.ndarray:
    """Bits as 64-bit words, uint64 [words, rows]."""
    padded = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)])
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _count_bits(words: np.ndarray) -> np.ndarray:
    """Number of set bits in each word [words, rows]; NumPy 1 has no function for it and counts bytes."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    return _BITS[words.view(np.uint8)].reshape(*words.shape, 8).sum(-1, dtype=np.uint8)


# --- The best of all blocks ---


def _scan(queries: np.ndarray, corpus: Any, scored, count: int, block_rows: int) -> Hits:
    """The best `count` rows of the whole corpus; `scored` is `_Vectors` or `_Signs`, for its blocks."""
    best = [
        (
            part,
            Hits(np.full((len(part), count), -1), np.full((len(part), count), -np.inf, "float32")),
        )
        for part in np.split(queries, range(_QUERIES_AT_ONCE, len(queries), _QUERIES_AT_ONCE))
    ]
    for start, block in blocks(corpus, block_rows):
        block = scored(block)
        best = [(part, _merged(hits, part, block, start)) for part, hits in best]
    return Hits(*map(np.concatenate, zip(*(hits for _, hits in best), strict=True)))


def _merged(best: Hits, queries: np.ndarray, block: _Vectors | _Signs, first_row: int) -> Hits:
    """Merges the best rows so far with a later block."""
    scores, errors = block.scores(queries), block.errors(queries)
    _check_finite(scores, range(first_row, first_row + scores.shape[1]))
    count = best.scores.shape[1]
    # A later row must score higher than a kept one, since ties go to the earlier row.
    better = scores > best.scores[:, -1:] - errors
    if scores.shape[1] > count and np.count_nonzero(better) > _MANY * best.scores.size:
        better &= scores >= np.partition(scores, -count, axis=1)[:, -count, None] - errors
    # np.nonzero on two axes takes fifty times as long.
    found = np.flatnonzero(better)
    if not len(found):
        return best
    owners, columns = np.divmod(found, scores.shape[1])
    places = np.arange(len(queries))
    all_owners = np.concatenate([np.repeat(places, count), owners])
    all_rows = np.concatenate([best.indices.ravel(), columns + first_row])
    exact = block.exact(queries, owners, columns, scores)
    all_scores = np.concatenate([best.scores.ravel(), exact])
    order = np.lexsort((all_rows, -all_scores, all_owners))
    firsts = np.searchsorted(all_owners[order], places)
    kept = order[firsts[:, None] + np.arange(count)]
    return Hits(all_rows[kept], all_scores[kept])


def _check_finite(scores: np.ndarray, rows: Sequence[int]) -> None:
    if not np.isfinite(scores).all():
        query, column = np.argwhere(~np.isfinite(scores))[0]
        raise ValueError(
            f"A query's similarity to row {rows[column]} of the corpus is {scores[query, column]}. Vectors "
            "must be finite; find the others with ~np.isfinite(vectors).all(axis=1)."
        )


def _rescored(
    queries: np.ndarray,
    exact: Any,
    decode: _Decode,
    similarity: str,
    candidates: np.ndarray,
    top_k: int,
) -> Hits:
    """Scores the candidates [queries, candidates] by their exact vectors and returns the best."""
    hits = []
    for query, rows in zip(queries, np.sort(candidates), strict=True):
        # HDF5 reads rows in ascending order only.
        block, pairs = _Vectors(decode, similarity, np.asarray(exact[rows])), np.arange(len(rows))
        scores = block.exact(query[None], np.zeros_like(pairs), pairs, None)
        _check_finite(scores[None], rows)
        order = np.argsort(-scores, kind="stable")[:top_k]
        hits.append((rows[order], scores[order]))
    return Hits(*map(np.stack, zip(*hits, strict=True)))


# --- Vectors in less memory: int8 with calibrated ranges (1/4), or the bits of their signs (1/32) ---
# The values equal those of sentence-transformers' `quantize_embeddings` with "int8" and "ubinary".


def int8_ranges(vectors: Any) -> np.ndarray:
    """Finds the lowest and highest value of each dimension, the range that `to_int8` divides into 255 steps.

    Args:
        vectors: float [rows, size], the corpus or about ten thousand rows of it; an array or anything that
            returns rows by slices.

    Returns:
        Lowest and highest values, float32 [2, size].
    """
    least, greatest = np.inf, -np.inf
    for _, block in blocks(vectors, BLOCK_ROWS):
        least, greatest = np.minimum(least, block.min(0)), np.maximum(greatest, block.max(0))
    return np.stack([least, greatest]).astype(np.float32)


def to_int8(
    vectors: Any, ranges: np.ndarray, output: str | PathLike[str] | None = None
) -> np.ndarray:
    """Rounds vectors to 256 values per dimension, a quarter of the size of float32.

    Args:
        vectors: float [rows, size]; an array or anything that returns rows by slices.
        ranges: [2, size] from `int8_ranges`; values outside are clipped. Keep them: `search` needs them to
            decode the vectors.
        output: path of a .npy file to write block by block, for vectors that do not fit in memory. It is
            replaced once all rows are written.

    Returns:
        int8 [rows, size]; with `output`, a read-only memory map of the file.

    Raises:
        ValueError: `vectors` is empty or not of floats.
        DiskFullError: there is no room for the file.
    """
    starts, steps = _scale(ranges)

    def encode(block):
        return (np.clip(np.floor((block - starts) / steps), 0, 255) - 128).astype(np.int8)

    return _encoded(vectors, encode, output)


def to_binary(vectors: Any, output: str | PathLike[str] | None = None) -> np.ndarray:
    """Packs the signs of vectors into bits (1 for positive values), 1/32 of the size of float32.

    Args:
        vectors, output: as for `to_int8`.

    Returns:
        uint8 [rows, ceil(size / 8)], the first value in the highest bit; with `output`, a read-only memory
        map of the file.

    Raises:
        ValueError, DiskFullError: as for `to_int8`.
    """
    return _encoded(vectors, lambda block: np.packbits(block > 0, axis=-1), output)


def from_int8(block: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Decodes int8 values to the middles of their steps, float32 [rows, size]."""
    starts, steps = _scale(ranges)
    vectors = block.astype(np.float32)
    vectors *= steps
    vectors += starts + 128.5 * steps
    return vectors


def from_binary(block: np.ndarray, size: int) -> np.ndarray:
    """Signs as 1 and -1, float32 [rows, size]."""
    return np.where(np.unpackbits(block, axis=-1, count=size), np.float32(1), np.float32(-1))


def blocks(vectors: Any, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each block of rows with the number of its first row."""
    for start in range(0, len(vectors), rows):
        yield start, np.asarray(vectors[start : start + rows])


def _scale(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest value and step of each dimension; a step of 1 where all values are equal."""
    starts, ends = np.asarray(ranges, np.float32)
    steps = (ends - starts) / 255
    return starts, np.where(steps == 0, np.float32(1), steps)


def _encoded(
    vectors: Any,
    encode: Callable[[np.ndarray], np.ndarray],
    output: str | PathLike[str] | None,
) -> np.ndarray:
    if not len(vectors):
        raise ValueError("`vectors` is empty. Pass at least one vector.")

    def encoded() -> Iterator[np.ndarray]:
        for _, block in blocks(vectors, BLOCK_ROWS):
            if not np.issubdtype(block.dtype, np.floating):
                raise ValueError(f"The vectors are {block.dtype}; they must be floats.")
            yield encode(block)

    if output is None:
        return np.concatenate([*encoded()])
    with RowFile(Path(output), len(vectors)) as file:
        for block in encoded():
            file.append(block)
    return np.load(output, mmap_mode="r")
