"""Multi-head self-attention, its fused kernel, a bias by distance, and attention within windows."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.layers.block import Stack
from bert_zoo.layers.common import Dropout, at_positions, dense, initializer


def has_kernels() -> bool:
    """Whether fused kernels are available: with JAX on GPUs, unless Keras's flash attention is disabled."""
    return keras.config.is_flash_attention_enabled() is not False and _is_whole_on_gpu()


def fused_context(query, key, value, bias, scale: float = 1.0):
    """Values [batch, length, heads, head_size], weighted by the softmax of scores * `scale` + `bias` [batch, 1 or
    heads, 1 or queries, keys]. None if there is no kernel: on TensorFlow, on CPUs and TPUs, in float32, for a model
    divided over devices, for a bias per head, and for an odd number of queries or keys.
    """
    if not has_kernels():
        return None
    queries, keys = query.shape[1], key.shape[1]
    # A bias per head is learned, and some versions of JAX have the kernel's gradient for it only for a
    # batch of one (jax#30593). All gradients need even lengths, which Keras 3.15 does not check.
    if bias.shape[1] != 1 or queries % 2 or keys % 2:
        return None
    # Nor does the kernel take a bias that is the same for all queries (jax#28974).
    bias = ops.broadcast_to(bias, (bias.shape[0], 1, queries, keys))
    if not private.has_fused_attention(query, key, value, bias):
        return None
    return ops.dot_product_attention(query, key, value, bias=bias, scale=scale)


def _is_whole_on_gpu() -> bool:
    """Whether JAX computes on GPUs, with all heads of a row on the same GPU."""
    if keras.backend.backend() != "jax":
        return False
    distribution = keras.distribution.distribution()
    # The kernel refuses queries and keys that are divided differently, and XLA chooses how.
    if isinstance(distribution, keras.distribution.ModelParallel):
        return False
    # Not on TPUs, where Keras 3.15 does not pass the bias to its kernel (docs/measured/gpu.md), nor with a
    # strategy on CPUs in a machine with a GPU, which Keras would find.
    if distribution is not None:
        return distribution.device_mesh.devices[0].startswith("gpu")
    return keras.distribution.list_devices()[0].startswith("gpu")


# Added to the scores of padding: large enough to vanish in the softmax of float32 and bfloat16, and small
# enough that a row of nothing but padding stays finite. float16 overflows beyond 65504.
MASKED = {"float16": -6e4}
MASKED_DEFAULT = -1e9


def masked_score(dtype: Any) -> float:
    """The number to add to the score of a key that must not be seen, in a dtype of Keras or of its backend."""
    return MASKED.get(keras.backend.standardize_dtype(dtype), MASKED_DEFAULT)


def attention_bias(padding_mask, dtype: str):
    """Turns a mask [batch, length], 1 for real tokens, into a bias [batch, 1, 1, length]."""
    bias = (1 - ops.cast(padding_mask, dtype)) * masked_score(dtype)
    # Not None in an index: LiteRT's converter refuses that if batch and length are free.
    return ops.expand_dims(bias, (1, 2))


def bias_between_documents(document_ids, dtype: str, of_keys=None):
    """A bias [batch, 1, length, keys] that limits tokens to their document, by default also the keys'; 0 is padding."""
    of_keys = document_ids if of_keys is None else of_keys
    apart = ops.not_equal(document_ids[:, :, None], of_keys[:, None, :])
    is_padding = ops.equal(of_keys, 0)[:, None, :]
    hidden = ops.cast(ops.logical_or(apart, is_padding), dtype)
    return (hidden * masked_score(dtype))[:, None]


def at_queries(scores, positions):
    """Scores [batch, heads, length, keys] of the queries at positions; see `at_positions`."""
    by_query = at_positions(ops.transpose(scores, (0, 2, 1, 3)), positions)
    return ops.transpose(by_query, (0, 2, 1, 3))


class SelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention, with one fused query-key-value projection.

    Source: Vaswani et al. 2017, section 3.2; google-research/bert modeling.py, attention_layer.

    Args:
        num_heads: number of heads.
        hidden_size: width of input and output.
        dropout: rate on the attention probabilities.
        initializer_range: standard deviation of randomly initialised weights.
        output_range: the same for the output projection; by default `initializer_range`.
        use_bias: whether the projections have biases.
        output_bias: the same for the output projection; by default `use_bias`.
        head_size: width of a head; by default `hidden_size / num_heads`.
        scale: factor of the scores; by default `head_size` ** -0.5.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_size: int,
        *,
        dropout: float,
        initializer_range: float,
        output_range: float | None = None,
        use_bias: bool = True,
        output_bias: bool | None = None,
        head_size: int | None = None,
        scale: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.scale = 1 / math.sqrt(self.head_size) if scale is None else scale
        self.hidden_size = hidden_size
        self.inner_size = num_heads * self.head_size  # of all heads
        self.make_projections(stddev=initializer_range, use_bias=use_bias, dtype=self.dtype_policy)
        self.output_dense = dense(
            hidden_size,
            "output",
            stddev=output_range or initializer_range,
            use_bias=use_bias if output_bias is None else output_bias,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def make_projections(self, **options):
        """Creates the projections to queries, keys and values; `options` go to `dense`."""
        self.qkv = dense(3 * self.inner_size, "qkv", **options)

    def build(self, input_shape):
        self.qkv.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.inner_size))
        self.built = True

    def call(self, x, bias, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x: [batch * length, hidden_size].
            bias: [batch, 1 or heads, 1 or length, length], added to the scores; see `attention_bias`.
            positions: int [batch, number] or `FIRST`: only these tokens of each row attend (to all
                tokens). None for all.

        Returns:
            The output [batch * length or number, hidden_size], and the probabilities [batch, heads,
            length or number, length] before dropout.
        """
        length = ops.shape(bias)[-1]
        heads = (-1, length, self.num_heads, self.head_size)
        # Not slices: TensorFlow's gradient of a slice fills the whole product with zeros first.
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        return self.attend_at(query, key, value, bias, positions, training)

    def attend_at(self, query, key, value, bias, positions, training):
        """The results of `call`, from all tokens' heads [batch, length, heads, head_size]."""
        if positions is not None:
            query = at_positions(query, positions)
            if bias.shape[2] != 1:
                bias = at_queries(bias, positions)
        context, probabilities = self.context_at(query, key, value, bias, training)
        return self.output_dense(ops.reshape(context, (-1, self.inner_size))), probabilities

    def context_at(self, query, key, value, bias, training):
        """As `weighted`, from queries [batch, queries, heads, head_size] and all tokens' keys and values."""
        context = self.fused(query, key, value, bias, training, self.scale)
        query = ops.transpose(query, (0, 2, 1, 3)) * self.scale
        key = ops.transpose(key, (0, 2, 3, 1))
        value = ops.transpose(value, (0, 2, 1, 3))
        return self.weighted(query, key, value, bias, training, context)

    def fused(self, query, key, value, bias, training, scale: float = 1.0):
        """`fused_context` of these; also None if probabilities are dropped out, as no kernel does that."""
        if self.dropout.is_active(training):
            return None
        return fused_context(query, key, value, bias, scale)

    def attended(self, query, key, value, bias, training, context=None):
        """The results of `call`; arguments as in `weighted`."""
        context, probabilities = self.weighted(query, key, value, bias, training, context)
        return self.output_dense(ops.reshape(context, (-1, self.inner_size))), probabilities

    def weighted(self, query, key, value, bias, training, context=None):
        """The weighted values [batch, queries, heads, head_size], and the probabilities before dropout.

        If a kernel has computed the context, the probabilities are computed separately; the compiler
        removes them if they are not used.

        Args:
            query: [batch, heads, queries, head_size], scaled.
            key: [batch, heads, head_size, keys].
            value: [batch, heads, keys, head_size].
            bias: [batch, 1 or heads, 1 or queries, keys], added to the scores.
            context: the result of `fused`; None to compute it here.
        """
        probabilities = ops.softmax(ops.matmul(query, key) + bias)
        if context is None:
            context = ops.matmul(self.dropout(probabilities, training=training), value)
            context = ops.transpose(context, (0, 2, 1, 3))
        return context, probabilities


def causal_bias(length, num_keys, span: int | None, dtype: str):
    """A bias for scores [length, num_keys] of queries at the last keys' positions, which see themselves and earlier
    keys: at most `span` in all, or any number for None.
    """
    queries = ops.arange(num_keys - length, num_keys)[:, None]
    keys = ops.arange(num_keys)[None, :]
    hidden = keys > queries
    if span is not None:
        hidden = ops.logical_or(hidden, keys <= queries - span)
    return ops.cast(hidden, dtype) * masked_score(dtype)


def shifted_to_keys(scores, keys):
    """Turns scores with a column per distance, [..., length, columns], into scores with a column per key, [..., length,
    keys]. Queries are at the positions of the last keys; column c of every row belongs to the distance keys - c, and
    keys < columns. Where no column has the distance of a key, there are numbers from other rows, which the caller
    must mask.
    """
    # Read row by row, the result is the input without its first `length` numbers: each row starts one
    # distance later than the row above. Not written with indices: on CPUs, TensorFlow 2.21 takes some ten
    # times as long for the gradient of a strided slice. The sizes are written out, because tf2onnx 1.17 takes -1
    # beside a size that is not constant for the place before the last.
    *batch, length, columns = ops.shape(scores)
    flat = ops.reshape(scores, (-1, length * columns))
    flat = ops.slice(flat, (0, length), (ops.shape(flat)[0], length * (columns - 1)))
    rows = ops.reshape(flat, (-1, columns - 1))
    rows = ops.slice(rows, (0, 0), (ops.shape(rows)[0], keys))
    return ops.reshape(rows, (*batch, length, keys))


def far_buckets(num_buckets: int, max_distance: int) -> list[int]:
    """The shortest distance of each bucket after the first bucket that holds several distances. Half of the
    `num_buckets` hold one distance each, 0, 1, 2, ... The others grow by a factor up to `max_distance`; the last
    also holds all longer distances. Computed with integers, because floating-point logarithms may fall on either
    side of a bound.
    """
    single = num_buckets // 2
    wide = num_buckets - single
    bounds, distance = [], single
    for number in range(1, wide):
        # distance >= single * (max_distance / single) ** (number / wide)
        while distance**wide < single ** (wide - number) * max_distance**number:
            distance += 1
        bounds.append(distance)
    return bounds


class RelativeBias(keras.layers.Layer):
    """Attention bias by distance: one number per head and bucket of distances.

    Source: Raffel et al. 2020 (arXiv:1910.10683), section 2.1; Song et al. 2020 (MPNet,
    arXiv:2004.09297).

    Args:
        num_heads: number of heads.
        initializer_range: standard deviation of the randomly initialised table.
        num_buckets: rows of the table. Unless causal, the second half is for keys after the query.
        max_distance: distances from this on share a bucket.
        causal: whether queries see no later keys, so that all buckets are for earlier ones.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        initializer_range: float,
        num_buckets: int = 32,
        max_distance: int = 128,
        causal: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.causal = causal
        self.buckets_a_side = num_buckets if causal else num_buckets // 2
        self.far_buckets = far_buckets(self.buckets_a_side, max_distance)
        self.initializer_range = initializer_range

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer=initializer(self.initializer_range),
            name="embeddings",
        )
        self.built = True

    def call(self, x):
        """The bias [1, heads, length, length] for x [batch, length, ...]; only the shape of x is read."""
        length = ops.shape(x)[1]
        by_offset = self.at(ops.arange(1 - length, length))
        keys = ops.arange(length)
        return ops.take(by_offset, keys[None, :] - keys[:, None] + length - 1, axis=1)[None]

    def at(self, offsets):
        """The bias [heads, ...] at offsets from query to key, int [...]."""
        distances = ops.maximum(-offsets, 0) if self.causal else ops.abs(offsets)
        buckets = ops.minimum(distances, self.buckets_a_side // 2)
        for bound in self.far_buckets:
            buckets = buckets + ops.cast(distances >= bound, buckets.dtype)
        if not self.causal:
            buckets = buckets + ops.cast(offsets > 0, buckets.dtype) * self.buckets_a_side
        table = ops.cast(self.embeddings, self.compute_dtype)
        return ops.moveaxis(ops.take(table, buckets, axis=0), -1, 0)


class BiasedStack(Stack):
    """A `Stack` whose blocks all add the same `RelativeBias` to their scores."""

    def __init__(self, blocks, hidden_size: int, relative_bias: RelativeBias, **options):
        super().__init__(blocks, hidden_size, **options)
        self.relative_bias = relative_bias

    def build(self, input_shape):
        super().build(input_shape)
        self.relative_bias.build(None)

    def call(self, x, bias, positions=None, training=None):
        bias = bias + self.relative_bias(x)
        return super().call(x, bias, positions=positions, training=training)


# --- Attention within windows: blocks of tokens, their neighbours and the bias of scores ---
# Rows are cut into blocks of half a window. A token's window then lies in its own block and the two next to it, so
# time and memory grow linearly with the length.

# In longer rows, this many queries at a time attend to all tokens: the scores between 8,192 tokens take
# 3 GB in float32 with twelve heads.
QUERIES_AT_ONCE = 1024


def in_blocks(x, size: int, with_ends: bool = False):
    """Cuts [batch, length, ...] into blocks [batch, blocks, size, ...], padded with zeros.

    With `with_ends` there is one more block of zeros at each end, for the neighbours of the outer blocks.
    """
    length = ops.shape(x)[1]
    # Not -length % size: tf2onnx 1.17 rounds quotients of integers towards zero.
    blocks = (length + size - 1) // size
    ends = size if with_ends else 0
    widths = [[0, 0], [ends, ends + blocks * size - length], *([0, 0] for _ in x.shape[2:])]
    padded = ops.pad(x, widths)
    return ops.reshape(padded, (-1, ops.shape(padded)[1] // size, size, *x.shape[2:]))


def with_neighbours(blocks, axis: int, first=None):
    """Joins each block [batch, ..., blocks + 2, ...] (third axis; content on `axis`) with its two neighbours: two
    blocks fewer. `first` is put before every block; its third axis has size 1.
    """
    parts = [blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]]
    if first is not None:
        shape = [*ops.shape(first)[:2], ops.shape(parts[0])[2], *first.shape[3:]]
        parts.insert(0, ops.broadcast_to(first, shape))
    return ops.concatenate(parts, axis=axis)


def attended_in_blocks(query, key, value, bias, dropout, first=None):
    """Attends from heads [batch, length, heads, head_size] (queries scaled) to their own block and its two neighbours.
    `bias` is [batch, 1, blocks, block, keys]; `first` has more keys and values [batch, number, heads, head_size],
    which every query sees before those of its blocks; `dropout` is a function of the probabilities. Returns the
    weighted values in the queries' shape, and the probabilities [batch, heads, blocks, block, keys] before dropout.
    """
    length, size = ops.shape(query)[1], bias.shape[3]
    query = ops.transpose(in_blocks(query, size), (0, 3, 1, 2, 4))
    key, value = (in_blocks(part, size, with_ends=True) for part in (key, value))
    keys = values = None
    if first is not None:
        keys, values = (ops.expand_dims(part, 1) for part in first)
        keys = ops.transpose(keys, (0, 3, 1, 4, 2))
        values = ops.transpose(values, (0, 3, 1, 2, 4))
    key = with_neighbours(ops.transpose(key, (0, 3, 1, 4, 2)), axis=-1, first=keys)
    value = with_neighbours(ops.transpose(value, (0, 3, 1, 2, 4)), axis=-2, first=values)
    probabilities = ops.softmax(ops.matmul(query, key) + bias)
    context = ops.transpose(ops.matmul(dropout(probabilities), value), (0, 2, 3, 1, 4))
    context = ops.reshape(context, (-1, ops.shape(context)[1] * size, *context.shape[3:]))
    return context[:, :length], probabilities


def window_bias(mask, document_ids, reach: int, dtype: str):
    """A bias [batch, 1, length, length] that hides padding, other documents and tokens further than `reach` away.
    `mask` is int [batch, length], 1 for tokens; so are `document_ids`, None if each row is one document.
    """
    places = ops.arange(ops.shape(mask)[1])
    offsets = ops.expand_dims(places, 0) - ops.expand_dims(places, 1)
    seen = ops.logical_and(ops.abs(offsets) <= reach, ops.cast(ops.expand_dims(mask, 1), "bool"))
    if document_ids is not None:
        same = ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))
        seen = ops.logical_and(seen, same)
    return hidden_by(seen, dtype)


def window_bias_in_blocks(mask, document_ids, reach: int, dtype: str):
    """As `window_bias`, for blocks of `reach` tokens: [batch, 1, blocks, reach, 3 * reach]."""

    def keys(ids):
        """[batch, blocks, 1, 3 * reach]."""
        blocks = ops.expand_dims(in_blocks(ids, reach, with_ends=True), 1)
        return ops.transpose(with_neighbours(blocks, axis=-1), (0, 2, 1, 3))

    offsets = np.arange(3 * reach) - reach - np.arange(reach)[:, None]  # from query to key
    near = ops.convert_to_tensor(np.abs(offsets) <= reach)
    seen = ops.logical_and(near, ops.cast(keys(mask), "bool"))
    if document_ids is not None:
        queries = ops.expand_dims(in_blocks(document_ids, reach), 3)
        seen = ops.logical_and(seen, ops.equal(queries, keys(document_ids)))
    return hidden_by(seen, dtype)


def hidden_by(seen, dtype: str):
    """A bias for all heads, [batch, 1, ...], from a mask of what is seen, bool [batch, ...]."""
    # Not None in an index; see `attention_bias`.
    return ops.expand_dims((1 - ops.cast(seen, dtype)) * masked_score(dtype), 1)


def out_of_blocks(probabilities, length, positions):
    """Turns probabilities [batch, heads, blocks, block, 3 * block] into [batch, heads, queries, length], for all
    queries or those at `positions` (see `at_positions`).
    """
    batch, heads, blocks = ops.shape(probabilities)[:3]
    size = probabilities.shape[-1] // 3
    rows = ops.reshape(probabilities, (-1, heads, blocks * size, 3 * size))[:, :, :length]
    queries = ops.broadcast_to(ops.arange(length, dtype="int32")[None], (batch, length))
    if positions is not None:
        rows, queries = at_queries(rows, positions), at_positions(queries, positions)
    keys = ops.arange(length, dtype="int32") - ((queries // size - 1) * size)[:, None, :, None]
    is_there = ops.logical_and(keys >= 0, keys < 3 * size)
    shape = (*ops.shape(rows)[:3], length)
    found = ops.take_along_axis(rows, ops.broadcast_to(ops.clip(keys, 0, 3 * size - 1), shape), -1)
    return ops.where(is_there, found, 0)


def some_at_a_time(query, bias, places=None) -> list[tuple]:
    """Queries [batch, length, heads, head_size], their bias and their positions [batch, length]; long rows in parts."""
    length = query.shape[1]
    if length is None or length <= QUERIES_AT_ONCE:
        return [(query, bias, places)]
    parts = (slice(i, i + QUERIES_AT_ONCE) for i in range(0, length, QUERIES_AT_ONCE))
    return [
        (
            query[:, p],
            bias if bias.shape[2] == 1 else bias[:, :, p],
            None if places is None else places[:, p],
        )
        for p in parts
    ]


def joined(parts, axis: int):
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis)
