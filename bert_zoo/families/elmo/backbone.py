"""ELMo's backbone: character-based words with sentence marks, and LSTMs in both directions."""

from typing import Any

import numpy as np
from keras import ops

from bert_zoo.families.elmo.characters import BEGIN, END, boundary_ids
from bert_zoo.layers.backbones import PADDING, Backbone, Ids, fits
from bert_zoo.layers.common import at_positions


class ElmoBackbone(Backbone):
    """Encodes words with LSTMs in both directions (Peters et al. 2018).

    It takes `char_ids` [batch, words, characters] and optionally a `padding_mask`. A word of only zeros is always
    padding. A model without characters takes `token_ids` [batch, words] instead, ids of a vocabulary that begins
    with the marks of sentences. The marks are added before the LSTMs, and their outputs removed.

    `hidden_states` has the outputs of every layer, both directions concatenated. The first entry is the word
    vectors, twice, for the same width. `memory` has [batch, 2, projection + cell] for each layer: the last output and
    cell of both directions. It is returned if it is given; the originals carry it from batch to batch. Without it,
    rows start from zeros.

    Args:
        config: the configuration.
        embeddings: a `CharacterEncoder`, or a table of words.
        stack: a `BidirectionalStack`.
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
        self._check_memory(memory, ids)
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
        """Runs each direction over its own words, as in training language models.

        Args:
            char_ids: int [batch, 2, words, characters], the words of each direction in its reading order. No marks of
                sentences are added.
            memory: as for `call`.

        Returns:
            The last layer's outputs, [batch, 2, words, projection_size], in the same order; and the new memory.
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
        """Returns the vectors of words, with the vectors of the sentence's start and end marks around them.

        Args:
            ids: ids of words, as for `call`.
            mask: int [batch, words], 1 for words.

        Returns:
            The vectors, [batch, 1 + words + 1, projection_size], and their mask.
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

    def _check_memory(self, memory, ids) -> None:
        if memory is None:
            return
        config = self.config
        wanted = (ids.shape[0], 2, config.projection_size + config.cell_size)
        shapes = [tuple(state.shape) for state in memory]
        if len(shapes) != config.num_layers or not all(fits(shape, wanted) for shape in shapes):
            raise ValueError(
                f"memory has the shapes {shapes}; it is a list of {config.num_layers} tensors of the shape "
                f"{wanted}, one for each layer: the batch, directions, and an output and a cell."
            )
