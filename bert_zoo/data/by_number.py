"""Batches by number, of which each can be made without those before it: as a tf.data, or without TensorFlow."""

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.private import numpy_function

log = logging.getLogger("bert_zoo")

# An endless sequence ends here.
ENDLESS = 2**62


class BatchesByNumber(keras.utils.PyDataset):
    """Batches by number, which Keras reads in order, in the training thread.

    With several workers, Keras 3.15 drops or repeats batches that were prepared before it builds the model.
    On an accelerator, batches are still made while the device computes, as JAX runs asynchronously. Keras must
    not shuffle.

    `at` maps a number from 0 to a batch of NumPy arrays. `num_batches` is None for an endless sequence, which
    `fit` divides into epochs of `steps_per_epoch`. `logs_shapes` logs the shapes after an epoch with new ones.
    """

    def __init__(
        self,
        at: Callable[[int], Any],
        num_batches: int | None = None,
        *,
        logs_shapes: bool = False,
    ):
        super().__init__()
        self._at, self._num_batches, self._logs_shapes = at, num_batches, logs_shapes
        self._shapes: set[tuple[int, ...]] = set()
        self._said = self._last = 0

    @property
    def num_batches(self) -> int | None:
        return self._num_batches

    def __getitem__(self, index: int) -> Any:
        batch, self._last = self._at(index), index
        if self._logs_shapes:
            self._shapes.add(max((part.shape for part in keras.tree.flatten(batch[0])), key=len))
        return batch

    def on_epoch_end(self) -> None:
        """Logs the number of shapes if there are new ones, except for the batch that Keras reads first."""
        is_begun = self._last or self._num_batches == 1
        if self._logs_shapes and is_begun and len(self._shapes) > self._said:
            self._said = len(self._shapes)
            log.info(
                "A program is compiled for each shape of batches, %d so far: %s.",
                *(self._said, ", ".join("x".join(map(str, s)) for s in sorted(self._shapes))),
            )


def numbered(
    at: Callable[[int], Any],
    num_batches: int | None,
    specs: Callable[[], Any],
    *,
    parallel: int | None = None,
    ahead: int = 2,
    logs_shapes: bool = False,
) -> Any:
    """Batches 0, 1, ... as a tf.data.Dataset, or as `BatchesByNumber` without TensorFlow.

    `specs` returns the structure of a batch in `tf.TensorSpec`s. `parallel` batches are made at a time (None for
    one after the other), `ahead` before they are trained on.
    """
    if not has_tensorflow:
        return BatchesByNumber(at, num_batches, logs_shapes=logs_shapes)
    numbers = tf.data.Dataset.range(ENDLESS if num_batches is None else num_batches)
    batches = numbers.map(on_numpy(at, specs()), num_parallel_calls=parallel)
    return without_autotuning(batches.prefetch(ahead))


def on_numpy(function: Callable[[Any], Any], specs: Any) -> Callable[[Any], Any]:
    """A function of one NumPy array, whose result has the structure of `specs` (TensorSpecs), as one of a tensor,
    within a graph."""

    def flat(value: np.ndarray) -> list[np.ndarray]:
        return tf.nest.flatten(function(value))

    @tf.autograph.experimental.do_not_convert
    def in_graph(value):
        found = tf.nest.flatten(specs)
        results = numpy_function(flat, [value], [spec.dtype for spec in found])
        for result, spec in zip(results, found, strict=True):
            result.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(specs, results)

    return in_graph


def without_autotuning(dataset: Any) -> Any:
    """Turns autotuning of a tf.data.Dataset off: as fast, and a pass ends as soon as its last element is read.

    tf.data's tuner is a thread that wakes 0.01, 0.03, 0.07, ... 10.2, 20.5 s after the start of a pass, and
    later every minute. At the end of a pass it usually misses its cancellation, as the notification comes
    before the flag is set that it checks (TensorFlow 2.21, CancellationManager::StartCancel against
    Model::OptimizeLoop in core/framework/model.cc). The pass then ends only when the thread wakes again: one
    of 7 s takes 10, one of 11 s takes 20. Without the tuner, AUTOTUNE means as many parallel calls as
    threads, and buffers grow as needed.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
