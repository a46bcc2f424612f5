"""Exact search of one vector a text, sparse vectors and token vectors, block by block, in memory or on disk.

NumPy and SciPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.embeddings.quantization import BLOCK_ROWS
from bert_zoo.embeddings.stages import Block, SignStage, Stage, is_tokens, number_of, stage_of
from bert_zoo.embeddings.stored_vectors import StoredVectors
from bert_zoo.fields import check

# With more candidates per result than this, a block is first reduced to its own best rows.
_MANY = 4


class Hits(NamedTuple):
    """The best rows of a corpus for each query, best first; equal scores are ordered by row number.

    Attributes:
        indices: row numbers of the corpus, int64 [queries, top_k].
        scores: similarities, float32 [queries, top_k].
    """

    indices: np.ndarray
    scores: np.ndarray


def search(
    queries: Any,
    corpus: Any,
    top_k: int = 10,
    *,
    similarity: str | None = None,
    ranges: np.ndarray | None = None,
    rescore_with: Any = None,
    rescore_queries: Any = None,
    rescore_multiplier: int = 4,
    block_rows: int = BLOCK_ROWS,
) -> Hits:
    """Finds the rows of a corpus that are most similar to each query.

    The search compares every row. Memory holds one block of rows at a time, however large the corpus is.
    The corpus may be what `read_vectors` returns, or contain

    - floats: vectors as a model returns them;
    - int8: vectors of `to_int8`, which are decoded before they are compared;
    - uint8: signs of `to_binary`. The `rescore_multiplier * top_k` rows that share the most signs with the
      query are candidates; their signs, as 1 and -1, are then compared with the float query;
    - sparse vectors: a SciPy CSR array, with queries of this kind. As CSC (`corpus.tocsc()`) it has each term's
      rows already, which saves most of the time of few queries; it is one block;
    - `HybridVectors`, with such queries, compared by all three kinds; `queries.weighted(...)` gives each a weight;
    - token vectors: a matrix for each text, in a list or a `TokenIndex`, with queries as a list of matrices.
      They are compared by MaxSim: the sum over the query's vectors of the greatest product with a vector of
      the document. Documents without vectors come last.

    Token vectors are best compared for candidates only: pass one vector a text, signs or sparse vectors as
    `queries` and `corpus`, and token vectors as `rescore_queries` and `rescore_with`.

    Args:
        queries: float vectors [queries, size], or of the corpus's kind.
        corpus: [rows, size], for signs [rows, ceil(size / 8)]: an array, a memory map, an HDF5 data set, or
            anything else with a shape that returns rows by slices; or sparse or token vectors.
        top_k: rows per query; at most as many as the corpus has.
        similarity: "cosine", or "dot", which is faster and equals it for vectors of length 1. By default
            "dot" for sparse vectors, else "cosine". Token vectors have "maxsim" alone.
        ranges: the `int8_ranges` [2, size] of an int8 corpus or `rescore_with`; those of `read_vectors` are known.
        rescore_with: more exact vectors of the same rows, such as floats on disk for signs in memory, or token
            vectors. The candidates are scored again with them; other rows are not read.
        rescore_queries: the queries for `rescore_with`, if they are of another kind than `queries`.
        rescore_multiplier: number of candidates for each of the `top_k`, if candidates are scored again.
        block_rows: rows per block; for token vectors, vectors per block.

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
    vectors, of_corpus = _opened(corpus, ranges)
    if not number_of(vectors):
        raise ValueError("The corpus has no rows.")
    first = stage_of("corpus", queries, vectors, similarity, of_corpus)
    top_k = min(top_k, first.rows)
    if rescore_with is not None:
        vectors, ranges = _opened(rescore_with, ranges)
        second = stage_of(
            "rescore_with",
            queries if rescore_queries is None else rescore_queries,
            vectors,
            None if is_tokens(vectors) else similarity,
            ranges,
        )
        for what, found, expected in (
            ("rows", second.rows, first.rows),
            ("queries", second.num_queries, first.num_queries),
        ):
            if found != expected:
                raise ValueError(
                    f"rescore_with has {found:,} {what} and the corpus {expected:,}; both must have the same {what}."
                )
    elif isinstance(first, SignStage):
        second = first
    else:
        return _scan(first, top_k, block_rows)
    candidates = _scan(first, min(top_k * rescore_multiplier, first.rows), block_rows)
    return _rescored(second, candidates.indices, top_k)


def _opened(vectors: Any, ranges: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    """Vectors and their ranges, of `StoredVectors` its own."""
    return vectors[1:] if isinstance(vectors, StoredVectors) else (vectors, ranges)


def _scan(stage: Stage, count: int, block_rows: int) -> Hits:
    """The best `count` rows of the whole corpus."""
    number, at_once = stage.num_queries, stage.queries_at_once
    starts = range(0, number, at_once)
    parts = [stage.queries[start : start + at_once] for start in starts]
    best = [_none(min(at_once, number - start), count) for start in starts]
    for start, block in stage.blocks(block_rows):
        best = [_merged(hits, part, block, start) for hits, part in zip(best, parts, strict=True)]
    return Hits(*map(np.concatenate, zip(*best or [_none(0, count)], strict=True)))


def _rescored(stage: Stage, candidates: np.ndarray, top_k: int) -> Hits:
    """Scores the candidates [queries, candidates] again and returns the best."""
    hits = [_none(0, top_k)]
    # HDF5 reads rows in ascending order only.
    for number, rows in enumerate(np.sort(candidates)):
        query = stage.queries[number : number + 1]
        hits.append(_merged(_none(1, top_k), query, stage.at(rows), rows))
    return Hits(*map(np.concatenate, zip(*hits, strict=True)))


def _none(queries: int, count: int) -> Hits:
    return Hits(np.full((queries, count), -1), np.full((queries, count), -np.inf, np.float32))


def _merged(best: Hits, queries: Any, block: Block, rows: int | np.ndarray) -> Hits:
    """Merges the best rows so far with a later block, of these row numbers or of those from a first one on."""
    scores, errors = block.scores(queries), block.errors(queries)
    if isinstance(rows, int):
        rows = np.arange(rows, rows + scores.shape[1])
    _check_finite(scores, rows)
    count = best.scores.shape[1]
    # A later row must score higher than a kept one, since ties go to the earlier row.
    better = scores > best.scores[:, -1:] - errors
    if scores.shape[1] > count and np.count_nonzero(better) > _MANY * best.scores.size:
        # Of the first rows, which are enough to leave few.
        some = scores[:, : max(count, BLOCK_ROWS)]
        better &= scores >= np.partition(some, -count, axis=1)[:, -count, None] - errors
    # np.nonzero on two axes takes fifty times as long.
    found = np.flatnonzero(better)
    if not len(found):
        return best
    owners, columns = np.divmod(found, scores.shape[1])
    places = np.arange(len(best.indices))
    all_owners = np.concatenate([np.repeat(places, count), owners])
    all_rows = np.concatenate([best.indices.ravel(), rows[columns]])
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
