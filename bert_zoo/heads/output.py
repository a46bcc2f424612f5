"""The dense output layer of classification, tagging, span and next-sentence heads."""

import keras

from bert_zoo.layers.common import dense


class OutputHead(keras.layers.Layer):
    """Dropout and a dense layer to logits, in float32 whatever the policy computes in.

    Source: google-research/bert run_classifier.py, create_model.

    Args:
        units: logits.
        dropout: rate on the input.
        initializer_range: standard deviation of fresh weights.
    """

    def __init__(self, units: int, *, dropout: float, initializer_range: float, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        # A loss over bfloat16 logits loses the small differences that training is about.
        self.dense = dense(units, "dense", stddev=initializer_range, dtype="float32")

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, x, training=None):
        """[..., hidden] to [..., units]."""
        return self.dense(self.dropout(x, training=training))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)
