"""Blocks on top of each other."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.layers.recomputation import recomputed


class Stack(keras.layers.Layer):
    """Runs layers one after the other; layers may share their blocks (ALBERT section 3.1).

    Args:
        blocks: layers (x, bias) -> (x, probabilities).
        hidden_size: width of x.
        blocks_of_layers: for each layer, the numbers of the blocks that it runs through.

    Attributes:
        rematerialize: whether training keeps the inputs of blocks alone; there are then no attention
            probabilities.
    """

    def __init__(
        self,
        blocks: Sequence[keras.layers.Layer],
        hidden_size: int,
        *,
        blocks_of_layers: Sequence[Sequence[int]],
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.hidden_size = hidden_size
        self.blocks_of_layers = tuple(blocks_of_layers)
        self.rematerialize = False

    def build(self, input_shape):
        for block in self.blocks:
            block.build((None, self.hidden_size))
        self.built = True

    def call(self, x, bias, first_only=False, training=None):
        """Runs the stack.

        Args:
            x: [batch, length, hidden_size].
            bias: [batch, 1, 1, length].
            first_only: whether the last hidden state of each row's first token is all that is wanted.
                Nothing else depends on what the last block makes of other tokens, which is most of
                its work.

        Returns:
            Hidden states [batch, length, hidden_size], the input first, one more than layers; and
            attention probabilities [batch, heads, length, length], one for each run of a block. With
            `first_only`, the last ones are [batch, 1, hidden_size] and [batch, heads, 1, length].
        """
        length = ops.shape(x)[1]
        hidden_states, attentions = [x], []
        x = ops.reshape(x, (-1, self.hidden_size))
        last = len(self.blocks_of_layers) - 1
        for layer, numbers in enumerate(self.blocks_of_layers):
            for run, number in enumerate(numbers):
                block = self.blocks[number]
                ends = layer == last and run == len(numbers) - 1
                options = {"first_only": first_only and ends, "training": training}
                if self.rematerialize and training:
                    x = recomputed(block, x, bias, **options)
                else:
                    x, probabilities = block(x, bias, **options)
                    attentions.append(probabilities)
            tokens = 1 if first_only and layer == last else length
            hidden_states.append(ops.reshape(x, (-1, tokens, self.hidden_size)))
        return hidden_states, attentions

    def compute_output_shape(self, input_shape):
        # What summary() shows: the last hidden state.
        return input_shape
