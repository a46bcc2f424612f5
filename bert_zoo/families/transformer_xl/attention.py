"""Attention by content and by distance, over a segment and the memory before it."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.layers.attention import shifted_to_keys
from bert_zoo.layers.common import dense, float_kernel, initializer
from bert_zoo.layers.dropout import Dropout


def distance_embedding(num_keys: int, width: int, clamp_len: int, dtype: str, ahead: int = 0):
    """Sinusoids of the distances from a query to keys (Dai et al. 2019, section 3.3).

    Computed in float32 throughout, as in the originals: their models were trained with float32's rounding
    of large angles.

    Args:
        num_keys: number of keys that the last query sees; may be a tensor.
        width: width of the embedding: sines, then cosines.
        clamp_len: longer distances count as this; not limited if it is not positive.
        dtype: dtype of the result.
        ahead: number of keys after a query; may be a tensor.

    Returns:
        [num_keys + 1 + ahead, width], for the distances num_keys, ..., 1, 0, -1, ..., -ahead. No key has the
        first distance; it fills the column that `shifted_to_keys` drops.
    """
    distances = ops.cast(ops.arange(num_keys, -1 - ahead, -1), "float32")
    if clamp_len > 0:
        distances = ops.clip(distances, -float(clamp_len), float(clamp_len))
    frequencies = 1 / (10000.0 ** (ops.arange(0, width, 2, dtype="float32") / width))
    angles = distances[:, None] * frequencies[None, :]
    return ops.cast(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1), dtype)


class RelativeAttention(keras.layers.Layer):
    """Transformer-XL's attention by content and distance (Dai et al. 2019, section 3.3).

    Scores are the sum of four terms: (a) query and key, (b) query and distance, (c) the bias u and key,
    (d) the bias v and distance.
    Source: kimiyoung/transformer-xl tf/model.py, rel_multihead_attn.

    Args:
        num_heads, head_size: number of heads, and their width.
        hidden_size: width of input and output.
        dropout: rate on the attention probabilities.
        has_biases: whether the layer has its own u and v; otherwise `call` takes them.
        initializer_range: standard deviation of randomly initialised weights.
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
        """Attends from a segment to itself and to the memory.

        Args:
            x: [batch * length, hidden_size].
            memory: [batch, memory length, hidden_size], the earlier inputs.
            distances: [memory length + length + 1, hidden_size]; see `distance_embedding`.
            bias: [length, keys] or [batch, 1, length, keys], added to the scores.
            shared_biases: (u, v), each [heads, head_size], if the layer has no biases.

        Returns:
            The output [batch * length, hidden_size], and the probabilities [batch, heads, length, keys]
            before dropout.
        """
        query, key, value = self.projected(x, ops.shape(bias)[-2])
        key, value = self.after_memory(memory, key, value)
        biases = (self.content_bias, self.position_bias) if self.has_biases else shared_biases
        by_content, by_distance = self.scores(query, key, self.distance_keys(distances), biases)
        scores = by_content + shifted_to_keys(by_distance, ops.shape(key)[1]) + bias
        context, probabilities = self.attended(scores, value, training)
        return self.output_dense(ops.reshape(context, (-1, self.width))), probabilities

    def projected(self, x, length):
        """Queries, keys and values [batch, length, heads, head_size] of x [batch * length, hidden_size]."""
        heads = (-1, length, self.num_heads, self.head_size)
        return [ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1)]

    def after_memory(self, memory, key, value):
        """Keys and values of the memory, if there is one, followed by those of the segment."""
        if memory is None:
            return key, value
        old_key, old_value = self._remembered(memory)
        return ops.concatenate([old_key, key], axis=1), ops.concatenate([old_value, value], axis=1)

    def scores(self, query, key, distance_keys, biases):
        """The scores [batch, heads, length, ...] by key, and by distance.

        Args:
            query, key: [batch, length or keys, heads, head_size].
            distance_keys: [heads, head_size, distances].
            biases: (u, v), each [heads, head_size].
        """
        by_content, by_distance = (self.scaled(query, bias) for bias in biases)
        content = ops.matmul(by_content, ops.transpose(key, (0, 2, 3, 1)))
        return content, ops.matmul(by_distance, distance_keys)

    def scaled(self, query, bias):
        """Queries plus a bias [heads, head_size], scaled: [batch, heads, length, head_size]."""
        scale = 1 / math.sqrt(self.head_size)
        return ops.transpose((query + ops.cast(bias, query.dtype)) * scale, (0, 2, 1, 3))

    def attended(self, scores, value, training):
        """Weighted values [batch, length, heads, head_size], and probabilities [batch, heads, length, keys]."""
        probabilities = ops.softmax(scores)
        context = ops.matmul(
            self.dropout(probabilities, training=training), ops.transpose(value, (0, 2, 1, 3))
        )
        return ops.transpose(context, (0, 2, 1, 3)), probabilities

    def _remembered(self, memory):
        """Keys and values [batch, memory length, heads, head_size]; the memory needs no queries."""
        batch, length, _ = ops.shape(memory)
        kernel = ops.cast(float_kernel(self.qkv, self.hidden_size), memory.dtype)
        flat = ops.matmul(ops.reshape(memory, (-1, self.hidden_size)), kernel[:, self.width :])
        shape = (batch, length, self.num_heads, self.head_size)
        return (ops.reshape(part, shape) for part in ops.split(flat, 2, -1))

    def distance_keys(self, distances):
        """[distances, hidden_size] to [heads, head_size, distances]."""
        keys = ops.reshape(self.position(distances), (-1, self.num_heads, self.head_size))
        return ops.transpose(keys, (1, 2, 0))


def add_biases(
    layer: keras.layers.Layer, names: Sequence[str] = ("content_bias", "position_bias")
) -> None:
    """Gives a layer biases [heads, head_size], u and v by default."""
    for name in names:
        shape, start = (layer.num_heads, layer.head_size), initializer(layer.initializer_range)
        setattr(layer, name, layer.add_weight(shape=shape, initializer=start, name=name))
