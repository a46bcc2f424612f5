"""Adaptive softmax, with a first cluster of frequent tokens and further clusters of rare ones."""

from collections.abc import Sequence
from itertools import pairwise

import keras
from keras import ops

from bert_zoo.layers.common import float_table, initializer, table, vocabulary_logits


class AdaptiveSoftmax(keras.layers.Layer):
    """Log-probabilities over a vocabulary in clusters; with one cluster, a plain softmax.

    A first softmax is over the tokens of the first cluster and the other clusters. The log-probability of
    a token in another cluster is the sum of the cluster's and of the token's within the cluster.
    Source: Grave et al. 2017 (arXiv:1609.04309); kimiyoung/transformer-xl tf/model.py,
    mask_adaptive_logsoftmax.

    Args:
        bounds: first token of each cluster, and the size of the vocabulary.
        table_sizes, table_widths: rows and widths of the tables that clusters are projected onto: one for
            each cluster, or one for all.
        projected: for each cluster, whether this layer has a projection to its table.
        tied: whether `call` passes the tables; otherwise this layer has its own.
        hidden_size: width of the input.
        initializer_range: standard deviation of randomly initialised tables.
        projection_initializer_range: the same for projections.
        use_bias: whether tokens have biases; a plain softmax may have none.
    """

    def __init__(
        self,
        bounds: Sequence[int],
        table_sizes: Sequence[int],
        table_widths: Sequence[int],
        projected: Sequence[bool],
        *,
        tied: bool,
        hidden_size: int,
        initializer_range: float,
        projection_initializer_range: float,
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.bounds = tuple(bounds)
        self.table_sizes = tuple(table_sizes)
        self.table_widths = tuple(table_widths)
        self.projected = tuple(projected)
        self.hidden_size = hidden_size
        self.projection_initializer_range = projection_initializer_range
        self.use_bias = use_bias
        self.tables = None
        if not tied:
            self.tables = cluster_tables(
                table_sizes, table_widths, initializer_range, self.dtype_policy
            )

    def build(self, input_shape):
        for each in self.tables or []:
            each.build()
        self.biases = [
            self.add_weight(shape=(rows,), initializer="zeros", name=f"bias_{table}")
            if self.use_bias
            else None
            for table, rows in enumerate(self.table_sizes)
        ]
        self.projections = [
            self._projection(cluster) if projected else None
            for cluster, projected in enumerate(self.projected)
        ]
        num_tails = len(self.bounds) - 2
        if num_tails:
            self.cluster_weight = self.add_weight(
                shape=(num_tails, self.table_widths[0]), initializer="zeros", name="cluster_weight"
            )
            self.cluster_bias = self.add_weight(
                shape=(num_tails,), initializer="zeros", name="cluster_bias"
            )
        self.built = True

    def _projection(self, cluster: int):
        width = self.table_widths[min(cluster, len(self.table_widths) - 1)]
        return self.add_weight(
            shape=(width, self.hidden_size),
            initializer=initializer(self.projection_initializer_range),
            name=f"projection_{cluster}",
        )

    def logits(self, x, tables, projections):
        """Scores of all tokens before a plain softmax, float32 [batch, length, vocabulary].

        Of several clusters, which have no common scores, log-probabilities. Arguments as in `call`.
        """
        if len(self.bounds) > 2:
            return self(x, tables, projections)
        if self.tables is not None:
            tables = [*map(float_table, self.tables)]
        return self._logits(x, self._clusters(tables, projections)[0])

    def call(self, x, tables, projections, labels=None):
        """Predicts tokens.

        Args:
            x: [batch, length, hidden_size].
            tables: the embeddings' tables; ignored if this layer has its own.
            projections: for each cluster the kernel [width, hidden_size] of the embeddings' projection,
                used if this layer has none for the cluster; None for none.
            labels: int [batch, length], or None.

        Returns:
            float32 log-probabilities of the labels [batch, length]; without labels, of all tokens
            [batch, length, vocabulary].
        """
        length = ops.shape(x)[1]
        flat = ops.reshape(x, (-1, self.hidden_size))
        if self.tables is not None:
            tables = [*map(float_table, self.tables)]
        clusters = self._clusters(tables, projections)
        if labels is None:
            return ops.reshape(self._of_all(flat, clusters), (-1, length, self.bounds[-1]))
        of_labels = self._of_labels(flat, clusters, ops.reshape(labels, (-1,)))
        return ops.reshape(of_labels, (-1, length))

    def _clusters(self, tables, projections) -> list[tuple]:
        """For each cluster: table [tokens, width], bias [tokens], projection or None."""
        biases = self.biases
        if len(tables) == 1 and len(self.bounds) > 2:
            # Not slices: each of their gradients would first fill the whole table with zeros.
            (tables,) = (ops.split(table, self.bounds[1:-1], axis=0) for table in tables)
            (biases,) = (ops.split(bias, self.bounds[1:-1], axis=0) for bias in biases)
        pairs = zip(self.projections, projections, strict=True)
        used = (shared if own is None else own for own, shared in pairs)
        return list(zip(tables, biases, used, strict=True))

    def _logits(self, x, cluster, more=None):
        """float32 scores [rows, tokens], followed by the columns of `more` = (weight, bias)."""
        table, bias, projection = cluster
        if projection is not None:
            x = ops.matmul(x, ops.transpose(ops.cast(projection, x.dtype)))
        scores = vocabulary_logits(x, table, bias)
        return (
            scores if more is None else ops.concatenate([scores, vocabulary_logits(x, *more)], -1)
        )

    def _head_logits(self, flat, clusters):
        """Scores of the first cluster's tokens and of the other clusters."""
        more = (self.cluster_weight, self.cluster_bias) if len(clusters) > 1 else None
        return self._logits(flat, clusters[0], more)

    def _of_all(self, flat, clusters):
        head = ops.log_softmax(self._head_logits(flat, clusters))
        if len(clusters) == 1:
            return head
        shortlist = self.bounds[1]
        parts = [head[:, :shortlist]]
        for number, cluster in enumerate(clusters[1:]):
            of_cluster = head[:, shortlist + number, None]
            parts.append(of_cluster + ops.log_softmax(self._logits(flat, cluster)))
        return ops.concatenate(parts, axis=-1)

    def _of_labels(self, flat, clusters, labels):
        head_labels = labels
        for number, start in enumerate(self.bounds[1:-1]):
            head_labels = ops.where(labels >= start, self.bounds[1] + number, head_labels)
        found = _log_probs(self._head_logits(flat, clusters), head_labels)
        of_members = _gathered if keras.backend.backend() == "tensorflow" else _over_all
        for (start, end), cluster in zip(pairwise(self.bounds[1:]), clusters[1:], strict=True):
            is_member = ops.logical_and(labels >= start, labels < end)

            def tail(x, members, start=start, cluster=cluster):
                return _log_probs(self._logits(x, cluster), members - start)

            found = found + of_members(tail, flat, labels, is_member, start)
        return found

    def compute_output_shape(self, input_shape, *shapes, **more_shapes):
        return (*input_shape[:-1], self.bounds[-1])


def _log_probs(logits, labels):
    """float32 [rows] for logits [rows, tokens] and labels [rows]."""
    return -ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def _over_all(tail, flat, labels, is_member, start: int):
    """`tail` of the members' rows and 0 elsewhere; computed for every row, so shapes are static."""
    return ops.where(is_member, tail(flat, ops.where(is_member, labels, start)), 0.0)


def _gathered(tail, flat, labels, is_member, start: int):
    """As `_over_all`, but computed only for the members, which is cheap for rare clusters.

    TensorFlow's XLA pads the members to all rows, so it saves nothing there.
    """
    import tensorflow as tf

    rows = tf.where(is_member)
    members = tail(tf.gather_nd(flat, rows), tf.gather_nd(labels, rows))
    return tf.scatter_nd(rows, members, tf.shape(labels, out_type=tf.int64))


def cluster_tables(
    sizes: Sequence[int], widths: Sequence[int], initializer_range: float, dtype
) -> list[keras.layers.Embedding]:
    """Tables `table_0`, `table_1`, ... with these numbers of rows and columns."""
    return [
        table(rows, width, f"table_{number}", stddev=initializer_range, dtype=dtype)
        for number, (rows, width) in enumerate(zip(sizes, widths, strict=True))
    ]
