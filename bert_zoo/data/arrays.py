"""Functions that make batches of rows: TensorFlow's, for a dataset's graph, or NumPy's without TensorFlow."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bert_zoo.graph import has_tensorflow, tf

if has_tensorflow:
    concat, gather, reshape, shape, split = tf.concat, tf.gather, tf.reshape, tf.shape, tf.split
    maximum, repeat, stack, tile = tf.maximum, tf.repeat, tf.stack, tf.tile
    one_hot, where = tf.one_hot, tf.where
else:
    concat, gather, reshape = np.concatenate, partial(np.take, axis=0), np.reshape
    shape, split = np.shape, np.split
    maximum, repeat, stack, tile = np.maximum, np.repeat, np.stack, np.tile
    where = np.where

    def one_hot(numbers, size):
        return np.eye(size, dtype=np.float32)[numbers]


def integer_rows(rows: Sequence[Sequence[int]]) -> Any:
    """Rows of any length as a ragged tensor int32 [rows, (values)]; unchanged without TensorFlow."""
    if not has_tensorflow:
        return rows
    return tf.ragged.constant(rows, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)


def held(values: Any) -> Any:
    """An array to gather batches from. It is a tensor, as a graph would copy an array into itself and has room for
    2 GB only."""
    if not has_tensorflow:
        return np.asarray(values)
    with tf.device("CPU:0"):
        return tf.convert_to_tensor(np.asarray(values))
