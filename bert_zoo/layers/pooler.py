"""Poolers: one vector for a sequence, which next-sentence prediction trains."""

import keras
from keras import ops

from bert_zoo.layers.common import dense


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
