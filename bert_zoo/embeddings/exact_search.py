"""Exact search of vectors, block by block: of float, int8 or binary ones, in memory or on disk.

NumPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.embeddings.precision import BLOCK_ROWS, blocks, from_binary, from_int8

SIMILARITIES = ("cosine", "dot")
_QUERIES_AT_ONCE = 256
# Of a block with more candidates than this for each place of the results, its own best are found first.
_MANY = 4
_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)

# A block of the corpus as it is stored -> float32 [rows, size].
_Decode = Callable[[np.ndarray], np.ndarray]
# A block as it is stored -> what scores queries [queries, size] by it: float32 [queries, rows].
_Score = Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]


class Hits(NamedTuple):
    """The best rows of a corpus for each query, best first; of equal scores, the lower row first."""

    indices: np.ndarray  # int64 [queries, top_k], row numbers of the corpus
    scores: np.ndarray  # float32 [queries, top_k], similarities


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

    Every row is compared. Memory holds one block of rows at a time, whatever the size of the corpus,
    whose type says what it holds:

    - floats: vectors as a model makes them;
    - int8: vectors of `to_int8`, compared by the values that they stand for;
    - uint8: signs of `to_binary`. The `rescore_multiplier * top_k` rows with most signs in common are
      candidates, and scored again by the float queries.

    Args:
        queries: float vectors [queries, size].
        corpus: [rows, size], of signs [rows, ceil(size / 8)]: an array, a memory map, a data set of
            HDF5, or anything else that has a shape and gives rows by slices.
        top_k: rows for each query; a corpus with fewer rows gives all of them.
        similarity: "cosine", or "dot", which is faster and the same for vectors of length 1.
        ranges: of `int8_ranges`, for a corpus (or `rescore_with`) of int8.
        rescore_with: more exact vectors of the same rows, for instance floats on disk beside signs in
            memory. Candidates are scored again by them; no other rows of them are read.
        rescore_multiplier: candidates for each of the `top_k`, where these are scored again.
        block_rows: rows of a block.

    Returns:
        Row numbers and similarities, each [queries, top_k].

    Raises:
        ValueError: shapes or types do not fit each other, an option is unknown, or a similarity is
            not finite.
    """
    counts = {
        "top_k": top_k,
        "rescore_multiplier": rescore_multiplier,
        "block_rows": block_rows,
    }
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1.")
    queries = _checked_queries(queries, checked_similarity(similarity))
    size = queries.shape[1]
    decode = _decoder("corpus", corpus, size, ranges)
    rows = len(corpus)
    if not rows:
        raise ValueError("The corpus has no rows.")
    top_k = min(top_k, rows)
    is_binary = _type(corpus) == np.uint8
    score = _by_signs if is_binary else partial(_by_vectors, decode, similarity)
    if not is_binary and rescore_with is None:
        return _scan(queries, corpus, score, top_k, block_rows)

    exact = corpus
    if rescore_with is not None:
        exact, decode = rescore_with, _decoder("rescore_with", rescore_with, size, ranges)
        if len(exact) != rows:
            raise ValueError(
                f"rescore_with has {len(exact):,} rows and the corpus {rows:,}; they must be the same rows."
            )
    candidates = _scan(queries, corpus, score, min(top_k * rescore_multiplier, rows), block_rows)
    return _rescored(queries, exact, decode, similarity, candidates.indices, top_k)


# --- Checks ---


def checked_similarity(similarity: str) -> str:
    if similarity not in SIMILARITIES:
        raise ValueError(
            f"similarity is {similarity!r}; vectors are searched by one of {list(SIMILARITIES)}."
        )
    return similarity


def _checked_queries(queries: Any, similarity: str) -> np.ndarray:
    """Queries as float32 [queries, size], for cosines of length 1."""
    queries = np.asarray(queries)
    if queries.ndim != 2 or not np.issubdtype(queries.dtype, np.floating):
        raise ValueError(
            f"queries have the shape {list(queries.shape)} and the type {queries.dtype}; pass float vectors "
            "[queries, size], as embed() gives them."
        )
    queries = queries.astype(np.float32, copy=False)
    return directions(queries) if similarity == "cosine" else queries


def _type(vectors: Any) -> np.dtype:
    return np.asarray(vectors[:1]).dtype


def _decoder(name: str, vectors: Any, size: int, ranges: np.ndarray | None) -> _Decode:
    """What makes float vectors of stored ones; raises ValueError where they do not fit the queries."""
    kind, shape = _type(vectors), tuple(getattr(vectors, "shape", ()))
    width = (size + 7) // 8 if kind == np.uint8 else size
    if len(shape) != 2 or shape[1] != width:
        raise ValueError(
            f"{name} has the shape {list(shape)} and the type {kind}, and queries have {size} dimensions: "
            f"expected [rows, {width}]."
        )
    if kind == np.uint8:
        return partial(from_binary, size=size)
    if kind == np.int8:
        if ranges is None or np.shape(ranges) != (2, size):
            raise ValueError(
                f"{name} is int8: pass the ranges [2, {size}] that to_int8 made it with; got "
                f"{'none' if ranges is None else f'the shape {list(np.shape(ranges))}'}."
            )
        return partial(from_int8, ranges=ranges)
    if not np.issubdtype(kind, np.floating):
        raise ValueError(f"{name} has the type {kind}; vectors are floats, int8 or uint8.")
    return lambda block: block.astype(np.float32, copy=False)


# --- Scores of a block ---


def _by_vectors(decode: _Decode, similarity: str, block: np.ndarray):
    """Scores by products with a block's vectors."""
    vectors = decode(block)
    lengths = _lengths(vectors) if similarity == "cosine" else None

    def scores(queries: np.ndarray) -> np.ndarray:
        found = _products(queries, vectors)
        return found if lengths is None else np.divide(found, lengths, out=found)

    return scores


def _products(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products [queries, rows]; those of equal rows are equal, wherever they stand.

    BLAS has another routine for a matrix of one row or column, whose rounding depends on places.
    """
    if len(queries) == 1:
        return np.einsum("qi,ri->qr", queries, vectors)
    if len(vectors) == 1:
        return _products(queries, np.repeat(vectors, 2, axis=0))[:, :1]
    return queries @ vectors.T


def directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors [rows, size] scaled to length 1; of zeros, zeros."""
    return vectors / _lengths(vectors)[:, None]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """Euclidean lengths [rows]; that of zeros is taken for 1, so that they are similar to nothing."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.where(lengths == 0, np.float32(1), lengths)


def _by_signs(block: np.ndarray):
    """Scores by the number of bits that differ, negative, from those of the queries' signs."""
    columns = _words(block)

    def scores(queries: np.ndarray) -> np.ndarray:
        found = np.empty((len(queries), len(block)), np.float32)
        for words, row in zip(_words(np.packbits(queries > 0, axis=-1)).T, found, strict=True):
            np.negative(_count_bits(columns ^ words[:, None]).sum(0, dtype=np.int32), out=row)
        return found

    return scores


def _words(packed: np.ndarray) -> np.ndarray:
    """Bits in words of 64, uint64 [words, rows]."""
    padded = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)])
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _count_bits(words: np.ndarray) -> np.ndarray:
    """The number of bits of each word [words, rows]; of NumPy 1, which cannot count them, by bytes."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    return _BITS[words.view(np.uint8)].reshape(*words.shape, 8).sum(-1, dtype=np.uint8)


# --- The best of all blocks ---


def _scan(queries: np.ndarray, corpus: Any, score: _Score, count: int, block_rows: int) -> Hits:
    """The best `count` rows of the whole corpus by what scores its blocks."""
    best = [
        (
            part,
            Hits(np.full((len(part), count), -1), np.full((len(part), count), -np.inf, "float32")),
        )
        for part in np.split(queries, range(_QUERIES_AT_ONCE, len(queries), _QUERIES_AT_ONCE))
    ]
    for start, block in blocks(corpus, block_rows):
        scores_of = score(block)
        best = [(part, _merged(hits, scores_of(part), start)) for part, hits in best]
    return Hits(*map(np.concatenate, zip(*(hits for _, hits in best), strict=True)))


def _merged(best: Hits, scores: np.ndarray, first_row: int) -> Hits:
    """The best rows so far and of a later block, whose scores are [queries, rows]."""
    _check_finite(scores, range(first_row, first_row + scores.shape[1]))
    queries, count = best.scores.shape
    # A later row must exceed what is kept, since it loses a tie.
    better = scores > best.scores[:, -1:]
    if scores.shape[1] > count and np.count_nonzero(better) > _MANY * best.scores.size:
        better &= scores >= np.partition(scores, -count, axis=1)[:, -count, None]
    # np.nonzero takes fifty times as long on two axes.
    found = np.flatnonzero(better)
    if not len(found):
        return best
    owners, columns = np.divmod(found, scores.shape[1])
    places = np.arange(queries)
    all_owners = np.concatenate([np.repeat(places, count), owners])
    all_rows = np.concatenate([best.indices.ravel(), columns + first_row])
    all_scores = np.concatenate([best.scores.ravel(), scores.ravel()[found]])
    order = np.lexsort((all_rows, -all_scores, all_owners))
    firsts = np.searchsorted(all_owners[order], places)
    kept = order[firsts[:, None] + np.arange(count)]
    return Hits(all_rows[kept], all_scores[kept])


def _check_finite(scores: np.ndarray, rows: Sequence[int]) -> None:
    if not np.isfinite(scores).all():
        query, column = np.argwhere(~np.isfinite(scores))[0]
        raise ValueError(
            f"A query's similarity to row {rows[column]} of the corpus is {scores[query, column]}. Vectors "
            "must be finite; find those that are not with np.isfinite(vectors).all(axis=1)."
        )


def _rescored(
    queries: np.ndarray,
    exact: Any,
    decode: _Decode,
    similarity: str,
    candidates: np.ndarray,
    top_k: int,
) -> Hits:
    """The best of the candidates [queries, candidates] by the vectors of their rows."""
    hits = []
    for query, rows in zip(queries, np.sort(candidates), strict=True):
        # HDF5 gives rows in ascending order alone.
        scores = _by_vectors(decode, similarity, np.asarray(exact[rows]))(query[None])[0]
        _check_finite(scores[None], rows)
        order = np.argsort(-scores, kind="stable")[:top_k]
        hits.append((rows[order], scores[order]))
    return Hits(*map(np.stack, zip(*hits, strict=True)))
