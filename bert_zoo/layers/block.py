"""Transformer blocks."""

from collections.abc import Callable

import keras
from keras import ops

from bert_zoo.layers.common import at_positions, in_rows, norm, number_of
from bert_zoo.layers.dropout import Dropout


class Block(keras.layers.Layer):
    """The parts of a block; subclasses define their order.

    Args:
        attention: a layer (x, ...) -> (output, probabilities).
        feed_forward: a layer x -> output.
        epsilon: number that both layer norms add to the variance.
        dropout: rate on both sublayers' outputs.
        norm_bias: whether the layer norms have biases.
        norm_first: whether attention has a norm. The first block of a stack may go without, if it reads
            embeddings that are normalised already.
        make_norm: function that makes a norm, as `bert_zoo.layers.common.norm` does.
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        *,
        epsilon: float,
        dropout: float,
        norm_bias: bool = True,
        norm_first: bool = True,
        make_norm: Callable[..., keras.layers.Layer] = norm,
        **kwargs,
    ):
        super().__init__(**kwargs)
        options = {"epsilon": epsilon, "use_bias": norm_bias, "dtype": self.dtype_policy}
        self.attention = attention
        self.attention_norm = make_norm("attention_norm", **options) if norm_first else None
        self.feed_forward = feed_forward
        self.output_norm = make_norm("output_norm", **options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        for layer in (self.attention, self.attention_norm, self.feed_forward, self.output_norm):
            if layer is not None:
                layer.build(input_shape)
        self.built = True


class PostNormBlock(Block):
    """Attention and feed-forward layer, each followed by dropout, residual sum and layer norm.

    Source: google-research/bert modeling.py, transformer_model.

    Args:
        attention: a layer (x, bias) -> (output, probabilities), such as `SelfAttention`.
        feed_forward: a layer x -> output, such as `FeedForward`.
        epsilon: number that both layer norms add to the variance.
        dropout: rate on both sublayers' outputs.
        norm_bias, norm_first, make_norm: see `bert_zoo.layers.block.Block`.
    """

    def call(self, x, bias, positions=None, training=None, **options):
        """Runs the block; arguments and results are those of the attention's `call`.

        Args:
            x: [batch * length, hidden_size].
            bias, positions: as in `SelfAttention.call`.
            **options: more arguments of the attention.

        Returns:
            The output [batch * length or number, hidden_size], the probabilities, and further results
            of the attention.
        """
        attended, *others = self.attention(
            x, bias, positions=positions, training=training, **options
        )
        x = residual(x, attended, positions)
        x = self.attention_norm(x + self.dropout(attended, training=training))
        x = self.output_norm(x + self.dropout(self.feed_forward(x), training=training))
        return x, *others


class PreNormBlock(Block):
    """Layer norm, attention, dropout and residual sum; then the same with the feed-forward layer.

    Source: Radford et al. 2019, section 2.3; openai/gpt-2 src/model.py, block. Arguments as in
    `PostNormBlock`.
    """

    def call(self, x, bias, positions=None, training=None, **options):
        """Runs the block; arguments and results as in `PostNormBlock.call`."""
        normed = x if self.attention_norm is None else self.attention_norm(x)
        attended, *others = self.attention(
            normed, bias, positions=positions, training=training, **options
        )
        x = residual(x, attended, positions)
        x = x + self.dropout(attended, training=training)
        fed = self.feed_forward(self.output_norm(x))
        return x + self.dropout(fed, training=training), *others


def residual(x, attended, positions):
    """The tokens of x [batch * length, hidden] at `positions`, in the shape of `attended` [tokens, hidden]."""
    if positions is None:
        return x
    rows = in_rows(x, ops.shape(attended)[0] // number_of(positions))
    return ops.reshape(at_positions(rows, positions), (-1, x.shape[-1]))
