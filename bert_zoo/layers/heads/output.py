"""The dense output layer of classification, tagging, span and next-sentence heads."""

import keras

from bert_zoo.layers.common import ACTIVATIONS, dense
from bert_zoo.layers.dropout import Dropout


class OutputHead(keras.layers.Layer):
    """Dropout and a dense layer to logits, always in float32.

    Source: google-research/bert run_classifier.py, create_model; with a transform, fairseq
    roberta/model.py, RobertaClassificationHead.

    Args:
        units: number of logits.
        dropout: rate on the input.
        transform: activation of a dense layer before the logits; None for no such layer.
        transform_size: width of that layer.
        dropout_first: rate before that layer, in addition to the dropout after it.
        use_bias: whether the logits have a bias.
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
        """[..., hidden] to [..., units]."""
        if self.transform is not None:
            x = self.dropout_first(x, training=training)
            x = self.activation(self.transform(x))
        return self.dense(self.dropout(x, training=training))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)
