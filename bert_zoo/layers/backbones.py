"""Backbones: layers from a dict of inputs to the dict of what an encoder makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import keras
from keras import ops

from bert_zoo.config import Config
from bert_zoo.layers.attention import (
    at_queries,
    attention_bias,
    bias_between_documents,
    masked_score,
)
from bert_zoo.layers.common import at_positions, float_kernel, float_table, table
from bert_zoo.layers.embeddings import token_positions
from bert_zoo.layers.recurrent_stack import updated_memory
from bert_zoo.layers.relative_attention import causal_bias


@dataclass(frozen=True)
class Ids:
    """An input of integers, int [batch, length] unless the backbone says otherwise.

    Attributes:
        limit: ids lie in [0, limit).
        meaning: what the limit is, for messages.
        required: whether every call must give it.
        axes: what they are; those of `token_ids` by default.
        is_apart: whether a SavedModel takes it in a signature of its own, as it is seldom given.
    """

    limit: int
    meaning: str
    required: bool = False
    axes: tuple[str, ...] = ("batch", "length")
    is_apart: bool = False

    def fits(self, shape: Sequence[int | None], of_tokens: Sequence[int | None]) -> bool:
        """Whether a shape goes with that of `token_ids`, as far as both are known."""
        wanted = dict(zip(("batch", "length"), of_tokens, strict=True))
        return len(shape) == len(self.axes) and all(
            wanted.get(axis) is None or size in (None, wanted[axis], 1)
            for axis, size in zip(self.axes, shape, strict=True)
        )


PADDING = "1 is a real token and 0 padding"


@dataclass(frozen=True)
class Groups:
    """The layers of a backbone, from its inputs up; together they hold all of its variables.

    An `Encoder` has them as attributes, by their names.

    Attributes:
        embeddings: the lowest one.
        stack: what holds the blocks, with `blocks`, `blocks_of_layers` and `rematerialize`.
        top: what stands on the stack, as the pooler.
    """

    embeddings: keras.layers.Layer
    stack: keras.layers.Layer
    top: Sequence[keras.layers.Layer] = ()

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
        num_blocks = len(self.stack.blocks)
        levels = {id(v): num_blocks + 2 for v in self.embeddings.variables}
        # What blocks share is read by the lowest layer first.
        levels |= {id(v): num_blocks + 1 for v in self.stack.variables}
        for number, block in enumerate(self.stack.blocks):
            levels |= {id(v): num_blocks + 1 - number for v in block.variables}
        return levels | {id(v): 1 for layer in self.top for v in layer.variables}


class Backbone(keras.layers.Layer):
    """What a family's page makes of a configuration, and an `Encoder` holds.

    Attributes:
        config: sizes and choices.
        state: names of inputs that a call returns for the next one. Those in `inputs` are ids, the
            others lists of floating-point tensors.
        state_is_optional: whether a call returns it only where it is given.
        has_second_stream: whether tokens are predicted by a stream that does not see them; see
            `inputs_for_targets`.
    """

    state: tuple[str, ...] = ()
    state_is_optional = False
    has_second_stream = False

    def __init__(self, config: Config, **kwargs):
        super().__init__(**{"name": "backbone", **kwargs})
        self.config = config

    @property
    def inputs(self) -> Mapping[str, Ids]:
        """The ids that it takes, by name; all of the shape of `token_ids` but for those of `state`."""
        raise NotImplementedError

    @property
    def longest_input(self) -> int:
        """The most tokens that a row may have."""
        return self.config.longest_input

    @property
    def token_table(self) -> Any:
        """What a language-model head with tied weights projects onto."""
        raise NotImplementedError

    def groups(self) -> Groups:
        """Its layers, for what treats lower and higher ones differently."""
        raise NotImplementedError

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        """The inputs of `state` for so many rows that begin; their number may be a tensor.

        Args:
            tokens: how many will be read and written at most, where the state grows with them; by
                default as many as the model has positions for.
        """
        return {}

    def mask_embedding(self, *, initializer_range: float, dtype) -> keras.layers.Layer | None:
        """A table of positions that the head for masked tokens alone reads; None for no such table."""
        return None

    def masked_states(self, encoded, inputs, embedding, positions, training=None):
        """What that head reads, where there is such a table, [batch, length or number, hidden].

        Args:
            encoded: what a call gave, of every token.
            inputs: that it was given.
            embedding: the table.
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

    def build(self, input_shape):
        groups = self.groups()
        groups.embeddings.build((None, None))
        for layer in (groups.stack, *groups.top):
            layer.build((None, None, self.config.hidden_size))
        self.built = True

    def call(self, inputs, positions=None, training=None) -> dict[str, Any]:
        """From what `inputs` and `state` name to what an `Encoder` returns, which says more.

        `hidden_states` and `attentions` are always there, the state where there is one.
        """
        raise NotImplementedError

    def shown_attentions(self, attentions: Sequence, length) -> list[Any]:
        """The attentions of a call on rows of `length` as users see them, [batch, heads, length, keys]."""
        return list(attentions)


class TransformerBackbone(Backbone):
    """Embeddings, a stack of blocks that attend to every token, and perhaps a pooler (BERT).

    Rows may hold several documents, one behind the other, which `document_ids` number from 1 (0 is
    padding): tokens attend to those of their own document alone, and positions start again with each.
    So every document is encoded as if it stood alone. There is no `pooled_output` of such rows, whose
    first token is of the first document alone.

    Args:
        config: sizes and choices.
        embeddings: a layer (token_ids, segment_ids, position_ids) -> [batch, length, hidden].
        stack: a `Stack`.
        pooler: a layer [batch, length, hidden] -> [batch, hidden], or None.
        num_languages: of `language_ids`, which tell the language of each token; 0 for models without.
        zeroes_padding: whether the hidden states of padding are 0 after the embeddings and after each
            layer (XLM).
        final_norm: a layer over the last hidden state, or None.
    """

    def __init__(
        self,
        config: Config,
        *,
        embeddings,
        stack,
        pooler=None,
        num_languages: int = 0,
        zeroes_padding: bool = False,
        final_norm=None,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.embeddings = embeddings
        self.stack = stack
        self.pooler = pooler
        self.num_languages = num_languages
        self.zeroes_padding = zeroes_padding
        self.final_norm = final_norm

    @property
    def inputs(self) -> dict[str, Ids]:
        config = self.config
        segments = Ids(config.num_segments, "the number of segments")
        languages = Ids(self.num_languages, "the number of languages", is_apart=True)
        return {
            "token_ids": Ids(config.vocab_size, "the size of the vocabulary", required=True),
            **({"segment_ids": segments} if config.num_segments else {}),
            **({"language_ids": languages} if self.num_languages else {}),
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

    def call(self, inputs, positions=None, training=None):
        document_ids = inputs.get("document_ids")
        is_first = isinstance(positions, slice)
        self._check_rows(document_ids, is_first)
        embedded, bias = self.embedded(inputs, training)
        is_pooled = self.pooler is not None and document_ids is None
        adds_first = is_pooled and positions is not None and not is_first
        if adds_first:
            positions = ops.pad(positions, ((0, 0), (1, 0)))
        kept = inputs.get("padding_mask") if self.zeroes_padding else None
        hidden_states, attentions = self.stack(
            embedded, bias, positions=positions, kept=kept, training=training
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
        token_ids, document_ids = inputs["token_ids"], inputs.get("document_ids")
        embedded = self.embeddings(
            token_ids,
            inputs.get("segment_ids"),
            inputs.get("position_ids"),
            document_ids,
            inputs.get("language_ids"),
            training=training,
        )
        mask = inputs.get("padding_mask")
        if self.zeroes_padding and mask is not None:
            embedded = embedded * ops.expand_dims(ops.cast(mask, embedded.dtype), -1)
        mask = ops.ones_like(token_ids) if mask is None else mask
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


class CausalBackbone(TransformerBackbone):
    """Embeddings and a stack of blocks whose tokens attend to those before them (GPT).

    Beside the inputs of `TransformerBackbone`, it takes what was computed of the tokens before these,
    and returns it with theirs, where it is given:

    * `memory`: for each layer the keys [batch, heads, head_size, slots] and the values [batch, heads,
      slots, head_size] of earlier tokens, with slots that are still free.
    * `memory_mask` int [batch, slots]: 1 where a slot holds a token.

    The tokens of a call take the slots behind all that are taken in any row, which must be there;
    padding behind them leaves its slots out, and positions count tokens alone. So shapes in and out are
    the same, and one compiled step serves a text up to the number of slots. Where too few are free,
    outputs are no numbers.

    Args: as `TransformerBackbone`; the stack is a `CausalStack`.
    """

    state = ("memory", "memory_mask")
    state_is_optional = True

    @property
    def inputs(self) -> dict[str, Ids]:
        return {**super().inputs, "memory_mask": Ids(2, "1 is a token and 0 a free slot")}

    @property
    def token_table(self):
        """As `RecurrentBackbone.token_table`, of one cluster without projection."""
        return [super().token_table], [None]

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        slots = config.longest_input if tokens is None else tokens
        size = config.hidden_size // config.num_heads
        shapes = ((size, slots), (slots, size))
        return {
            "memory": [
                ops.zeros((batch_size, config.num_heads, *shape), self.compute_dtype)
                for _ in range(config.num_layers)
                for shape in shapes
            ],
            "memory_mask": ops.zeros((batch_size, slots), "int32"),
        }

    def embedded(self, inputs, training):
        embedded, bias = super().embedded(inputs, training)
        length = ops.shape(embedded)[1]
        return embedded, ops.minimum(bias, causal_bias(length, length, None, bias.dtype))

    def call(self, inputs, positions=None, training=None):
        memory, memory_mask = (inputs.get(name) for name in self.state)
        if memory is None and memory_mask is None:
            return super().call(inputs, positions, training)
        self._check_memory(memory, memory_mask, inputs)
        if positions is not None or "document_ids" in inputs:
            raise ValueError(
                "With memory, rows go on with one text, and all of its tokens are computed: leave "
                "document_ids and positions out."
            )
        token_ids, mask = inputs["token_ids"], inputs.get("padding_mask")
        mask = ops.ones_like(token_ids) if mask is None else mask
        length, slots = ops.shape(token_ids)[1], ops.shape(memory_mask)[1]
        numbers = ops.arange(slots, dtype="int32")
        # With a row of zeros, since an empty batch has no largest number.
        start = ops.max(ops.pad(memory_mask * (numbers + 1)[None, :], [(1, 0), (0, 0)]))
        places = ops.arange(length, dtype="int32")
        position_ids = inputs.get("position_ids")
        if position_ids is None:
            # Of tokens; padding behind them may lie beyond the last position.
            position_ids = (ops.sum(memory_mask, axis=1)[:, None] + places[None, :]) * mask
        embedded = self.embeddings(token_ids, None, position_ids, training=training)
        dtype = keras.backend.standardize_dtype(embedded.dtype)
        memory_mask = ops.slice_update(memory_mask, (0, start), mask)
        later = numbers[None, :] > (start + places)[:, None]
        bias = ops.minimum(
            attention_bias(memory_mask, dtype), ops.cast(later, dtype) * masked_score(dtype)
        )
        # Or tokens would take the place of others, in silence.
        bias = ops.where(start + length > slots, float("nan"), bias)
        hidden_states, attentions, memory = self.stack(
            embedded, bias, memory=memory, start=start, training=training
        )
        if self.final_norm is not None:
            hidden_states[-1] = self.final_norm(hidden_states[-1])
        return {
            "sequence_output": hidden_states[-1],
            "hidden_states": hidden_states,
            "attentions": attentions,
            "memory": memory,
            "memory_mask": memory_mask,
        }

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """As `RecurrentBackbone.state_after`."""
        mask = ops.arange(ops.shape(token_ids)[1])[None, :] < lengths[:, None]
        outputs = self({"token_ids": token_ids, "padding_mask": ops.cast(mask, "int32"), **state})
        return {name: outputs[name] for name in self.state}

    def _check_memory(self, memory, memory_mask, inputs) -> None:
        config, tensors = self.config, 2 * self.config.num_layers
        if memory is None or memory_mask is None:
            raise ValueError(
                "memory and memory_mask go together: pass both, as the model returned them or as "
                "initial_memory(batch_size) gives them, or neither."
            )
        if isinstance(memory, Mapping) or len(memory) != tensors:
            raise ValueError(
                f"memory has {len(memory)} entries; it is a list of {tensors} tensors, the keys and the "
                f"values of each of the {config.num_layers} layers."
            )
        batch, slots = inputs["token_ids"].shape[0], memory_mask.shape[1]
        size = config.hidden_size // config.num_heads
        for number, entry in enumerate(memory):
            of_token = (slots, size) if number % 2 else (size, slots)
            wanted = (batch, config.num_heads, *of_token)
            if not _fits(entry.shape, wanted):
                raise ValueError(
                    f"memory[{number}] has shape {tuple(entry.shape)}; it must be {wanted}: batch, heads, "
                    "and, of keys the other way round, slots and size."
                )


class DisentangledBackbone(TransformerBackbone):
    """Token embeddings and a stack that knows distances (DeBERTa).

    `position_ids` are read by the head for masked tokens, and by embeddings with a table of positions.

    Args:
        config: sizes and choices.
        embeddings: a `TokenEmbeddings`.
        stack: a `DisentangledStack`.
    """

    @property
    def token_table(self):
        return self.embeddings.token_embedding.whole

    def call(self, inputs, positions=None, training=None):
        self._check_rows(inputs.get("document_ids"), isinstance(positions, slice))
        names = ("token_ids", "segment_ids", "position_ids", "document_ids")
        embedded = self.embeddings(*map(inputs.get, names), training=training)
        bias, document_ids = self._visible(inputs)
        # Neighbours see padding where there is a convolution.
        embedded = embedded * ops.expand_dims(ops.cast(document_ids > 0, embedded.dtype), -1)
        hidden_states, attentions = self.stack(
            embedded, bias, document_ids, positions=positions, training=training
        )
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def _visible(self, inputs):
        """The bias of attention, and which document each token is of, 0 for padding."""
        padding_mask, document_ids = inputs.get("padding_mask"), inputs.get("document_ids")
        if padding_mask is None:
            padding_mask = ops.ones_like(inputs["token_ids"])
        bias = attention_bias(padding_mask, self.compute_dtype)
        if document_ids is None:
            return bias, padding_mask
        between = bias_between_documents(document_ids, self.compute_dtype)
        return ops.minimum(bias, between), document_ids * padding_mask

    def mask_embedding(self, *, initializer_range, dtype):
        if not self.config.enhances_masks:
            return None
        return table(
            self.config.max_positions,
            self.config.hidden_size,
            "position_embedding",
            stddev=initializer_range,
            dtype=dtype,
        )

    def masked_states(self, encoded, inputs, embedding, positions, training=None):
        hidden, bias = encoded["hidden_states"][-2], self._visible(inputs)[0]
        length, most = hidden.shape[1], self.config.max_positions
        if length is not None and length > most:
            raise ValueError(
                f"The input has {length} tokens a row and the head for masked tokens knows {most} "
                f"positions. Cut the text shorter, for instance with load(..., max_length={most})."
            )
        position_ids = token_positions(
            inputs["token_ids"], inputs.get("position_ids"), inputs.get("document_ids")
        )
        position_ids = ops.broadcast_to(position_ids, ops.shape(hidden)[:2])
        queries = hidden
        if positions is not None:
            queries, position_ids = (at_positions(x, positions) for x in (hidden, position_ids))
        queries = queries + embedding(position_ids)
        return self.stack.decode(queries, hidden, bias, positions, training=training)


class RecurrentBackbone(Backbone):
    """Embeddings and a stack of blocks that remember the segment before (Transformer-XL).

    Beside `token_ids` and `padding_mask`, it takes

    * `memory`: for each layer, [batch, memory length, hidden], as the call before returned it. What
      precedes a text without it is the configuration's `memory_start`: `mem_len` rows of zeros that
      are attended to, or nothing.
    * `memory_mask` int [batch, memory length]: 1 where the memory holds something.

    Padding is not attended to, now or from memory. Returned are the new `memory` of `mem_len`
    positions, through which no gradient runs, and `memory_mask` where a mask came in or memory
    starts empty. Shapes in and out are the same for a memory of `mem_len`, so one compiled step
    serves a text of any length. `positions` save no time here, where memory holds every token.

    Args:
        config: sizes and choices.
        embeddings: a layer token_ids -> [batch, length, hidden].
        stack: a `RecurrentStack`.
    """

    state = ("memory", "memory_mask")

    def __init__(self, config: Config, *, embeddings, stack, **kwargs):
        super().__init__(config, **kwargs)
        self.embeddings = embeddings
        self.stack = stack

    @property
    def inputs(self) -> dict[str, Ids]:
        return {
            "token_ids": Ids(self.config.vocab_size, "the size of the vocabulary", required=True),
            "padding_mask": Ids(2, PADDING),
            "memory_mask": Ids(2, PADDING),
        }

    @property
    def token_table(self):
        """The tables of the clusters, and for each cluster the kernel of its projection, or None."""
        config, tables = self.config, self.embeddings.tables
        kernels = [
            None if layer is None else float_kernel(layer, each.output_dim)
            for each, layer in zip(tables, self.embeddings.projections, strict=True)
        ]
        of_clusters = [kernels[config.table_of(c)] for c in range(len(config.cluster_sizes))]
        return [*map(float_table, tables)], of_clusters

    def groups(self) -> Groups:
        return Groups(self.embeddings, self.stack)

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        shape = (batch_size, config.mem_len, config.hidden_size)
        holds = ops.zeros if config.memory_start == "empty" else ops.ones
        return {
            "memory": [ops.zeros(shape, self.compute_dtype) for _ in range(config.num_layers)],
            "memory_mask": holds(shape[:2], "int32"),
        }

    def call(self, inputs, positions=None, training=None):
        memory, masks = self.past(inputs)
        keys_mask = None if masks is None else ops.concatenate(masks, axis=1)
        embedded = self.embeddings(inputs["token_ids"], training=training)
        hidden_states, attentions = self.stack(embedded, memory, keys_mask, training=training)
        outputs = self.outputs(hidden_states, attentions, positions)
        return outputs | self.next_state(hidden_states, memory, masks)

    def past(self, inputs) -> tuple[list, list | None]:
        """The memory; and the masks of memory and tokens, or None where all is seen."""
        token_ids, padding_mask = inputs["token_ids"], inputs.get("padding_mask")
        memory, memory_mask = (inputs.get(name) for name in RecurrentBackbone.state)
        starts_empty = self.config.memory_start == "empty"
        if memory is None:
            if memory_mask is not None:
                raise ValueError(
                    "memory_mask says what the memory holds, and no memory is given. Pass both, as "
                    "the model returned them, or neither."
                )
            start = self.initial_state(ops.shape(token_ids)[0])
            memory = start["memory"]
            memory_mask = start["memory_mask"] if starts_empty else None
        self._check_memory(memory, memory_mask, token_ids)
        if not starts_empty and memory_mask is None and padding_mask is None:
            return memory, None
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory[0])[:2], "int32")
        if padding_mask is None:
            padding_mask = ops.ones_like(token_ids)
        return memory, [memory_mask, padding_mask]

    def next_state(self, hidden_states, memory, masks, kept: int = 0) -> dict[str, Any]:
        """What of `state` a call returns, of the first tokens that are kept, or of all for 0."""
        mem_len = self.config.mem_len

        def updated(old, new):
            return updated_memory(old, new[:, :kept] if kept else new, mem_len)

        state = {"memory": [updated(*pair) for pair in zip(memory, hidden_states, strict=False)]}
        if masks is not None:
            state["memory_mask"] = updated(*masks)
        return {name: value for name, value in state.items() if name in self.state}

    def outputs(self, hidden_states, attentions, positions) -> dict[str, Any]:
        """What a call returns besides, of all tokens or of the last layer's at positions alone."""
        if positions is not None:
            hidden_states = [*hidden_states[:-1], at_positions(hidden_states[-1], positions)]
            attentions = [*attentions[:-1], at_queries(attentions[-1], positions)]
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state after the first tokens of rows, each its own number of them.

        Args:
            token_ids: int [batch, length]; what follows the first tokens is not read.
            lengths: int [batch], how many tokens.
            state: what precedes them, as `initial_state` gives it.
        """
        # Not `call`, whose memory ends with the padding.
        memory, keys_mask = state["memory"], ops.ones_like(token_ids)
        keys_mask = ops.concatenate([state["memory_mask"], keys_mask], axis=1)
        embedded = self.embeddings(token_ids, training=False)
        hidden_states, _ = self.stack(embedded, memory, keys_mask, training=False)
        kept = lengths[:, None] + ops.arange(self.config.mem_len)[None, :]

        def updated(old, new):
            joined = ops.concatenate([ops.cast(old, new.dtype), new], axis=1)
            return ops.take_along_axis(joined, kept[:, :, None], axis=1)

        return {
            "memory": [updated(old, new) for old, new in zip(memory, hidden_states, strict=False)],
            "memory_mask": ops.take_along_axis(keys_mask, kept, axis=1),
        }

    def _check_memory(self, memory, memory_mask, token_ids) -> None:
        num_layers = self.config.num_layers
        if isinstance(memory, Mapping) or len(memory) != num_layers:
            raise ValueError(
                f"memory has {len(memory)} entries; it is a list of one tensor for each of the "
                f"{num_layers} layers, as the model returned it."
            )
        wanted = (token_ids.shape[0], memory[0].shape[1], self.config.hidden_size)
        for layer, entry in enumerate(memory):
            if not _fits(entry.shape, wanted):
                raise ValueError(
                    f"memory[{layer}] has shape {tuple(entry.shape)}; it must be {wanted}: the "
                    "batch, the positions remembered, and the model's width."
                )
        if memory_mask is not None and not _fits(memory_mask.shape, wanted[:2]):
            raise ValueError(
                f"memory_mask has shape {tuple(memory_mask.shape)}; the memory's is {wanted[:2]}."
            )


def _fits(shape, wanted) -> bool:
    """Whether a shape is the wanted one as far as both are known."""
    return len(shape) == len(wanted) and all(
        None in (found, other) or found == other for found, other in zip(shape, wanted, strict=True)
    )
