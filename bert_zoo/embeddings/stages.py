"""Scores queries against a corpus block by block: float, int8, binary, sparse and token vectors.

NumPy and SciPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from bert_zoo.embeddings.quantization import BLOCK_ROWS, blocks, from_binary, from_int8
from bert_zoo.embeddings.token_index import TokenIndex, decoded_tokens, token_matrices
from bert_zoo.fields import check
from bert_zoo.runtime.answers import HybridVectors

SIMILARITIES = ("cosine", "dot")
# The score of documents without token vectors: below that of all others, as in sentence-transformers.
EMPTY_DOCUMENT = np.float32(-1e9)
QUERIES_AT_ONCE = 256
_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)

# A stored block of the corpus -> float32 [rows, size].
_Decode = Callable[[np.ndarray], np.ndarray]


class Block(Protocol):
    """Some rows of a corpus. `queries` are a slice of a stage's queries."""

    def scores(self, queries: Any) -> np.ndarray:
        """Float32 [queries, rows]. Those of equal rows may differ by `errors`."""

    def errors(self, queries: Any) -> np.ndarray | float:
        """How much two scores of equal rows may differ at most, [queries, 1]."""

    def exact(self, queries: Any, owners, columns, scores: np.ndarray) -> np.ndarray:
        """The scores [pairs] of queries `owners` and rows `columns`; those of equal rows are equal."""


class Stage(Protocol):
    """Queries, and the corpus that they are compared with.

    Attributes:
        queries: anything that slices; there are `num_queries`.
        rows: number of rows of the corpus.
        queries_at_once: how many to score against a block at a time.
    """

    queries: Any
    num_queries: int
    rows: int
    queries_at_once: int

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        """Yields each block with the number of its first row."""

    def at(self, rows: np.ndarray) -> Block:
        """The rows of these ascending numbers."""


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


def all_scores(queries: Any, documents: Any, similarity: str | None = None) -> np.ndarray:
    """The score of each query with each document, float32 [queries, documents], for any kind of vectors.

    `similarity` is None for the kind's, or one that fits the kind; see `search`.
    """
    shape = [
        vectors.shape[0] if is_sparse(vectors) else len(vectors) for vectors in (queries, documents)
    ]
    found = np.zeros(shape, np.float32)
    if found.size:
        stage = stage_of("documents", queries, documents, similarity, None)
        for start, block in stage.blocks(BLOCK_ROWS):
            scores = block.scores(stage.queries)
            found[:, start : start + scores.shape[1]] = scores
    return found


# --- One vector a text: floats, int8, signs ---


class VectorStage:
    """Float or int8 vectors, compared by products; signs as 1 and -1."""

    queries_at_once = QUERIES_AT_ONCE

    def __init__(self, name: str, queries: Any, corpus: Any, similarity: str, ranges: Any):
        queries = np.asarray(queries) if not is_sparse(queries) else queries
        if queries.ndim != 2 or is_sparse(queries) or not np.issubdtype(queries.dtype, np.floating):
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

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        return ((start, self._block(block)) for start, block in blocks(self.corpus, rows))

    def at(self, rows: np.ndarray) -> Block:
        return _Vectors(self.decode, self.similarity, np.asarray(self.corpus[rows]))

    def _block(self, block: np.ndarray) -> Block:
        return _Vectors(self.decode, self.similarity, block)


class SignStage(VectorStage):
    """Signs, compared by the bits that differ. `at` decodes them."""

    def _block(self, block: np.ndarray) -> Block:
        return _Signs(block)


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


class _Vectors:
    """Scores by products. Their last bits depend on where a row is: BLAS adds up some in another order."""

    def __init__(self, decode: _Decode, similarity: str, block: np.ndarray):
        self.vectors = decode(block)
        lengths = lengths_of(self.vectors)
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


class _ScoredAlike:
    """Scores that do not depend on where a row is."""

    def errors(self, queries: Any) -> float:
        return 0.0

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        return scores[owners, columns]


class _Signs(_ScoredAlike):
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


class SparseStage:
    """Sparse vectors [rows, vocabulary], compared by products."""

    def __init__(self, name: str, queries: Any, corpus: Any, similarity: str):
        if not is_sparse(queries) or queries.shape[1] != corpus.shape[1]:
            raise ValueError(
                f"{name} is sparse, {list(corpus.shape)}, and queries are {type(queries).__name__}, "
                f"{list(np.shape(queries))}; both must be sparse with the same number of columns, as one model's "
                "embed() returns them."
            )
        self.queries = queries.tocsr().astype(np.float32)
        self.cosine = similarity == "cosine"
        if self.cosine:
            of_entries = np.repeat(_sparse_lengths(self.queries), np.diff(self.queries.indptr))
            self.queries.data = self.queries.data / of_entries
        self.num_queries, self.rows = queries.shape[0], corpus.shape[0]
        # CSC has the lists of each term's rows. It is not sliced, as that reads all of it.
        self.corpus = corpus if corpus.format == "csc" else corpus.tocsr()
        self.queries_at_once = QUERIES_AT_ONCE
        if self.corpus.format == "csc" and self.rows > BLOCK_ROWS:
            self.queries_at_once = 1 + QUERIES_AT_ONCE * BLOCK_ROWS // self.rows

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        if self.corpus.format == "csc":
            yield 0, _SparseVectors(self.corpus, self.cosine)
            return
        for start in range(0, self.rows, rows):
            yield start, self.at(slice(start, start + rows))

    def at(self, rows: np.ndarray | slice) -> Block:
        return _SparseVectors(self.corpus[rows], self.cosine)


class _SparseVectors(_ScoredAlike):
    """Scores by the lists of each term's rows: a row's sum has the order of the query's terms wherever it is."""

    def __init__(self, block: Any, cosine: bool):
        self.by_term = block.T.tocsr().astype(np.float32, copy=False)
        self.lengths = _sparse_lengths(block) if cosine else None

    def scores(self, queries: Any) -> np.ndarray:
        found = (queries @ self.by_term).toarray()
        return found if self.lengths is None else np.divide(found, self.lengths, out=found)


def _sparse_lengths(vectors: Any) -> np.ndarray:
    """As `lengths_of`."""
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1), np.float32)).reshape(-1)
    return np.where(lengths == 0, np.float32(1), lengths)


# --- A vector a token ---


class TokenStage:
    """Token vectors, compared by MaxSim: the sum over a query's vectors of the greatest product with a document's."""

    queries_at_once = QUERIES_AT_ONCE

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


class _Tokens:
    """Scores by MaxSim in float32, with products whose last bits depend on where a document is."""

    def __init__(self, tokens: np.ndarray, lengths: np.ndarray):
        self.tokens, self.lengths, self.starts = tokens, lengths, np.cumsum(lengths) - lengths
        self.longest = lengths_of(tokens).max(initial=0)

    def scores(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        found = np.full((len(queries), len(self.lengths)), EMPTY_DOCUMENT)
        some = self.lengths > 0
        if some.any():
            for row, query in zip(found, queries, strict=True):
                products = query @ self.tokens.T
                row[some] = np.maximum.reduceat(products, self.starts[some], axis=1).sum(axis=0)
        return found

    def errors(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        # Of a product, and of the sum over the query's vectors.
        steps = [(query.shape[1] + len(query)) * lengths_of(query).sum() for query in queries]
        return 2 * np.finfo(np.float32).eps * self.longest * np.array(steps, np.float32)[:, None]

    def exact(self, queries, owners, columns, scores) -> np.ndarray:
        found = scores[owners, columns]
        for pair, (owner, column) in enumerate(zip(owners, columns, strict=True)):
            start, length = self.starts[column], self.lengths[column]
            if length:
                tokens = self.tokens[start : start + length]
                found[pair] = np.einsum("qd,td->qt", queries[owner], tokens).max(axis=1).sum()
        return found


# --- Three kinds of vectors a text ---


class HybridStage:
    """Dense, sparse and token vectors, compared by the mean of three scores: products of the first two, and MaxSim
    divided by the query's number of token vectors.

    Source: Chen et al. 2024 (arXiv:2402.03216), section 3.2; FlagEmbedding's `compute_score`.
    """

    queries_at_once = QUERIES_AT_ONCE

    def __init__(self, name: str, queries: Any, corpus: HybridVectors):
        if not is_hybrid(queries):
            raise ValueError(
                f"{name} has vectors of three kinds, and queries are {type(queries).__name__}; embed both with the same "
                "model, or pass one kind of each, such as queries.dense and documents.dense."
            )
        pairs = zip(queries.kinds, corpus.kinds, strict=True)
        self.stages = [
            stage_of(name, *pair, how, None)
            for pair, how in zip(pairs, ("dot", "dot", "maxsim"), strict=True)
        ]
        self.queries = HybridVectors(*(stage.queries for stage in self.stages))
        self.num_queries, self.rows = len(queries), len(corpus)

    def blocks(self, rows: int) -> Iterator[tuple[int, Block]]:
        return ((start, self.at(slice(start, start + rows))) for start in range(0, self.rows, rows))

    def at(self, rows: np.ndarray | slice) -> Block:
        return _Hybrids([stage.at(rows) for stage in self.stages])


class _Hybrids:
    """Scores by the blocks of each kind."""

    def __init__(self, blocks: Sequence[Block]):
        self.kinds = blocks

    def scores(self, queries: HybridVectors) -> np.ndarray:
        found = [block.scores(q) for block, q in zip(self.kinds, queries.kinds, strict=True)]
        return _mean(*found, _numbers(queries)[:, None])

    def errors(self, queries: HybridVectors) -> np.ndarray:
        found = [block.errors(q) for block, q in zip(self.kinds, queries.kinds, strict=True)]
        return _mean(*found, _numbers(queries)[:, None])

    def exact(self, queries: HybridVectors, owners, columns, scores) -> np.ndarray:
        found = [
            block.exact(q, owners, columns, block.scores(q))
            for block, q in zip(self.kinds, queries.kinds, strict=True)
        ]
        return _mean(*found, _numbers(queries)[owners])


def _numbers(queries: HybridVectors) -> np.ndarray:
    return np.array([max(len(tokens), 1) for tokens in queries.tokens], np.float32)


def _mean(dense, sparse, tokens, number: np.ndarray) -> np.ndarray:
    return (dense + sparse + tokens / number) / np.float32(3)
