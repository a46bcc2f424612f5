"""`similarity`: how alike the meanings of texts are, from one line."""

import functools
from typing import Any

import numpy as np

from bert_zoo.loading.load import load
from bert_zoo.models.base import ZooModel


def similarity(a: Any, b: Any, model: str | ZooModel = "minilm_l6") -> float | np.ndarray:
    """Cosine similarity of the meaning of texts.

    Args:
        a, b: a text each, or several: strings or bytes, in a list, a NumPy array or a string tensor.
        model: the name of a checkpoint for sentence vectors, or a loaded encoder.

    Returns:
        A number from -1 to 1 for two texts; where either is several, float32 [texts of a, of b].

    Raises:
        TypeError, ValueError: something that is no text, or no texts at all.
    """
    import tensorflow as tf

    from bert_zoo.text.batches import text_batch

    encoder = _sentence_encoder(model) if isinstance(model, str) else model
    first, second = text_batch(a, "a"), text_batch(b, "b")
    vectors = encoder.embed(tf.concat([first, second], axis=0))
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    scores = vectors[: len(first)] @ vectors[len(first) :].T
    is_single = isinstance(a, str | bytes) and isinstance(b, str | bytes)
    return float(scores[0, 0]) if is_single else scores


@functools.lru_cache(maxsize=1)
def _sentence_encoder(name: str) -> ZooModel:
    """The encoder of the last call, so that a second one does not load it again."""
    return load(name)
