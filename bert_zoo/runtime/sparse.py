"""Sparse vectors of texts as rows of SciPy's CSR arrays, and their tokens as people read them; NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bert_zoo.fields import check
from bert_zoo.runtime.answers import HybridVectors, PrintedRow, PrintedRows

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def _csr_array() -> type[csr_array]:
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise ImportError(
            'Sparse vectors are arrays of SciPy, which is not installed: pip install "bert_zoo[search]".'
        ) from error
    return csr_array


# Number of batches whose vectors are in memory with their zeros.
BATCHES = 8


def sparse_vectors_of(
    texts: Sequence[str],
    vectors_of: Callable[[list[str]], np.ndarray],
    batch_size: int,
    most: int | None,
) -> csr_array:
    """The vectors of texts as CSR [texts, size], without zeros; of each, only the `most` largest numbers (None for all).

    `vectors_of(texts)`, float32 [texts, size] for any number of texts, is called for blocks of texts of similar length,
    so that only one block's vectors are in memory with their zeros.
    """
    check("batch_size", batch_size, int, least=1)
    csr_array = _csr_array()
    from scipy.sparse import vstack

    order = np.argsort([len(text) for text in texts], kind="stable")
    size, blocks = BATCHES * batch_size, []
    for start in range(0, max(len(texts), 1), size):
        vectors = vectors_of([texts[i] for i in order[start : start + size]])
        if most is not None and most < vectors.shape[1]:
            least = np.argpartition(vectors, -most, axis=1)[:, :-most]
            vectors = vectors.copy()
            np.put_along_axis(vectors, least, 0, axis=1)
        blocks.append(csr_array(vectors))
    return vstack(blocks, format="csr")[np.argsort(order)]


def csr_of_tokens(ids: Sequence[np.ndarray], weights: Sequence[np.ndarray], size: int) -> csr_array:
    """CSR [texts, size] of each text's token ids and their weights: the largest of each id, without zeros."""
    rows = np.repeat(np.arange(len(ids)), [len(some) for some in ids])
    columns, values = np.concatenate(ids), np.concatenate(weights)
    order = np.lexsort((values, columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    is_last = np.append((np.diff(rows) != 0) | (np.diff(columns) != 0), True) & (values > 0)
    places = rows[is_last], columns[is_last]
    return _csr_array()((values[is_last], places), shape=(len(ids), size))


# What a model of all three kinds of vectors gives: one vector a text, weights of its tokens and their ids, a vector a token
# and 1 for those that are compared.
HYBRID_OUTPUTS = ("embedding", "token_weights", "weighted_ids", "vectors", "vector_mask")


def hybrid_vectors(found: Sequence[Mapping[str, np.ndarray]], vocab_size: int) -> HybridVectors:
    """The vectors of texts, at least one, from the `HYBRID_OUTPUTS` of each."""
    dense, weights, ids, vectors, masks = ([row[name] for row in found] for name in HYBRID_OUTPUTS)
    tokens = [some[mask == 1] for some, mask in zip(vectors, masks, strict=True)]
    return HybridVectors(np.stack(dense), csr_of_tokens(ids, weights, vocab_size), tokens)


@dataclass(frozen=True)
class SparseTerm(PrintedRow):
    """A token of a sparse vector.

    Attributes:
        token: as the vocabulary writes it.
        weight: its weight; of two texts, the product of their weights.
        of_each: its weight in each text.
    """

    token: str
    weight: float
    of_each: tuple[float, ...]

    def cells(self) -> tuple[str, ...]:
        factors = " × ".join(f"{weight:.3f}" for weight in self.of_each)
        return (f"{self.weight:.3f}", *[factors] * (len(self.of_each) > 1), self.token)

    def bar(self) -> tuple:
        _, *factors, token = self.cells()
        return token, self.weight, "".join(factors)


class SparseTerms(PrintedRows):
    """A list of `SparseTerm`, largest weight first, that prints as a table."""


def explained(
    rows: Sequence[csr_array], id_to_token: Callable[[int], str], top_k: int | None
) -> SparseTerms:
    """The `top_k` tokens (None: all) that all vectors, CSR [1, size], have."""
    check("top_k", top_k, int | None, least=1)
    dense = np.stack([row.toarray()[0] for row in rows])
    products = dense.prod(axis=0)
    ids = np.argsort(-products, kind="stable")[: np.count_nonzero(products)][:top_k]
    return SparseTerms(
        SparseTerm(id_to_token(int(i)), float(products[i]), tuple(map(float, dense[:, i])))
        for i in ids
    )
