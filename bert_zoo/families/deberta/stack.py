"""DeBERTa's blocks with disentangled attention, and their stack."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.families.deberta.attention import rows_of_distances
from bert_zoo.layers.block import Block
from bert_zoo.layers.common import (
    ACTIVATIONS,
    at_positions,
    float_table,
    initializer,
    neighbours,
    norm,
    number_of,
    table,
)
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.stack import Stack


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
        max_distance, buckets: see `bert_zoo.families.deberta.attention.rows_of_distances`; there is no
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
