"""Sparse vectors: over the vocabulary, pooled from the logits of a head for masked tokens, and of autoencoders."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.config import Autoencoder, SparsePooling
from bert_zoo.layers.heads import MaskedLMHead

# Number of tokens of the vocabulary whose logits are in memory at a time.
SLICE = 2048


def _maxima(logits):
    # With `initial`, also for empty batches.
    return ops.max(logits, axis=2, initial=0.0)


def _log1p_relu(logits):
    return ops.log1p(ops.relu(logits))


# Activation -> function of logits.
ACTIVATIONS = {
    "relu": _log1p_relu,
    "log1p_relu": lambda logits: ops.log1p(_log1p_relu(logits)),
}


def sparse_vectors(
    head: MaskedLMHead,
    hidden_states,
    token_table,
    padding_mask,
    pooling: SparsePooling,
    *,
    sparse_gradient: bool = False,
):
    """Vectors float32 [batch, vocabulary], never negative; padding counts for nothing.

    The logits [batch, length, vocabulary] are never in memory as a whole: they are pooled for one slice of the
    vocabulary after the other.

    Args:
        head: the head.
        hidden_states, token_table: [batch, length, hidden] and [vocabulary, width], the arguments of its call.
        padding_mask: [batch, length], 1 for tokens; None if all are.
        pooling: how to pool.
        sparse_gradient: whether the gradient of maxima reads only weights that have one; on TensorFlow, without XLA.
    """
    activation = ACTIVATIONS[pooling.activation]
    length = ops.shape(hidden_states)[1]
    columns = ops.transpose(head.transformed(hidden_states))
    table = ops.cast(head.projection(token_table), columns.dtype)
    bias = ops.zeros((head.vocab_size,)) if head.bias is None else ops.cast(head.bias, "float32")
    is_real = True if padding_mask is None else ops.cast(padding_mask, "bool")

    def of_slices(reduce, columns, table, bias):
        """`reduce(logits)` for each slice, of logits [slice, batch, length], 0 for padding."""
        found = []
        for start in range(0, head.vocab_size, SLICE):
            rows = table[start : start + SLICE]
            logits = ops.reshape(ops.matmul(rows, columns), (rows.shape[0], -1, length))
            logits = ops.cast(logits, "float32") + bias[start : start + SLICE, None, None]
            found.append(reduce(ops.where(is_real, logits, 0.0)))
        return found

    if pooling.strategy == "sum":
        parts = of_slices(lambda x: ops.sum(activation(x), axis=2), columns, table, bias)
        return ops.transpose(ops.concatenate(parts, axis=0))
    if sparse_gradient:
        largest = _largest_with_sparse_gradient(of_slices, columns, table, bias, length)
    else:
        largest = ops.concatenate(of_slices(_maxima, columns, table, bias), axis=0)
    # The activation grows with the logit, so it may come after the maximum.
    return activation(ops.transpose(largest))


def _largest_with_sparse_gradient(of_slices, columns, table, bias, length):
    """The largest logits [vocabulary, batch], at least 0, on TensorFlow.

    The logits are not kept for the gradient, which goes to one token of each text: products with a sparse matrix, in
    which most rows of the vocabulary have nothing, take the place of two products with as many numbers as logits.
    """
    import tensorflow as tf

    @private.custom_gradient
    def largest(columns, table, bias):
        both = lambda logits: (_maxima(logits), tf.argmax(logits, 2, tf.int32))  # noqa: E731
        found = zip(*of_slices(both, columns, table, bias), strict=True)
        best, places = [tf.concat(parts, axis=0) for parts in found]

        def gradient(upstream):
            of_logits = tf.where(best > 0, upstream, 0.0)
            at = tf.where(tf.not_equal(of_logits, 0))  # token of the vocabulary, text
            tokens = at[:, 1] * tf.cast(length, tf.int64) + tf.cast(
                tf.gather_nd(places, at), tf.int64
            )
            shape = tf.stack([tf.shape(table)[0], tf.shape(columns)[1]])
            matrix = tf.SparseTensor(
                tf.stack([at[:, 0], tokens], axis=1),
                tf.gather_nd(of_logits, at),
                tf.cast(shape, tf.int64),
            )
            rows, factors = tf.cast(table, tf.float32), tf.cast(columns, tf.float32)
            of_columns = tf.sparse.sparse_dense_matmul(matrix, rows, adjoint_a=True)
            of_table = tf.sparse.sparse_dense_matmul(matrix, tf.transpose(factors))
            return (
                tf.cast(tf.transpose(of_columns), columns.dtype),
                tf.cast(of_table, table.dtype),
                tf.reduce_sum(of_logits, axis=1),
            )

        return best, gradient

    return largest(columns, table, bias)


class TokenWeights(keras.layers.Layer):
    """A weight for each token of the vocabulary, with which a text is the set of its tokens.

    Returns float32 [batch, vocabulary] for `token_ids` int [batch, length]: the weight of each token that occurs, once
    however often it does.
    """

    def __init__(self, vocab_size: int, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size

    def build(self, input_shape=None):
        self.weight = self.add_weight(shape=(self.vocab_size,), initializer="ones", name="weight")
        self.built = True

    def call(self, token_ids, padding_mask=None):
        ids, real = ops.cast(token_ids, "int32"), ops.ones_like(token_ids)
        real = ops.reshape(real if padding_mask is None else padding_mask, (-1,))
        rows = ops.arange(ops.shape(ids)[0], dtype="int32")[:, None]
        places = ops.stack([ops.broadcast_to(rows, ops.shape(ids)), ids], axis=-1)
        shape = (ops.shape(ids)[0], self.vocab_size)
        counts = ops.scatter(ops.reshape(places, (-1, 2)), ops.cast(real, "float32"), shape)
        occurs = ops.minimum(counts, 1.0)
        return occurs * ops.maximum(ops.cast(self.weight, "float32"), 0.0)

    def compute_output_shape(self, token_ids_shape, padding_mask=None):
        return (token_ids_shape[0], self.vocab_size)


class WeightOfEachToken(keras.layers.Dense):
    """A weight of each token of a text from its hidden state: a dense layer with one output, never negative.

    Returns float32 [batch, length] for hidden states [batch, length, hidden]; 0 for padding and for `skipped_ids`.
    """

    def __init__(self, skipped_ids: Sequence[int] = (), **kwargs):
        super().__init__(1, **kwargs)
        self.skipped_ids = tuple(skipped_ids)

    def call(self, hidden_states, token_ids, padding_mask=None):
        weights = ops.relu(ops.cast(super().call(hidden_states)[..., 0], "float32"))
        skipped = np.array(self.skipped_ids, np.int32)
        counts = ops.all(
            ops.not_equal(ops.expand_dims(ops.cast(token_ids, "int32"), -1), skipped), axis=-1
        )
        if padding_mask is not None:
            counts = ops.logical_and(counts, ops.cast(padding_mask, "bool"))
        return ops.where(counts, weights, 0.0)


def largest_by_id(weights, token_ids, vocab_size: int):
    """Weights [..., length] of tokens as vectors [..., vocabulary]: the largest of each id, 0 for ids that do not
    occur."""
    before, ids = ops.shape(weights)[:-1], ops.cast(token_ids, "int32")
    ids = ops.reshape(ids, (-1, ops.shape(ids)[-1]))
    number = ops.shape(ids)[0]
    places = ids + vocab_size * ops.arange(number, dtype="int32")[:, None]
    flat = ops.reshape(weights, (-1,)), ops.reshape(places, (-1,))
    # Ids that do not occur have the least number.
    found = ops.maximum(ops.segment_max(*flat, num_segments=number * vocab_size), 0.0)
    return ops.reshape(found, (*before, vocab_size))


def largest(x, number: int):
    """Numbers [..., size] with zeros for all but the `number` largest of each row, and for negative ones."""
    least = ops.top_k(x, min(number, x.shape[-1]))[0][..., -1:]
    return ops.where(x >= least, ops.relu(x), 0.0)


class SparseAutoencoder(keras.layers.Layer):
    """Turns dense vectors into sparse ones, float32 [batch, size] to [batch, units].

    Source: Wen et al. 2025 (arXiv:2503.01776), section 3; sentence-transformers' SparseAutoEncoder.

    Args:
        settings: its sizes, with numbers in place of None.
    """

    def __init__(self, settings: Autoencoder, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.settings = settings

    def build(self, input_shape):
        width, units = input_shape[-1], self.settings.hidden_dim
        # As torch's Linear begins.
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        self.kernel = self.add_weight((width, units), uniform, name="kernel")
        self.pre_bias = self.add_weight((width,), "zeros", name="pre_bias")
        self.latent_bias = self.add_weight((units,), "zeros", name="latent_bias")
        counters = {"dtype": "int32", "trainable": False, "aggregation": "only_first_replica"}
        self.unused = self.add_weight((units,), "zeros", name="unused", **counters)
        self.built = True

    def call(self, vectors):
        return largest(self._units(self._prepared(vectors)[0]), self.settings.k)

    def _prepared(self, vectors):
        """What units read of vectors, and the mean and standard deviation of each."""
        if not self.settings.normalize:
            return vectors, 0.0, 1.0
        mean = ops.mean(vectors, axis=-1, keepdims=True)
        squares = ops.sum(ops.square(vectors - mean), axis=-1, keepdims=True)
        deviation = ops.sqrt(squares / (vectors.shape[-1] - 1))
        return (vectors - mean) / (deviation + 1e-5), mean, deviation

    def _units(self, prepared):
        return ops.matmul(prepared - self.pre_bias, self.kernel) + self.latent_bias

    def reconstructed(self, vectors, training: bool):
        """Sparse vectors and three errors of what is made of them again, of vectors [batch, size].

        The errors are those of the `k` largest units, of 4 `k`, and of what dead units make of the rest, divided by its
        variance. In training it counts how long units have not been used, twice as sentence-transformers does: among
        the `k` largest, then among 4 `k`.
        """
        settings, (prepared, mean, deviation) = self.settings, self._prepared(vectors)
        units, bias, dead_error = self._units(prepared), self.pre_bias * deviation, 0.0
        kept, more = (largest(units, number) for number in (settings.k, 4 * settings.k))
        made, of_more = (self._made(some) * deviation + mean for some in (kept, more))
        self._count(kept, training)
        if settings.k_aux:
            dead = ops.where(self.unused > settings.dead_threshold, units, 0.0)
            found = self._made(largest(dead, settings.k_aux)) * deviation + bias
            rest = vectors - ops.stop_gradient(made)
            variance = _error(ops.mean(rest, axis=0, keepdims=True), rest)
            is_constant = ops.logical_or(variance == 0, ops.all(rest == rest[:1]))
            dead_error = _error(found, rest) / ops.where(is_constant, 1.0, variance)
        self._count(more, training)
        return kept, _error(made + bias, vectors), _error(of_more + bias, vectors), dead_error

    def _made(self, kept):
        return ops.matmul(kept, ops.transpose(self.kernel))

    def _count(self, used, training: bool) -> None:
        if training:
            is_used = ops.any(used > 1e-5, axis=0)
            self.unused.assign(ops.where(is_used, 0, self.unused) + 1)


def _error(made, vectors):
    return ops.mean(ops.square(made - vectors))
