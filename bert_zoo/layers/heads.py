"""Heads: the layers on top of an encoder, shared by all families."""

from collections.abc import Sequence
from itertools import pairwise

import keras
from keras import ops

from bert_zoo.config import BILSTM_LAYERS, HeadSpec, Pooling
from bert_zoo.graph import tf
from bert_zoo.layers.common import (
    ACTIVATIONS,
    Activation,
    Dropout,
    build_all,
    dense,
    float_table,
    initializer,
    norm,
    table,
    vocabulary_logits,
)


class OutputHead(keras.layers.Layer):
    """Dropout and a dense layer from [..., hidden] to logits [..., units], always in float32; with `transform`, an
    activation's name, before them dropout at `dropout_first` and a dense layer of `transform_size`. Source:
    google-research/bert run_classifier.py, create_model; fairseq roberta/model.py, RobertaClassificationHead.
    """

    def __init__(
        self,
        units: int,
        *,
        dropout: float,
        initializer_range: float,
        transform: str | None = None,
        transform_size: int = 0,
        dropout_first: float = 0.0,
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.transform = None
        if transform is not None:
            self.activation = ACTIVATIONS[transform]
            self.dropout_first = Dropout(
                dropout_first, dtype=self.dtype_policy, name="dropout_first"
            )
            self.transform = dense(
                transform_size, "transform", stddev=initializer_range, dtype=self.dtype_policy
            )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        # In bfloat16, logits would lose the small differences that training needs.
        self.dense = dense(
            units, "dense", stddev=initializer_range, dtype="float32", use_bias=use_bias
        )

    def build(self, input_shape):
        if self.transform is not None:
            self.transform.build(input_shape)
            input_shape = (*input_shape[:-1], self.transform.units)
        self.dense.build(input_shape)
        self.built = True

    def call(self, x, training=None):
        if self.transform is not None:
            x = self.dropout_first(x, training=training)
            x = self.activation(self.transform(x))
        return self.dense(self.dropout(x, training=training))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


# -------------------------------------------------------------------------------------------------
# Pooling of token vectors to sentence vectors.
# -------------------------------------------------------------------------------------------------


def _first(x, mask):
    # Not argmax, for which Keras uses an operation that LiteRT lacks.
    is_first = ops.cast(ops.equal(ops.cumsum(mask, axis=1), 1), x.dtype)
    return ops.sum(x * mask * is_first, axis=1)


def _max(x, mask):
    # A row of nothing but padding gets this value; as `initial` it allows empty batches.
    return ops.max(ops.where(mask > 0, x, -1e9), axis=1, initial=-1e9)


def _mean(x, mask):
    # sentence-transformers' lower bound: a row of nothing but padding stays 0.
    return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)


def _mean_sqrt_len(x, mask):
    return ops.sum(x * mask, axis=1) / ops.sqrt(ops.maximum(ops.sum(mask, axis=1), 1e-9))


def _last(x, mask):
    is_last = ops.equal(ops.cumsum(mask, axis=1), ops.sum(mask, axis=1, keepdims=True))
    return ops.sum(x * mask * ops.cast(is_last, x.dtype), axis=1)


# torch's, which Nomic's and sentence-transformers' layer norms of sentence vectors keep.
LAYER_NORM_EPSILON = 1e-5
# Functions (x [batch, length, hidden], mask [batch, length, 1]) -> [batch, hidden].
MODES = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "lasttoken": _last,
}

# The poolings that the head "concatenated" reads side by side.
CONCATENATED_POOLING = Pooling(("lasttoken", "max", "mean"), normalize=False)


def pool(sequence_output, padding_mask, pooling: Pooling, prompt_mask=None):
    """Pools [batch, length, hidden] to float32 [batch, hidden], or as wide as all modes of `pooling` together.
    `padding_mask` is [batch, length], 1 for tokens, or None; `prompt_mask` is 0 for tokens that are not pooled.
    Source: Reimers and Gurevych 2019 (arXiv:1908.10084), section 3; the Pooling of sentence-transformers.
    """
    # In float32 also under mixed precision: a mean over 512 bfloat16 numbers loses digits.
    x = ops.cast(sequence_output, "float32")
    if pooling.reads_first_only:
        return x[:, 0]
    real = ops.ones_like(x[:, :, :1])
    if padding_mask is not None:
        real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)
    mask = real
    if prompt_mask is not None:
        mask = real * ops.expand_dims(ops.cast(prompt_mask, "float32"), -1)

    def pooled(mode: str):
        if mode == "weightedmean":
            # A prompt that is not pooled does not change the other tokens' weights.
            return _mean(x, mask * ops.cumsum(real, axis=1))
        return MODES[mode](x, mask)

    vectors = [pooled(mode) for mode in pooling.modes]
    return vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)


def finished(vectors, pooling: Pooling):
    """Vectors [batch, size] normalised and then truncated, as `pooling` says; ValueError if `truncate_dim` is larger."""
    check_size(pooling, vectors.shape[-1])
    if pooling.layer_norm:
        vectors = vectors - ops.mean(vectors, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(vectors), axis=-1, keepdims=True)
        vectors = vectors / ops.sqrt(variance + LAYER_NORM_EPSILON)
    if pooling.normalize:
        vectors = normalized(vectors)
    return vectors[:, : pooling.truncate_dim]


def check_size(pooling: Pooling, size: int) -> None:
    """Raises ValueError if vectors of this size are shorter than `truncate_dim`."""
    if (pooling.truncate_dim or 0) > size:
        raise ValueError(
            f"truncate_dim is {pooling.truncate_dim}, but the model's vectors have {size} numbers. "
            "Pass a smaller number, or None for all."
        )


def normalized(x):
    """Vectors scaled to length 1."""
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    # The bound is below the root, whose gradient at 0 would make NaN of a vector of zeros.
    return x / ops.sqrt(ops.maximum(squared, 1e-24))


class Features(keras.layers.Layer):
    """Selects or mixes hidden states, and optionally runs a BiLSTM over them: [batch, length, width], or [batch, width]
    for a head that `pools`. The BiLSTM has two layers, each direction as wide as the encoder. With it, tokens are
    pooled by attention, with weights from the softmax of a dense layer's scores; otherwise by their mean, or by last
    token, maximum and mean side by side. Sources: Devlin et al. 2018 (arXiv:1810.04805), section 5.3 (layers,
    BiLSTM); McCann et al. 2017 (arXiv:1708.00107), section 5 (attention); Howard and Ruder 2018 (arXiv:1801.06146),
    section 3.3 (three poolings).
    """

    def __init__(
        self,
        spec: HeadSpec,
        hidden_sizes: Sequence[int],
        *,
        pools: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layers_read = spec.layers_read(len(hidden_sizes))
        sizes = [hidden_sizes[number] for number in self.layers_read]
        if spec.mixes and len({*sizes}) > 1:
            raise ValueError(
                f"features is {spec.features!r}, but the layers have the widths {sizes}. Only layers of the same width "
                "can be mixed. Choose 'concat' or the number of a layer."
            )
        self.input_width = sizes[0] if spec.mixes else sum(sizes)
        self.width, own = self.input_width, {"dtype": self.dtype_policy}
        self.mix = ScalarMix(len(self.layers_read), name="mix", **own) if spec.mixes else None
        self.dropout = Dropout(spec.dropout, name="dropout", **own)
        self.pools, self.lstms, self.attention = pools, [], None
        self.pooling = Pooling("mean", normalize=False)
        if spec.kind == "concatenated" and pools:
            self.pooling = CONCATENATED_POOLING
            self.width *= len(CONCATENATED_POOLING.modes)
        if spec.kind == "bilstm":
            size = spec.size or hidden_sizes[-1]
            self.width = 2 * size
            self.lstms = [
                [
                    keras.layers.LSTM(
                        size,
                        return_sequences=True,
                        go_backwards=direction == "backward",
                        name=f"{direction}_{i}",
                        **own,
                    )
                    for direction in ("forward", "backward")
                ]
                for i in range(BILSTM_LAYERS)
            ]
            if pools:
                self.attention = dense(1, "attention", stddev=initializer_range, dtype="float32")

    def build(self, input_shape=None):
        build_all(None, self.mix)
        width = self.input_width
        for both in self.lstms:
            build_all((None, None, width), *both)
            width = self.width
        build_all((None, None, width), self.attention)
        self.built = True

    def call(self, hidden_states, padding_mask=None, training=None):
        read = [hidden_states[number] for number in self.layers_read]
        x = ops.concatenate(read, axis=-1) if self.mix is None else self.mix(read)
        real = ops.cast(ops.ones_like(x[..., 0]) if padding_mask is None else padding_mask, "bool")
        for forward, backward in self.lstms:
            x = self.dropout(x, training=training)
            # The backward outputs end with the first token.
            outputs = [forward(x, mask=real), ops.flip(backward(x, mask=real), axis=1)]
            x = ops.concatenate(outputs, axis=-1)
        if not self.pools:
            return x
        if self.attention is None:
            return pool(x, padding_mask, self.pooling)
        scores = ops.where(ops.expand_dims(real, -1), self.attention(x), -1e9)
        return ops.sum(ops.cast(x, "float32") * ops.softmax(scores, axis=1), axis=1)

    def compute_output_shape(self, input_shape, padding_mask=None):
        length = () if self.pools else (input_shape[0][1],)
        return (input_shape[0][0], *length, self.width)


class MaskedLMHead(keras.layers.Layer):
    """Dense layer, activation and norm (none for `activation` None), then logits by the encoder's token table (tied) or
    an own table, `table_width` wide if that is only a part of the projection. Source: google-research/bert
    run_pretraining.py, get_masked_lm_output.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        activation: str | None,
        epsilon: float,
        tied: bool,
        initializer_range: float,
        table_width: int | None = None,
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size, self.width = vocab_size, width
        self.use_bias, self.bias = use_bias, None
        self.transform = None
        if activation is not None:
            self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
            self.transform = dense(
                self.width, "transform", stddev=initializer_range, dtype=self.dtype_policy
            )
            self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)
        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.decoder = table(0 if tied else vocab_size, table_width or width, "decoder", **options)

    def build(self, input_shape):
        if self.transform is not None:
            self.transform.build(input_shape)
            self.norm.build((*input_shape[:-1], self.width))
        build_all(None, self.decoder)
        if self.use_bias:
            self.bias = self.add_weight(shape=(self.vocab_size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, sequence_output, token_table, mask_positions=None):
        """float32 logits [batch, length or predictions, vocab_size] of [batch, length, hidden]; `mask_positions` int
        [batch, predictions] are the only ones to predict. An untied head ignores `token_table` [vocab_size, width].
        """
        x = sequence_output
        if mask_positions is not None:
            x = ops.take_along_axis(x, ops.expand_dims(mask_positions, -1), axis=1)
        shape = (-1, ops.shape(x)[1], self.vocab_size)
        x = self.transformed(x)
        return ops.reshape(vocabulary_logits(x, self.projection(token_table), self.bias), shape)

    def transformed(self, x):
        """What `call` multiplies with the table, [batch * length, width] of [batch, length, hidden]."""
        x = ops.reshape(x, (-1, ops.shape(x)[-1]))
        return x if self.transform is None else self.norm(self.activation(self.transform(x)))

    def projection(self, token_table):
        """The table that `call` projects onto, [vocab_size, width]."""
        return token_table if self.decoder is None else float_table(self.decoder)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.vocab_size)


# -------------------------------------------------------------------------------------------------
# Adaptive softmax, with a first cluster of frequent tokens and further clusters of rare ones.
# -------------------------------------------------------------------------------------------------


class AdaptiveSoftmax(keras.layers.Layer):
    """Log-probabilities over a vocabulary in clusters; with one cluster, a plain softmax. A first softmax is over the
    tokens of the first cluster and the other clusters. The log-probability of a token in another cluster is the sum
    of the cluster's and of the token's within the cluster. Source: Grave et al. 2017 (arXiv:1609.04309);
    kimiyoung/transformer-xl tf/model.py, mask_adaptive_logsoftmax.

    Args:
        bounds: first token of each cluster, and the size of the vocabulary.
        table_sizes, table_widths: of the tables to project onto: one for each cluster, or one for all.
        projected: for each cluster, whether this layer has a projection to its table.
        tied: whether `call` passes the tables; otherwise this layer has its own.
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
        self.bounds, self.projected = tuple(bounds), tuple(projected)
        self.table_sizes, self.table_widths = tuple(table_sizes), tuple(table_widths)
        self.hidden_size, self.use_bias = hidden_size, use_bias
        self.projection_initializer_range = projection_initializer_range
        self.tables = None
        if not tied:
            self.tables = cluster_tables(
                table_sizes, table_widths, initializer_range, self.dtype_policy
            )

    def build(self, input_shape):
        build_all(None, *self.tables or ())
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
        """float32 [batch, length, vocabulary]: scores before a plain softmax, or log-probabilities of several clusters,
        which have no common scores. Arguments as in `call`.
        """
        if len(self.bounds) > 2:
            return self(x, tables, projections)
        return self._logits(x, self._clusters(tables, projections)[0])

    def call(self, x, tables, projections, labels=None):
        """float32 log-probabilities of labels int [batch, length], or [batch, length, vocabulary] of all tokens, for x
        [batch, length, hidden_size]. `tables` and `projections` (for each cluster a kernel [width, hidden_size] or
        None) are the embeddings', used where this layer has none.
        """
        length = ops.shape(x)[1]
        flat = ops.reshape(x, (-1, self.hidden_size))
        clusters = self._clusters(tables, projections)
        if labels is None:
            return ops.reshape(self._of_all(flat, clusters), (-1, length, self.bounds[-1]))
        of_labels = self._of_labels(flat, clusters, ops.reshape(labels, (-1,)))
        return ops.reshape(of_labels, (-1, length))

    def _clusters(self, tables, projections) -> list[tuple]:
        """For each cluster: table [tokens, width], bias [tokens], projection or None."""
        biases = self.biases
        if self.tables is not None:
            tables = [*map(float_table, self.tables)]
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
    """As `_over_all`, but computed only for the members, which is cheap for rare clusters; TensorFlow's XLA pads them
    to all rows, so it saves nothing there.
    """
    rows = tf.where(is_member)
    members = tail(tf.gather_nd(flat, rows), tf.gather_nd(labels, rows))
    return tf.scatter_nd(rows, members, tf.shape(labels, out_type=tf.int64))


def cluster_tables(
    sizes: Sequence[int], widths: Sequence[int], initializer_range: float, dtype
) -> list[keras.layers.Embedding]:
    return [
        table(rows, width, f"table_{number}", stddev=initializer_range, dtype=dtype)
        for number, (rows, width) in enumerate(zip(sizes, widths, strict=True))
    ]


class Pooler(keras.layers.Layer):
    """Dense layer with tanh on the first token (google-research/bert modeling.py, "pooler").

    Args:
        hidden_size: width of input and output.
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(self, hidden_size: int, *, initializer_range: float, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.dense = dense(hidden_size, "dense", stddev=initializer_range, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.dense.build((None, self.hidden_size))
        self.built = True

    def call(self, sequence_output):
        """[batch, length, hidden_size] to [batch, hidden_size]."""
        return ops.tanh(self.dense(sequence_output[:, 0]))

    def compute_mask(self, sequence_output, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.hidden_size)


class FirstToken(keras.layers.Layer):
    """Returns the first token unchanged, in place of a pooler (google-research/mobilebert modeling.py)."""

    def call(self, sequence_output):
        """[batch, length, hidden_size] to [batch, hidden_size]."""
        return sequence_output[:, 0]

    def compute_mask(self, sequence_output, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])


class ScalarMix(keras.layers.Layer):
    """Trained weighted mean of hidden states h: gamma * sum_j softmax(w)_j h_j.

    At first all w are 0, so all layers have the same weight, and gamma is 1. The original's optional layer
    normalisation is left out: it averages over the batch, so a text's result would depend on other texts.
    Source: Peters et al. 2018 (arXiv:1802.05365), equation 1.

    Args:
        num_layers: number of hidden states to mix.
        dropout: rate on the mixture.
        l2: factor of the sum of w squared, which is added to the loss and pulls the weights towards
            equal shares (section 3.2).
    """

    def __init__(self, num_layers: int, *, dropout: float = 0.0, l2: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.l2 = l2
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape=None):
        regularizer = keras.regularizers.L2(self.l2) if self.l2 else None
        self.scalars = self.add_weight(
            name="scalars", shape=(self.num_layers,), initializer="zeros", regularizer=regularizer
        )
        self.gamma = self.add_weight(name="gamma", shape=(1,), initializer="ones")
        self.built = True

    def call(self, hidden_states, training=None):
        """Mixes hidden states, each [..., hidden], to one [..., hidden].

        Raises:
            ValueError: their number is not `num_layers`.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(
                f"This layer mixes {self.num_layers} hidden states, but got {len(hidden_states)}. The output of an "
                "encoder's embeddings counts as a hidden state, too."
            )
        shares = ops.softmax(self.scalars) * self.gamma
        mixed = sum(share * h for share, h in zip(ops.unstack(shares), hidden_states, strict=True))
        return self.dropout(mixed, training=training)

    def compute_mask(self, hidden_states, mask=None):
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0])

    def get_config(self):
        own = {"num_layers": self.num_layers, "dropout": self.dropout.rate, "l2": self.l2}
        return {**super().get_config(), **own}


__all__ = [
    "AdaptiveSoftmax",
    "Features",
    "MaskedLMHead",
    "OutputHead",
    "pool",
]
