"""The originals' optimizers and learning-rate schedules.

Source: google-research/bert optimization.py, AdamWeightDecayOptimizer and create_optimizer;
kimiyoung/transformer-xl tf/train_gpu.py.
"""

import math

import keras
from keras import ops

# Matrices and tables decay; biases and norms do not. Embedding tables do, as in the original.
UNDECAYED = ("bias", "gamma", "beta")


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 during warmup; how it falls then, subclasses say.

    Args:
        peak: the highest learning rate.
        total_steps: the step at which the rate is at its lowest, and stays there.
        warmup_steps: steps of warmup.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int):
        super().__init__()
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ValueError(
                f"warmup_steps is {warmup_steps} and total_steps {total_steps}; there must be at "
                "least one step, and no more warmup than steps."
            )
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def decayed(self, step):
        """The part of the peak that is left at a step, a float32 tensor, after warmup."""
        raise NotImplementedError

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decayed = self.peak * self.decayed(step)
        if not self.warmup_steps:
            return decayed
        warming = self.peak * step / self.warmup_steps
        return ops.where(step < self.warmup_steps, warming, decayed)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
        }


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupLinearDecay(WarmupDecay):
    """Falls on the line from the peak at step 0 to 0 at the last step.

    The fall is not shifted by the warmup: right after it, the rate is peak * (1 - warmup / total),
    so that the peak is reached only without warmup. Arguments: as `WarmupDecay`.
    """

    def decayed(self, step):
        return ops.maximum(0.0, 1.0 - step / self.total_steps)


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupCosineDecay(WarmupDecay):
    """Falls after warmup on half a cosine to a part of the peak.

    Source: kimiyoung/transformer-xl tf/train_gpu.py.

    Args:
        peak, total_steps, warmup_steps: as `WarmupDecay`.
        floor: the lowest rate, as a part of the peak.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int, floor: float):
        super().__init__(peak, total_steps, warmup_steps)
        self.floor = floor

    def decayed(self, step):
        falling = max(self.total_steps - self.warmup_steps, 1)
        progress = ops.clip((step - self.warmup_steps) / falling, 0.0, 1.0)
        return self.floor + (1 - self.floor) * 0.5 * (1 + ops.cos(math.pi * progress))

    def get_config(self):
        return {**super().get_config(), "floor": self.floor}


@keras.saving.register_keras_serializable("bert_zoo")
class BertAdamW(keras.optimizers.AdamW):
    """AdamW without bias correction, as BERT was trained and fine-tuned; biases and norms do not decay.

    Args:
        bias_correction: True gives Keras's (and PyTorch's) AdamW; Mosbach et al. 2020
            (arXiv:2006.04884) find that it steadies fine-tuning on small data sets.
        **kwargs: as `keras.optimizers.AdamW`.
    """

    def __init__(self, learning_rate=5e-5, *, bias_correction: bool = False, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.bias_correction = bias_correction
        # Here and not by the caller, because Keras saves optimizers without their exclusions.
        # TensorFlow's variables are called "bias:0" where Keras's are called "bias".
        self.exclude_from_weight_decay(var_names=[rf"(^|/){name}(:0)?$" for name in UNDECAYED])

    def apply(self, grads, trainable_variables=None):
        # TensorFlow gives a table's gradient as one slice a token. Keras 3.15 would take the global
        # norm over slices, so that two uses of one token are clipped as if they were two rows.
        grads = [gradient if gradient is None else _dense(gradient) for gradient in grads]
        return super().apply(_summed_over_replicas(grads), trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Keras 3.15 sums gradients over replicas here, after each replica has clipped its own: two
        # replicas would train differently from one. `apply` has summed them already.
        return grads_and_vars

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        powers = [ops.cast(0.0, dtype)] * 2
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, dtype)
            powers = [ops.power(ops.cast(b, dtype), step) for b in (self.beta_1, self.beta_2)]
        update = _fused_adam if _can_fuse() else self._plain_adam
        update(
            variable,
            self._momentums[index],
            self._velocities[index],
            ops.cast(gradient, dtype),
            ops.cast(learning_rate, dtype),
            powers,
            (self.beta_1, self.beta_2),
            self.epsilon,
        )

    def _plain_adam(self, variable, m, v, gradient, lr, powers, betas, epsilon):
        self.assign_add(m, (gradient - m) * (1 - betas[0]))
        self.assign_add(v, (ops.square(gradient) - v) * (1 - betas[1]))
        rate = lr * ops.sqrt(1 - powers[1]) / (1 - powers[0])
        self.assign_sub(variable, rate * m / (ops.sqrt(v) + epsilon))

    def get_config(self):
        return {**super().get_config(), "bias_correction": self.bias_correction}


def _dense(gradient):
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def _summed_over_replicas(grads: list) -> list:
    """Gradients of the whole batch, where this runs as one of several replicas."""
    if keras.backend.backend() != "tensorflow":
        return grads
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or not tf.distribute.has_strategy():
        return grads
    given = [gradient for gradient in grads if gradient is not None]
    summed = iter(replica.all_reduce(tf.distribute.ReduceOp.SUM, given))
    return [gradient if gradient is None else next(summed) for gradient in grads]


def _can_fuse() -> bool:
    """Whether TensorFlow's own kernel can update the variables: not across replicas."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.distribute.has_strategy()


def _fused_adam(variable, m, v, gradient, lr, powers, betas, epsilon):
    """`BertAdamW._plain_adam` in one pass over memory, for the tables' sake."""
    import tensorflow as tf

    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=m.value.handle,
        v=v.value.handle,
        beta1_power=powers[0],
        beta2_power=powers[1],
        lr=lr,
        beta1=betas[0],
        beta2=betas[1],
        epsilon=epsilon,
        grad=gradient,
    )


def bert_adamw(
    learning_rate: float = 5e-5,
    *,
    total_steps: int | None = None,
    warmup_proportion: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    bias_correction: bool = False,
) -> BertAdamW:
    """BERT's recipe in one call: warmup, linear decay, weight decay off biases and norms, clipping.

    Args:
        learning_rate: the peak.
        total_steps: steps of the whole training (batches an epoch times epochs); None keeps the
            learning rate constant.
        warmup_proportion: part of `total_steps` that warms up.
        weight_decay: decoupled, on everything but biases and layer norms.
        clip_norm: bound on the global norm of the gradients.
        bias_correction: see `BertAdamW`.
    """
    if not 0 <= warmup_proportion < 1:
        raise ValueError(
            f"warmup_proportion is {warmup_proportion!r}; it is a part of the steps, from 0 to 1."
        )
    schedule = learning_rate
    if total_steps is not None:
        schedule = WarmupLinearDecay(
            learning_rate, total_steps, int(total_steps * warmup_proportion)
        )
    return BertAdamW(
        schedule,
        bias_correction=bias_correction,
        weight_decay=weight_decay,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        global_clipnorm=clip_norm,
    )


def language_model_adam(
    learning_rate: float = 2.5e-4,
    *,
    total_steps: int | None = None,
    warmup_steps: int = 0,
    floor: float = 0.004,
    clip_norm: float = 0.25,
) -> BertAdamW:
    """Transformer-XL's recipe in one call: Adam, warmup, cosine decay, clipping, no weight decay.

    Source: kimiyoung/transformer-xl tf/train_gpu.py.

    Args:
        learning_rate: the peak.
        total_steps: steps of the whole training; None keeps the learning rate constant.
        warmup_steps: steps that warm up.
        floor: the last learning rate, as a part of the peak.
        clip_norm: bound on the global norm of the gradients.
    """
    schedule = learning_rate
    if total_steps is not None:
        schedule = WarmupCosineDecay(learning_rate, total_steps, warmup_steps, floor)
    return BertAdamW(
        schedule,
        bias_correction=True,
        weight_decay=0.0,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        global_clipnorm=clip_norm,
    )
