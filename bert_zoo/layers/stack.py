"""Blocks on top of each other."""

from collections.abc import Sequence

import keras
from keras import ops


class Stack(keras.layers.Layer):
    """Runs blocks one after the other; the same block may stand in the list several times.

    Args:
        blocks: layers (x, bias) -> (x, probabilities).
        hidden_size: width of x.
    """

    def __init__(self, blocks: Sequence[keras.layers.Layer], hidden_size: int, **kwargs):
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.hidden_size = hidden_size

    def build(self, input_shape):
        for block in self.blocks:
            if not block.built:
                block.build((None, self.hidden_size))
        self.built = True

    def call(self, x, bias, training=None):
        """Runs the stack.

        Args:
            x: [batch, length, hidden_size].
            bias: [batch, 1, 1, length].

        Returns:
            Hidden states [batch, length, hidden_size], the input first, one more than blocks; and
            attention probabilities [batch, heads, length, length], one a block.
        """
        shape = (-1, ops.shape(x)[1], self.hidden_size)
        hidden_states, attentions = [x], []
        x = ops.reshape(x, (-1, self.hidden_size))
        for block in self.blocks:
            x, probabilities = block(x, bias, training=training)
            hidden_states.append(ops.reshape(x, shape))
            attentions.append(probabilities)
        return hidden_states, attentions

    def compute_output_shape(self, input_shape):
        # What summary() shows: the last hidden state.
        return input_shape
