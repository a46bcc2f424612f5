"""Batches of ids from generators and PyDatasets."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras


def peeked(source: Iterator | keras.utils.PyDataset) -> tuple[Any, Any]:
    """The first batch of a generator or PyDataset, and data for Keras with all batches."""
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
    # Keras recognises generators by their type.
    return (function(batch) for batch in source) if is_generator else _Mapped(function, source)
