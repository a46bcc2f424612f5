"""Adaptive embeddings, which are narrower for rarer tokens."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.layers.common import dense
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.heads.adaptive_softmax import cluster_tables


class AdaptiveEmbedding(keras.layers.Layer):
    """Token embeddings with a table for each cluster of tokens, projected to the model's width.

    Source: Baevski and Auli 2018 (arXiv:1809.10853), section 3; kimiyoung/transformer-xl
    tf/model.py, mask_adaptive_embedding_lookup.

    Args:
        table_sizes: rows of each table. The second table continues the numbering of the first, and so on.
        table_widths: width of each table.
        is_projected: for each table, whether it has a projection.
        hidden_size: width of the output, which is multiplied by the square root of this.
        dropout: rate on the output.
        initializer_range: standard deviation of randomly initialised tables.
        projection_initializer_range: the same for projections.
    """

    def __init__(
        self,
        table_sizes: Sequence[int],
        table_widths: Sequence[int],
        is_projected: Sequence[bool],
        hidden_size: int,
        *,
        dropout: float,
        initializer_range: float,
        projection_initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.tables = cluster_tables(
            table_sizes, table_widths, initializer_range, self.dtype_policy
        )
        self.projections = [
            dense(
                hidden_size,
                f"projection_{number}",
                stddev=projection_initializer_range,
                dtype=self.dtype_policy,
                use_bias=False,
            )
            if projected
            else None
            for number, projected in enumerate(is_projected)
        ]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, token_ids_shape):
        for each, projection in zip(self.tables, self.projections, strict=True):
            each.build()
            if projection is not None:
                projection.build((None, each.output_dim))
        self.built = True

    def call(self, token_ids, training=None):
        """Embeds int [batch, length] as [batch, length, hidden_size].

        Reads every table for every token, with clipped row numbers, and keeps the result of the token's
        own table. So shapes stay static; all tables but the first are narrow.
        """
        start, embedded = 0, None
        for each, projection in zip(self.tables, self.projections, strict=True):
            rows = each.input_dim
            found = each(ops.clip(token_ids - start, 0, rows - 1))
            if projection is not None:
                found = projection(found)
            if embedded is None:
                embedded = found
            else:
                embedded = ops.where(ops.expand_dims(token_ids >= start, -1), found, embedded)
            start += rows
        return self.dropout(embedded * math.sqrt(self.hidden_size), training=training)

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.hidden_size)
