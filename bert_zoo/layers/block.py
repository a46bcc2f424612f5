"""Transformer blocks."""

import keras
from keras import ops

from bert_zoo.layers.common import at_positions, norm
from bert_zoo.layers.dropout import Dropout


class Block(keras.layers.Layer):
    """What a block consists of; subclasses say in which order.

    Args:
        attention: a layer (x, ...) -> (output, probabilities).
        feed_forward: a layer x -> output.
        epsilon: of both layer norms.
        dropout: rate on both sublayers' outputs.
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        *,
        epsilon: float,
        dropout: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention = attention
        self.attention_norm = norm("attention_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.feed_forward = feed_forward
        self.output_norm = norm("output_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        for layer in (self.attention, self.attention_norm, self.feed_forward, self.output_norm):
            layer.build(input_shape)
        self.built = True


class PostNormBlock(Block):
    """Attention and feed-forward, each followed by dropout, residual sum and layer norm.

    Source: google-research/bert modeling.py, transformer_model. Arguments: as `Block`.
    """

    def call(self, x, bias, positions=None, training=None):
        """As `SelfAttention.call`."""
        attended, probabilities = self.attention(x, bias, positions=positions, training=training)
        if positions is not None:
            rows = ops.reshape(x, (-1, ops.shape(bias)[-1], x.shape[-1]))
            x = ops.reshape(at_positions(rows, positions), (-1, x.shape[-1]))
        x = self.attention_norm(x + self.dropout(attended, training=training))
        x = self.output_norm(x + self.dropout(self.feed_forward(x), training=training))
        return x, probabilities
