"""Batches by number for Keras, where there is no TensorFlow."""

from collections.abc import Callable
from typing import Any

import keras


class BatchesByNumber(keras.utils.PyDataset):
    """Batches by number, which Keras asks for one after another, in the thread that trains.

    Of several workers Keras 3.15 drops or repeats the batches that were made ahead when it builds the model.
    On an accelerator batches are made while the device computes all the same, as JAX does not wait for it.

    Args:
        at: the number of a batch, from 0 -> the batch, of NumPy arrays.
        num_batches: how many there are; None for batches without end, which `fit` divides into epochs of
            `steps_per_epoch`.
    """

    def __init__(self, at: Callable[[int], Any], num_batches: int | None = None):
        super().__init__()
        self._at, self._num_batches = at, num_batches

    @property
    def num_batches(self) -> int | None:
        return self._num_batches

    def __getitem__(self, index: int) -> Any:
        return self._at(index)
