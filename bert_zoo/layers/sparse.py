"""Sparse vectors over the vocabulary, pooled from the logits of a head for masked tokens."""

import keras
from keras import ops

from bert_zoo.config import SparsePooling
from bert_zoo.layers.heads import MaskedLMHead

# Number of tokens of the vocabulary whose logits are in memory at a time.
SLICE = 2048


def _largest(logits):
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
    head: MaskedLMHead, hidden_states, token_table, padding_mask, pooling: SparsePooling
):
    """Vectors float32 [batch, vocabulary], never negative; padding counts for nothing.

    The logits [batch, length, vocabulary] are never in memory as a whole: they are pooled for one slice of the
    vocabulary after the other.

    Args:
        head: the head.
        hidden_states, token_table: [batch, length, hidden] and [vocabulary, width], the arguments of its call.
        padding_mask: [batch, length], 1 for tokens; None if all are.
        pooling: how to pool.
    """
    activation = ACTIVATIONS[pooling.activation]
    length = ops.shape(hidden_states)[1]
    columns = ops.transpose(head.transformed(hidden_states))
    table = ops.cast(head.projection(token_table), columns.dtype)
    is_real = True if padding_mask is None else ops.cast(padding_mask, "bool")
    parts = []
    for start in range(0, head.vocab_size, SLICE):
        rows = table[start : start + SLICE]
        logits = ops.reshape(ops.matmul(rows, columns), (rows.shape[0], -1, length))
        logits = ops.cast(logits, "float32")
        if head.bias is not None:
            bias = ops.cast(head.bias[start : start + SLICE], "float32")
            logits = logits + bias[:, None, None]
        logits = ops.where(is_real, logits, 0.0)
        summed = pooling.strategy == "sum"
        parts.append(ops.sum(activation(logits), axis=2) if summed else _largest(logits))
    pooled = ops.transpose(ops.concatenate(parts, axis=0))
    # The activation grows with the logit, so it may come after the maximum.
    return pooled if pooling.strategy == "sum" else activation(pooled)


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
