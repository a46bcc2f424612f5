"""Batches that Python code makes, in generators and PyDatasets: texts as tf.data, ids as they come."""

import itertools
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from bert_zoo.models.graphs import open_spec

log = logging.getLogger("bert_zoo")


def peeked(source: Iterator | keras.utils.PyDataset) -> tuple[Any, Any]:
    """The first batch of a generator or PyDataset, and what gives all of them, as Keras takes it."""
    if isinstance(source, keras.utils.PyDataset):
        return source[0], source
    try:
        first = next(source)
    except StopIteration:
        raise ValueError(
            "The generator has no batches (left). Make a new one: a generator is read once."
        ) from None
    return first, (batch for batch in itertools.chain([first], source))


class _Mapped(keras.utils.PyDataset):
    """A PyDataset with a function applied to each batch."""

    def __init__(self, function: Callable[[Any], Any], source: keras.utils.PyDataset):
        names = ("workers", "use_multiprocessing", "max_queue_size")
        super().__init__(**{name: getattr(source, name) for name in names})
        self.function, self.source = function, source
        self.on_epoch_begin, self.on_epoch_end = source.on_epoch_begin, source.on_epoch_end

    @property
    def num_batches(self) -> int | None:
        return self.source.num_batches

    def __getitem__(self, index: int) -> Any:
        return self.function(self.source[index])


def mapped(function: Callable[[Any], Any], source: Iterator | keras.utils.PyDataset) -> Any:
    """A generator or PyDataset with a function applied to each batch."""
    is_generator = not isinstance(source, keras.utils.PyDataset)
    # Keras knows generators by their type.
    return (function(batch) for batch in source) if is_generator else _Mapped(function, source)


def text_dataset(source, columns: Callable[[Any], tuple], first: Any, *, shuffle: bool):
    """A tf.data.Dataset of what `columns` makes of each batch, of any length and number of rows.

    Batches are made one after the other, whatever `workers` a PyDataset has; texts are tokenized in
    parallel. `shuffle` gives those of a PyDataset a new order each epoch.
    """
    import tensorflow as tf

    if getattr(source, "workers", 1) > 1:
        log.warning(
            "This PyDataset's batches of texts are made one after the other; workers=%d is not "
            "used. tf.data makes them in parallel.",
            source.workers,
        )

    def epoch():
        is_generator = not isinstance(source, keras.utils.PyDataset)
        return map(columns, source if is_generator else _epoch(source, shuffle))

    signature = tf.nest.map_structure(_open_spec, columns(first))
    dataset = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    number = getattr(source, "num_batches", None)
    if number is None:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(number))


def _epoch(source: keras.utils.PyDataset, shuffle: bool) -> Iterator:
    """One pass over a PyDataset, as Keras makes it."""
    number = source.num_batches
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
        return open_spec(value)
    return tf.TensorSpec([None] * np.ndim(value), value.dtype)
