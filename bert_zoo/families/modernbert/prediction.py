"""The first layer of every ModernBERT head."""

import keras

from bert_zoo.layers.common import Activation, dense, norm


class PredictionHead(keras.layers.Layer):
    """A dense layer, an activation and a norm before the head of every task.

    Fine-tuning therefore starts from the layer that was pretrained on masked tokens.
    Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663); ModernBertPredictionHead of transformers.

    Args:
        hidden_size: width of input and output.
        activation: a name in `bert_zoo.config.ACTIVATIONS`.
        epsilon: epsilon of the layer norm.
        use_bias, norm_bias: whether the dense layer and the norm have a bias.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        activation: str,
        epsilon: float,
        use_bias: bool,
        norm_bias: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.dense = dense(
            hidden_size, "dense", stddev=initializer_range, use_bias=use_bias, dtype=dtype
        )
        self.activation = Activation(activation, dtype=dtype, name="activation")
        self.norm = norm("norm", epsilon=epsilon, use_bias=norm_bias, dtype=dtype)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.norm.build(input_shape)
        self.built = True

    def call(self, x):
        """Transforms [..., hidden_size] to the same shape."""
        return self.norm(self.activation(self.dense(x)))
