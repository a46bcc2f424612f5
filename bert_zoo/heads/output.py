"""The dense output layer of classification, tagging, span and next-sentence heads."""

import keras
from keras import ops

from bert_zoo.layers.common import dense
from bert_zoo.layers.dropout import Dropout


class OutputHead(keras.layers.Layer):
    """Dropout and a dense layer to logits, in float32 whatever the policy computes in.

    Source: google-research/bert run_classifier.py, create_model; with a transform, fairseq
    roberta/model.py, RobertaClassificationHead.

    Args:
        units: logits.
        dropout: rate on the input.
        initializer_range: standard deviation of fresh weights.
        transform_size: width of a tanh layer before the logits, with dropout on both sides; 0 for
            none.
    """

    def __init__(
        self,
        units: int,
        *,
        dropout: float,
        initializer_range: float,
        transform_size: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.transform = None
        if transform_size:
            self.transform = dense(
                transform_size, "transform", stddev=initializer_range, dtype=self.dtype_policy
            )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        # A loss over bfloat16 logits loses the small differences that training is about.
        self.dense = dense(units, "dense", stddev=initializer_range, dtype="float32")

    def build(self, input_shape):
        if self.transform is not None:
            self.transform.build(input_shape)
            input_shape = (*input_shape[:-1], self.transform.units)
        self.dense.build(input_shape)
        self.built = True

    def call(self, x, training=None):
        """[..., hidden] to [..., units]."""
        x = self.dropout(x, training=training)
        if self.transform is not None:
            x = self.dropout(ops.tanh(self.transform(x)), training=training)
        return self.dense(x)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)
