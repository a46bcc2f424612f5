"""ELMo's layers: a character encoder of words, and LSTMs in both directions.

Source: Peters et al. 2018 (arXiv:1802.05365), section 3; Jozefowicz et al. 2016 (arXiv:1602.02410) for
characters; Sak et al. 2014 (arXiv:1402.1128) for projections.
"""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.families.elmo.recurrence import recurrence
from bert_zoo.layers.common import ACTIVATIONS
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.stack import Stack


def _closed_gates(shape, dtype=None):
    """Initial biases: gates start nearly closed; the others are 0."""
    half = (shape[0] // 2,)
    return ops.concatenate([ops.full(half, -2.0, dtype), ops.zeros(half, dtype)])


class Highway(keras.layers.Layer):
    """A layer with gates that pass a part of its input (Srivastava et al. 2015, arXiv:1505.00387)."""

    def build(self, input_shape):
        width = input_shape[-1]
        # The gate's columns first, then those of the new values.
        self.kernel = self.add_weight(
            shape=(width, 2 * width),
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(2 * width,), initializer=_closed_gates, name="bias")
        self.built = True

    def call(self, x):
        product = ops.matmul(x, ops.cast(self.kernel, x.dtype)) + ops.cast(self.bias, x.dtype)
        gate, new = ops.split(product, 2, axis=-1)
        gate = ops.sigmoid(gate)
        return gate * ops.relu(new) + (1 - gate) * x


class CharacterEncoder(keras.layers.Layer):
    """Encodes words from their characters: convolutions of several widths, highway layers, a projection.

    Args:
        num_characters, character_size: sizes of the character table. Id 0 has no row; its vector is 0.
        filters: (width, number) of each convolution.
        num_highways: highway layers after the convolutions.
        output_size: width of a word vector.
        projects: whether there is a projection to `output_size`.
        activation: activation of the convolutions, a key of `ACTIVATIONS`.
    """

    def __init__(
        self,
        num_characters: int,
        character_size: int,
        *,
        filters: Sequence[tuple[int, int]],
        num_highways: int,
        output_size: int,
        projects: bool,
        activation: str,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_characters, self.character_size = num_characters, character_size
        self.filters = tuple(filters)
        self.activation = activation
        dtype = self.dtype_policy
        self.highways = [Highway(dtype=dtype, name=f"highway_{i}") for i in range(num_highways)]
        self.projection = None
        if projects:
            width = sum(number for _, number in filters)
            self.projection = keras.layers.Dense(
                output_size,
                kernel_initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                dtype=dtype,
                name="projection",
            )

    def build(self, input_shape):
        uniform = keras.initializers.RandomUniform
        self.table = self.add_weight(
            shape=(self.num_characters, self.character_size),
            initializer=uniform(-1, 1),
            name="table",
        )
        self.kernels, self.biases = [], []
        for number, (width, size) in enumerate(self.filters):
            stddev = (width * self.character_size) ** -0.5
            initializer = (
                uniform(-0.05, 0.05)
                if self.activation == "relu"
                else keras.initializers.RandomNormal(stddev=stddev)
            )
            shape = (width, self.character_size, size)
            kernel = self.add_weight(shape=shape, initializer=initializer, name=f"kernel_{number}")
            bias = self.add_weight(shape=(size,), initializer="zeros", name=f"bias_{number}")
            self.kernels.append(kernel)
            self.biases.append(bias)
        width = sum(size for _, size in self.filters)
        for layer in (*self.highways, *filter(None, [self.projection])):
            layer.build((None, width))
        self.built = True

    def call(self, char_ids):
        """Encodes int [words, characters] as [words, output_size]."""
        table = ops.cast(self.table, self.compute_dtype)
        x = ops.take(ops.pad(table, [(1, 0), (0, 0)]), char_ids, axis=0)
        found = [
            ops.max(ops.conv(x, ops.cast(kernel, x.dtype), padding="valid"), axis=1)
            + ops.cast(bias, x.dtype)
            for kernel, bias in zip(self.kernels, self.biases, strict=True)
        ]
        x = ACTIVATIONS[self.activation](ops.concatenate(found, axis=-1))
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)

    def compute_output_shape(self, shape):
        return (*shape[:-1], self.projection.units if self.projection else shape[-1])


class ProjectedLSTM(keras.layers.Layer):
    """An LSTM of one direction that projects cells to outputs, computed by `recurrence`.

    Args:
        cell_size: width of the cells.
        output_size: width of inputs and outputs.
        projects: whether cells are projected to outputs.
        cell_clip, projection_clip: bounds on cells and projected outputs; 0: no bound.
    """

    def __init__(
        self,
        cell_size: int,
        output_size: int,
        *,
        projects: bool,
        cell_clip: float,
        projection_clip: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.cell_size, self.output_size, self.projects = cell_size, output_size, projects
        self.cell_clip, self.projection_clip = cell_clip, projection_clip

    def build(self, input_shape):
        # Rows: inputs, then outputs. Columns: input gates, new values, forget gates, output gates.
        shape = (input_shape[-1] + self.output_size, 4 * self.cell_size)
        self.kernel = self.add_weight(shape=shape, initializer="glorot_uniform", name="kernel")
        self.bias = self.add_weight(shape=shape[-1:], initializer="zeros", name="bias")
        self.projection = None
        if self.projects:
            self.projection = self.add_weight(
                shape=(self.cell_size, self.output_size),
                initializer="glorot_uniform",
                name="projection",
            )
        self.built = True

    def call(self, x, mask, output, cell):
        """Runs over a sequence.

        Args:
            x: [length, batch, width].
            mask: [length, batch, 1], 1 for words and 0 for padding, which leaves the state unchanged.
            output, cell: the initial state, [batch, output_size] and [batch, cell_size].

        Returns:
            The outputs, [length, batch, output_size], then the last output and the last cell.
        """
        length, _, width = ops.shape(x)
        kernel = ops.cast(self.kernel, x.dtype)
        of_inputs, of_outputs = kernel[:width], kernel[width:]
        # One product for all steps; each step only multiplies its output.
        products = ops.matmul(ops.reshape(x, (-1, width)), of_inputs) + ops.cast(self.bias, x.dtype)
        products = ops.reshape(products, (length, -1, 4 * self.cell_size))
        projection = None if self.projection is None else ops.cast(self.projection, x.dtype)
        return recurrence(
            products,
            of_outputs,
            projection,
            mask,
            output,
            cell,
            cell_clip=self.cell_clip,
            projection_clip=self.projection_clip,
        )


class BidirectionalLSTM(keras.layers.Layer):
    """A layer of two LSTMs; the second reads rows backwards.

    Args: as for `ProjectedLSTM`. `skips` adds inputs to outputs; `dropout` is the rate on inputs.
    """

    def __init__(self, *args, skips: bool, dropout: float, dtype, name: str, **options):
        super().__init__(dtype=dtype, name=name)
        self.directions = [
            ProjectedLSTM(*args, dtype=dtype, name=direction, **options)
            for direction in ("forward", "backward")
        ]
        self.skips = skips
        self.dropout = Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, input_shape):
        for lstm in self.directions:
            lstm.build(input_shape)
        self.built = True

    def call(self, inputs, masks, memory, training=None):
        """Runs both LSTMs over their sequences.

        Args:
            inputs, masks: one for each direction in its reading order, as for `ProjectedLSTM.call`.
            memory: [batch, 2, output_size + cell_size], the initial state of each direction.

        Returns:
            The outputs of each direction, and the new memory.
        """
        outputs, states = [], []
        for number, lstm in enumerate(self.directions):
            x = self.dropout(inputs[number], training=training)
            output, cell = (
                memory[:, number, : lstm.output_size],
                memory[:, number, lstm.output_size :],
            )
            found, *state = lstm(x, masks[number], output, cell)
            outputs.append(found + x if self.skips else found)
            states.append(ops.concatenate(state, axis=-1))
        return outputs, ops.stack(states, axis=1)


class BidirectionalStack(Stack):
    """Layers of two independent directions.

    Args:
        blocks: `BidirectionalLSTM`s.
        width: width of their inputs and outputs.
        dropout: rate on the last layer's outputs.
    """

    def __init__(
        self, blocks: Sequence[BidirectionalLSTM], width: int, *, dropout: float, **kwargs
    ):
        super().__init__(blocks, width, **kwargs)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def call(self, words, mask, memory, training=None):
        """Runs the stack.

        Args:
            words: [batch, length, width].
            mask: [batch, length], 1 for words.
            memory: the initial state of each layer.

        Returns:
            The words twice and the outputs of every layer, [batch, length, 2 * width] each; and the new memory.
        """
        x = ops.transpose(words, (1, 0, 2))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), x.dtype), -1)
        # Padding does not change a state, so the backward direction effectively starts after it.
        inputs, masks = [x, ops.flip(x, 0)], [mask, ops.flip(mask, 0)]
        layers, states = self.directions(inputs, masks, memory, training=training)
        outputs = [_joined(forward, ops.flip(backward, 0)) for forward, backward in layers]
        return [_joined(x, x), *outputs], states

    def directions(self, inputs, masks, memory, training=None):
        """Runs each direction over its own sequence.

        Args:
            inputs, masks, memory: as for `BidirectionalLSTM.call`, with one memory per layer.

        Returns:
            For every layer the outputs of both directions, [length, batch, width], in reading order; and the new
            memory.
        """
        layers, states = [], []
        for block, state in zip(self.blocks, memory, strict=True):
            state = ops.cast(state, inputs[0].dtype)
            inputs, new = block(inputs, masks, state, training=training)
            layers.append(inputs)
            states.append(ops.stop_gradient(new))
        layers[-1] = [self.dropout(outputs, training=training) for outputs in inputs]
        return layers, states


def _joined(*directions):
    """Concatenates both directions, [length, batch, width] each, to [batch, length, 2 * width]."""
    return ops.transpose(ops.concatenate(directions, axis=-1), (1, 0, 2))
