"""Backbones: layers from a dict of inputs to the dict of what an encoder makes of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.config import Config
from bert_zoo.layers.attention import (
    attention_bias,
    bias_between_documents,
)
from bert_zoo.layers.common import float_table
from bert_zoo.layers.heads.masked_lm import MaskedLMHead


@dataclass(frozen=True)
class Ids:
    """An input of integers, int [batch, length] unless the backbone says otherwise.

    Attributes:
        limit: ids lie in [0, limit).
        meaning: what the limit is, for messages.
        required: whether every call must give it.
        axes: what they are. "batch" and "length" are as long as the backbone's `main_input` says.
        is_apart: whether a SavedModel takes it in a signature of its own, as it is seldom given.
    """

    limit: int
    meaning: str
    required: bool = False
    axes: tuple[str, ...] = ("batch", "length")
    is_apart: bool = False

    def fits(self, shape: Sequence[int | None], of_tokens: Sequence[int | None]) -> bool:
        """Whether a shape goes with batch and length of the main input, as far as both are known."""
        wanted = dict(zip(("batch", "length"), of_tokens, strict=True))
        return len(shape) == len(self.axes) and all(
            wanted.get(axis) is None or size in (None, wanted[axis], 1)
            for axis, size in zip(self.axes, shape, strict=True)
        )


PADDING = "1 is a real token and 0 padding"
# Which tokens attend to the whole row and are seen from everywhere in it, as tasks name them: its first
# token, those of a pair's first text, those of its second one.
FIRST_IS_GLOBAL, FIRST_TEXT_IS_GLOBAL, SECOND_TEXT_IS_GLOBAL = "first", "first_text", "second_text"


@dataclass(frozen=True)
class Groups:
    """The layers of a backbone, from its inputs up; together they hold all of its variables.

    An `Encoder` has them as attributes, by their names.

    Attributes:
        embeddings: the lowest one.
        stack: what holds the blocks, with `blocks`, `blocks_of_layers` and `rematerialize`.
        top: what stands on the stack, as the pooler.
        highest_level: that of the highest layer; see `levels_below_head`.
    """

    embeddings: keras.layers.Layer
    stack: keras.layers.Layer
    top: Sequence[keras.layers.Layer] = ()
    highest_level: int = 2

    @property
    def layers(self) -> tuple[keras.layers.Layer, ...]:
        return (self.embeddings, self.stack, *self.top)

    def freeze(self, *, embeddings: bool, layers: int) -> None:
        """As `bert_zoo.training.freeze`, which is what users call."""
        self.check_layers(layers, "freeze")
        below, above = self.blocks_around(layers)
        if below & above:
            raise ValueError(
                f"The lowest {layers} layers cannot be frozen alone: layers above share weights with "
                f"them. Freeze all {self.num_layers} layers, or none."
            )
        if embeddings:
            self.embeddings.trainable = False
        for number in below:
            self.stack.blocks[number].trainable = False

    @property
    def num_layers(self) -> int:
        return len(self.stack.blocks_of_layers)

    def check_layers(self, layers: int, verb: str) -> None:
        """Raises ValueError where there are not so many layers to `verb`."""
        if isinstance(layers, bool) or not 0 <= layers <= self.num_layers:
            raise ValueError(f"layers is {layers!r}; this encoder has {self.num_layers} to {verb}.")

    def blocks_around(self, layers: int) -> tuple[set[int], set[int]]:
        """Numbers of the blocks that the lowest layers run through, and of those of all others."""
        of_layers = self.stack.blocks_of_layers
        below, above = of_layers[:layers], of_layers[layers:]
        return set(chain.from_iterable(below)), set(chain.from_iterable(above))

    def levels_below_head(self) -> dict[int, int]:
        """Variables by id, and how many layers below the head each lies, for `layer_decay`.

        Source: google-research/electra model/optimization.py, _get_layer_lrs. The head has level 0,
        the layers from the highest 2, 3, ..., and the embeddings the next. A pooler, which ELECTRA
        does not have, takes the free level 1. Layers that share their weights are one layer, so
        that ALBERT's block has level 2 and its embeddings 3.
        """
        lowest = self.highest_level + len(self.stack.blocks) - 1
        levels = {id(v): lowest + 1 for v in self.embeddings.variables}
        # What blocks share is read by the lowest layer first.
        levels |= {id(v): lowest for v in self.stack.variables}
        for number, block in enumerate(self.stack.blocks):
            levels |= {id(v): lowest - number for v in block.variables}
        return levels | {id(v): 1 for layer in self.top for v in layer.variables}


class Backbone(keras.layers.Layer):
    """What a family's page makes of a configuration, and an `Encoder` holds.

    Args:
        config: sizes and choices.
        embeddings: the lowest layer.
        stack: what holds the blocks; see `Groups`.

    Attributes:
        state: names of inputs that a call returns for the next one. Those in `inputs` are ids, the
            others lists of floating-point tensors.
        state_is_optional: whether a call returns it only where it is given.
        has_second_stream: whether tokens are predicted by a stream that does not see them; see
            `inputs_for_targets`.
        decodes_masks: whether the head for masked tokens reads hidden states below the last; see
            `masked_states`.
        has_global_tokens: whether most tokens see only a part of the row, and some all of it: `call`
            then takes `global_tokens`, one of "first", "first_text" and "second_text", or None for no
            such tokens. A mask of them among its inputs goes first.
        adds_losses: whether its layers add to the loss in training.
        is_portable: whether LiteRT and ONNX have its operations.
    """

    state: tuple[str, ...] = ()
    state_is_optional = False
    has_second_stream = False
    decodes_masks = False
    has_global_tokens = False
    adds_losses = False
    is_portable = True

    def __init__(self, config: Config, *, embeddings, stack, **kwargs):
        super().__init__(**{"name": "backbone", **kwargs})
        self.config = config
        self.embeddings = embeddings
        self.stack = stack

    @property
    def inputs(self) -> Mapping[str, Ids]:
        """The ids that it takes, by name, with their axes; those of `state` among them.

        Here, tokens and what of them is padding.
        """
        return {
            "token_ids": Ids(self.config.vocab_size, "the size of the vocabulary", required=True),
            "padding_mask": Ids(2, PADDING),
        }

    @property
    def main_input(self) -> str:
        """The name of the input that says how many rows there are, and how many tokens each has."""
        return next(name for name, ids in self.inputs.items() if ids.required)

    @property
    def longest_input(self) -> int:
        """The most tokens that a row may have."""
        return self.config.longest_input

    @property
    def hidden_sizes(self) -> Sequence[int]:
        """The width of each hidden state, the embeddings' first; of most families they are one."""
        return [self.config.hidden_size] * (self.groups().num_layers + 1)

    @property
    def token_table(self) -> Any:
        """What a language-model head with tied weights projects onto."""
        raise NotImplementedError

    def groups(self) -> Groups:
        """Its layers, for what treats lower and higher ones differently."""
        return Groups(self.embeddings, self.stack)

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """The initial `state` of a batch of new rows; `batch_size` may be a tensor.

        Args:
            tokens: how many will be read and written at most, where the state grows with them; by
                default as many as the model has positions for.
        """
        return {}

    def token_head(
        self, *, activation: str | None, head: type[MaskedLMHead] = MaskedLMHead, **options
    ) -> MaskedLMHead:
        """The head for masked tokens, not built, of a class and with options of it."""
        config = self.config
        return head(
            config.vocab_size,
            config.table_width,
            activation=activation,
            epsilon=config.layer_norm_epsilon,
            tied=config.tie_word_embeddings,
            **options,
        )

    def masked_states(self, encoded, inputs, head, positions, training=None):
        """What that head reads where `decodes_masks`, [batch, length or number, hidden].

        Args:
            encoded: what a call gave, of every token.
            inputs: that it was given.
            head: what `token_head` made.
            positions: int [batch, number], the tokens that are predicted; None for all.
        """
        raise NotImplementedError

    def inputs_for_targets(self, inputs, positions) -> dict[str, Any]:
        """What a call takes besides, so that a second stream predicts the tokens at positions.

        Args:
            inputs: as `call` takes them.
            positions: int [batch, targets], ascending and then 0 for none.
        """
        raise NotImplementedError

    def untrained_copies(self, *, make: bool = False) -> Callable[[], None]:
        """Freezes weights that pretraining has no use for; gives what is to be called after it.

        That copies those anew which are copies of others at the beginning, so that they are copies of
        what those became, and unfreezes all. Most backbones have none.

        Args:
            make: whether all that pretraining leaves alone are to be copies, as in a new model.
        """
        return lambda: None

    def build(self, input_shape):
        """Makes the variables, unless they are more than the machine's memory holds.

        Raises:
            ConfigError: they are.
        """
        groups = self.groups()
        with private.declaring():
            groups.embeddings.build((None, None))
            for layer in (groups.stack, *groups.top):
                layer.build((None, None, self.config.hidden_size))
            self.config.check_memory(sum(math.prod(v.shape) for v in self.variables))
        self.built = True

    def call(self, inputs, positions=None, training=None) -> dict[str, Any]:
        """From what `inputs` and `state` name to what an `Encoder` returns, which says more.

        `hidden_states` and `attentions` are always there, the state where there is one.
        """
        raise NotImplementedError

    def shown_attentions(self, attentions: Sequence, length) -> dict[str, list[Any]]:
        """The attentions of a call on rows of `length` as users see them.

        Of most families they are `attentions` alone, [batch, heads, length, keys] of every layer.
        """
        return {"attentions": list(attentions)}


class TransformerBackbone(Backbone):
    """Embeddings, a stack of blocks that attend to every token, and perhaps a pooler (BERT).

    Rows may hold several documents, one after the other, which `document_ids` number from 1 (0 is
    padding): tokens attend to those of their own document alone, and positions start again with each.
    So every document is encoded as if it stood alone. There is no `pooled_output` of such rows, whose
    first token is of the first document alone.

    Args:
        config: sizes and choices.
        embeddings: a layer (token_ids, segment_ids, position_ids) -> [batch, length, hidden].
        stack: a `Stack`.
        pooler: a layer [batch, length, hidden] -> [batch, hidden], or None.
        final_norm: a layer over the last hidden state, or None.
    """

    # What the embeddings are called with.
    embedded_ids: tuple[str, ...] = ("token_ids", "segment_ids", "position_ids", "document_ids")

    def __init__(
        self,
        config: Config,
        *,
        embeddings,
        stack,
        pooler=None,
        final_norm=None,
        **kwargs,
    ):
        super().__init__(config, embeddings=embeddings, stack=stack, **kwargs)
        self.pooler = pooler
        self.final_norm = final_norm

    @property
    def inputs(self) -> dict[str, Ids]:
        config = self.config
        segments = Ids(config.num_segments, "the number of segments")
        return {
            "token_ids": Ids(config.vocab_size, "the size of the vocabulary", required=True),
            **({"segment_ids": segments} if config.num_segments else {}),
            "padding_mask": Ids(2, PADDING),
            "position_ids": Ids(config.max_positions, "the rows of the position table"),
            "document_ids": Ids(
                config.max_positions + 1,
                "0 is padding, and a row has no more documents than tokens",
            ),
        }

    @property
    def token_table(self):
        return float_table(self.embeddings.token_embedding)

    def groups(self) -> Groups:
        top = tuple(layer for layer in (self.final_norm, self.pooler) if layer is not None)
        return Groups(self.embeddings, self.stack, top)

    def call(self, inputs, positions=None, training=None, **options):
        document_ids = inputs.get("document_ids")
        is_first = isinstance(positions, slice)
        self._check_rows(document_ids, is_first)
        embedded, bias = self.embedded(inputs, training, **options)
        is_pooled = self.pooler is not None and document_ids is None
        adds_first = is_pooled and positions is not None and not is_first
        if adds_first:
            positions = ops.pad(positions, ((0, 0), (1, 0)))
        hidden_states, attentions = self.stack(
            embedded, bias, positions=positions, training=training
        )
        if self.final_norm is not None:
            hidden_states[-1] = self.final_norm(hidden_states[-1])
        outputs = {"pooled_output": self.pooler(hidden_states[-1])} if is_pooled else {}
        if adds_first:
            hidden_states[-1] = hidden_states[-1][:, 1:]
            attentions[-1:] = (probabilities[:, :, 1:] for probabilities in attentions[-1:])
        outputs |= {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def embedded(self, inputs, training):
        """What the stack is given: embeddings [batch, length, hidden], and the bias of scores."""
        document_ids, mask = inputs.get("document_ids"), inputs.get("padding_mask")
        embedded = self.embeddings(*map(inputs.get, self.embedded_ids), training=training)
        mask = ops.ones_like(inputs["token_ids"]) if mask is None else mask
        bias = attention_bias(mask, keras.backend.standardize_dtype(embedded.dtype))
        if document_ids is not None:
            bias = ops.minimum(bias, bias_between_documents(document_ids, bias.dtype))
        return embedded, bias

    def _check_rows(self, document_ids, is_first: bool) -> None:
        if is_first and document_ids is not None:
            raise ValueError(
                "This reads the first token of each row, and rows with document_ids hold several "
                "documents. Give each document a row of its own, or leave document_ids out."
            )


def fits(shape, wanted) -> bool:
    """Whether a shape is the wanted one as far as both are known."""
    return len(shape) == len(wanted) and all(
        None in (found, other) or found == other for found, other in zip(shape, wanted, strict=True)
    )
