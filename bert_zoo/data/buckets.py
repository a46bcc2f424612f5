"""Batches of texts of similar length, so that padding costs little."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Batches that are sorted together: enough for even lengths, few enough to stay random. A small data
# set has at least this many windows, or the same rows would meet in every epoch.
WINDOW = 50
MIN_WINDOWS = 4


def grouped_batches(
    texts: Sequence[str] | tuple[Sequence[str], Sequence[str]],
    labels: Sequence[float],
    batch_size: int,
) -> tf.data.Dataset:
    """Shuffles rows anew each epoch, in batches whose texts are about equally long.

    Rows are shuffled, sorted by length within windows of up to 50 batches, and the batches
    shuffled; as `group_by_length` of Hugging Face's Trainer, which sorts by tokens where this sorts
    by bytes.

    Args:
        texts: [N] strings, or a pair of such.
        labels: [N] numbers.
        batch_size: rows a batch; the last one of an epoch may be smaller.

    Returns:
        A dataset of (texts [batch], labels [batch]), with ((first, second), labels) for pairs.
    """
    columns = texts if isinstance(texts, tuple) else (texts,)
    columns = tuple(tf.constant(column, tf.string) for column in columns)
    labels = tf.constant(np.asarray(labels))
    lengths = tf.add_n([tf.strings.length(column) for column in columns])
    rows = len(labels)
    window_size = max(1, min(WINDOW, rows // (MIN_WINDOWS * batch_size))) * batch_size

    def sorted_batches(window: tf.Tensor) -> tf.data.Dataset:
        by_length = tf.gather(window, tf.argsort(tf.gather(lengths, window)))
        return tf.data.Dataset.from_tensor_slices(by_length).batch(batch_size)

    def gather(batch: tf.Tensor):
        chosen = tuple(tf.gather(column, batch) for column in columns)
        return (chosen if isinstance(texts, tuple) else chosen[0]), tf.gather(labels, batch)

    dataset = tf.data.Dataset.range(rows).shuffle(rows).batch(window_size)
    dataset = dataset.flat_map(sorted_batches).shuffle(WINDOW)
    num_batches = -(-rows // batch_size)
    return dataset.map(gather).apply(tf.data.experimental.assert_cardinality(num_batches))
