"""Batches that Python code makes, in generators and PyDatasets: texts as tf.data, ids as they come."""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from bert_zoo.models.graphs import open_spec


def peeked(source: Iterator | keras.utils.PyDataset) -> tuple[Any, Any]:
    """The first batch of a generator or PyDataset, and what gives all of them, as Keras takes it."""
    if isinstance(source, keras.utils.PyDataset):
        return source[0], source
    try:
        first = next(source)
    except StopIteration:
        raise ValueError(
            "The generator is empty or already used up. Create a new one: a generator can be read only once."
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

    def epoch():
        return map(columns, _epoch(source, shuffle))

    signature = tf.nest.map_structure(_open_spec, columns(first))
    dataset = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    number = getattr(source, "num_batches", None)
    return (
        dataset
        if number is None
        else dataset.apply(tf.data.experimental.assert_cardinality(number))
    )


def _epoch(source: Iterator | keras.utils.PyDataset, shuffle: bool) -> Iterator:
    """One pass over the batches, of a PyDataset as Keras makes it."""
    if not isinstance(source, keras.utils.PyDataset):
        yield from source
        return
    source.on_epoch_begin()
    numbers = range(source.num_batches) if source.num_batches is not None else itertools.count()
    if shuffle and source.num_batches is not None:
        numbers = random.sample(numbers, len(numbers))
    yield from map(source.__getitem__, numbers)
    source.on_epoch_end()


def _open_spec(value):
    """The type of a batch with every axis left open."""
    import tensorflow as tf

    if isinstance(value, tf.RaggedTensor):
        return open_spec(value)
    return tf.TensorSpec([None] * np.ndim(value), value.dtype)
