"""Backbones: layers that turn a dict of inputs into an encoder's dict of outputs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import keras
from keras import ops

from bert_zoo import private
from bert_zoo.config import Config
from bert_zoo.fields import check
from bert_zoo.layers.attention import attention_bias, bias_between_documents
from bert_zoo.layers.common import float_table
from bert_zoo.layers.heads import MaskedLMHead


@dataclass(frozen=True)
class Ids:
    """An integer input, by default int [batch, length]."""

    limit: int  # ids lie in [0, limit)
    meaning: str  # what the limit is, for error messages
    required: bool = False  # whether every call needs it
    # "batch" and "length" have the sizes of `main_input`
    axes: tuple[str, ...] = ("batch", "length")
    is_apart: bool = False  # rarely used: has a SavedModel signature of its own

    def fits(self, shape: Sequence[int | None], of_tokens: Sequence[int | None]) -> bool:
        """Whether a shape agrees with [batch, length] of the main input, where both are known."""
        wanted = dict(zip(("batch", "length"), of_tokens, strict=True))
        return len(shape) == len(self.axes) and all(
            wanted.get(axis) is None or size in (None, wanted[axis], 1)
            for axis, size in zip(self.axes, shape, strict=True)
        )


PADDING = "1 is a real token and 0 padding"
# Tasks' choices of global tokens, which see the whole row and are seen by all of it: its first token, or
# the tokens of a pair's first or second text.
FIRST_IS_GLOBAL, FIRST_TEXT_IS_GLOBAL, SECOND_TEXT_IS_GLOBAL = "first", "first_text", "second_text"


@dataclass(frozen=True)
class Groups:
    """The layers of a backbone from its inputs up, with all its variables; an `Encoder` has them as attributes."""

    embeddings: keras.layers.Layer
    stack: keras.layers.Layer  # with `blocks`, `blocks_of_layers` and `rematerialize`
    top: Sequence[keras.layers.Layer] = ()  # above the stack, such as the pooler
    fitted: Sequence[keras.layers.Layer] = ()  # above the stack, which no training here changes
    highest_level: int = 2  # of the highest layer; see `levels_below_head`

    @property
    def layers(self) -> tuple[keras.layers.Layer, ...]:
        return (self.embeddings, self.stack, *self.top, *self.fitted)

    def freeze(self, *, embeddings: bool, layers: int) -> None:
        """See `bert_zoo.training.freeze`, the function for users."""
        note = "the number of this encoder's layers to freeze"
        check("layers", layers, int, least=0, most=self.num_layers, note=note)
        below, above = self.blocks_around(layers)
        if below & above:
            raise ValueError(
                f"The lowest {layers} layers cannot be frozen alone, because layers above share their "
                f"weights. Freeze all {self.num_layers} layers, or none."
            )
        if embeddings:
            self.embeddings.trainable = False
        for number in below:
            self.stack.blocks[number].trainable = False

    @property
    def num_layers(self) -> int:
        return len(self.stack.blocks_of_layers)

    def blocks_around(self, layers: int) -> tuple[set[int], set[int]]:
        """Numbers of the blocks that the lowest layers use, and of the blocks that all others use."""
        of_layers = self.stack.blocks_of_layers
        below, above = of_layers[:layers], of_layers[layers:]
        return set(chain.from_iterable(below)), set(chain.from_iterable(above))

    def levels_below_head(self) -> dict[int, int]:
        """The number of layers between each variable (by id) and the head, for `layer_decay`. The head has level 0, the
        layers from the top 2, 3, ..., and the embeddings the next number. A pooler, which ELECTRA does not have,
        takes the free level 1. Layers that share weights count as one layer: ALBERT's block has level 2 and its
        embeddings 3. Source: google-research/electra model/optimization.py, _get_layer_lrs.
        """
        lowest = self.highest_level + len(self.stack.blocks) - 1
        levels = {id(v): lowest + 1 for v in self.embeddings.variables}
        # The lowest layer is the first to read what blocks share.
        levels |= {id(v): lowest for v in self.stack.variables}
        for number, block in enumerate(self.stack.blocks):
            levels |= {id(v): lowest - number for v in block.variables}
        return levels | {id(v): 1 for layer in self.top for v in layer.variables}


class Backbone(keras.layers.Layer):
    """Base class of the families' backbones, the layers inside an `Encoder`.

    Args:
        config: the configuration.
        embeddings: the lowest layer.
        stack: the layer that holds the blocks; see `Groups`.

    Attributes:
        state: names of the inputs that a call returns for the next call. Those that are in `inputs`
            are ids, the others lists of floating-point tensors.
        state_is_optional: whether calls return the state only if they are given one.
        has_second_stream: whether a second stream, which does not see the tokens, predicts them; see
            `inputs_for_targets`.
        decodes_masks: whether the head for masked tokens reads hidden states below the last; see
            `masked_states`.
        has_global_tokens: whether most tokens see only part of the row, and global tokens see all of it.
            `call` then takes `global_tokens`: "first", "first_text", "second_text" or None for none. A
            mask of global tokens among the inputs takes precedence.
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
        self.embeddings, self.stack = embeddings, stack

    @property
    def inputs(self) -> Mapping[str, Ids]:
        """The ids that it takes by name, including those of `state`; here tokens and their padding mask."""
        return {
            "token_ids": Ids(self.config.vocab_size, "the size of the vocabulary", required=True),
            "padding_mask": Ids(2, PADDING),
        }

    @property
    def main_input(self) -> str:
        """Name of the input that determines the numbers of rows and tokens."""
        return next(name for name, ids in self.inputs.items() if ids.required)

    @property
    def longest_input(self) -> int:
        """Maximum number of tokens per row."""
        return self.config.longest_input

    @property
    def hidden_sizes(self) -> Sequence[int]:
        """The width of each hidden state, embeddings first; the same for all layers in most families."""
        return [self.config.hidden_size] * (self.groups().num_layers + 1)

    @property
    def token_table(self) -> Any:
        """The table [vocab_size, width] that language-model heads with tied weights project onto."""
        raise NotImplementedError

    def groups(self) -> Groups:
        """Its layers from low to high, for freezing and layer-wise learning rates."""
        return Groups(self.embeddings, self.stack)

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """Returns the initial `state` for a batch of new rows.

        Args:
            batch_size: number of rows; may be a tensor.
            tokens: maximum number of tokens that will be read and written, if the state's size depends
                on it; by default the number of positions.
        """
        return {}

    def token_head(
        self, *, activation: str | None, head: type[MaskedLMHead] = MaskedLMHead, **options
    ) -> MaskedLMHead:
        """The head for masked tokens, not yet built; `options` go to its class."""
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
        """The hidden states that this head reads if `decodes_masks`, [batch, length or number, hidden].

        Args:
            encoded: outputs of a call for all tokens.
            inputs: the inputs of that call.
            head: the head from `token_head`.
            positions: int [batch, number], the tokens to predict; None for all.
        """
        raise NotImplementedError

    def inputs_for_targets(self, inputs, positions) -> dict[str, Any]:
        """Additional inputs with which a second stream predicts the tokens at positions.

        Args:
            inputs: the other inputs of `call`.
            positions: int [batch, targets], ascending, then 0 for none.
        """
        raise NotImplementedError

    def pooled_tokens(self, inputs, real) -> Any:
        """Those of the real tokens, [batch, length] or None for all, that sentence vectors pool."""
        return real

    def untrained_copies(self, *, make: bool = False) -> Callable[[], None]:
        """Freezes weights that pretraining does not use, and returns a function to call after it.

        That function unfreezes them. Those that were copies of other weights before pretraining become
        copies of the pretrained weights. Most backbones have no such weights.

        Args:
            make: whether to make copies of all of them, as in a new model.
        """
        return lambda: None

    def build(self, input_shape):
        """Creates the variables.

        Raises:
            ConfigError: they do not fit in the machine's memory.
        """
        groups = self.groups()
        with private.declaring():
            groups.embeddings.build((None, None))
            for layer in groups.layers[1:]:
                layer.build((None, None, self.config.hidden_size))
            self.config.check_memory(sum(math.prod(v.shape) for v in self.variables))
        self.built = True

    def call(self, inputs, positions=None, training=None) -> dict[str, Any]:
        """Turns a dict of `inputs` and `state` into the dict that `Encoder` describes.

        It always has `hidden_states` and `attentions`, and the state if the backbone has one.

        Args:
            inputs: dict of int tensors, and of the state.
            positions: int [batch, number] or `FIRST`, the tokens that the last layer computes; None for all.
        """
        raise NotImplementedError

    def shown_attentions(self, attentions: Sequence, length) -> dict[str, list[Any]]:
        """The attentions of a call on rows of `length` as users see them.

        In most families, only `attentions`: [batch, heads, length, keys] for each layer.
        """
        return {"attentions": list(attentions)}


class TransformerBackbone(Backbone):
    """Embeddings, a stack of blocks that attend to all tokens, and optionally a pooler (BERT).

    A row may hold several documents, one after the other, numbered by `document_ids` from 1 (0 is
    padding). Tokens attend only to their own document, and positions start again in each, so every
    document is encoded as if it were alone. Such rows have no `pooled_output`.

    Args:
        config: the configuration.
        embeddings: a layer (token_ids, segment_ids, position_ids, document_ids) -> [batch, length, hidden].
        stack: a `Stack`.
        pooler: a layer [batch, length, hidden] -> [batch, hidden], or None.
        final_norm: a layer applied to the last hidden state, or None.
    """

    # The arguments of the embeddings.
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
        self.pooler, self.final_norm = pooler, final_norm

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
        """The stack's inputs: embeddings [batch, length, hidden], and the bias of attention scores."""
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
                "Only the first token of each row is read here, but rows with document_ids hold several "
                "documents. Give each document a row of its own, or leave document_ids out."
            )


def fits(shape, wanted) -> bool:
    """Whether a shape equals the wanted one where both are known."""
    return len(shape) == len(wanted) and all(
        None in (found, other) or found == other for found, other in zip(shape, wanted, strict=True)
    )


def check_memory(memory, shapes: Sequence[tuple[int | None, ...]], each: str) -> None:
    """Raises ValueError unless a memory has tensors of these shapes; `each` says what they hold, for messages."""
    if isinstance(memory, Mapping) or len(memory) != len(shapes):
        raise ValueError(
            f"memory has {len(memory)} entries; it must be a list of {len(shapes)} tensors, as the model returned it: "
            f"{each}."
        )
    for number, (entry, wanted) in enumerate(zip(memory, shapes, strict=True)):
        if not fits(entry.shape, wanted):
            raise ValueError(
                f"memory[{number}] has shape {tuple(entry.shape)}; it must be {wanted}: {each}."
            )
