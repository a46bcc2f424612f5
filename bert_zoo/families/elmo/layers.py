"""ELMo's layers: a character encoder of words, and LSTMs in both directions.

Source: Peters et al. 2018 (arXiv:1802.05365), section 3; Jozefowicz et al. 2016 (arXiv:1602.02410) for
characters; Sak et al. 2014 (arXiv:1402.1128) for projections.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.families.elmo.text import BEGIN, END, boundary_ids
from bert_zoo.layers.backbones import PADDING, Backbone, Ids, check_memory
from bert_zoo.layers.block import Stack
from bert_zoo.layers.common import ACTIVATIONS, Dropout, at_positions

# -------------------------------------------------------------------------------------------------
# The steps of an LSTM with projection and clipping, with an explicit gradient.
#
# XLA cannot compile the gradient that TensorFlow derives for a loop. Here the gradient is a loop of its own, without the
# parts that need no order: gradients of kernels are one product after all steps.
# -------------------------------------------------------------------------------------------------


def recurrence(
    products,
    kernel,
    projection,
    mask,
    output,
    cell,
    *,
    cell_clip: float,
    projection_clip: float,
):
    """Computes an LSTM's outputs from the products of its inputs.

    With z = products[t] + output kernel, split into i, j, f and o, a step is

        cell = clip(sigmoid(f + 1) cell + sigmoid(i) tanh(j))
        output = clip(sigmoid(o) tanh(cell) projection)

    Args:
        products: [length, batch, 4 * cells], products of inputs and their kernel, plus the bias.
        kernel: [outputs, 4 * cells], the kernel of outputs.
        projection: [cells, outputs], or None; then outputs are not clipped either.
        mask: [length, batch, 1]; 0 leaves the state unchanged.
        output, cell: the initial state, [batch, outputs] and [batch, cells].
        cell_clip, projection_clip: bounds on cells and projected outputs; 0: no bound.

    Returns:
        All outputs, [length, batch, outputs]; then the last output and the last cell, without gradients.
    """
    clips = (cell_clip, projection_clip if projection is not None else 0.0)
    has_projection = projection is not None
    weights = (kernel, projection) if has_projection else (kernel,)

    @private.custom_gradient
    def function(products, mask, output, cell, *weights):
        def step(state, inputs):
            product, there = inputs
            found = _step(product, *state, weights, clips)
            state = tuple(old + there * (new - old) for old, new in zip(state, found, strict=True))
            return state, state

        _, (outputs, cells) = _scan(step, (output, cell), (products, mask))

        def gradient(*upstream):
            of_outputs = keras.tree.flatten(upstream)[0]
            before = [
                ops.concatenate([first[None], later[:-1]])
                for first, later in ((output, outputs), (cell, cells))
            ]
            return _gradient(of_outputs, products, mask, *before, weights, clips)

        return (outputs, outputs[-1], cells[-1]), gradient

    outputs, *state = function(products, mask, output, cell, *weights)
    return outputs, *map(ops.stop_gradient, state)


def _scan(step, state, sequences, *, reverse: bool = False):
    """`ops.scan` of several sequences; in Keras 3.15 it takes only one if the length is unknown."""
    length = sequences[0].shape[0]
    numbers = ops.arange(ops.shape(sequences[0])[0], dtype="int32")

    def numbered(state, number):
        return step(state, [sequence[number] for sequence in sequences])

    return ops.scan(numbered, state, numbers, length=length, reverse=reverse)


def _gates(z):
    i, j, f, o = ops.split(z, 4, axis=-1)
    return ops.sigmoid(i), ops.tanh(j), ops.sigmoid(f + 1.0), ops.sigmoid(o)


def _clipped(x, bound: float):
    return ops.clip(x, -bound, bound) if bound else x


def _step(product, output, cell, weights, clips):
    i, j, f, o = _gates(product + ops.matmul(output, weights[0]))
    cell = _clipped(f * cell + i * j, clips[0])
    output = o * ops.tanh(cell)
    return _clipped(ops.matmul(output, weights[1]) if len(weights) > 1 else output, clips[1]), cell


def _gradient(of_outputs, products, mask, output, cell, weights, clips):
    """Gradients of `recurrence`'s arguments, from outputs' gradients and the states before each step."""
    kernel, *projections = weights
    dtype = keras.backend.standardize_dtype(products.dtype)

    def product(x, weight):
        """One product for all steps."""
        return ops.reshape(ops.matmul(_flat(x), weight), (*ops.shape(x)[:-1], weight.shape[-1]))

    def within(x, bound: float):
        """1 where clipping does not change x, else 0."""
        return ops.cast(ops.abs(x) <= bound, dtype) if bound else ops.ones_like(x)

    i, j, f, o = _gates(products + product(output, kernel))
    unclipped = f * cell + i * j
    squashed = ops.tanh(_clipped(unclipped, clips[0]))
    whole = o * squashed
    out_within = mask * within(product(whole, projections[0]) if projections else whole, clips[1])
    # Factors of the gradients of a step's output and cell, named after the target and the source.
    cell_by_output = o * (1 - ops.square(squashed))
    o_by_output = squashed * o * (1 - o)
    of_cell = within(unclipped, clips[0])
    i_by_cell, j_by_cell = j * i * (1 - i), i * (1 - ops.square(j))
    f_by_cell = cell * f * (1 - f)
    factors = (cell_by_output, o_by_output, of_cell, i_by_cell, j_by_cell, f_by_cell, f)

    def step(state, inputs):
        of_output, of_state, *_ = state
        upstream, there, is_within, by_output, to_o, is_free, to_i, to_j, to_f, keeps = inputs
        of_output = of_output + upstream
        of_projected = of_output * is_within
        whole = (
            ops.matmul(of_projected, ops.transpose(projections[0])) if projections else of_projected
        )
        of_cell = (there * of_state + whole * by_output) * is_free
        of_z = ops.concatenate([of_cell * to_i, of_cell * to_j, of_cell * to_f, whole * to_o], -1)
        state = (
            (1 - there) * of_output + ops.matmul(of_z, ops.transpose(kernel)),
            (1 - there) * of_state + of_cell * keeps,
            of_z,
            of_projected,
        )
        return state, state

    begin = tuple(ops.zeros_like(x[0]) for x in (output, cell, products, output))
    inputs = (of_outputs, mask, out_within, *factors)
    (of_first, of_first_cell, *_), (_, _, of_z, of_projected) = _scan(
        step, begin, inputs, reverse=True
    )
    of_weights = [ops.matmul(ops.transpose(_flat(output)), _flat(of_z))]
    if projections:
        of_weights.append(ops.matmul(ops.transpose(_flat(whole)), _flat(of_projected)))
    return of_z, ops.zeros_like(mask), of_first, of_first_cell, *of_weights


def _flat(x):
    return ops.reshape(x, (-1, x.shape[-1]))


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
    """Encodes words int [words, characters] as [words, output_size]: character vectors (0 for id 0, which has no row),
    convolutions of `filters` = (width, number) each, `num_highways` highway layers, and a projection if it
    `projects`.
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
    """An LSTM of one direction, computed by `recurrence`, which projects cells of `cell_size` to outputs of
    `output_size`. `cell_clip` and `projection_clip` bound cells and projected outputs; 0: no bound.
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
        """Outputs [length, batch, output_size] of x [length, batch, width], then the last output and the last cell;
        `output` and `cell` are the first. mask [length, batch, 1] is 0 for padding, which leaves the state
        unchanged.
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
    """Two `ProjectedLSTM`s; the second reads backwards. `skips` adds inputs to outputs; `dropout` is of inputs."""

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
        """The outputs of each direction and the new memory [batch, 2, output_size + cell_size]; `inputs` and `masks`
        have one for each direction in its reading order, as for `ProjectedLSTM.call`.
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
    """`BidirectionalLSTM`s whose directions are independent; `dropout` is the rate on the last layer's outputs."""

    def __init__(
        self, blocks: Sequence[BidirectionalLSTM], width: int, *, dropout: float, **kwargs
    ):
        super().__init__(blocks, width, **kwargs)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def call(self, words, mask, memory, training=None):
        """The words twice and the outputs of every layer, [batch, length, 2 * width] each, from words [batch, length,
        width]; and the new memory of each layer. mask [batch, length] is 1 for words.
        """
        x = ops.transpose(words, (1, 0, 2))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), x.dtype), -1)
        # Padding does not change a state, so the backward direction effectively starts after it.
        inputs, masks = [x, ops.flip(x, 0)], [mask, ops.flip(mask, 0)]
        layers, states = self.directions(inputs, masks, memory, training=training)
        outputs = [_joined(forward, ops.flip(backward, 0)) for forward, backward in layers]
        return [_joined(x, x), *outputs], states

    def directions(self, inputs, masks, memory, training=None):
        """For every layer the outputs of both directions [length, batch, width], in reading order; and the new memory.
        Arguments as for `BidirectionalLSTM.call`, with one memory per layer.
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


class ElmoBackbone(Backbone):
    """Encodes words with LSTMs in both directions (Peters et al. 2018).

    It takes `char_ids` [batch, words, characters] and optionally a `padding_mask`. A word of only zeros is always
    padding. A model without characters takes `token_ids` [batch, words] instead, ids of a vocabulary that begins with
    the marks of sentences. The marks are added before the LSTMs, and their outputs removed.

    `hidden_states` has the outputs of every layer, both directions concatenated. The first entry is the word vectors,
    twice, for the same width. `memory` has [batch, 2, projection + cell] for each layer: the last output and cell of
    both directions. It is returned if it is given; the originals carry it from batch to batch. Without it, rows start
    from zeros.
    """

    state = ("memory",)
    state_is_optional = True
    is_portable = False

    @property
    def inputs(self) -> dict[str, Ids]:
        if not self.config.num_characters:
            return super().inputs
        characters = Ids(
            self.config.num_characters + 1,
            "the rows of the table of characters, and 0 for none",
            required=True,
            axes=("batch", "length", "characters"),
        )
        return {"char_ids": characters, "padding_mask": Ids(2, PADDING)}

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        shape = (batch_size, 2, config.projection_size + config.cell_size)
        return {"memory": [ops.zeros(shape, self.compute_dtype) for _ in range(config.num_layers)]}

    def call(self, inputs, positions=None, training=None):
        ids, memory = inputs[self.main_input], inputs.get("memory")
        mask = inputs.get("padding_mask")
        mask = ops.ones(ops.shape(ids)[:2], "int32") if mask is None else mask
        if self.config.num_characters:
            mask = mask * ops.cast(ops.any(ops.not_equal(ids, 0), axis=-1), "int32")
        if memory is not None:
            shape = (ids.shape[0], 2, self.config.projection_size + self.config.cell_size)
            each = "for each layer, [batch, directions, an output and a cell]"
            check_memory(memory, [shape] * self.config.num_layers, each)
        hidden_states, new = self.states(*self.sentences(ids, mask), memory, training=training)
        # The end of a short row is where longer rows have words.
        mask = ops.cast(mask[:, :, None], self.compute_dtype)
        hidden_states = [states[:, 1:-1] * mask for states in hidden_states]
        if positions is not None:
            hidden_states[-1] = at_positions(hidden_states[-1], positions)
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        outputs |= {} if memory is None else {"memory": new}
        return outputs | {"attentions": []}

    def directions(self, char_ids, memory, training=None):
        """The last layer's outputs, [batch, 2, words, projection_size], and the new memory, as in training language
        models: int [batch, 2, words, characters] has the words of each direction in its reading order, without marks
        of sentences.
        """
        batch, _, length, characters = ops.shape(char_ids)
        words = self.embeddings(ops.reshape(char_ids, (-1, characters)))
        words = ops.reshape(words, (batch, 2, length, words.shape[-1]))
        inputs = [ops.transpose(words[:, direction], (1, 0, 2)) for direction in range(2)]
        masks = [ops.ones_like(inputs[0][..., :1])] * 2
        layers, new = self.stack.directions(inputs, masks, memory, training=training)
        return ops.transpose(ops.stack(layers[-1]), (2, 0, 1, 3)), new

    def states(self, words, mask, memory=None, training=None):
        """Like `BidirectionalStack.call`, starting from zeros without a memory."""
        if memory is None:
            memory = self.initial_state(ops.shape(words)[0])["memory"]
        return self.stack(words, mask, memory, training=training)

    def sentences(self, ids, mask):
        """The vectors of words, given by their ids and mask [batch, words], between those of the sentence's start and
        end marks: [batch, 1 + words + 1, projection_size], and their mask.
        """
        batch, length, *characters = ops.shape(ids)
        marks = np.int32([0, 1])
        if characters:
            size = self.config.max_characters
            if ids.shape[2] not in (None, size):
                raise ValueError(
                    f"char_ids has shape {tuple(ids.shape)}; its words must have {size} characters, padding "
                    "among them, as model.preprocessor gives them."
                )
            marks = np.stack([boundary_ids(mark, size) for mark in (BEGIN, END)])
        rows = ops.concatenate([ops.reshape(ids, (-1, *characters)), marks], axis=0)
        vectors = self.embeddings(rows)
        words = ops.reshape(vectors[:-2], (-1, length, vectors.shape[-1]))
        begin, end = vectors[-2], vectors[-1]
        # The end comes after the last word.
        numbers = ops.arange(1, length + 1, dtype="int32")
        last = ops.max(mask * numbers, axis=1, initial=0)[:, None]
        is_end = ops.equal(ops.arange(length + 2, dtype="int32"), last + 1)
        words = ops.concatenate(
            [
                ops.broadcast_to(begin, (batch, 1, begin.shape[-1])),
                words,
                ops.broadcast_to(end, (batch, 1, end.shape[-1])),
            ],
            axis=1,
        )
        mask = ops.concatenate(
            [ops.ones_like(last), mask, ops.zeros_like(last)], axis=1
        ) + ops.cast(is_end, "int32")
        return ops.where(is_end[:, :, None], end, words), mask
