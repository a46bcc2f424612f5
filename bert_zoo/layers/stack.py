"""Stacks of blocks."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.layers.common import number_of
from bert_zoo.layers.recomputation import recomputed


class Stack(keras.layers.Layer):
    """Runs layers one after the other. Layers may share their blocks (ALBERT, section 3.1).

    Args:
        blocks: layers (x, bias) -> (x, probabilities).
        hidden_size: width of x.
        blocks_of_layers: for each layer, the numbers of the blocks that it runs; by default each layer
            has one block of its own.

    Attributes:
        rematerialize: whether training keeps only the inputs of blocks and recomputes the rest for the
            gradient; there are then no attention probabilities.
    """

    def __init__(
        self,
        blocks: Sequence[keras.layers.Layer],
        hidden_size: int,
        *,
        blocks_of_layers: Sequence[Sequence[int]] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.hidden_size = hidden_size
        if blocks_of_layers is None:
            blocks_of_layers = ((number,) for number in range(len(self.blocks)))
        self.blocks_of_layers = tuple(blocks_of_layers)
        self.rematerialize = False

    def build(self, input_shape):
        for block in self.blocks:
            block.build((None, self.hidden_size))
        self.built = True

    def call(self, x, bias, positions=None, training=None):
        """Runs the stack.

        Args:
            x: [batch, length, hidden_size].
            bias: [batch, 1, 1 or length, length], added to the attention scores.
            positions: int [batch, number] or `FIRST`: the last block computes only these tokens, which
                saves most of its work. None for all.

        Returns:
            A list of hidden states [batch, length, hidden_size], the input first, one more than layers;
            and a list of attention probabilities [batch, heads, length, length], one for each run of a
            block. With `positions`, the last ones are [batch, number, hidden_size] and
            [batch, heads, number, length].
        """
        length = ops.shape(x)[1]
        hidden_states, attentions = [x], []
        x = ops.reshape(x, (-1, self.hidden_size))
        last = len(self.blocks_of_layers) - 1
        for layer, numbers in enumerate(self.blocks_of_layers):
            for run, number in enumerate(numbers):
                ends = layer == last and run == len(numbers) - 1
                x, *probabilities = self.run(
                    self.blocks[number],
                    x,
                    bias,
                    positions=positions if ends else None,
                    training=training,
                )
                attentions += probabilities
            tokens = length
            if layer == last and positions is not None:
                tokens = number_of(positions)
            hidden_states.append(ops.reshape(x, (-1, tokens, self.hidden_size)))
        return hidden_states, attentions

    def run(self, block: keras.layers.Layer, *inputs, training, **options) -> tuple:
        """A block's output and its attention probabilities, or only its output if it is recomputed."""
        if self.rematerialize and training:
            return (recomputed(block, *inputs, training=training, **options),)
        return block(*inputs, training=training, **options)

    def compute_output_shape(self, input_shape, *shapes, **more_shapes):
        # What summary() shows: the last hidden state.
        return input_shape
