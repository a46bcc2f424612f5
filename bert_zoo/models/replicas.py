"""What Keras's training loop needs to mean the same on one device and on many.

All that works around Keras 3.15 under tf.distribute is here, but for the optimizer's part.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.replicas import over_replicas, sharing_replicas
from bert_zoo.private import is_multi_worker, strategy_of

log = logging.getLogger("bert_zoo")


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


@keras.saving.register_keras_serializable("bert_zoo")
class LossScaling(keras.optimizers.LossScaleOptimizer):
    """Keras's scaling of losses in float16, which leaves out a batch where any replica overflows.

    Keras 3.15 asks the first replica alone, as if gradients were summed already; another's infinity
    then ends up in every weight.
    """

    @classmethod
    def around(cls, optimizer: keras.optimizers.LossScaleOptimizer) -> "LossScaling":
        """The same scaling of the same optimizer."""
        return cls(**optimizer.get_config() | {"inner_optimizer": optimizer.inner_optimizer})

    def check_finite(self, grads):
        finite = ops.cast(super().check_finite(grads), "float32")
        return ops.equal(over_replicas(finite, "MEAN"), 1.0)


def added_losses(model: keras.Model):
    """What layers added to the loss of a step (`add_loss`), for a loss that is summed over replicas."""
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
    if replica is None:  # Keras looks at shapes alone.
        return tf.concat([value] * replicas, axis=0)
    # TensorFlow 2.21 forgets the sizes of the other axes where replicas have different numbers of rows.
    return tf.ensure_shape(replica.all_gather(value, axis=0), [None, *value.shape[1:]])


def in_scope_of(model):
    """The scope in which a model was made, and in which variables are made that belong to it."""
    on_tensorflow = keras.backend.backend() == "tensorflow"
    strategy = strategy_of(model) if on_tensorflow else None
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_chief(strategy) -> bool:
    """Whether this process is the one that writes files for all."""
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
    """Whether replicas are cores of a TPU."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_backend() == "tpu"
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.TPUStrategy)


def check_several_steps(strategy) -> None:
    """Refuses steps_per_execution where it fails.

    On several devices but TPUs, a step of Keras 3.15 in a loop of TensorFlow 2.21 asks for a value of
    some placeholder (keras#19246), whatever the model.
    """
    if strategy.num_replicas_in_sync > 1 and not is_on_tpu(strategy):
        raise ValueError(
            f"steps_per_execution above 1 fails on {strategy.num_replicas_in_sync} replicas, which are "
            "no TPU's (keras#19246). Leave it out, or train on Keras's JAX backend."
        )


def warn_of_clipping(optimizer, strategy) -> None:
    """Warns where replicas clip gradients on their own, which trains differently.

    Optimizers of Keras 3.15 clip in `apply`, on each replica, and sum what is left in
    `_backend_update_step`.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or getattr(optimizer, "clips_sum_of_replicas", False):
        return
    for name in ("global_clipnorm", "clipnorm", "clipvalue"):
        if bound := getattr(optimizer, name, None):
            log.warning(
                "%s with %s=%s clips the gradients of each of the %d replicas before they are summed: "
                "weights become others than on one device. bert_zoo.training.bert_adamw(learning_rate, "
                "clip_norm=...) clips the sum.",
                *(type(optimizer).__name__, name, bound, replicas),
            )


def compiles_for_each_shape(strategy) -> bool:
    """Whether a batch of another shape costs a compilation."""
    return keras.backend.backend() == "jax" or is_on_tpu(strategy)


def divided_rows(inputs):
    """Inputs with their rows divided over the devices of Keras's distribution on JAX.

    A batch whose rows do not divide is computed everywhere. XLA divides what is computed from the
    inputs, gradients and their sums too.
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


def whole_everywhere(outputs):
    """Outputs of a step, with all rows in every process of JAX, as every process gave them to it."""
    distribution = keras.backend.backend() == "jax" and keras.distribution.distribution()
    if not distribution or distribution.num_processes == 1:
        return outputs

    return keras.tree.map_structure(lambda value: _laid_out(value, distribution, None), outputs)


def _laid_out(value, distribution, first_axis: str | None):
    axes = [first_axis] + [None] * (len(value.shape) - 1) if value.shape else []
    layout = keras.distribution.TensorLayout(axes, distribution.device_mesh)
    return keras.distribution.distribute_tensor(value, layout)


def with_one_row(step: Callable[[Any], dict]) -> Callable[[Any], dict]:
    """A step whose results, scalars, are vectors of one value.

    Across workers, Keras 3.15 averages results along their first axis, which scalars do not have
    (`reduce_per_replica` in backend/tensorflow/trainer.py; keras#20585).
    """
    import tensorflow as tf

    def wrapped(data):
        return tf.nest.map_structure(lambda result: tf.reshape(result, [1]), step(data))

    return wrapped
