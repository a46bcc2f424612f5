"""Blocks with a memory of the previous segment (Dai et al. 2019, section 3.2)."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.families.transformer_xl.attention import add_biases, distance_embedding
from bert_zoo.layers.attention import attention_bias, causal_bias
from bert_zoo.layers.block import Block
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.stack import Stack


class RecurrentBlock(Block):
    """Relative attention and feed-forward layer, each with residual sum and layer norm.

    Source: kimiyoung/transformer-xl tf/model.py; with `pre_lnorm`, pytorch/mem_transformer.py.

    Args:
        attention: a `RelativeAttention`.
        feed_forward, epsilon, dropout: as in `bert_zoo.layers.PostNormBlock`.
        pre_lnorm: whether the norms come before the sublayers instead of after them.
    """

    def __init__(self, attention, feed_forward, *, pre_lnorm: bool, **kwargs):
        super().__init__(attention, feed_forward, **kwargs)
        self.pre_lnorm = pre_lnorm

    def call(self, x, memory, distances, bias, shared_biases=None, training=None):
        """Runs the block; arguments and results as in `RelativeAttention.call`."""

        def attend(x, memory):
            return self.attention(x, memory, distances, bias, shared_biases, training=training)

        if self.pre_lnorm:
            attended, probabilities = attend(self.attention_norm(x), self.attention_norm(memory))
            x = x + self.dropout(attended, training=training)
            fed = self.feed_forward(self.output_norm(x), training=training)
            return x + self.dropout(fed, training=training), probabilities
        attended, probabilities = attend(x, memory)
        x = self.attention_norm(x + self.dropout(attended, training=training))
        fed = self.feed_forward(x, training=training)
        return self.output_norm(x + self.dropout(fed, training=training)), probabilities


class RecurrentStack(Stack):
    """Runs blocks one after the other, each with a memory of its earlier inputs.

    Args:
        blocks: `RecurrentBlock`s.
        hidden_size: width of x.
        num_heads, head_size: shape of the biases u and v.
        has_biases: whether the stack has u and v, shared by all blocks, and the blocks have none.
        clamp_len: longer distances count as this; not limited if it is not positive.
        span: maximum number of keys that a token sees, itself included; None for all.
        dropout: rate on the embedding of distances.
        initializer_range: standard deviation of randomly initialised biases.
    """

    def __init__(
        self,
        blocks: Sequence[RecurrentBlock],
        hidden_size: int,
        *,
        num_heads: int,
        head_size: int,
        has_biases: bool,
        clamp_len: int,
        span: int | None,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(blocks, hidden_size, **kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.has_biases = has_biases
        self.clamp_len = clamp_len
        self.span = span
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        if self.has_biases:
            add_biases(self)
        super().build(input_shape)

    def call(self, x, memory, keys_mask=None, training=None):
        """Runs the stack over a segment.

        Args:
            x: [batch, length, hidden_size].
            memory: for each block [batch, memory length, hidden_size].
            keys_mask: [batch, memory length + length], 1 for keys that may be seen; None for all.

        Returns:
            A list of hidden states [batch, length, hidden_size], the input first, one more than blocks; and
            a list of attention probabilities [batch, heads, length, memory length + length], one for each
            block.
        """
        length = ops.shape(x)[1]
        num_keys = ops.shape(memory[0])[1] + length
        dtype = keras.backend.standardize_dtype(x.dtype)
        bias = causal_bias(length, num_keys, self.span, dtype)
        if keys_mask is not None:
            absent = attention_bias(keys_mask, dtype)
            # float16 has no room for the sum of two.
            bias = ops.minimum(bias, absent)
        distances = distance_embedding(num_keys, self.hidden_size, self.clamp_len, dtype)
        return self.run_blocks(x, memory, distances, bias, training)

    def run_blocks(self, x, memory, distances, bias, training):
        """As `call`, with the further arguments of `RelativeAttention.call`; a memory may be None."""
        length, dtype = ops.shape(x)[1], keras.backend.standardize_dtype(x.dtype)
        distances = self.dropout(distances, training=training)
        shared = (self.content_bias, self.position_bias) if self.has_biases else None
        hidden_states, attentions = [x], []
        flat = ops.reshape(x, (-1, self.hidden_size))
        for block, remembered in zip(self.blocks, memory, strict=True):
            if remembered is not None:
                remembered = ops.cast(remembered, dtype)
            inputs = (flat, remembered, distances, bias, shared)
            flat, *probabilities = self.run(block, *inputs, training=training)
            attentions += probabilities
            hidden_states.append(ops.reshape(flat, (-1, length, self.hidden_size)))
        return hidden_states, attentions


def updated_memory(old, new, mem_len: int):
    """The last `mem_len` positions of old and new together (all if there are fewer), without gradients.

    Args:
        old: [batch, memory length, ...].
        new: [batch, length, ...].
        mem_len: number of positions to keep.
    """
    joined = ops.concatenate([ops.cast(old, new.dtype), new], axis=1)
    return ops.stop_gradient(joined[:, -mem_len:] if mem_len else joined[:, :0])
