"""`similarity`: compares the meanings of texts in one line."""

import functools
from typing import Any

import numpy as np

from bert_zoo.loading.load import load
from bert_zoo.models.base import ZooModel


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = (v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12) for v in (a, b))
    return a @ b.T


def _nearness(a: np.ndarray, b: np.ndarray, order: int) -> np.ndarray:
    return -np.stack([np.linalg.norm(row - b, order, axis=-1) for row in a])


# For each of `bert_zoo.config.SIMILARITIES`: vectors [n, size] and [m, size] -> float32 [n, m].
SCORES = {
    "cosine": _cosine,
    "dot": lambda a, b: a @ b.T,
    "euclidean": functools.partial(_nearness, order=2),
    "manhattan": functools.partial(_nearness, order=1),
}


def similarity(a: Any, b: Any, model: str | ZooModel = "minilm_l6") -> float | np.ndarray:
    """Compares the meanings of texts by their sentence vectors.

    Args:
        a, b: one text or several: strings or bytes in a list, a NumPy array or a string tensor.
        model: the name of a checkpoint for sentence vectors, or a loaded encoder.

    Returns:
        A float if `a` and `b` are single texts, else float32 [len(a), len(b)]. Scores are cosines from
        -1 to 1, unless the model's `pooling.similarity` is "dot", "euclidean" or "manhattan". The last
        two give negative distances, so higher is always more similar.

    Raises:
        TypeError: an item is not a text.
    """
    from bert_zoo.text.batches import strings

    encoder = _sentence_encoder(model) if isinstance(model, str) else model
    first, second = strings(a, "a"), strings(b, "b")
    vectors = encoder.embed(first + second)
    compare = SCORES[getattr(encoder, "encoder", encoder).pooling.similarity]
    scores = compare(vectors[: len(first)], vectors[len(first) :])
    is_single = isinstance(a, str | bytes) and isinstance(b, str | bytes)
    return float(scores[0, 0]) if is_single else scores


@functools.lru_cache(maxsize=1)
def _sentence_encoder(name: str) -> ZooModel:
    """Loads an encoder, and keeps it for the next call."""
    return load(name)
