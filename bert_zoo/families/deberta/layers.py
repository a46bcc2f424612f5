"""DeBERTa's attention by content and by distance, with separate projections for each."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.attention import (
    at_queries,
    attention_bias,
    bias_between_documents,
    shifted_to_keys,
)
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.block import Block, Stack
from bert_zoo.layers.common import (
    ACTIVATIONS,
    Dropout,
    at_positions,
    dense,
    float_table,
    in_rows,
    initializer,
    neighbours,
    norm,
    number_of,
    table,
)
from bert_zoo.layers.embeddings import token_positions
from bert_zoo.layers.heads import MaskedLMHead


def rows_of_distances(max_distance: int, buckets: int) -> np.ndarray:
    """The row of each distance from -max_distance to max_distance in a table of 2 * (buckets or max_distance) relative
    positions: int32 [2 * max_distance + 1]. Longer distances count as `max_distance`. Without buckets, every
    distance has its own row. With buckets, distances up to half of `buckets` have their own rows, and longer ones
    share rows whose spans grow by a factor. The models were trained with the rounding of float32 logarithms, so the
    rows are computed here with NumPy and not on the device. Source: He et al. 2020 (arXiv:2006.03654), equation 3;
    microsoft/DeBERTa DeBERTa/deberta/da_utils.py, make_log_bucket_dict.
    """
    distances = np.arange(-max_distance, max_distance + 1)
    span = buckets or max_distance
    middle = buckets // 2
    if buckets and max_distance - 1 > middle:
        distances = np.clip(distances, 1 - max_distance, max_distance - 1)
        far = np.maximum(np.abs(distances), middle).astype(np.float32)
        widest = np.float32(math.log((max_distance - 1) / middle))
        steps = np.log(far / np.float32(middle)) / widest * np.float32(middle - 1)
        rows = (np.ceil(steps) + middle).astype(int)
        distances = np.where(np.abs(distances) <= middle, distances, rows * np.sign(distances))
    return np.clip(distances + span, 0, 2 * span - 1).astype(np.int32)


class DisentangledAttention(keras.layers.Layer):
    """DeBERTa's attention, whose scores are the sum of up to three terms of content and position.

    The terms are content to content, content to position and position to content.
    Source: He et al. 2020 (arXiv:2006.03654), section 3.1; microsoft/DeBERTa
    DeBERTa/deberta/disentangled_attention.py.

    Args:
        num_heads: number of heads.
        hidden_size: width of input and output.
        dropout: rate on the attention probabilities.
        position_dropout: rate on the vectors of distances.
        terms: the terms besides content to content: "c2p" (content to position) and "p2c" (position to
            content).
        shares_projections: whether tokens and distances share projections (version 2).
        key_bias: whether keys have a bias (version 2).
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_size: int,
        *,
        dropout: float,
        position_dropout: float,
        terms: Sequence[str] = ("c2p", "p2c"),
        shares_projections: bool,
        key_bias: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.hidden_size = hidden_size

        def projection(name: str, use_bias: bool = True):
            options = {"stddev": initializer_range, "dtype": self.dtype_policy}
            return dense(hidden_size, name, use_bias=use_bias, **options)

        self.query = projection("query")
        self.key = projection("key", key_bias)
        self.value = projection("value")
        self.output_dense = projection("output")
        # Applied before the products, which overflow in float16 otherwise.
        self.scale = 1 / math.sqrt((1 + len(terms)) * self.head_size)
        self.position_key = self.position_query = None
        if "c2p" in terms:
            own = None if shares_projections else projection("position_key", key_bias)
            self.position_key = own or self.key
        if "p2c" in terms:
            own = None if shares_projections else projection("position_query")
            self.position_query = own or self.query
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.position_dropout = Dropout(
            position_dropout, dtype=self.dtype_policy, name="position_dropout"
        )

    def build(self, input_shape):
        layers = (self.query, self.key, self.value, self.output_dense)
        for layer in (*layers, self.position_query, self.position_key):
            if layer is not None and not layer.built:
                layer.build(input_shape)
        self.built = True

    def call(self, x, bias, distances, queries=None, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x: [batch * length, hidden_size].
            bias: [batch, 1, 1 or length, length], added to the scores.
            distances: see `DisentangledStack.distances`; ignored without position terms.
            queries: [batch * length or number, hidden_size], input of the queries; None for x.
            positions: int [batch, number] or `FIRST`: only these tokens of each row attend (to all
                tokens). `queries`, if given, must be theirs. None for all.

        Returns:
            The output [batch * length or number, hidden_size], and the probabilities [batch, heads,
            length or number, length] before dropout.
        """
        length = ops.shape(bias)[-1]
        heads = (-1, length, self.num_heads, self.head_size)
        key, value = (
            ops.transpose(ops.reshape(layer(x), heads), (0, 2, 1, 3))
            for layer in (self.key, self.value)
        )
        if queries is None:
            query = ops.reshape(self.query(x), heads)
            query = query if positions is None else at_positions(query, positions)
        else:
            query = ops.reshape(self.query(queries), (-1, *heads[2:]))
            query = in_rows(query, ops.shape(key)[0])
        if positions is not None and bias.shape[2] != 1:
            bias = at_queries(bias, positions)
        query = ops.transpose(query, (0, 2, 1, 3)) * self.scale
        by_position = self._by_position(query, key * self.scale, distances, positions, training)
        terms = (ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), *by_position, bias)
        scores = sum(ops.cast(term, "float32") for term in terms)
        probabilities = ops.cast(ops.softmax(scores), value.dtype)
        context = ops.matmul(self.dropout(probabilities, training=training), value)
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, self.hidden_size))
        return self.output_dense(context), probabilities

    def _by_position(self, query, key, distances, positions, training):
        """The position terms, each [batch, heads, queries, length]."""
        if self.position_key is None and self.position_query is None:
            return
        vectors, from_queries, from_keys = distances
        vectors = self.position_dropout(vectors, training=training)
        if self.position_key is not None:
            position_key = self._heads(self.position_key, vectors, from_queries)
            yield self._to_position(query, position_key, positions)
        if self.position_query is not None:
            position_query = self._heads(self.position_query, vectors, from_keys)
            yield self._to_content(key, position_query, positions)

    def _to_position(self, query, position_key, positions):
        """Content to position, [batch, heads, queries, length], for the queries at positions."""
        by_distance = ops.matmul(query, position_key)
        length = ops.shape(position_key)[-1] // 2
        if positions is None:
            return shifted_to_keys(by_distance, length)
        if isinstance(positions, slice):
            return by_distance[..., length:]
        columns = ops.expand_dims(length - positions, (1, 3)) + ops.arange(length, dtype="int32")
        columns = ops.broadcast_to(columns, (*ops.shape(by_distance)[:3], length))
        return ops.take_along_axis(by_distance, columns, axis=-1)

    def _to_content(self, key, position_query, positions):
        """Position to content, of the same shape, from all keys [batch, heads, length, head_size]."""
        by_distance = ops.matmul(key, position_query)
        length = ops.shape(key)[2]
        of_keys = shifted_to_keys(by_distance, length)
        of_queries = ops.transpose(of_keys, (0, 1, 3, 2))
        return of_queries if positions is None else at_queries(of_queries, positions)

    def _heads(self, projection, vectors, rows):
        """Projected rows of the vectors of distances, [heads, head_size, rows]."""
        projected = projection(ops.take(vectors, rows, axis=0))
        return ops.transpose(
            ops.reshape(projected, (-1, self.num_heads, self.head_size)), (1, 2, 0)
        )


class DisentangledBlock(Block):
    """`DisentangledAttention` and feed-forward layer, each followed by dropout, residual sum and layer norm.

    Arguments as in `bert_zoo.layers.PostNormBlock`.
    """

    def call(self, x, bias, distances, queries=None, positions=None, training=None):
        """Runs the block; arguments and results as in `DisentangledAttention.call`."""
        attended, probabilities = self.attention(
            x, bias, distances, queries, positions=positions, training=training
        )
        if queries is not None:
            x = queries
        elif positions is not None:
            rows = ops.reshape(x, (-1, ops.shape(bias)[-1], x.shape[-1]))
            x = ops.reshape(at_positions(rows, positions), (-1, x.shape[-1]))
        x = self.attention_norm(x + self.dropout(attended, training=training))
        x = self.output_norm(x + self.dropout(self.feed_forward(x), training=training))
        return x, probabilities


class Convolution(keras.layers.Layer):
    """Convolution over tokens, added to the first block's output (DeBERTa version 2, xlarge and xxlarge).

    Source: microsoft/DeBERTa DeBERTa/deberta/bert.py, ConvLayer.

    Args:
        hidden_size: width of input and output.
        size: number of tokens that each token sees, odd.
        activation: a name in `bert_zoo.layers.common.ACTIVATIONS`.
        epsilon: number that the layer norm adds to the variance.
        dropout: rate before the activation.
        initializer_range: standard deviation of the randomly initialised kernel.
    """

    def __init__(
        self,
        hidden_size: int,
        size: int,
        *,
        activation: str,
        epsilon: float,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.size = size
        self.activation = ACTIVATIONS[activation]
        self.initializer_range = initializer_range
        self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        width = self.hidden_size
        self.kernel = self.add_weight(
            shape=(self.size, width, width),
            initializer=initializer(self.initializer_range),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")
        self.norm.build((None, width))
        self.built = True

    def call(self, embedded, x, document_ids, positions=None, training=None):
        """Adds the convolution and normalises.

        Args:
            embedded: [batch, length, hidden_size], the first block's input.
            x: [batch, length or number, hidden_size], its output for all tokens or for those at positions.
            document_ids: int [batch, length], the number of each token's document; 0 for padding.
            positions: int [batch, number] or `FIRST`; None for all.

        Returns:
            [batch, length or number, hidden_size], zeros for padding.
        """
        # Not Keras's convolution, in which a document would see its neighbours.
        seen = [neighbours(embedded, step, document_ids) for step in self._steps()]
        kernel = ops.reshape(ops.cast(self.kernel, embedded.dtype), (-1, self.hidden_size))
        seen = ops.concatenate(seen, -1)
        is_token = ops.expand_dims(ops.cast(document_ids > 0, embedded.dtype), -1)
        if positions is not None:
            seen, is_token = (at_positions(y, positions) for y in (seen, is_token))
        made = ops.matmul(seen, kernel) + ops.cast(self.bias, embedded.dtype)
        made = self.activation(self.dropout(made * is_token, training=training))
        return self.norm(x + made) * is_token

    def _steps(self) -> range:
        reach = self.size // 2
        return range(-reach, reach + 1)


class DisentangledStack(Stack):
    """Runs blocks that share a table of distance embeddings (DeBERTa).

    Args:
        blocks: `DisentangledBlock`s.
        hidden_size: width of x and of the table.
        max_distance, buckets: see `bert_zoo.families.deberta.layers.rows_of_distances`; there is no
            table if `max_distance` is None.
        epsilon: for a layer norm over the table; None for no norm (version 1).
        convolution: a `Convolution` after the first block, or None.
        initializer_range: standard deviation of the randomly initialised table.
    """

    def __init__(
        self,
        blocks: Sequence[DisentangledBlock],
        hidden_size: int,
        *,
        max_distance: int | None,
        buckets: int,
        epsilon: float | None,
        convolution: Convolution | None,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(blocks, hidden_size, **kwargs)
        self.max_distance = max_distance
        self.position_embedding = None
        if max_distance is not None:
            self.rows = rows_of_distances(max_distance, buckets)
            self.position_embedding = table(
                2 * (buckets or max_distance),
                hidden_size,
                "position_embedding",
                stddev=initializer_range,
                dtype=self.dtype_policy,
            )
        self.position_norm = None
        if epsilon is not None:
            self.position_norm = norm("position_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.convolution = convolution

    def build(self, input_shape):
        if self.position_embedding is not None:
            self.position_embedding.build()
        if self.position_norm is not None:
            self.position_norm.build((None, self.hidden_size))
        if self.convolution is not None:
            self.convolution.build(input_shape)
        super().build(input_shape)

    def distances(self, length):
        """The blocks' argument `distances` for rows of `length` tokens.

        Returns:
            None without a table, else three tensors: the vectors of distances [rows, hidden_size]; their
            rows for the distances length, length - 1, ..., 1 - length, as seen from queries, int
            [2 * length]; and their rows for -length, 1 - length, ..., length - 1, as seen from keys. No
            pair has the first distance; see `shifted_to_keys`.
        """
        if self.position_embedding is None:
            return None
        vectors = ops.cast(float_table(self.position_embedding), self.compute_dtype)
        if self.position_norm is not None:
            vectors = self.position_norm(vectors)
        far, offsets = self.max_distance, ops.arange(-length, length, dtype="int32")
        rows = (ops.clip(distances, -far, far) + far for distances in (-offsets, offsets))
        return (vectors, *(ops.take(self.rows, each, axis=0) for each in rows))

    def call(self, x, bias, document_ids, positions=None, training=None):
        """Runs the stack; other arguments and the results are as in `Stack.call`.

        Args:
            document_ids: int [batch, length], the number of each token's document; 0 for padding.
        """
        length = ops.shape(x)[1]
        distances = self.distances(length)
        hidden_states, attentions = [x], []
        flat = ops.reshape(x, (-1, self.hidden_size))
        for layer, block in enumerate(self.blocks):
            at = positions if layer == len(self.blocks) - 1 else None
            flat, *probabilities = self.run(
                block, flat, bias, distances, positions=at, training=training
            )
            attentions += probabilities
            tokens = length if at is None else number_of(at)
            made = ops.reshape(flat, (-1, tokens, self.hidden_size))
            if layer == 0 and self.convolution is not None:
                made = self.convolution(x, made, document_ids, positions=at, training=training)
                flat = ops.reshape(made, (-1, self.hidden_size))
            hidden_states.append(made)
        return hidden_states, attentions

    def decode(self, queries, hidden, bias, positions=None, training=None):
        """Runs the last block twice, with other queries over its own input (the enhanced mask decoder).

        Source: He et al. 2020 (arXiv:2006.03654), section 3.2; microsoft/DeBERTa
        DeBERTa/apps/models/masked_language_model.py, EnhancedMaskDecoder.

        Args:
            queries: [batch, length or number, hidden_size].
            hidden: [batch, length, hidden_size], the last block's input.
            bias: as in `call`.
            positions: int [batch, number], positions of the queries; None for all tokens.

        Returns:
            [batch, length or number, hidden_size].
        """
        distances = self.distances(ops.shape(hidden)[1])
        flat, states = (ops.reshape(each, (-1, self.hidden_size)) for each in (hidden, queries))
        for _ in range(2):
            states, *_ = self.run(
                self.blocks[-1],
                flat,
                bias,
                distances,
                states,
                positions=positions,
                training=training,
            )
        return ops.reshape(states, ops.shape(queries))


class PositionedHead(MaskedLMHead):
    """`MaskedLMHead` with the table of `max_positions` positions that `masked_states` adds to the queries."""

    def __init__(self, vocab_size: int, width: int, *, max_positions: int, **options):
        super().__init__(vocab_size, width, **options)
        self.position_embedding = table(
            max_positions,
            width,
            "position_embedding",
            stddev=options["initializer_range"],
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        self.position_embedding.build()
        super().build(input_shape)


class DisentangledBackbone(TransformerBackbone):
    """Token embeddings and a stack with disentangled attention (DeBERTa).

    Only the head for masked tokens, and embeddings with a position table, read `position_ids`.

    Args:
        config: the configuration.
        embeddings: a `TokenEmbeddings`.
        stack: a `DisentangledStack`.
    """

    @property
    def token_table(self):
        return self.embeddings.token_embedding.whole

    def call(self, inputs, positions=None, training=None):
        self._check_rows(inputs.get("document_ids"), isinstance(positions, slice))
        embedded = self.embeddings(*map(inputs.get, self.embedded_ids), training=training)
        bias, document_ids = self._visible(inputs)
        # Zeros for padding, which the convolution lets neighbours see.
        embedded = embedded * ops.expand_dims(ops.cast(document_ids > 0, embedded.dtype), -1)
        hidden_states, attentions = self.stack(
            embedded, bias, document_ids, positions=positions, training=training
        )
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def _visible(self, inputs):
        """The attention bias, and the number of each token's document, 0 for padding."""
        padding_mask, document_ids = inputs.get("padding_mask"), inputs.get("document_ids")
        if padding_mask is None:
            padding_mask = ops.ones_like(inputs["token_ids"])
        bias = attention_bias(padding_mask, self.compute_dtype)
        if document_ids is None:
            return bias, padding_mask
        between = bias_between_documents(document_ids, self.compute_dtype)
        return ops.minimum(bias, between), document_ids * padding_mask

    @property
    def decodes_masks(self) -> bool:
        return self.config.enhances_masks

    def token_head(self, **options):
        if not self.decodes_masks:
            return super().token_head(**options)
        return super().token_head(
            head=PositionedHead, max_positions=self.config.max_positions, **options
        )

    def masked_states(self, encoded, inputs, head, positions, training=None):
        hidden, bias = encoded["hidden_states"][-2], self._visible(inputs)[0]
        length, most = hidden.shape[1], self.config.max_positions
        if length is not None and length > most:
            raise ValueError(
                f"The input has {length} tokens per row, but the head for masked tokens has {most} "
                f"positions. Cut the text, for instance with load(..., max_length={most})."
            )
        position_ids = token_positions(
            inputs["token_ids"], inputs.get("position_ids"), inputs.get("document_ids")
        )
        position_ids = ops.broadcast_to(position_ids, ops.shape(hidden)[:2])
        queries = hidden
        if positions is not None:
            queries, position_ids = (at_positions(x, positions) for x in (hidden, position_ids))
        queries = queries + head.position_embedding(position_ids)
        return self.stack.decode(queries, hidden, bias, positions, training=training)
