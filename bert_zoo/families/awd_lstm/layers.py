"""LSTMs with dropout on recurrent weights, and their backbone.

Source: Merity et al. 2017, "Regularizing and Optimizing LSTM Language Models" (arXiv:1708.02182), section 3;
fastai/fastai fastai/text/models/awdlstm.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.config import Config
from bert_zoo.layers.backbones import Backbone, Groups, check_memory
from bert_zoo.layers.block import Stack
from bert_zoo.layers.common import Dropout, at_positions, float_table, over_replicas, table


class LockedDropout(Dropout):
    """Dropout with one mask for all tokens of a row, for inputs [batch, length, features]."""

    def call(self, inputs, training=None):
        if not self.is_active(training):
            return inputs
        return inputs * super().call(ops.ones_like(inputs[:, :1]), training=True)


class WordEmbeddings(keras.layers.Layer):
    """Embeds int [batch, length] as [batch, length, hidden_size] by a table whose rows are dropped whole, at
    `word_dropout`: a dropped token is 0 everywhere in a batch.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        word_dropout: float,
        input_dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        options = {"dtype": self.dtype_policy}
        self.token_embedding = table(
            vocab_size, hidden_size, "token_embedding", stddev=initializer_range, **options
        )
        self.word_dropout = Dropout(word_dropout, name="word_dropout", **options)
        self.input_dropout = LockedDropout(input_dropout, name="input_dropout", **options)

    def build(self, token_ids_shape):
        self.token_embedding.build()
        self.built = True

    def call(self, token_ids, training=None):
        x = self.token_embedding(token_ids)
        if self.word_dropout.is_active(training):
            rows = ops.ones((self.token_embedding.input_dim, 1), x.dtype)
            x = x * ops.take(self.word_dropout(rows, training=True), token_ids, axis=0)
        return self.input_dropout(x, training=training)

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.token_embedding.output_dim)


class DroppedLSTM(keras.layers.Layer):
    """An LSTM with one mask on its recurrent weights for all tokens of a call (DropConnect). As in PyTorch, there are
    two biases, and gates are in the order input, forget, cell, output. Gradients flow back through `backward_tokens`
    tokens; 0: all.
    """

    def __init__(self, units: int, *, recurrent_dropout: float, backward_tokens: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.backward_tokens = backward_tokens
        self.weight_dropout = Dropout(
            recurrent_dropout, dtype=self.dtype_policy, name="weight_dropout"
        )

    def build(self, input_shape):
        bound = self.units**-0.5
        shapes = {"kernel": (input_shape[-1], 4 * self.units)}
        shapes |= {"recurrent_kernel": (self.units, 4 * self.units)}
        shapes |= dict.fromkeys(("input_bias", "recurrent_bias"), (4 * self.units,))
        for name, shape in shapes.items():
            start = keras.initializers.RandomUniform(-bound, bound)
            setattr(self, name, self.add_weight(shape=shape, initializer=start, name=name))
        self.built = True

    def call(self, x, state, padding_mask=None, training=None):
        """Outputs [batch, length, units] of x [batch, length, width], then output and cell after the last token.
        `state` is the initial output and cell, [batch, units] each; padding, where bool [batch, length] is False,
        does not change it.
        """
        length, dtype = ops.shape(x)[1], x.dtype
        bias = ops.cast(self.input_bias + self.recurrent_bias, dtype)
        # One product for all tokens, with tokens on the first axis for the scan.
        gates = ops.matmul(ops.transpose(x, (1, 0, 2)), ops.cast(self.kernel, dtype)) + bias
        kernel = self.weight_dropout(
            ops.convert_to_tensor(self.recurrent_kernel), training=training
        )
        kernel = ops.cast(kernel, dtype)
        # One array, because Keras 3.15 scans several only if their length is known.
        rows = [gates]
        if padding_mask is not None:
            rows.append(ops.cast(ops.transpose(padding_mask), dtype)[:, :, None])
        if self.backward_tokens:
            goes_back = ops.cast(ops.arange(length) % self.backward_tokens != 0, dtype)
            rows.append(ops.ones_like(gates[:, :, :1]) * goes_back[:, None, None])

        def step(state, row):
            if self.backward_tokens:
                stopped = [ops.stop_gradient(part) for part in state]
                pairs = zip(state, stopped, strict=True)
                state = [ops.where(row[:, -1:] > 0, *pair) for pair in pairs]
            output, cell = state
            gates = row[:, : 4 * self.units] + ops.matmul(output, kernel)
            write, keep, content, show = ops.split(gates, 4, axis=-1)
            new_cell = ops.sigmoid(keep) * cell + ops.sigmoid(write) * ops.tanh(content)
            new = [ops.sigmoid(show) * ops.tanh(new_cell), new_cell]
            if padding_mask is not None:
                is_real = row[:, 4 * self.units, None] > 0
                new = [ops.where(is_real, *pair) for pair in zip(new, state, strict=True)]
            return new, new

        state = [ops.cast(part, dtype) for part in state]
        state, (outputs, _) = ops.scan(step, state, ops.concatenate(rows, axis=-1))
        return ops.transpose(outputs, (1, 0, 2)), *state


class LSTMStack(private.LossesOfThreads, Stack):
    """A stack of LSTMs, with dropout between and after them and penalties on their outputs. `rematerialize` has no
    effect, because the values that a scan keeps for its gradient cannot be recomputed from its input alone.
    """

    def __init__(self, blocks: Sequence[DroppedLSTM], config: Config, **kwargs):
        super().__init__(blocks, config.hidden_size, **kwargs)
        self.config = config
        options = {"dtype": self.dtype_policy}
        self.hidden_dropouts = [
            LockedDropout(config.hidden_dropout, name=f"hidden_dropout_{number}", **options)
            for number in range(len(blocks) - 1)
        ]
        self.last_dropout = LockedDropout(config.last_dropout, name="last_dropout", **options)

    def build(self, input_shape):
        width = self.hidden_size
        for block in self.blocks:
            block.build((None, None, width))
            width = block.units
        self.built = True

    def call(self, x, memory, padding_mask=None, training=None):
        """Hidden states [batch, length, units] from x [batch, length, hidden_size], starting with x; and the memory
        afterwards: one list with the output and cell of each LSTM, [batch, units] each. `padding_mask` is int
        [batch, length] or None.
        """
        is_real = None if padding_mask is None else ops.equal(padding_mask, 1)
        hidden_states, new_memory = [x], []
        for number, block in enumerate(self.blocks):
            state = memory[2 * number : 2 * number + 2]
            x, *state = block(hidden_states[-1], state, is_real, training=training)
            new_memory += state
            is_last = number == len(self.blocks) - 1
            dropout = self.last_dropout if is_last else self.hidden_dropouts[number]
            hidden_states.append(dropout(x, training=training))
        if training:
            self._add_penalties(x, hidden_states[-1], is_real)
        return hidden_states, new_memory

    def _add_penalties(self, outputs, dropped, is_real) -> None:
        config = self.config
        outputs, dropped = (ops.cast(each, "float32") for each in (outputs, dropped))
        changes = outputs[:, 1:] - outputs[:, :-1]
        pairs = None if is_real is None else ops.logical_and(is_real[:, 1:], is_real[:, :-1])
        for factor, values, mask in (
            (config.activation_penalty, dropped, is_real),
            (config.change_penalty, changes, pairs),
        ):
            if factor:
                self.add_loss(factor * _mean_square(values, mask))


def _mean_square(values, mask):
    """Mean square of values [batch, length, features] where the mask, bool [batch, length], is True; 0 if it never is.
    Keras averages added losses over replicas; that average is the mean of the whole batch.
    """
    squares = ops.mean(ops.square(values), axis=-1)
    weights = ops.ones_like(squares) if mask is None else ops.cast(mask, squares.dtype)
    return ops.divide_no_nan(ops.sum(squares * weights), over_replicas(ops.sum(weights), "MEAN"))


class LSTMBackbone(Backbone):
    """Token vectors and a stack of LSTMs, which continue from the segment before. Besides `token_ids` and
    `padding_mask`, it takes the `memory` that the previous call returned: one list with the output and cell of each
    LSTM, [batch, units] each. Without it, texts start from zeros. No gradient flows through it. Padding at the end
    of a text does not change its state.
    """

    state = ("memory",)
    adds_losses = True
    is_portable = False

    @property
    def hidden_sizes(self):
        return [self.config.hidden_size, *self.config.layer_sizes]

    @property
    def token_table(self):
        """The table of the only cluster, and None for its projection."""
        return [float_table(self.embeddings.token_embedding)], [None]

    def groups(self) -> Groups:
        return Groups(self.embeddings, self.stack, highest_level=1)

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        return {
            "memory": [
                ops.zeros((batch_size, units), self.compute_dtype)
                for units in self.config.layer_sizes
                for _ in ("output", "cell")
            ]
        }

    def call(self, inputs, positions=None, training=None):
        token_ids, memory = inputs["token_ids"], inputs.get("memory")
        if memory is None:
            memory = self.initial_state(ops.shape(token_ids)[0])["memory"]
        shapes = [
            (token_ids.shape[0], units) for units in self.config.layer_sizes for _ in range(2)
        ]
        check_memory(memory, shapes, "output and cell of each LSTM, [batch, width of the LSTM]")
        embedded = self.embeddings(token_ids, training=training)
        hidden_states, memory = self.stack(
            embedded, memory, inputs.get("padding_mask"), training=training
        )
        if positions is not None:
            hidden_states[-1] = at_positions(hidden_states[-1], positions)
        return {
            "sequence_output": hidden_states[-1],
            "hidden_states": hidden_states,
            "attentions": [],
            "memory": [ops.stop_gradient(part) for part in memory],
        }

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state after the first `lengths` [batch] tokens of rows [batch, length], from the state before them."""
        mask = ops.arange(ops.shape(token_ids)[1])[None, :] < lengths[:, None]
        outputs = self({"token_ids": token_ids, "padding_mask": ops.cast(mask, "int32"), **state})
        return {"memory": outputs["memory"]}
