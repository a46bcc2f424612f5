"""The original programs' optimizers and learning rate schedules.

Source: google-research/bert optimization.py, AdamWeightDecayOptimizer and create_optimizer;
google-research/albert lamb_optimizer.py; kimiyoung/transformer-xl tf/train_gpu.py; tensorflow/mesh optimize.py.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.graph import tf
from bert_zoo.private import merges_replicas

# Biases and norms do not decay. Kernels and embedding tables do, as in the original.
UNDECAYED = ("bias", "gamma", "beta")


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Base class of schedules that rise linearly from 0 during warmup, and stay at their minimum at the end."""

    def __init__(self, peak: float, total_steps: int, warmup_steps: int):
        super().__init__()
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ValueError(
                f"warmup_steps is {warmup_steps} and total_steps is {total_steps}; there must be at "
                "least one step, and no more warmup steps than steps."
            )
        self.peak, self.total_steps, self.warmup_steps = peak, total_steps, warmup_steps

    def decayed(self, step):
        """The fraction of the peak at a step after warmup, a float32 tensor."""
        raise NotImplementedError

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decayed = self.peak * self.decayed(step)
        if not self.warmup_steps:
            return decayed
        warming = self.peak * step / self.warmup_steps
        return ops.where(step < self.warmup_steps, warming, decayed)

    def get_config(self):
        """The arguments of the constructor, which are all kept by their names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupLinearDecay(WarmupDecay):
    """BERT's schedule: after warmup, falls on the line from the peak at step 0 to 0 at the last step.

    The warmup does not shift the line: right after it, the rate is peak * (1 - warmup / total), so the
    peak itself is never reached with a warmup.

    Args:
        peak: the learning rate at which the line starts.
        total_steps: number of updates of the whole training.
        warmup_steps: number of updates in which the rate rises linearly from 0.

    Source: google-research/bert optimization.py, create_optimizer.
    """

    def decayed(self, step):
        return ops.maximum(0.0, 1.0 - step / self.total_steps)


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupThenLinearDecay(WarmupDecay):
    """Rises linearly to the peak at the end of warmup, and falls linearly to 0 at the last step.

    Args:
        peak: the maximum learning rate.
        total_steps: number of updates of the whole training.
        warmup_steps: number of updates in which the rate rises from 0.

    Source: fairseq optim/lr_scheduler/polynomial_decay_schedule.py with power 1; SpanBERT
    code/pytorch_pretrained_bert/optimization.py, warmup_linear.
    """

    def decayed(self, step):
        falling = max(self.total_steps - self.warmup_steps, 1)
        return ops.clip((self.total_steps - step) / falling, 0.0, 1.0)


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupThenConstant(WarmupDecay):
    """Rises linearly to the peak during warmup, and stays there.

    Args:
        peak: the maximum learning rate.
        total_steps: number of updates of the whole training.
        warmup_steps: number of updates in which the rate rises from 0.
    """

    def decayed(self, step):
        return ops.ones_like(step)


@keras.saving.register_keras_serializable("bert_zoo")
class InverseSquareRootDecay(WarmupDecay):
    """T5's schedule: constant during warmup, then proportional to the inverse square root of the step.

    With T5's peak of 0.01 and 10,000 warmup steps, the rate is 1 / sqrt(max(step, 10,000)).

    Args:
        peak: the maximum learning rate.
        total_steps: number of updates of the whole training; the rate does not depend on it.
        warmup_steps: number of updates at the peak.

    Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.1.2; tensorflow/mesh
    transformer/learning_rate_schedules.py, truncated_rsqrt.
    """

    def __call__(self, step):
        steps = max(self.warmup_steps, 1)
        return self.peak * ops.sqrt(steps / ops.maximum(ops.cast(step, "float32"), steps))


@keras.saving.register_keras_serializable("bert_zoo")
class WarmupCosineDecay(WarmupDecay):
    """Rises linearly to the peak during warmup, and falls on half a cosine to a fraction of the peak.

    Args:
        peak: the maximum learning rate.
        total_steps: number of updates of the whole training.
        warmup_steps: number of updates in which the rate rises from 0.
        floor: the final rate, as a fraction of the peak.

    Source: kimiyoung/transformer-xl tf/train_gpu.py.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int, floor: float):
        super().__init__(peak, total_steps, warmup_steps)
        self.floor = floor

    def decayed(self, step):
        falling = max(self.total_steps - self.warmup_steps, 1)
        progress = ops.clip((step - self.warmup_steps) / falling, 0.0, 1.0)
        return self.floor + (1 - self.floor) * 0.5 * (1 + ops.cos(math.pi * progress))


@keras.saving.register_keras_serializable("bert_zoo")
class SlantedTriangular(WarmupDecay):
    """ULMFiT's schedule: rises linearly from peak / ratio to the peak, and falls linearly back.

    Args:
        peak: the maximum learning rate.
        total_steps: number of updates of the whole training.
        warmup_steps: number of updates in which the rate rises; a tenth of all in the paper.
        ratio: the peak divided by the lowest rate.

    Source: Howard and Ruder 2018 (arXiv:1801.06146), section 3.2, equation 3.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int, ratio: float = 32):
        super().__init__(peak, total_steps, warmup_steps)
        self.ratio = ratio

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / max(self.warmup_steps, 1)
        falling = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        part = ops.clip(ops.where(step < self.warmup_steps, rising, falling), 0.0, 1.0)
        return self.peak * (1 + part * (self.ratio - 1)) / self.ratio


class WholeBatchOptimizer:
    """Mixin for optimizers of Keras 3.15, listed first: replicas or accumulated batches train like one large batch."""

    clips_sum_of_replicas = True

    def apply(self, grads, trainable_variables=None):
        # Without any gradient, Keras raises an error.
        if keras.backend.backend() == "tensorflow" and any(g is not None for g in grads):
            if trainable_variables is not None:
                # JAX gives zeros for variables that the loss does not use, so they decay like all others.
                pairs = zip(grads, trainable_variables, strict=True)
                grads = [ops.zeros_like(v) if g is None else g for g, v in pairs]
            grads = self._of_whole_batch(grads)
        return super().apply(grads, trainable_variables)

    def _of_whole_batch(self, grads: list) -> list:
        """Sums TensorFlow's gradients over replicas, with the slices of tables made dense."""
        # Keras 3.15 would compute the norm over slices, which counts two uses of one token as two rows.
        # (Summing only over the rows that occurred, instead of dense tables, was no faster.)
        grads = [g if g is None else tf.convert_to_tensor(g) for g in grads]
        if not tf.distribute.has_strategy():
            return grads
        pairs = [(gradient, None) for gradient in grads]
        return [gradient for gradient, _ in super()._all_reduce_sum_gradients(pairs)]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Keras 3.15 sums gradients over replicas here, after each replica has clipped its own, so two
        # replicas would train differently from one. `apply` has already summed them.
        return grads_and_vars

    def _backend_apply_gradients(self, grads, trainable_variables):
        if not (self.gradient_accumulation_steps and _merges_replicas()):
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        # Replicas that update variables together cannot synchronize within a branch, as Keras 3.15 does
        # in steps that end an accumulation. So synchronize first, and branch afterwards.
        sums = [
            self._accumulated_gradients[self._get_variable_index(variable)]
            for variable in trainable_variables
        ]
        totals = [total + gradient for total, gradient in zip(sums, grads, strict=True)]
        means = [total / self.gradient_accumulation_steps for total in totals]
        self._backend_update_step(
            self._clip_gradients(means), trainable_variables, self.learning_rate
        )
        goes_on = ops.logical_not(self._ends_accumulation())
        _assign_on_replicas(sums, [ops.cast(goes_on, t.dtype) * t for t in totals])

    def _ends_accumulation(self):
        return (self._iterations + 1) % self.gradient_accumulation_steps == 0

    def _distributed_tf_update_step(self, *arguments):
        update = functools.partial(super()._distributed_tf_update_step, *arguments)
        if self.gradient_accumulation_steps and _merges_replicas():
            ops.cond(self._ends_accumulation(), update, lambda: None)
        else:
            update()

    def _get_current_learning_rate(self):
        # When accumulating, Keras 3.15 passes the number of batches to schedules, which would end too
        # early. `iterations` counts updates.
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()

    def _clip_gradients(self, grads):
        if not self.global_clipnorm or keras.backend.backend() != "tensorflow":
            return super()._clip_gradients(grads)
        # Keras 3.15 would write the squares of all gradients to memory.
        norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(g, "float32")) for g in grads]))
        return tf.clip_by_global_norm(grads, self.global_clipnorm, use_norm=norm)[0]


@keras.saving.register_keras_serializable("bert_zoo")
class BertAdamW(WholeBatchOptimizer, keras.optimizers.AdamW):
    """AdamW as in BERT: without bias correction, and without weight decay of biases and norms.

    With `gradient_accumulation_steps`, the mean of that many batches' gradients is clipped and applied
    once, with one weight decay. Schedules count updates, not batches. So k batches train like one batch
    of k times the size, if each batch has the same number of labels.

    Args:
        learning_rate: a number or a schedule.
        bias_correction: True gives the AdamW of Keras and fairseq, which makes fine-tuning on small
            data sets more stable (Mosbach et al. 2020, arXiv:2006.04884). PyTorch's only differs in
            adding epsilon after the correction of the second moment, not before.
        layer_decay: factor of the learning rate, and so of the weight decay, from each layer to the one
            below (Clark et al. 2020, arXiv:2003.10555). Requires a model of bert_zoo, whose
            `levels_below_head` finds the layers.
        updates_per_group: gradual unfreezing (Howard and Ruder 2018, arXiv:1801.06146, section 3.3):
            trains only the head at first, and one more layer after each such number of updates, the
            embeddings last. Frozen variables neither move nor decay, do not count in the clipped norm,
            and keep moments of zero. By default all are trained from the start. The state is
            `iterations` alone, so training can resume from any checkpoint.
        decay_all: whether biases and norms decay too, as in fairseq.
        **kwargs: as for `keras.optimizers.AdamW`.

    Raises:
        ValueError: `updates_per_group` or `layer_decay` is outside its range; or, when training
            starts, one of them is set and the model is not of bert_zoo.

    Source: google-research/bert optimization.py, AdamWeightDecayOptimizer.
    """

    def __init__(
        self,
        learning_rate=5e-5,
        *,
        bias_correction: bool = False,
        layer_decay: float | None = None,
        updates_per_group: int | None = None,
        decay_all: bool = False,
        **kwargs,
    ):
        check("updates_per_group", updates_per_group, int | None, least=1)
        check("layer_decay", layer_decay, float | None, above=0, most=1)
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.bias_correction, self.decay_all = bias_correction, decay_all
        self.layer_decay, self.updates_per_group = layer_decay, updates_per_group
        self._find_levels: Callable[[], Mapping[int, int]] | None = None
        if not decay_all:
            # In the constructor, because Keras saves optimizers without their exclusions.
            # TensorFlow's variables are named "bias:0", Keras's "bias".
            self.exclude_from_weight_decay(var_names=[rf"(^|/){name}(:0)?$" for name in UNDECAYED])

    def use_levels(self, find_levels: Callable[[], Mapping[int, int]]) -> None:
        """Sets the function id of a variable -> its level below the head; missing ones belong to the head.

        `ZooModel.compile` calls this. The function is called when training starts, as variables are final then.
        """
        self._find_levels = find_levels

    def build(self, variables):
        if self.built:
            return
        levels = (0,) * len(variables)
        settings = {"layer_decay": self.layer_decay, "updates_per_group": self.updates_per_group}
        by_layer = [f"{name}={value}" for name, value in settings.items() if value is not None]
        if by_layer:
            if self._find_levels is None:
                raise ValueError(
                    f"{by_layer[0]} requires a model's layers. Compile a model of bert_zoo.load() with this "
                    "optimizer: model.compile(optimizer=...)."
                )
            found = self._find_levels()
            levels = tuple(found.get(id(v), 0) for v in variables)
        decay = 1.0 if self.layer_decay is None else self.layer_decay
        self._parts_of_rate = tuple(decay**level for level in levels)
        # Levels without variables are no groups.
        groups = sorted({0, *levels})
        self._groups = tuple(groups.index(level) for level in levels)
        super().build(variables)

    def _is_unfrozen(self, variable):
        """A float32 scalar: 1 if a variable is unfrozen by now, else 0; None if it always is."""
        group = self._groups[self._get_variable_index(variable)]
        if self.updates_per_group is None or not group:
            return None
        return ops.cast(self.iterations >= group * self.updates_per_group, "float32")

    def _backend_apply_gradients(self, grads, trainable_variables):
        if self.updates_per_group is not None:
            factors = map(self._is_unfrozen, trainable_variables)
            grads = [
                gradient if factor is None else gradient * ops.cast(factor, gradient.dtype)
                for gradient, factor in zip(grads, factors, strict=True)
            ]
        super()._backend_apply_gradients(grads, trainable_variables)

    def _apply_weight_decay(self, variables):
        # `update_step` decays each variable at its own rate.
        pass

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        # Once for all variables, because smaller graphs are traced faster.
        rates = learning_rate, self._corrected(learning_rate)
        super()._backend_update_step(grads, trainable_variables, rates)

    def _corrected(self, learning_rate):
        """The learning rate with the moments' bias correction folded in."""
        if not self.bias_correction:
            return learning_rate
        of_first, of_second = self._corrections()
        return learning_rate * ops.sqrt(of_second) / of_first

    def _corrections(self) -> list:
        """The divisors of both moments, float32 scalars."""
        step = ops.cast(self.iterations + 1, "float32")
        return [1 - ops.power(beta, step) for beta in (self.beta_1, self.beta_2)]

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable; Keras calls this, with the pair of rates from `_backend_update_step`."""
        rate, corrected = (self._rate_of(variable, each) for each in learning_rate)
        if self.weight_decay and self._use_weight_decay(variable):
            # assign_sub of a product would access memory twice as often.
            self.assign(variable, variable * (1 - rate * self.weight_decay))
        update = self._fused_adam if _is_on_one_device_of_tensorflow() else self._plain_adam
        update(variable, ops.cast(gradient, variable.dtype), corrected)

    def _rate_of(self, variable, learning_rate):
        part = self._parts_of_rate[self._get_variable_index(variable)]
        rate = ops.cast(learning_rate, variable.dtype)
        rate = rate if part == 1 else rate * part
        factor = self._is_unfrozen(variable)
        return rate if factor is None else rate * ops.cast(factor, variable.dtype)

    def _moments(self, variable) -> tuple:
        index = self._get_variable_index(variable)
        return self._momentums[index], self._velocities[index]

    def _moved_moments(self, variable, gradient) -> tuple:
        """The moments after this step's gradient."""
        m, v = self._moments(variable)
        self.assign_add(m, (gradient - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(gradient) - v) * (1 - self.beta_2))
        return m, v

    def _plain_adam(self, variable, gradient, rate):
        m, v = self._moved_moments(variable, gradient)
        self.assign_sub(variable, rate * m / (ops.sqrt(v) + self.epsilon))

    def _fused_adam(self, variable, gradient, rate):
        """Does the same in one pass over memory.

        With `_plain_adam` a training step takes 16 to 23 % more processor time with bert_small (16 rows of
        64 tokens, two cores) and 11 to 16 % more with bert_base_uncased (8 rows).
        """
        m, v = self._moments(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.value.handle,
            v=v.value.handle,
            # The rate contains the correction.
            beta1_power=0.0,
            beta2_power=0.0,
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "bias_correction": self.bias_correction,
            "layer_decay": self.layer_decay,
            "updates_per_group": self.updates_per_group,
            "decay_all": self.decay_all,
        }


@keras.saving.register_keras_serializable("bert_zoo")
class BertLamb(BertAdamW):
    """LAMB as in ALBERT, for large batches: each step is a fraction of the variable's norm.

    The update, which includes the weight decay, is scaled to the norm of the variable and multiplied by
    the learning rate. Zero updates and zero variables are not scaled. Biases and norms are neither
    decayed nor scaled; they move as in `BertAdamW`. `keras.optimizers.Lamb` differs: it corrects the
    moments, decays outside the update and scales every variable.

    Args:
        learning_rate: a number or a schedule.
        decay_all: whether biases and norms are decayed and scaled too.
        **kwargs: as for `BertAdamW`.

    Source: You et al. 2019 (arXiv:1904.00962), algorithm 2, without bounds on the ratio;
    google-research/albert lamb_optimizer.py.
    """

    def update_step(self, gradient, variable, learning_rate):
        dtype = variable.dtype
        m, v = self._moved_moments(variable, ops.cast(gradient, dtype))
        corrections = [1.0, 1.0]
        if self.bias_correction:
            corrections = [ops.cast(each, dtype) for each in self._corrections()]
        update = m / corrections[0] / (ops.sqrt(v / corrections[1]) + self.epsilon)
        if self._use_weight_decay(variable):
            value = ops.convert_to_tensor(variable)
            update = update + (self.weight_decay or 0.0) * value
            norms = [ops.sqrt(ops.sum(ops.square(x))) for x in (value, update)]
            are_positive = ops.logical_and(norms[0] > 0, norms[1] > 0)
            ratio = ops.where(are_positive, ops.divide_no_nan(*norms), 1.0)
            update = ops.cast(ratio, dtype) * update
        self.assign_sub(variable, self._rate_of(variable, learning_rate[0]) * update)


@keras.saving.register_keras_serializable("bert_zoo")
class Adafactor(WholeBatchOptimizer, keras.optimizers.Adafactor):
    """Adafactor as in T5: no first moment, and steps proportional to each variable's root mean square.

    The original differs in three ways. It stores only factors of the second moment (Keras 3.15 also
    stores the full one), it factors only variables with two axes of at least 128, and it does not limit
    the rate to 1 / sqrt(step + 1). The limit has no effect with `InverseSquareRootDecay` and T5's settings.

    Args:
        learning_rate: a number or a schedule, the step relative to a variable's root mean square.
        relative_step: whether a constant rate falls over time.
        **kwargs: as for `keras.optimizers.Adafactor`.

    Source: Shazeer and Stern 2018 (arXiv:1804.04235), algorithm 4; tensorflow/mesh optimize.py,
    AdafactorOptimizer.
    """

    def __init__(self, learning_rate=1e-3, *, relative_step: bool = False, **kwargs):
        super().__init__(learning_rate, relative_step=relative_step, **kwargs)


@keras.saving.register_keras_serializable("bert_zoo")
class AveragedSGD(WholeBatchOptimizer, keras.optimizers.SGD):
    """SGD that averages weights once held-out losses no longer fall (NT-ASGD).

    At its end, `fit` replaces the model's weights by the averages, if averaging has started.

    Args:
        learning_rate: a constant rate.
        patience: number of losses without improvement that `average_if_stalled` tolerates.
        weight_decay: decoupled weight decay; None for none.
        **kwargs: as for `keras.optimizers.SGD`.

    Source: Merity et al. 2017 (arXiv:1708.02182), algorithm 1; salesforce/awd-lstm-lm main.py.
    """

    def __init__(self, learning_rate=30.0, *, patience: int = 5, weight_decay=1.2e-6, **kwargs):
        super().__init__(learning_rate, weight_decay=weight_decay, **{**kwargs, "use_ema": True})
        self.patience = patience

    def build(self, variables):
        if self.built:
            return
        # The update at which averaging started; 0 before.
        self.averages_from = self.add_variable(
            (), dtype=self._iterations.dtype, name="averages_from"
        )
        super().build(variables)

    def average_if_stalled(self, losses: Sequence[float]) -> None:
        """Starts averaging if the last loss is above the minimum of those more than `patience` losses earlier.

        Args:
            losses: all losses measured so far on held-out data, in order.
        """
        earlier = losses[: -self.patience - 1]
        if earlier and losses[-1] > min(earlier) and not ops.convert_to_numpy(self.averages_from):
            # An integer, because JAX would share a tensor's memory.
            self.averages_from.assign(int(ops.convert_to_numpy(self.iterations)))

    def _update_model_variables_moving_average(self, trainable_variables):
        # Keras 3.15 uses a constant momentum.
        updates = ops.cast(self.iterations - self.averages_from + 1, "float32")
        share = ops.where(self.averages_from > 0, 1 / updates, 1.0)
        pairs = zip(trainable_variables, self._model_variables_moving_average, strict=True)
        for variable, average in pairs:
            part = ops.cast(share, average.dtype)
            average.assign((1 - part) * average + part * variable)

    def finalize_variable_values(self, var_list):
        super().finalize_variable_values(var_list)
        if keras.backend.backend() == "jax":
            # Keras 3.15 leaves both in the same memory, which the next step on the weights frees.
            for average in self._model_variables_moving_average:
                average.assign(average + 0)

    def get_config(self):
        return {**super().get_config(), "patience": self.patience}


def _is_on_one_device_of_tensorflow() -> bool:
    """Whether TensorFlow runs without a strategy; its fused kernel cannot update replicas."""
    if keras.backend.backend() != "tensorflow":
        return False
    return not tf.distribute.has_strategy()


def _merges_replicas() -> bool:
    return keras.backend.backend() == "tensorflow" and merges_replicas()


def _assign_on_replicas(variables: list, values: list) -> None:
    """Sets variables from within replicas, which all hold the same values."""

    def assign(strategy, values):
        for variable, value in zip(variables, values, strict=True):
            strategy.extended.update(
                variable.value, lambda v, new: v.assign(new), args=(value,), group=False
            )

    tf.distribute.get_replica_context().merge_call(assign, args=(values,))


def bert_adamw(
    learning_rate: float = 5e-5,
    *,
    total_steps: int | None = None,
    warmup_proportion: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    bias_correction: bool = False,
    layer_decay: float | None = None,
    gradient_accumulation_steps: int | None = None,
) -> BertAdamW:
    """Makes BERT's optimizer: AdamW with warmup, linear decay, weight decay and clipping.

    Args:
        learning_rate: the peak.
        total_steps: number of updates of the whole training (batches per epoch times epochs, divided by
            `gradient_accumulation_steps`); None keeps the learning rate constant.
        warmup_proportion: fraction of `total_steps` in which the rate rises.
        weight_decay: decoupled weight decay, except of biases and layer norms.
        clip_norm: maximum global norm of the gradients.
        bias_correction, layer_decay: see `BertAdamW`.
        gradient_accumulation_steps: batches per update; see `BertAdamW`.

    Raises:
        ValueError: `warmup_proportion` or `layer_decay` is outside its range.
    """
    check("warmup_proportion", warmup_proportion, float, least=0, below=1)
    schedule = learning_rate
    if total_steps is not None:
        schedule = WarmupLinearDecay(
            learning_rate, total_steps, int(total_steps * warmup_proportion)
        )
    return BertAdamW(
        schedule,
        bias_correction=bias_correction,
        layer_decay=layer_decay,
        weight_decay=weight_decay,
        epsilon=1e-6,
        global_clipnorm=clip_norm,
        gradient_accumulation_steps=gradient_accumulation_steps,
    )


def feature_adam(learning_rate: float = 1e-3) -> BertAdamW:
    """Makes the optimizer for heads on a frozen encoder: Adam with a constant rate, without weight decay.

    Source: Peters et al. 2018 (arXiv:1802.05365), supplement.
    """
    return BertAdamW(
        learning_rate, bias_correction=True, weight_decay=0.0, epsilon=1e-8, global_clipnorm=1.0
    )


def language_model_adam(
    learning_rate: float = 2.5e-4,
    *,
    total_steps: int | None = None,
    warmup_steps: int = 0,
    floor: float = 0.004,
    clip_norm: float = 0.25,
) -> BertAdamW:
    """Makes Transformer-XL's optimizer: Adam with warmup, cosine decay and clipping, without weight decay.

    Args:
        learning_rate: the peak.
        total_steps: number of updates of the whole training; None keeps the learning rate constant.
        warmup_steps: number of updates in which the rate rises.
        floor: the final learning rate, as a fraction of the peak.
        clip_norm: maximum global norm of the gradients.

    Source: kimiyoung/transformer-xl tf/train_gpu.py.
    """
    schedule = learning_rate
    if total_steps is not None:
        schedule = WarmupCosineDecay(learning_rate, total_steps, warmup_steps, floor)
    return BertAdamW(
        schedule, bias_correction=True, weight_decay=0.0, epsilon=1e-8, global_clipnorm=clip_norm
    )
