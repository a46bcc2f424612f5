"""Attention over a segment and the memory before it, by content and by distance."""

import math

import keras
from keras import ops

from bert_zoo.layers.attention import masked_score
from bert_zoo.layers.common import dense, initializer
from bert_zoo.layers.dropout import Dropout


def distance_embedding(num_keys: int, width: int, clamp_len: int, dtype: str):
    """Sinusoids of the distances from a query to keys (Dai et al. 2019, section 3.3).

    Computed in float32 throughout, as the originals do: what rounding leaves of large angles is part
    of the numbers that their models were trained with.

    Args:
        num_keys: keys of the last query; may be a tensor.
        width: of the embedding, sines first and cosines after them.
        clamp_len: distances beyond this count as this; none do where it is not positive.
        dtype: of the result.

    Returns:
        [num_keys + 1, width], for the distances num_keys, ..., 1, 0. The first is that of no key: it
        fills the column that `shifted_to_keys` moves out of sight.
    """
    distances = ops.cast(ops.arange(num_keys, -1, -1), "float32")
    if clamp_len > 0:
        distances = ops.minimum(distances, float(clamp_len))
    frequencies = 1 / (10000.0 ** (ops.arange(0, width, 2, dtype="float32") / width))
    angles = distances[:, None] * frequencies[None, :]
    return ops.cast(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1), dtype)


def shifted_to_keys(scores, num_keys):
    """From one column a distance to one column a key.

    Args:
        scores: [..., length, num_keys + 1]; column c of every row belongs to the distance
            num_keys - c.
        num_keys: an integer, or a tensor.

    Returns:
        [..., length, num_keys]; column j of row i holds the score of the distance from query i to
        key j. Keys after their query hold other rows' numbers, which the caller masks.
    """
    # Read row by row, the wanted matrix is the given one without its first `length` numbers: each
    # row begins one distance later than the one above.
    *batch, length, _ = ops.shape(scores)
    flat = ops.reshape(scores, (*batch, length * (num_keys + 1)))
    return ops.reshape(flat[..., length:], (*batch, length, num_keys))


def causal_bias(length, num_keys, span: int | None, dtype: str):
    """What is added to scores [length, num_keys] so that queries, the last keys, see their past alone.

    A query sees `span` keys at most, its own position among them; None stands for all.
    """
    queries = ops.arange(num_keys - length, num_keys)[:, None]
    keys = ops.arange(num_keys)[None, :]
    hidden = keys > queries
    if span is not None:
        hidden = ops.logical_or(hidden, keys <= queries - span)
    return ops.cast(hidden, dtype) * masked_score(dtype)


class RelativeAttention(keras.layers.Layer):
    """Transformer-XL's attention: the sum of four terms (Dai et al. 2019, section 3.3).

    (a) query and key, (b) query and distance, (c) the bias u and key, (d) the bias v and distance.
    Source: kimiyoung/transformer-xl tf/model.py, rel_multihead_attn.

    Args:
        num_heads, head_size: heads, and the width of each.
        hidden_size: width of input and output.
        dropout: rate on the attention probabilities.
        has_biases: whether u and v are this layer's own; they are given to `call` otherwise.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        hidden_size: int,
        *,
        dropout: float,
        has_biases: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.hidden_size = hidden_size
        self.has_biases = has_biases
        self.initializer_range = initializer_range
        self.width = num_heads * head_size
        options = {"stddev": initializer_range, "dtype": self.dtype_policy, "use_bias": False}
        self.qkv = dense(3 * self.width, "qkv", **options)
        self.position = dense(self.width, "position", **options)
        self.output_dense = dense(hidden_size, "output", **options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.qkv.build(input_shape)
        self.position.build(input_shape)
        self.output_dense.build((None, self.width))
        if self.has_biases:
            add_biases(self)
        self.built = True

    def call(self, x, memory, distances, bias, shared_biases=None, training=None):
        """Attends from a segment to itself and to what is remembered.

        Args:
            x: [batch * length, hidden_size].
            memory: [batch, memory length, hidden_size], of what came before.
            distances: [memory length + length + 1, hidden_size]; see `distance_embedding`.
            bias: [length, keys] or [batch, 1, length, keys], added to the scores.
            shared_biases: (u, v), each [heads, head_size], where the layer has none of its own.

        Returns:
            The output, as x, and the probabilities [batch, heads, length, keys] before dropout.
        """
        length, num_keys = ops.shape(bias)[-2:]
        u, v = (self.content_bias, self.position_bias) if self.has_biases else shared_biases
        heads = (-1, length, self.num_heads, self.head_size)
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        old_key, old_value = self._remembered(memory)
        key = ops.concatenate([old_key, key], axis=1)
        value = ops.concatenate([old_value, value], axis=1)

        scale = 1 / math.sqrt(self.head_size)
        by_content = (query + ops.cast(u, query.dtype)) * scale
        by_distance = (query + ops.cast(v, query.dtype)) * scale
        content = ops.matmul(
            ops.transpose(by_content, (0, 2, 1, 3)), ops.transpose(key, (0, 2, 3, 1))
        )
        distance = ops.matmul(
            ops.transpose(by_distance, (0, 2, 1, 3)), self._distance_keys(distances)
        )
        scores = content + shifted_to_keys(distance, num_keys) + bias
        probabilities = ops.softmax(scores)
        context = ops.matmul(
            self.dropout(probabilities, training=training), ops.transpose(value, (0, 2, 1, 3))
        )
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, self.width))
        return self.output_dense(context), probabilities

    def _remembered(self, memory):
        """Keys and values [batch, memory length, heads, head_size]; nothing asks from the memory."""
        batch, length, _ = ops.shape(memory)
        kernel = ops.cast(self.qkv.kernel, memory.dtype)[:, self.width :]
        flat = ops.matmul(ops.reshape(memory, (-1, self.hidden_size)), kernel)
        shape = (batch, length, self.num_heads, self.head_size)
        return (ops.reshape(part, shape) for part in ops.split(flat, 2, -1))

    def _distance_keys(self, distances):
        """[distances, hidden_size] to [heads, head_size, distances]."""
        keys = ops.reshape(self.position(distances), (-1, self.num_heads, self.head_size))
        return ops.transpose(keys, (1, 2, 0))


def add_biases(layer: keras.layers.Layer) -> None:
    """Gives a layer the biases u and v, `content_bias` and `position_bias` [heads, head_size]."""
    for name in ("content_bias", "position_bias"):
        shape, start = (layer.num_heads, layer.head_size), initializer(layer.initializer_range)
        setattr(layer, name, layer.add_weight(shape=shape, initializer=start, name=name))
