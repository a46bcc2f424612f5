"""`similarity`: compares the meanings of texts in one line."""

import functools
from typing import Any

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY
from bert_zoo.embeddings.evaluation import similarity_of
from bert_zoo.embeddings.stages import all_scores, is_hybrid, is_sparse, is_tokens
from bert_zoo.loading.load import load
from bert_zoo.models.base import ZooModel

DEFAULT_MODEL = "minilm_l6"
# Similarities that are negative distances -> the order of the norm.
NORMS = {"euclidean": 2, "manhattan": 1}


def similarity(a: Any, b: Any, model: str | ZooModel = DEFAULT_MODEL) -> float | np.ndarray:
    """Compares the meanings of texts by their vectors.

    Models that read queries and documents differently, as sparse and late-interaction models do, read `a` as
    queries and `b` as documents.

    Args:
        a, b: one text or several: strings or bytes in a list, a NumPy array or a string tensor. Or both are
            vectors already, as `embed` returns them: float [n, size], a SciPy sparse array, a list of
            matrices of token vectors, or `HybridVectors`, whose `weighted` gives each kind a weight.
        model: the name of a checkpoint for vectors, or a loaded model. For vectors it only says how they are
            compared; by default by cosine, sparse ones by their product, and token vectors by MaxSim.

    Returns:
        A float if `a` and `b` are single texts, else float32 [len(a), len(b)]. Scores are cosines from
        -1 to 1, unless the model's `pooling.similarity` is "dot", "euclidean" or "manhattan", or the model is
        sparse (products), of late interaction (MaxSim: the sum over a query's tokens of the largest
        product with a token of the document) or hybrid (the mean of a cosine, a product and MaxSim divided by
        the query's number of vectors). "euclidean" and "manhattan" give negative distances, so
        higher is always more similar.

    Raises:
        TypeError: an item is not a text.
        ValueError: only one of `a` and `b` is vectors, or these are of different kinds or sizes.
    """
    from bert_zoo.text.batches import strings

    if are_vectors(a) and are_vectors(b):
        # The default model is not loaded to ask it.
        how = None if model is DEFAULT_MODEL else similarity_of(_loaded(model))
        return _scores(a, b, how)
    encoder = _loaded(model)
    first, second = strings(a, "a"), strings(b, "b")
    if getattr(encoder, "reads_roles", False):
        vectors = encoder.embed(first, role=QUERY), encoder.embed(second, role=DOCUMENT)
    else:
        both = encoder.embed(first + second)
        vectors = both[: len(first)], both[len(first) :]
    scores = _scores(*vectors, similarity_of(encoder))
    is_single = isinstance(a, str | bytes) and isinstance(b, str | bytes)
    return float(scores[0, 0]) if is_single else scores


def are_vectors(x: Any) -> bool:
    """Whether something is vectors of texts of any kind, and not texts."""
    is_dense = isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating)
    return is_dense or is_sparse(x) or is_tokens(x) or is_hybrid(x)


def _scores(a: Any, b: Any, similarity: str | None) -> np.ndarray:
    if similarity not in NORMS:
        return all_scores(a, b, similarity)
    distances = [np.linalg.norm(row - b, NORMS[similarity], axis=-1) for row in a]
    return -np.reshape(distances, (len(a), len(b)))


def _loaded(model: str | ZooModel) -> ZooModel:
    return _sentence_encoder(model) if isinstance(model, str) else model


@functools.lru_cache(maxsize=1)
def _sentence_encoder(name: str) -> ZooModel:
    """Loads an encoder, and keeps it for the next call."""
    return load(name)
