"""Batches of texts that Python code makes, in generators and PyDatasets, as tf.data."""

import itertools
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

log = logging.getLogger("bert_zoo")


class Batches:
    """A generator or `keras.utils.PyDataset`, whose first batch may be looked at.

    Attributes:
        first: the first batch.
    """

    def __init__(self, source: Iterator | keras.utils.PyDataset):
        self.source = source
        self._restored = None
        if isinstance(source, keras.utils.PyDataset):
            self.first = source[0]
            return
        try:
            self.first = next(source)
        except StopIteration:
            raise ValueError(
                "The generator has no batches (left). Make a new one: a generator is read once."
            ) from None
        self._restored = itertools.chain([self.first], source)

    def for_keras(self) -> Any:
        """What Keras iterates over, with the first batch."""
        if self._restored is None:
            return self.source
        return (batch for batch in self._restored)  # of other iterators Keras knows nothing

    def dataset(self, columns: Callable[[Any], tuple], *, shuffle: bool):
        """A tf.data.Dataset of what `columns` makes of each batch, of any length and number of rows.

        Batches are made one after the other, whatever `workers` a PyDataset has; texts are tokenized
        in parallel.

        Args:
            columns: from a batch to arrays and tensors.
            shuffle: whether a PyDataset's batches come in a new order each epoch.
        """
        import tensorflow as tf

        if getattr(self.source, "workers", 1) > 1:
            log.warning(
                "This PyDataset's batches of texts are made one after the other; workers=%d is not "
                "used. tf.data makes them in parallel.",
                self.source.workers,
            )
        signature = tf.nest.map_structure(_open_spec, columns(self.first))
        batches = self._epoch if self._restored is None else lambda shuffle: self._restored
        dataset = tf.data.Dataset.from_generator(
            lambda: map(columns, batches(shuffle)), output_signature=signature
        )
        number = getattr(self.source, "num_batches", None)
        if number is None:
            return dataset
        return dataset.apply(tf.data.experimental.assert_cardinality(number))

    def _epoch(self, shuffle: bool) -> Iterator:
        """One pass over a PyDataset, as Keras makes it."""
        source, number = self.source, self.source.num_batches
        source.on_epoch_begin()
        numbers = itertools.count() if number is None else list(range(number))
        if shuffle and number is not None:
            random.shuffle(numbers)
        for i in numbers:
            yield source[i]
        source.on_epoch_end()


def _open_spec(value):
    """The type of a batch with every axis left open."""
    import tensorflow as tf

    if isinstance(value, tf.RaggedTensor):
        return tf.RaggedTensorSpec(
            [None] * value.shape.rank, value.dtype, value.ragged_rank, value.row_splits.dtype
        )
    return tf.TensorSpec([None] * np.ndim(value), value.dtype)
