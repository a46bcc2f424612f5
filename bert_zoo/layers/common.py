"""Shared parts of layers: initialisers, activations, dense layers, tables, norms, dropout, gradients, replicas."""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.graph import tf
from bert_zoo.private import is_in_loop, uses_onednn

# -------------------------------------------------------------------------------------------------
# Functions of many cheap operations with hand-written gradients, for training.
#
# The gradients that TensorFlow derives pass over memory more often and keep more tensors. Inference uses the
# plain formulas, which TensorFlow's optimizer recognises and fuses with matrix products.
# -------------------------------------------------------------------------------------------------


def gelu(x):
    """x times the standard normal distribution function of x (Hendrycks and Gimpel 2016). Half precision is computed in
    float32, for which TensorFlow's erf is fast on a CPU.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    precise = keras.backend.result_type(dtype, "float32")

    @private.custom_gradient
    def function(x):
        wide = ops.cast(x, precise)
        below = 0.5 + 0.5 * ops.erf(wide * math.sqrt(0.5))

        def gradient(upstream):
            # Cast again: in half precision, keeping both would take more memory.
            wide = ops.cast(x, precise)
            density = ops.exp(-0.5 * ops.square(wide)) * (1 / math.sqrt(2 * math.pi))
            return ops.cast(ops.cast(upstream, precise) * (below + wide * density), dtype)

        return ops.cast(wide * below, dtype), gradient

    return function(x)


def standardize(x, epsilon: float):
    """x with mean 0 and variance 1 over its last axis (`epsilon` is added to the variance), and the factor that scales
    it.
    """
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
    scale = ops.rsqrt(variance + epsilon)
    return centered * scale, scale


def standardized(x, epsilon: float):
    """The first result of `standardize`, with a faster gradient."""

    @private.custom_gradient
    def function(x):
        result, scale = standardize(x, epsilon)

        def gradient(upstream):
            mean = ops.mean(upstream, axis=-1, keepdims=True)
            along = ops.mean(upstream * result, axis=-1, keepdims=True)
            return scale * (upstream - mean - result * along)

        return result, gradient

    return function(x)


def over_replicas(count, how: str):
    """The "SUM" or "MEAN" of a number over all replicas; without replicas, the number itself."""
    replica = _replica()
    if replica is None:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp[how], tf.stop_gradient(count))


def _replica() -> Any:
    """TensorFlow's context of the replica that this runs in; None if there is only one."""
    if keras.backend.backend() != "tensorflow":
        return None
    replica = tf.distribute.get_replica_context()
    return None if replica is None or replica.num_replicas_in_sync == 1 else replica


def num_replicas() -> int:
    """The number of replicas of the strategy in scope, or of Keras's distribution on JAX."""
    if keras.backend.backend() != "tensorflow":
        distribution = keras.distribution.distribution()
        return distribution.num_model_replicas if distribution else 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sharing_replicas() -> int:
    """The number of replicas that a step's rows are divided between before `call`; on JAX `call` sees whole batches."""
    return num_replicas() if keras.backend.backend() == "tensorflow" else 1


# The position of each row's first token; see `at_positions`.
FIRST = slice(0, 1)

ACTIVATIONS: dict[str, Callable] = {
    "gelu": functools.partial(ops.gelu, approximate=False),
    "gelu_tanh": functools.partial(ops.gelu, approximate=True),
    "gelu_10": lambda x: ops.clip(ops.gelu(x, approximate=False), -10.0, 10.0),
    "hardswish": ops.hard_silu,
    # Ma et al. 2022 (MEGA, arXiv:2209.10655): a normal distribution function like the square of "relu".
    "laplace": lambda x: 0.5 * (1 + ops.erf((x - 0.707107) / (0.282095 * math.sqrt(2)))),
    "leaky_relu": functools.partial(ops.leaky_relu, negative_slope=0.01),
    "linear": keras.activations.linear,
    "mish": keras.activations.mish,
    "quick_gelu": lambda x: x * ops.sigmoid(1.702 * x),
    "relu": ops.relu,
    "relu2": lambda x: ops.square(ops.relu(x)),
    "relu6": ops.relu6,
    "sigmoid": ops.sigmoid,
    "silu": ops.silu,
    "sqrtsoftplus": lambda x: ops.sqrt(ops.softplus(x)),
    "tanh": ops.tanh,
}
# The same functions, some with faster gradients.
ACTIVATIONS_IN_TRAINING = ACTIVATIONS | {"gelu": gelu}


def initializer(stddev: float) -> keras.initializers.Initializer:
    """BERT's initializer. A new instance each time: Keras's draw the same values when reused."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(units: int, name: str, *, stddev: float, dtype, use_bias: bool = True):
    """A dense layer with BERT's initializer and no activation."""
    return keras.layers.Dense(
        units, use_bias=use_bias, kernel_initializer=initializer(stddev), dtype=dtype, name=name
    )


def table(rows: int, width: int, name: str, *, stddev: float, dtype):
    """An embedding table with BERT's initializer; None for 0 rows."""
    if not rows:
        return None
    return keras.layers.Embedding(
        rows, width, embeddings_initializer=initializer(stddev), dtype=dtype, name=name
    )


def float_table(layer: keras.layers.Embedding):
    """The table of an embedding layer [rows, width]; a quantized table is multiplied by its scales."""
    if layer.quantization_mode is None:
        return layer.embeddings
    return layer(ops.arange(layer.input_dim, dtype="int32"))


def float_rows(layer: keras.layers.Embedding, ids):
    """The rows of an embedding layer's table [..., width], as in `float_table`."""
    if layer.quantization_mode is None:
        return ops.take(layer.embeddings, ids, axis=0)
    return layer(ids)


def float_kernel(layer: keras.layers.Dense, inputs: int):
    """The kernel of a dense layer [inputs, units]; a quantized kernel is multiplied by its scales."""
    if layer.quantization_mode is None:
        return layer.kernel
    # One-hot rows are quantized without loss.
    kernel = layer(ops.eye(inputs, dtype=layer.compute_dtype))
    return kernel if layer.bias is None else kernel - ops.cast(layer.bias, kernel.dtype)


class Activation(keras.layers.Layer):
    """An activation function, a key of `ACTIVATIONS`, with a faster gradient in training if there is one."""

    def __init__(self, function: str, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.built = True

    def call(self, x, training=None):
        return (ACTIVATIONS_IN_TRAINING if training else ACTIVATIONS)[self.function](x)


class LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer norm with fewer passes over memory and a faster gradient in training."""

    def call(self, inputs, training=None):
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        precise = keras.backend.result_type(dtype, "float32")
        x = ops.cast(inputs, precise)
        x = standardized(x, self.epsilon) if training else standardize(x, self.epsilon)[0]
        x = x * ops.cast(self.gamma, precise)
        if self.center:
            x = x + ops.cast(self.beta, precise)
        return ops.cast(x, self.compute_dtype)


def norm(name: str, *, epsilon: float | None, dtype, use_bias: bool = True):
    """A layer norm; None for no epsilon."""
    if epsilon is None:
        return None
    return LayerNorm(epsilon=epsilon, center=use_bias, dtype=dtype, name=name)


def build_all(shape, *layers: keras.layers.Layer | None) -> None:
    """Builds those of the layers that there are and that are not built yet."""
    for layer in layers:
        if layer is not None and not layer.built:
            layer.build(shape)


def at_positions(x, positions):
    """The entries of x [batch, length, ...] at positions int [batch, number] (repeats allowed) or `FIRST`: [batch,
    number, ...].
    """
    if isinstance(positions, slice):
        return x[:, positions]
    batch, length, *rest = ops.shape(x)
    # Not take_along_axis, which would broadcast positions over all features.
    begins = ops.expand_dims(ops.arange(batch, dtype=positions.dtype) * length, 1)
    return ops.take(ops.reshape(x, (-1, *rest)), begins + positions, axis=0)


def number_of(positions):
    """The number of positions per row; see `at_positions`."""
    return 1 if isinstance(positions, slice) else ops.shape(positions)[1]


def in_rows(x, batch):
    """[batch * length, ...] as [batch, length, ...]. In an empty batch the length is 1: ONNX cannot infer a size beside
    a 0.
    """
    length = at_least_one(ops.shape(x)[0] // at_least_one(batch))
    return ops.reshape(x, (-1, length, *x.shape[1:]))


def at_least_one(size):
    """The size of a tensor's axis, but at least 1. Stays a Python number if it is one, as JAX needs."""
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)


def neighbours(x, step: int, document_ids=None):
    """For each token of x [batch, length, ...], the entry `step` tokens further (negative: earlier) in its document, or
    0. `document_ids` int [batch, length] number the documents of a row; None if rows are documents.
    """
    found = _shifted(x, step)
    if document_ids is None:
        return found
    is_same = ops.equal(_shifted(document_ids, step), document_ids)
    return found * ops.expand_dims(ops.cast(is_same, x.dtype), -1)


def _shifted(x, step: int):
    """[batch, length, ...] shifted so that each place has the entry `step` places further; 0 at the ends."""
    rest = [(0, 0)] * (len(x.shape) - 2)
    if step < 0:
        return ops.pad(x, [(0, 0), (-step, 0), *rest])[:, :step]
    return ops.pad(x, [(0, 0), (0, step), *rest])[:, step:]


def with_slots(memory, new, start, axis: int):
    """A memory whose slots (on `axis`) from `start` (int32 scalar) on, or the last ones if too few follow, hold `new`,
    of the same shape with fewer slots.
    """
    if keras.backend.backend() == "tensorflow" and is_in_loop():
        return _slots_in_place(memory, new, start, axis)
    begins = [0] * len(memory.shape)
    begins[axis] = start
    return ops.slice_update(memory, begins, new)


def _slots_in_place(memory, new, start, axis: int):
    """As `with_slots`, without copying memory that nothing else reads, as in a loop's steps. `ops.slice_update` copies
    it all in a program of XLA; LiteRT and ONNX do not have this operation.
    """
    slots, number = tf.shape(memory)[axis], tf.shape(new)[axis]
    start = tf.minimum(start, slots - number)
    at_axis = np.arange(len(memory.shape), dtype="int32") == axis
    all_else = sum(1 << other for other in range(len(memory.shape)) if other != axis)
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=memory,
        begin=tf.where(at_axis, start, 0),
        end=tf.where(at_axis, start + number, 0),
        strides=tf.ones(len(memory.shape), "int32"),
        value=new,
        begin_mask=all_else,
        end_mask=all_else,
    )


def vocabulary_logits(x, token_table, bias=None):
    """float32 logits [..., vocabulary]: x [..., width] times a table [vocabulary, width]."""
    table = ops.cast(token_table, x.dtype)
    if keras.backend.backend() == "tensorflow" and not uses_onednn():
        # Eigen copies the right factor, which for few rows takes 3 to 13 times as long as the product.
        rows = ops.reshape(x, (-1, x.shape[-1]))
        logits = ops.transpose(ops.matmul(table, ops.transpose(rows)))
        logits = ops.reshape(logits, (*ops.shape(x)[:-1], table.shape[0]))
    else:
        logits = ops.matmul(x, ops.transpose(table))
    logits = ops.cast(logits, "float32")
    return logits if bias is None else logits + ops.cast(bias, "float32")


def concrete(value: Any) -> np.ndarray | None:
    """The values of a tensor, or None while a graph or a trace is being built."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, keras.KerasTensor):
        return None
    if keras.backend.backend() == "jax":
        import jax

        return None if isinstance(value, jax.core.Tracer) else np.asarray(value)
    return value.numpy() if hasattr(value, "numpy") else None


# --- Dropout that draws different masks on every replica ---

# Distance between the replicas' seeds, larger than the number of draws of any training.
STRIDE = 1 << 40


class ReplicaSeeds(keras.random.SeedGenerator):
    """Seeds that differ between TensorFlow's replicas, although their state is the same. Keras 3.15 gives all replicas
    the same seeds (keras#20612), so row r of every replica's part of a batch loses the same units. On JAX one mask
    is drawn for the whole batch.
    """

    def next(self, ordered: bool = True):
        seed = super().next(ordered)
        replica = _replica()
        if replica is None:
            return seed
        return seed + [0, STRIDE] * ops.cast(replica.replica_id_in_sync_group, seed.dtype)


def _dropped(inputs, rate: float, seed):
    """As `keras.random.dropout` on TensorFlow, with 16 random bits per unit: Keras draws 32, and rounds them so
    coarsely in bfloat16 that a rate of 0.1 becomes 0.102.
    """
    # As in Keras: seeds are int64, with which XLA cannot draw.
    seed = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
    number = tf.size(inputs)
    pairs = tf.random.stateless_uniform([(number + 1) // 2], seed, None, None, tf.int32)
    drawn = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:number]
    stays = tf.reshape(drawn, tf.shape(inputs)) >= round(rate * 2**16)
    scaled = inputs * tf.cast(1 / (1 - rate), inputs.dtype)
    return tf.where(stays, scaled, tf.zeros([], inputs.dtype))


class Dropout(keras.layers.Layer):
    """Sets a part of its input to zero in training and scales up the rest (Srivastava et al. 2014).

    Unlike Keras's layer, it draws different masks on each of TensorFlow's replicas.

    Args:
        rate: fraction of the input that becomes zero, in [0, 1).
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.supports_masking = True
        if rate:
            self.seeds = ReplicaSeeds()
        self.built = True

    def is_active(self, training: bool | None) -> bool:
        """Whether a call with this `training` sets anything to zero."""
        return bool(training and self.rate)

    def call(self, inputs, training=None):
        if not self.is_active(training):
            return inputs
        if keras.backend.backend() != "tensorflow":
            return keras.random.dropout(inputs, self.rate, seed=self.seeds)
        return _dropped(inputs, self.rate, self.seeds.next())

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}


class RMSNorm(keras.layers.Layer):
    """Divides features by the root of their mean square (+ `epsilon`) and scales them (Zhang and Sennrich 2019)."""

    def __init__(self, epsilon: float, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.gamma = self.add_weight(shape=input_shape[-1:], initializer="ones", name="gamma")
        self.built = True

    def call(self, x, training=None):
        dtype = keras.backend.standardize_dtype(x.dtype)
        precise = ops.cast(x, keras.backend.result_type(dtype, "float32"))
        mean_square = ops.mean(ops.square(precise), axis=-1, keepdims=True)
        normed = precise * ops.rsqrt(mean_square + self.epsilon)
        normed = ops.cast(normed * ops.cast(self.gamma, normed.dtype), dtype)
        return self.dropout(normed, training=training)


def rms_norm(name: str, *, use_bias: bool, **options) -> RMSNorm:
    """An `RMSNorm`, for `make_norm` of `bert_zoo.layers.block.Block`; it has no bias."""
    return RMSNorm(name=name, **options)
