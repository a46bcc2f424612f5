"""tf.data's tuner of parallelism, which makes the end of a pass wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, read as fast, whose passes end when their last element is read.

    Where tf.data tunes itself, a thread wakes 0.01, 0.03, 0.07, ... 10.2, 20.5 s after a pass began, and
    at last every minute. When the pass ends, more often than not, that thread misses that it was
    cancelled: the notice comes before the flag that it looks at is set (TensorFlow 2.21,
    CancellationManager::StartCancel against Model::OptimizeLoop in core/framework/model.cc). So the
    end waits for the next time it wakes: a pass of 7 s takes 10, one of 11 s takes 20. Without the
    tuner, AUTOTUNE means as many calls at once as there are threads, and buffers grow by need.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
