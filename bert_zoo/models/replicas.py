"""Corrections with which Keras's training loop gives the same results on one and on many devices.

All workarounds for Keras 3.15 under tf.distribute are here, except those in the optimizer.
"""

import contextlib
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.common import over_replicas, sharing_replicas
from bert_zoo.private import is_multi_worker, strategy_of

log = logging.getLogger("bert_zoo")


# Each replica of a step runs in its own thread, and so has its own value.
_ROWS_COUNTED: ContextVar[Callable[[], Any] | None] = ContextVar("rows_counted", default=None)


@contextlib.contextmanager
def counting_rows(sample_weight):
    """Has `LossTracker` count only the rows of a step with a weight, of the row or one of its labels, other than 0."""

    def number():
        counted = [
            ops.any(ops.reshape(weights, (ops.shape(weights)[0], -1)) != 0, axis=1)
            for weights in keras.tree.flatten(sample_weight)
        ]
        return ops.sum(ops.any(ops.stack(counted), axis=0))

    token = _ROWS_COUNTED.set(None if sample_weight is None else number)
    try:
        yield
    finally:
        _ROWS_COUNTED.reset(token)


@keras.saving.register_keras_serializable("bert_zoo")
class LossTracker(keras.metrics.Mean):
    """The mean of the batches' losses, each weighted by its rows on all replicas.

    Keras 3.15 weights each replica's part of a batch by the rows of that replica, which is not the batch's
    loss if its rows do not divide evenly. In `counting_rows`, rows whose weight is 0 do not count.
    """

    def update_state(self, values, sample_weight=None):
        if sample_weight is not None:
            count = _ROWS_COUNTED.get()
            sample_weight = sample_weight if count is None else count()
            sample_weight = over_replicas(ops.cast(sample_weight, "float32"), "MEAN")
        super().update_state(values, sample_weight)


@keras.saving.register_keras_serializable("bert_zoo")
class LossScaling(keras.optimizers.LossScaleOptimizer):
    """Keras's loss scaling for float16, which skips a batch if any replica overflows.

    Keras 3.15 checks only the first replica, as if gradients were already summed; an infinity of another
    replica then reaches every weight.
    """

    @classmethod
    def around(cls, optimizer: keras.optimizers.LossScaleOptimizer) -> "LossScaling":
        return cls(**optimizer.get_config() | {"inner_optimizer": optimizer.inner_optimizer})

    def check_finite(self, grads):
        finite = ops.cast(super().check_finite(grads), "float32")
        return ops.equal(over_replicas(finite, "MEAN"), 1.0)


def added_losses(model: keras.Model):
    """The losses that layers added in a step (`add_loss`), for a loss that is summed over replicas."""
    return sum(model.losses) / sharing_replicas()


def own_rows(value):
    """This replica's rows of a value that every replica holds for the whole batch."""
    replicas = sharing_replicas()
    if replicas == 1:
        return value
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    parts = tf.reshape(value, [replicas, value.shape[0] // replicas, *value.shape[1:]])
    # Not a slice: on TPUs the number is a tensor, and shapes must be static.
    return tf.gather(parts, replica.replica_id_in_sync_group if replica else 0)


def rows_of_all(value):
    """The rows of all replicas, in the order in which `own_rows` divides them."""
    replicas = sharing_replicas()
    if replicas == 1:
        return value
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None:  # Keras only infers shapes
        return tf.concat([value] * replicas, axis=0)
    # TensorFlow 2.21 loses the sizes of the other axes if replicas have different numbers of rows.
    return tf.ensure_shape(replica.all_gather(value, axis=0), [None, *value.shape[1:]])


def in_scope_of(model):
    """The strategy's scope in which a model was made; new variables of the model need it, too."""
    on_tensorflow = keras.backend.backend() == "tensorflow"
    strategy = strategy_of(model) if on_tensorflow else None
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_chief(strategy) -> bool:
    """Whether this process is the one that writes files."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.process_index() == 0
    if not is_multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    return resolver.task_type in (None, "chief") or (
        "chief" not in resolver.cluster_spec().jobs and resolver.task_id == 0
    )


def is_on_tpu(strategy) -> bool:
    """Whether replicas are TPU cores."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_backend() == "tpu"
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.TPUStrategy)


def check_several_steps(strategy) -> None:
    """Raises ValueError if steps_per_execution would fail.

    On several devices other than TPUs, a step of Keras 3.15 in a TensorFlow 2.21 loop fails for every
    model, because it asks for the value of a placeholder (keras#19246).
    """
    if strategy.num_replicas_in_sync > 1 and not is_on_tpu(strategy):
        raise ValueError(
            f"steps_per_execution above 1 fails on {strategy.num_replicas_in_sync} replicas that are not TPU "
            "cores (keras#19246). Leave it out, or train on Keras's JAX backend."
        )


def warn_of_clipping(optimizer, strategy) -> None:
    """Warns if each replica clips its own gradients, which changes the training.

    Optimizers of Keras 3.15 clip in `apply` on each replica, and sum the result in `_backend_update_step`.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or getattr(optimizer, "clips_sum_of_replicas", False):
        return
    for name in ("global_clipnorm", "clipnorm", "clipvalue"):
        if bound := getattr(optimizer, name, None):
            log.warning(
                "%s with %s=%s clips the gradients of each of the %d replicas before they are summed, so "
                "training differs from one device. bert_zoo.training.bert_adamw(learning_rate, "
                "clip_norm=...) clips the sum.",
                *(type(optimizer).__name__, name, bound, replicas),
            )


def compiles_for_each_shape(strategy) -> bool:
    """Whether every new shape of a batch must be compiled."""
    return keras.backend.backend() == "jax" or is_on_tpu(strategy)


def divided_rows(inputs):
    """Inputs with their rows divided over the devices of Keras's distribution on JAX.

    If rows do not divide evenly, every device computes the whole batch. XLA also divides all that is
    computed from the inputs, including gradients.
    """
    if keras.backend.backend() != "jax" or keras.distribution.distribution() is None:
        return inputs
    distribution = keras.distribution.distribution()

    def divided(value):
        if isinstance(value, keras.KerasTensor) or not hasattr(value, "shape"):
            return value
        if value.shape[0] % distribution.num_model_replicas:
            return value
        return _laid_out(value, distribution, distribution.batch_dim_name)

    return keras.tree.map_structure(divided, inputs)


def replicated_outputs(outputs):
    """Outputs of a step, with all rows in every JAX process."""
    distribution = keras.backend.backend() == "jax" and keras.distribution.distribution()
    if not distribution or distribution.num_processes == 1:
        return outputs

    return keras.tree.map_structure(lambda value: _laid_out(value, distribution, None), outputs)


def _laid_out(value, distribution, first_axis: str | None):
    axes = [first_axis] + [None] * (len(value.shape) - 1) if value.shape else []
    layout = keras.distribution.TensorLayout(axes, distribution.device_mesh)
    return keras.distribution.distribute_tensor(value, layout)


def with_one_row(step: Callable[[Any], dict]) -> Callable[[Any], dict]:
    """A step whose scalar results become vectors of one value.

    Across workers, Keras 3.15 averages results along their first axis, which scalars lack
    (`reduce_per_replica` in backend/tensorflow/trainer.py; keras#20585).
    """
    import tensorflow as tf

    def wrapped(data):
        return tf.nest.map_structure(lambda result: tf.reshape(result, [1]), step(data))

    return wrapped
