"""Longformer's attention within windows and to global tokens, and its backbone."""

import functools
import math
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_zoo.layers.attention import (
    SelfAttention,
    at_queries,
    attended_in_blocks,
    hidden_by,
    in_blocks,
    window_bias,
    window_bias_in_blocks,
)
from bert_zoo.layers.backbones import (
    FIRST_IS_GLOBAL,
    FIRST_TEXT_IS_GLOBAL,
    Ids,
    TransformerBackbone,
)
from bert_zoo.layers.common import at_positions, concrete, dense

GLOBAL_MASK = "global_attention_mask"


class Globals(NamedTuple):
    """The global tokens of rows. Each row has the same number of places for them; some may be empty."""

    positions: Any  # int [batch, number], in the row
    # int [batch, number], 1 for a place that is taken. Not bool, for which TensorFlow has no gradient when a block is
    # recomputed.
    is_there: Any
    is_global: Any  # int [batch, length], 1 for global tokens
    # int [batch, length], the place of each global token; None if the first token of each row is the only one
    places: Any
    bias: Any  # [batch, 1, 1 or number, length], added to the scores with which they read the row


class ReachView(NamedTuple):
    """The inputs of attention besides the hidden states."""

    # by reach, the bias of scores with the global tokens and then with the others: [batch, 1, length, number + length]
    # or, if rows are cut into blocks that see themselves and their two neighbours, [batch, 1, blocks, block, number + 3
    # * block]
    biases: dict[int, Any]
    is_real: Any  # [batch, length], 1 for tokens and 0 for padding
    tokens: Globals | None  # None without global tokens


class LongformerAttention(SelfAttention):
    """Self-attention within a window, and between global tokens and all others.

    Each token reads the tokens in its window and the global tokens, with one softmax over both. Global
    tokens read the whole row, with separate projections.

    Source: Beltagy et al. 2020 (arXiv:2004.05150), section 3.1; transformers, LongformerSelfAttention.

    Args:
        num_heads, hidden_size, **options: as in `SelfAttention`.
        reach: the largest distance between tokens that see each other.
    """

    def __init__(self, num_heads: int, hidden_size: int, *, reach: int, **options):
        super().__init__(num_heads, hidden_size, **options)
        self.reach = reach

    def make_projections(self, **options):
        super().make_projections(**options)
        self.query_global = dense(self.hidden_size, "query_global", **options)
        self.key_value_global = dense(2 * self.hidden_size, "key_value_global", **options)

    def build(self, input_shape):
        self.query_global.build(input_shape)
        self.key_value_global.build(input_shape)
        super().build(input_shape)

    def local_projections(self) -> list[tuple[Any, Any]]:
        """Pairs of a variable of the global projections and the value of the local one."""
        pairs = []
        for variable, name in ((self.qkv.kernel, "kernel"), (self.qkv.bias, "bias")):
            parts = ops.split(ops.convert_to_tensor(variable), [self.hidden_size], axis=-1)
            layers = (self.query_global, self.key_value_global)
            pairs += [
                (getattr(layer, name), part) for layer, part in zip(layers, parts, strict=True)
            ]
        return pairs

    def has_copies(self) -> bool:
        """Whether the global projections equal the local ones."""
        return all(ops.all(ops.equal(*pair)) for pair in self.local_projections())

    def copy_projections(self) -> None:
        """Copies the local projections to the global ones."""
        for variable, value in self.local_projections():
            variable.assign(value)

    def call(self, x, view, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x, positions: as in `SelfAttention.call`.
            view: a `View`.

        Returns:
            The output [batch * length or number of positions, hidden_size]; with global tokens, the
            probabilities [batch, heads, length, number] with which they read the row; and the
            probabilities [batch, heads, length or number of positions, number of global tokens + window
            + 1] with which the other tokens read, 0 for global tokens and padding.
        """
        tokens, read, of_globals = view.tokens, None, ()
        if tokens is not None:
            read, probabilities = self._read_rows(x, tokens, training)
            is_there = ops.cast(ops.expand_dims(tokens.is_there, (1, 2)), probabilities.dtype)
            of_globals = (ops.transpose(probabilities, (0, 1, 3, 2)) * is_there,)
            if isinstance(positions, slice) and tokens.places is None:
                # Only the first token is wanted, and it is the global one.
                shape = (*ops.shape(probabilities)[:3], 2 * self.reach + 2)
                return self._output(read), *of_globals, ops.zeros(shape, probabilities.dtype)
        context, probabilities = self._read_windows(x, view, training)
        context = context * ops.expand_dims(view.is_real, 2)
        is_read = view.is_real
        if tokens is not None:
            is_read = is_read * (1 - ops.cast(tokens.is_global, is_read.dtype))
            read = read if tokens.places is None else at_positions(read, tokens.places)
            context = ops.where(ops.expand_dims(tokens.is_global > 0, 2), read, context)
        probabilities = probabilities * ops.expand_dims(is_read, (1, 3))
        if positions is not None:
            context = at_positions(context, positions)
            probabilities = at_queries(probabilities, positions)
        return self._output(context), *of_globals, probabilities

    def _output(self, context):
        return self.output_dense(ops.reshape(context, (-1, self.hidden_size)))

    def _read_windows(self, x, view, training):
        """Weighted values [batch, length, hidden_size], and probabilities of global tokens and window."""
        tokens, bias = view.tokens, view.biases[self.reach]
        length, first, number = ops.shape(view.is_real)[1], None, 0
        heads = (-1, length, self.num_heads, self.head_size)
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        query = query * (1 / math.sqrt(self.head_size))
        if tokens is not None:
            first = [at_positions(part, tokens.positions) for part in (key, value)]
            number = tokens.positions.shape[1]
        if len(bias.shape) == 5:
            dropout = functools.partial(self.dropout, training=training)
            context, probabilities = attended_in_blocks(query, key, value, bias, dropout, first)
            near = diagonals(probabilities[..., number:], self.reach)
            near = ops.concatenate([probabilities[..., :number], near], axis=-1)
            rows = (-1, self.num_heads, ops.shape(near)[2] * self.reach, near.shape[4])
            probabilities = ops.reshape(near, rows)[:, :, :length]
        else:
            if first is not None:
                key, value = (
                    ops.concatenate(parts, axis=1)
                    for parts in zip(first, (key, value), strict=True)
                )
            context = self.fused(query, key, value, bias, training)
            query, value = (ops.transpose(part, (0, 2, 1, 3)) for part in (query, value))
            key = ops.transpose(key, (0, 2, 3, 1))
            context, probabilities = self.weighted(query, key, value, bias, training, context)
            ends = [(0, 0), (0, 0), (0, 0), (self.reach, self.reach)]
            near = diagonals(ops.pad(probabilities[..., number:], ends), self.reach)
            probabilities = ops.concatenate([probabilities[..., :number], near], axis=-1)
        return ops.reshape(context, (-1, length, self.hidden_size)), probabilities

    def _read_rows(self, x, tokens, training):
        """The global tokens' weighted values [batch, number, hidden_size], and their probabilities."""
        number, heads, size = tokens.positions.shape[1], self.num_heads, self.head_size
        rows = ops.reshape(x, (-1, ops.shape(tokens.is_global)[1], self.hidden_size))
        query = ops.reshape(at_positions(rows, tokens.positions), (-1, self.hidden_size))
        query = ops.reshape(self.query_global(query), (-1, number, heads, size))
        query = ops.transpose(query, (0, 2, 1, 3)) * (1 / math.sqrt(size))
        if number < size and self.key_value_global.quantization_mode is None:
            return self._read_unprojected(rows, query, tokens.bias, training)
        shape = (-1, ops.shape(rows)[1], heads, size)
        key, value = ops.split(self.key_value_global(x), 2, -1)
        key, value = (ops.transpose(ops.reshape(p, shape), (0, 2, 1, 3)) for p in (key, value))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        probabilities = ops.softmax(scores + tokens.bias)
        read = ops.matmul(self.dropout(probabilities, training=training), value)
        read = ops.reshape(ops.transpose(read, (0, 2, 1, 3)), (-1, number, self.hidden_size))
        return read, probabilities

    def _read_unprojected(self, rows, query, bias, training):
        """As `_read_rows` for few queries: projects the queries and the weighted inputs instead of all tokens. The bias
        of keys is left out: it adds the same number to all scores of a query, which changes no probability.
        """
        number, heads, size, width = (
            query.shape[2],
            self.num_heads,
            self.head_size,
            self.hidden_size,
        )
        kernel = ops.cast(self.key_value_global.kernel, query.dtype)
        kernel = ops.reshape(kernel, (width, 2, heads, size))
        value_bias = ops.reshape(self.key_value_global.bias, (2, heads, 1, size))[1]
        query = ops.matmul(query, ops.transpose(kernel[:, 0], (1, 2, 0)))
        query = ops.reshape(query, (-1, heads * number, width))
        scores = ops.matmul(query, ops.transpose(rows, (0, 2, 1)))
        scores = ops.reshape(scores, (-1, heads, number, ops.shape(rows)[1]))
        probabilities = ops.softmax(scores + bias)
        weights = self.dropout(probabilities, training=training)
        read = ops.matmul(ops.reshape(weights, (-1, heads * number, ops.shape(rows)[1])), rows)
        read = ops.reshape(read, (-1, heads, number, width))
        read = ops.matmul(read, ops.transpose(kernel[:, 1], (1, 0, 2)))
        whole = ops.sum(weights, axis=-1, keepdims=True)  # 1 without dropout
        read = read + whole * ops.cast(value_bias, read.dtype)
        return ops.reshape(ops.transpose(read, (0, 2, 1, 3)), (-1, number, width)), probabilities


def diagonals(x, reach: int):
    """Takes 2 * reach + 1 columns from column i on of each row i of [..., length, length + 2 * reach]."""
    *batch, length, columns = ops.shape(x)
    flat = ops.reshape(x, (*batch, length * columns))
    flat = ops.pad(flat, [*((0, 0) for _ in batch), (0, length)])
    return ops.reshape(flat, (*batch, length, columns + 1))[..., : 2 * reach + 1]


class LongformerBackbone(TransformerBackbone):
    """Embeddings and blocks whose tokens see a window and the global tokens (Longformer).

    Besides the inputs of `TransformerBackbone`, it takes `global_attention_mask` int [batch, length], 1 for
    global tokens. Without it, the argument `global_tokens` of a call selects them.

    Args:
        config: a `LongformerConfig`.
        embeddings, stack, pooler: as in `TransformerBackbone`; blocks read a `View`.
    """

    has_global_tokens = True

    @property
    def inputs(self) -> dict[str, Ids]:
        meaning = "1 is a token that sees the whole row and is seen from everywhere in it"
        return {**super().inputs, GLOBAL_MASK: Ids(2, meaning, is_apart=True)}

    def embedded(self, inputs, training, global_tokens=None):
        embedded = self.embeddings(*map(inputs.get, self.embedded_ids), training=training)
        dtype = keras.backend.standardize_dtype(embedded.dtype)
        mask, documents = inputs.get("padding_mask"), inputs.get("document_ids")
        mask = ops.ones_like(inputs["token_ids"]) if mask is None else mask
        if documents is not None:
            mask = mask * ops.cast(documents > 0, mask.dtype)
        tokens = None
        if GLOBAL_MASK in inputs or global_tokens not in (None, FIRST_IS_GLOBAL):
            is_global = inputs.get(GLOBAL_MASK)
            if is_global is None:
                is_global = self.tokens_of_text(inputs["token_ids"], global_tokens)
            is_global = is_global * mask
            tokens = self.globals_of(is_global, mask, documents, dtype)
            embedded = self.where_places_suffice(embedded, is_global, tokens.positions.shape[1])
        elif global_tokens is not None:
            tokens = first_token(mask, documents, dtype)
        biases = {
            reach: self.bias(reach, mask, documents, tokens, dtype)
            for reach in set(self.config.reaches)
        }
        return embedded, ReachView(biases, ops.cast(mask, dtype), tokens)

    def untrained_copies(self, *, make: bool = False):
        """See `Backbone.untrained_copies`: training on masked tokens uses no global tokens.

        Source: allenai/longformer scripts/convert_model_to_long.ipynb, which copies the local projections
        before and after pretraining.
        """
        layers = [block.attention for block in self.stack.blocks]
        copies = [layer for layer in layers if make or layer.has_copies()]

        def set_trained(is_trained: bool) -> None:
            for layer in layers:
                layer.query_global.trainable = layer.key_value_global.trainable = is_trained

        def copy() -> None:
            for layer in copies:
                layer.copy_projections()
            set_trained(True)

        set_trained(False)
        return copy

    def tokens_of_text(self, token_ids, global_tokens: str):
        """int [batch, length], 1 for the tokens of one text of a pair.

        As in transformers, the first text ends before the first separator. The second text starts after the
        two separators between them, and includes the last separator.
        """
        is_separator = ops.cast(ops.equal(token_ids, self.config.sep_id), "int32")
        found = ops.cumsum(is_separator, axis=1)
        if global_tokens == FIRST_TEXT_IS_GLOBAL:
            return ops.cast(ops.logical_and(found == 0, found[:, -1:] > 0), "int32")
        before = ops.pad(is_separator, [(0, 0), (1, 0)])[:, :-1]
        is_second = is_separator * before * ops.cast(found == 2, "int32")
        return ops.cast(found - is_separator > 0, "int32") - is_second

    def globals_of(self, is_global, mask, documents, dtype: str) -> Globals:
        """The global tokens of rows, from a mask [batch, length]."""
        number, length = self.config.max_global_tokens, is_global.shape[1]
        places = ops.maximum(ops.cumsum(is_global, axis=1) - 1, 0)
        # The earliest global tokens have the largest numbers.
        numbers = is_global * (ops.shape(is_global)[1] - ops.arange(ops.shape(is_global)[1]))
        if length is None:
            numbers = ops.pad(numbers, [(0, 0), (0, number)])
        else:
            number = min(number, length)
        found, positions = ops.top_k(numbers, number)
        is_there = ops.minimum(found, 1)
        positions = positions * is_there
        bias = bias_of_rows(positions, mask, documents, dtype)
        places = ops.minimum(places, number - 1)
        return Globals(positions, is_there, is_global, places, bias)

    def where_places_suffice(self, embedded, is_global, number: int):
        """The embeddings, with NaN in rows that have more global tokens than there are places.

        Raises:
            ValueError: there is such a row, and the values are known (not in a graph).
        """
        if number == is_global.shape[1]:
            return embedded
        found = ops.sum(is_global, axis=1)
        values = concrete(found)
        if values is not None and values.size and values.max() > number:
            raise ValueError(
                f"Row {values.argmax()} has {values.max()} global tokens, but this model takes {number}. Load "
                f"it with max_global_tokens={values.max()}, or mark fewer in {GLOBAL_MASK}."
            )
        fits = ops.expand_dims(found <= number, (1, 2))
        return ops.where(fits, embedded, ops.cast(math.nan, embedded.dtype))

    def bias(self, reach: int, mask, documents, tokens, dtype: str):
        """The bias for a reach; see `View.biases`."""
        is_cut = self.config.attends_in_blocks(mask.shape[1], reach)
        make = window_bias_in_blocks if is_cut else window_bias
        if tokens is None:
            return make(mask, documents, reach, dtype)
        near = make(mask * (1 - tokens.is_global), documents, reach, dtype)
        seen = ops.expand_dims(tokens.is_there > 0, (1, 2) if is_cut else 1)
        if documents is not None:
            theirs = at_positions(documents, tokens.positions)
            queries = in_blocks(documents, reach) if is_cut else documents
            theirs = ops.expand_dims(theirs, (1, 2) if is_cut else 1)
            seen = ops.logical_and(seen, ops.equal(ops.expand_dims(queries, -1), theirs))
        seen = hidden_by(seen, dtype)
        shape = (*ops.shape(near)[:-1], tokens.positions.shape[1])
        return ops.concatenate([ops.broadcast_to(seen, shape), near], axis=-1)

    def shown_attentions(self, attentions, length):
        if len(attentions) == sum(map(len, self.stack.blocks_of_layers)):
            return {"attentions": attentions}
        return {"attentions": attentions[1::2], "global_attentions": attentions[::2]}


def first_token(mask, documents, dtype: str) -> Globals:
    """The first token of each row as its one global token."""
    rows, length = ops.shape(mask)
    positions = ops.zeros((rows, 1), "int32")
    is_global = ops.equal(ops.arange(length, dtype="int32")[None], positions)
    is_global = ops.cast(is_global, "int32")
    bias = bias_of_rows(positions, mask, documents, dtype)
    return Globals(positions, at_positions(mask, positions), is_global, None, bias)


def bias_of_rows(positions, mask, documents, dtype: str):
    """A bias [batch, 1, 1 or number, length] with which tokens at positions see their whole row."""
    seen = ops.cast(ops.expand_dims(mask, 1), "bool")
    if documents is not None:
        own = ops.expand_dims(at_positions(documents, positions), 2)
        seen = ops.logical_and(seen, ops.equal(own, ops.expand_dims(documents, 1)))
    return hidden_by(seen, dtype)
