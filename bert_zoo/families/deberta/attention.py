"""DeBERTa's attention by content and by distance, with separate projections for each."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.attention import at_queries, shifted_to_keys
from bert_zoo.layers.common import at_positions, dense, in_rows
from bert_zoo.layers.dropout import Dropout


def rows_of_distances(max_distance: int, buckets: int) -> np.ndarray:
    """The row of each distance from -max_distance to max_distance in a table of relative positions.

    Without buckets, every distance has its own row. With buckets, distances up to half of `buckets` have
    their own rows, and longer ones share rows whose spans grow by a factor. The models were trained with
    the rounding of float32 logarithms, so the rows are computed here with NumPy and not on the device.
    Source: He et al. 2020 (arXiv:2006.03654), equation 3; microsoft/DeBERTa DeBERTa/deberta/da_utils.py,
    make_log_bucket_dict.

    Args:
        max_distance: longer distances count as this one.
        buckets: number of rows for each direction; 0 for `max_distance` rows.

    Returns:
        int32 [2 * max_distance + 1], rows of a table with 2 * (buckets or max_distance) rows.
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
