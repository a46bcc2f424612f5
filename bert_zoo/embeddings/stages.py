"""Scores queries against a corpus block by block: float, int8, binary, sparse and token vectors.

NumPy and SciPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from bert_zoo.embeddings.quantization import BLOCK_ROWS, blocks, from_binary, from_int8
from bert_zoo.embeddings.token_index import TokenIndex, decoded_tokens, token_matrices
from bert_zoo.fields import check
from bert_zoo.runtime.answers import HybridVectors, maxsim

SIMILARITIES = ("cosine", "dot")
QUERIES_AT_ONCE = 256
_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)

# A stored block of the corpus -> float32 [rows, size].
_Decode = Callable[[np.ndarray], np.ndarray]


class Block:
    """Some rows of a corpus. `queries` are a slice of a stage's queries.

    By default, scores do not depend on where a row is.
    """

    def scores(self, queries: Any) -> np.ndarray:
        """Float32 [queries, rows]. Those of equal rows may differ by `errors`."""
        raise NotImplementedError

    def errors(self, queries: Any) -> np.ndarray | float:
        """How much two scores of equal rows may differ at most, [queries, 1]."""
        return 0.0

    def exact(self, queries: Any, owners, columns, scores: np.ndarray) -> np.ndarray:
        """The scores [pairs] of queries `owners` and rows `columns`; those of equal rows are equal."""
        return scores[owners, columns]


class Stage:
    """Queries, and the corpus that they are compared with.

    Attributes:
        queries: anything that slices; there are `num_queries`.
        rows: number of rows of the corpus.
        queries_at_once: how many to score against a block at a time.
    """

    queries: Any
    num_queries: int
    rows: int
    queries_at_once = QUERIES_AT_ONCE

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        """Yields each block with the number of its first row."""
        for start in range(0, self.rows, rows):
            yield start, self.at(slice(start, start + rows))

    def at(self, rows: np.ndarray | slice) -> Block:
        """The rows of these ascending numbers."""
        raise NotImplementedError


def stage_of(name: str, queries: Any, corpus: Any, similarity: str | None, ranges: Any) -> Stage:
    """The stage for a kind of corpus, which is named `name` in errors; arguments are those of `search`."""
    if is_hybrid(corpus):
        check("similarity", similarity, str | None, choices=("hybrid",))
        return HybridStage(name, queries, corpus)
    if is_tokens(corpus):
        check("similarity", similarity, str | None, choices=("maxsim",))
        return TokenStage(name, queries, corpus)
    check("similarity", similarity, str | None, choices=SIMILARITIES)
    if is_sparse(corpus):
        return SparseStage(name, queries, corpus, similarity or "dot")
    kind = SignStage if _type(corpus) == np.uint8 else VectorStage
    return kind(name, queries, corpus, similarity or "cosine", ranges)


def is_sparse(vectors: Any) -> bool:
    """Whether vectors are one of SciPy's sparse arrays."""
    return hasattr(vectors, "tocsr")


def is_tokens(vectors: Any) -> bool:
    """Whether vectors are a matrix of token vectors for each text."""
    listed = isinstance(vectors, list | tuple) and len(vectors) and np.ndim(vectors[0]) == 2
    return bool(listed) or isinstance(vectors, TokenIndex)


def is_hybrid(vectors: Any) -> bool:
    """Whether vectors are of three kinds for each text."""
    return isinstance(vectors, HybridVectors)


def number_of(vectors: Any) -> int:
    """The number of texts."""
    return vectors.shape[0] if is_sparse(vectors) else len(vectors)


def all_scores(queries: Any, documents: Any, similarity: str | None = None) -> np.ndarray:
    """The score of each query with each document, float32 [queries, documents], for any kind of vectors.

    `similarity` is None for the kind's, or one that fits the kind; see `search`.
    """
    found = np.zeros((number_of(queries), number_of(documents)), np.float32)
    if found.size:
        stage = stage_of("documents", queries, documents, similarity, None)
        for start, block in stage.blocks(BLOCK_ROWS):
            scores = block.scores(stage.queries)
            found[:, start : start + scores.shape[1]] = scores
    return found


# --- One vector a text: floats, int8, signs ---


class VectorStage(Stage):
    """Float or int8 vectors, compared by products; signs as 1 and -1."""

    def __init__(self, name: str, queries: Any, corpus: Any, similarity: str, ranges: Any):
        if is_sparse(queries) or is_tokens(queries) or is_hybrid(queries):
            raise ValueError(
                f"{name} has one vector a text, and queries are another kind of vectors; pass float vectors [queries, "
                "size], as embed() of the same model returns them."
            )
        queries = np.asarray(queries)
        if queries.ndim != 2 or not np.issubdtype(queries.dtype, np.floating):
            raise ValueError(
                f"queries have the shape {list(queries.shape)} and the type {queries.dtype}; pass float vectors "
                "[queries, size], as embed() returns them."
            )
        queries = queries.astype(np.float32, copy=False)
        self.queries = directions(queries) if similarity == "cosine" else queries
        self.num_queries, size = queries.shape
        self.corpus, self.similarity = corpus, similarity
        self.decode = _decoder(name, corpus, size, ranges)
        self.rows = len(corpus)

    def at(self, rows: np.ndarray | slice) -> Block:
        return _Vectors(self.decode(np.asarray(self.corpus[rows])), self.similarity)


class SignStage(VectorStage):
    """Signs, compared by the bits that differ. `at` decodes them."""

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        return ((start, _Signs(block)) for start, block in blocks(self.corpus, rows))


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


class _Vectors(Block):
    """Scores by products. Their last bits depend on where a row is: BLAS adds up some in another order."""

    def __init__(self, vectors: np.ndarray, similarity: str):
        self.vectors, lengths = vectors, lengths_of(vectors)
        self.lengths = lengths if similarity == "cosine" else None
        self.longest = 1.0 if similarity == "cosine" else lengths.max()

    def scores(self, queries: np.ndarray) -> np.ndarray:
        found = queries @ self.vectors.T
        return found if self.lengths is None else np.divide(found, self.lengths, out=found)

    def errors(self, queries: np.ndarray) -> np.ndarray:
        rounding = queries.shape[1] * np.finfo(np.float32).eps
        return 2 * rounding * self.longest * lengths_of(queries)[:, None]

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        parts = range(0, len(owners), BLOCK_ROWS)
        parts = [(owners[i : i + BLOCK_ROWS], columns[i : i + BLOCK_ROWS]) for i in parts]
        pairs = [np.einsum("ni,ni->n", queries[of], self.vectors[row]) for of, row in parts]
        found = np.concatenate(pairs)
        return found if self.lengths is None else found / self.lengths[columns]


def directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors [rows, size] scaled to length 1; zeros stay zeros."""
    return vectors / lengths_of(vectors)[:, None]


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    """Euclidean lengths [rows]; 1 for zeros, so that zeros are similar to nothing."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.where(lengths == 0, np.float32(1), lengths)


class _Signs(Block):
    """Scores queries by the negative number of bits that differ."""

    def __init__(self, block: np.ndarray):
        self.columns, self.rows = _words(block), len(block)

    def scores(self, queries: np.ndarray) -> np.ndarray:
        found = np.empty((len(queries), self.rows), np.float32)
        for words, row in zip(_words(np.packbits(queries > 0, axis=-1)).T, found, strict=True):
            np.negative(_count_bits(self.columns ^ words[:, None]).sum(0, dtype=np.int32), out=row)
        return found


def _words(packed: np.ndarray) -> np.ndarray:
    """Bits as 64-bit words, uint64 [words, rows]."""
    padded = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)])
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _count_bits(words: np.ndarray) -> np.ndarray:
    """Number of set bits in each word [words, rows]; NumPy 1 has no function for it and counts bytes."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    return _BITS[words.view(np.uint8)].reshape(*words.shape, 8).sum(-1, dtype=np.uint8)


# --- Sparse vectors ---


class SparseStage(Stage):
    """Sparse vectors [rows, vocabulary], compared by products."""

    def __init__(self, name: str, queries: Any, corpus: Any, similarity: str):
        if not is_sparse(queries) or queries.shape[1] != corpus.shape[1]:
            raise ValueError(
                f"{name} is sparse, {list(corpus.shape)}, and queries are {type(queries).__name__}, "
                f"{list(np.shape(queries))}; both must be sparse with the same number of columns, as one model's "
                "embed() returns them."
            )
        self.cosine = similarity == "cosine"
        self.queries = _scaled(queries.tocsr(), self.cosine)
        self.num_queries, self.rows = queries.shape[0], corpus.shape[0]
        # CSC has the lists of each term's rows. It is not sliced, as that reads all of it.
        self.corpus = corpus if corpus.format == "csc" else corpus.tocsr()
        if self.corpus.format == "csc" and self.rows > BLOCK_ROWS:
            self.queries_at_once = 1 + QUERIES_AT_ONCE * BLOCK_ROWS // self.rows

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        if self.corpus.format == "csc":
            yield 0, self._whole
        else:
            yield from super().blocks(rows)

    @cached_property
    def _whole(self) -> Block:
        """All rows, which are scaled once, not for each part of the queries."""
        return _SparseVectors(_scaled(self.corpus, self.cosine))

    def at(self, rows: np.ndarray | slice) -> Block:
        return _SparseVectors(_scaled(self.corpus[rows], self.cosine))


class _SparseVectors(Block):
    """Scores by the lists of each term's rows: a row's sum has the order of the query's terms wherever it is."""

    def __init__(self, block: Any):
        self.by_term = block.T.tocsr()

    def scores(self, queries: Any) -> np.ndarray:
        return (queries @ self.by_term).toarray()


def _scaled(vectors: Any, cosine: bool) -> Any:
    """Sparse vectors in float32, for cosines of length 1; zeros stay zeros."""
    vectors = vectors.astype(np.float32, copy=False)
    if not cosine:
        return vectors
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1))).reshape(-1, 1)
    scales = 1 / np.where(lengths == 0, np.float32(1), lengths)
    return vectors.multiply(scales).asformat(vectors.format)


# --- A vector a token ---


class TokenStage(Stage):
    """Token vectors, compared by MaxSim: the sum over a query's vectors of the greatest product with a document's."""

    def __init__(self, name: str, queries: Any, corpus: Sequence[np.ndarray] | TokenIndex):
        self.queries = token_matrices("queries", queries)
        self.num_queries, self.corpus, self.rows = len(self.queries), corpus, len(corpus)
        if isinstance(corpus, TokenIndex):
            self.lengths = corpus.lengths
        else:
            self.corpus = token_matrices(name, corpus)
            self.lengths = np.array([len(matrix) for matrix in corpus], np.int64)
        sizes = [some[0].shape[1] for some in (self.queries, self.corpus) if len(some)]
        if len({*sizes}) > 1:
            raise ValueError(
                f"Token vectors of queries have {sizes[0]} dimensions, and those of {name} {sizes[1]}; embed both "
                "with the same model."
            )

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        """Blocks of as many documents as have `rows` vectors together, but at least one."""
        ends, start = np.cumsum(self.lengths), 0
        while start < self.rows:
            limit = rows + (ends[start - 1] if start else 0)
            stop = max(start + 1, int(np.searchsorted(ends, limit, "right")))
            yield start, self.at(slice(start, stop))
            start = stop

    def at(self, rows: np.ndarray | slice) -> Block:
        return _Tokens(decoded_tokens(self.corpus, rows), self.lengths[rows])


class _Tokens(Block):
    """Scores by MaxSim in float32, with products whose last bits depend on where a document is."""

    def __init__(self, vectors: np.ndarray, lengths: np.ndarray):
        self.vectors, self.lengths, self.ends = vectors, lengths, np.cumsum(lengths)
        self.longest = lengths_of(vectors).max(initial=0)

    def scores(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        found = [maxsim(query, self.vectors, self.lengths) for query in queries]
        return np.reshape(found, (len(queries), len(self.lengths)))

    def errors(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        # Of a product, and of the sum over the query's vectors.
        steps = [(query.shape[1] + len(query)) * lengths_of(query).sum() for query in queries]
        return 2 * np.finfo(np.float32).eps * self.longest * np.array(steps, np.float32)[:, None]

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        product = partial(np.einsum, "qd,dt->qt")
        found = np.empty(len(owners), np.float32)
        for pair, (owner, column) in enumerate(zip(owners, columns, strict=True)):
            length, end = self.lengths[column], self.ends[column]
            vectors = self.vectors[end - length : end]
            found[pair] = maxsim(queries[owner], vectors, [length], product)[0]
        return found


# --- Three kinds of vectors a text ---


class HybridStage(Stage):
    """Dense, sparse and token vectors, compared by the mean of three scores: products of the first two, and MaxSim
    divided by the query's number of token vectors.

    Source: Chen et al. 2024 (arXiv:2402.03216), section 3.2; FlagEmbedding's `compute_score`.
    """

    def __init__(self, name: str, queries: Any, corpus: HybridVectors):
        if not is_hybrid(queries):
            raise ValueError(
                f"{name} has vectors of three kinds, and queries are {type(queries).__name__}; embed both with the same "
                "model, or pass one kind of each, such as queries.dense and documents.dense."
            )
        kinds = zip(queries.kinds, corpus.kinds, ("dot", "dot", "maxsim"), strict=True)
        self.stages = [stage_of(name, *kind, None) for kind in kinds]
        dense, sparse, tokens = (stage.queries for stage in self.stages)
        # The sum of the scores of such queries is the mean.
        third = np.float32(1 / 3)
        tokens = [matrix * (third / max(len(matrix), 1)) for matrix in tokens]
        self.queries = HybridVectors(dense * third, sparse * third, tokens)
        self.num_queries, self.rows = len(queries), len(corpus)

    def at(self, rows: np.ndarray | slice) -> Block:
        return _Hybrids([stage.at(rows) for stage in self.stages])


class _Hybrids(Block):
    """Scores that are the sum of those by the blocks of each kind."""

    def __init__(self, kinds: Sequence[Block]):
        self.kinds = kinds

    def _sum(self, score: Callable[[Block, Any], Any], queries: HybridVectors) -> Any:
        return sum(map(score, self.kinds, queries.kinds))

    def scores(self, queries: HybridVectors) -> np.ndarray:
        return self._sum(lambda block, q: block.scores(q), queries)

    def errors(self, queries: HybridVectors) -> np.ndarray:
        return self._sum(lambda block, q: block.errors(q), queries)

    def exact(self, queries: HybridVectors, owners, columns, scores) -> np.ndarray:
        return self._sum(lambda block, q: block.exact(q, owners, columns, block.scores(q)), queries)
