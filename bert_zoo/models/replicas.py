"""What Keras's training loop needs to mean the same on one device and on many.

All that works around Keras 3.15 under tf.distribute is here, but for the optimizer's part.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def over_replicas(count, how: str):
    """The "SUM" or "MEAN" of a number that each replica has; without replicas, the number."""
    if keras.backend.backend() != "tensorflow":
        return count
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp[how], tf.stop_gradient(count))


@keras.saving.register_keras_serializable("bert_zoo")
class LossTracker(keras.metrics.Mean):
    """The mean of the batches' losses, each weighted by its rows on all replicas.

    Keras 3.15 weights each replica's part of a batch by the rows of that replica, which is not the
    batch's loss where its rows do not divide.
    """

    def update_state(self, values, sample_weight=None):
        if sample_weight is not None:
            sample_weight = over_replicas(ops.cast(sample_weight, "float32"), "MEAN")
        super().update_state(values, sample_weight)


def num_replicas() -> int:
    """The replicas of the strategy in whose scope this is called."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def one_replica_spec(spec) -> Any:
    """What one replica gets, from the `element_spec` of a (distributed) tf.data dataset.

    Returns:
        The same structure of `tf.TensorSpec`, or None where it holds anything else.
    """
    import tensorflow as tf

    def first(part):
        # tf.distribute names the class of this spec, but does not export it.
        return part._value_specs[0] if hasattr(part, "_value_specs") else part

    spec = tf.nest.map_structure(first, spec)
    known = all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))
    return spec if known else None


def is_multi_worker(strategy) -> bool:
    """Whether replicas are spread over several processes."""
    return strategy is not None and strategy.extended._in_multi_worker_mode()


def is_chief(strategy) -> bool:
    """Whether this process is the one that writes files for all."""
    if not is_multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    return resolver.task_type in (None, "chief") or (
        "chief" not in resolver.cluster_spec().jobs and resolver.task_id == 0
    )


def is_on_tpu(strategy) -> bool:
    """Whether replicas are cores of a TPU."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.TPUStrategy)


def with_one_row(step: Callable[[Any], dict]) -> Callable[[Any], dict]:
    """A step whose results, scalars, are vectors of one value.

    Across workers, Keras 3.15 averages results along their first axis, which scalars do not have
    (`reduce_per_replica` in backend/tensorflow/trainer.py; keras#20585).
    """
    import tensorflow as tf

    def wrapped(data):
        return tf.nest.map_structure(lambda result: tf.reshape(result, [1]), step(data))

    return wrapped
