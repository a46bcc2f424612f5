"""Batches by number, for Keras without TensorFlow."""

from collections.abc import Callable
from typing import Any

import keras


class BatchesByNumber(keras.utils.PyDataset):
    """Batches by number, which Keras reads in order, in the training thread.

    With several workers, Keras 3.15 drops or repeats batches that were prepared before it builds the model.
    On an accelerator, batches are still made while the device computes, as JAX runs asynchronously.

    Args:
        at: number of a batch, from 0 -> the batch, of NumPy arrays.
        num_batches: number of batches; None for an endless sequence, which `fit` divides into epochs of
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
