"""The position-wise feed-forward sublayer."""

import keras
from keras import ops

from bert_zoo.layers.common import Activation, dense
from bert_zoo.layers.dropout import Dropout


class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between them (Vaswani et al. 2017, section 3.3).

    With `gated`, the first layer is twice as wide: one half goes through the activation and is multiplied
    by the other half (Shazeer 2020, arXiv:2002.05202).

    Args:
        intermediate_size: width between the two layers.
        hidden_size: width of input and output.
        activation: a name in `bert_zoo.config.ACTIVATIONS`.
        initializer_range: standard deviation of randomly initialised weights.
        inner_dropout: rate after the activation.
        gated: whether the layer is gated.
        use_bias: whether the dense layers have biases.
        output_range: as `initializer_range`, for the second layer; the same by default.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        *,
        activation: str,
        initializer_range: float,
        inner_dropout: float = 0.0,
        gated: bool = False,
        use_bias: bool = True,
        output_range: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
        self.intermediate_size = intermediate_size
        self.gated = gated
        options = {"use_bias": use_bias, "dtype": self.dtype_policy}
        self.intermediate = dense(
            (1 + gated) * intermediate_size, "intermediate", stddev=initializer_range, **options
        )
        self.output_dense = dense(
            hidden_size, "output", stddev=output_range or initializer_range, **options
        )
        self.dropout = Dropout(inner_dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.intermediate.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] to the same shape."""
        inner = self.intermediate(x)
        if self.gated:
            inner, gate = ops.split(inner, 2, axis=-1)
            inner = self.activation(inner, training=training) * gate
        else:
            inner = self.activation(inner, training=training)
        return self.output_dense(self.dropout(inner, training=training))
