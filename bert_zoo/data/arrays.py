"""Functions of texts and ids that are traced into a graph on TensorFlow, and of NumPy arrays."""

from typing import Any

import numpy as np

from bert_zoo.graph import has_tensorflow, tf

if has_tensorflow:
    reshape, shape, split = tf.reshape, tf.shape, tf.split
    repeat, stack, tile = tf.repeat, tf.stack, tf.tile
else:
    reshape, shape, split = np.reshape, np.shape, np.split
    repeat, stack, tile = np.repeat, np.stack, np.tile


def concat(parts: Any, axis: int) -> Any:
    """Joins NumPy arrays or tensors."""
    is_numpy = not has_tensorflow or isinstance(parts[0], np.ndarray)
    return (np.concatenate if is_numpy else tf.concat)(parts, axis)


def where(condition: Any, of_true: Any, of_false: Any) -> Any:
    """Chooses from NumPy arrays or tensors."""
    is_numpy = not has_tensorflow or isinstance(condition, np.ndarray)
    return (np.where if is_numpy else tf.where)(condition, of_true, of_false)
