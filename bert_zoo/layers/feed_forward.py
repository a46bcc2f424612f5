"""The position-wise feed-forward sublayer."""

import keras

from bert_zoo.layers.common import ACTIVATIONS, dense
from bert_zoo.layers.dropout import Dropout


class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between them (Vaswani et al. 2017, section 3.3).

    Args:
        intermediate_size: width between the two.
        hidden_size: width of input and output.
        activation: a name in `bert_zoo.config.ACTIVATIONS`.
        inner_dropout: rate behind the activation.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        *,
        activation: str,
        initializer_range: float,
        inner_dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.activation = ACTIVATIONS[activation]
        self.intermediate = dense(
            intermediate_size, "intermediate", stddev=initializer_range, dtype=self.dtype_policy
        )
        self.output_dense = dense(
            hidden_size, "output", stddev=initializer_range, dtype=self.dtype_policy
        )
        self.dropout = Dropout(inner_dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.intermediate.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate.units))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] to the same shape."""
        inner = self.activation(self.intermediate(x))
        return self.output_dense(self.dropout(inner, training=training))
