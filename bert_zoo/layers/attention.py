"""Multi-head self-attention."""

import math

import keras
from keras import ops

from bert_zoo.layers.common import at_positions, dense
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.fused_attention import fused_context

# Added to the scores of padding. Large enough to vanish in the softmax of float32 and bfloat16,
# small enough that a row of padding alone stays finite; float16 overflows beyond 65504.
MASKED = {"float16": -6e4}
MASKED_DEFAULT = -1e9


def masked_score(dtype: str) -> float:
    """What is added to the score of a key that must not be seen."""
    return MASKED.get(dtype, MASKED_DEFAULT)


def attention_bias(padding_mask, dtype: str):
    """Turns a mask [batch, length], 1 for real tokens, into a bias [batch, 1, 1, length]."""
    bias = (1 - ops.cast(padding_mask, dtype)) * masked_score(dtype)
    # Not None in an index, which LiteRT's converter refuses where batch and length are free.
    return ops.expand_dims(bias, (1, 2))


def bias_between_documents(document_ids, dtype: str, of_keys=None):
    """A bias [batch, 1, length, keys] that keeps each token to its document; 0 is padding.

    `of_keys` are the documents of other keys than the tokens themselves.
    """
    of_keys = document_ids if of_keys is None else of_keys
    apart = ops.not_equal(document_ids[:, :, None], of_keys[:, None, :])
    is_padding = ops.equal(of_keys, 0)[:, None, :]
    hidden = ops.cast(ops.logical_or(apart, is_padding), dtype)
    return (hidden * masked_score(keras.backend.standardize_dtype(dtype)))[:, None]


def at_queries(scores, positions):
    """Scores [batch, heads, length, keys] of the queries at positions; see `at_positions`."""
    by_query = at_positions(ops.transpose(scores, (0, 2, 1, 3)), positions)
    return ops.transpose(by_query, (0, 2, 1, 3))


class SelfAttention(keras.layers.Layer):
    """Scaled dot-product attention with one fused query-key-value product.

    Source: Vaswani et al. 2017, section 3.2; google-research/bert modeling.py, attention_layer.

    Args:
        num_heads, hidden_size: heads, and the width of input and output.
        dropout: rate on the attention probabilities.
        use_bias: whether the products have biases.
        head_size: width of a head; by default the heads together are as wide as input and output.
        output_range: as `initializer_range`, of the last product; the same by default.
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
        head_size: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.hidden_size = hidden_size
        self.inner_size = num_heads * self.head_size  # of all heads
        options = {"use_bias": use_bias, "dtype": self.dtype_policy}
        self.make_projections(stddev=initializer_range, **options)
        self.output_dense = dense(
            hidden_size, "output", stddev=output_range or initializer_range, **options
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def make_projections(self, **options):
        """Makes the layers of queries, keys and values, with `options` of `dense`."""
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
            positions: int [batch, number] or `FIRST`: the tokens of each row that alone attend; to all
                of them. None for all.

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
        """What `call` returns, from heads [batch, length, heads, head_size] of all tokens."""
        if positions is not None:
            query = at_positions(query, positions)
            if bias.shape[2] != 1:
                bias = at_queries(bias, positions)
        context, probabilities = self.context_at(query, key, value, bias, training)
        return self.output_dense(ops.reshape(context, (-1, self.inner_size))), probabilities

    def context_at(self, query, key, value, bias, training):
        """As `weighted`, from heads [batch, queries, heads, head_size] and those of all tokens."""
        scale = 1 / math.sqrt(self.head_size)
        context = self.fused(query, key, value, bias, training, scale)
        query = ops.transpose(query, (0, 2, 1, 3)) * scale
        key = ops.transpose(key, (0, 2, 3, 1))
        value = ops.transpose(value, (0, 2, 1, 3))
        return self.weighted(query, key, value, bias, training, context)

    def fused(self, query, key, value, bias, training, scale: float = 1.0):
        """`fused_context` of these; None where probabilities are dropped, too, which no kernel does."""
        if self.dropout.is_active(training):
            return None
        return fused_context(query, key, value, bias, scale)

    def attended(self, query, key, value, bias, training, context=None):
        """What `call` returns.

        Args:
            query, key, value, bias, context: as of `weighted`.
        """
        context, probabilities = self.weighted(query, key, value, bias, training, context)
        return self.output_dense(ops.reshape(context, (-1, self.inner_size))), probabilities

    def weighted(self, query, key, value, bias, training, context=None):
        """The weighted values [batch, queries, heads, head_size], and the probabilities before dropout.

        Of a kernel's context, the probabilities are computed beside it; where nobody reads them, the
        compiler leaves them out.

        Args:
            query: [batch, heads, queries, head_size], scaled.
            key: [batch, heads, head_size, keys].
            value: [batch, heads, keys, head_size].
            bias: [batch, 1 or heads, 1 or queries, keys], added to the scores.
            context: what `fused` gave; None to compute it.
        """
        probabilities = ops.softmax(ops.matmul(query, key) + bias)
        if context is None:
            context = ops.matmul(self.dropout(probabilities, training=training), value)
            context = ops.transpose(context, (0, 2, 1, 3))
        return context, probabilities


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


def shifted_to_keys(scores):
    """From one column a distance to one column a key.

    Args:
        scores: [..., length, columns], of queries that are the last of the keys; column c of every row
            belongs to the distance keys - c.

    Returns:
        [..., length, columns - 1]; column j of row i holds the score of the distance from query i to
        key j, where there was a column for it. Others hold other rows' numbers, which the caller masks
        or cuts off.
    """
    # Read row by row, the wanted matrix is the given one without its first `length` numbers: each
    # row begins one distance later than the one above.
    *batch, length, columns = ops.shape(scores)
    flat = ops.reshape(scores, (*batch, length * columns))
    return ops.reshape(flat[..., length:], (*batch, length, columns - 1))
