"""The layer that all heads of ModernBERT share."""

import keras

from bert_zoo.layers.common import Activation, dense, norm


class PredictionHead(keras.layers.Layer):
    """A dense layer, an activation and a norm before the head of every task. Fine-tuning therefore starts from the
    layer that was pretrained on masked tokens. Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663);
    ModernBertPredictionHead of transformers.
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
        return self.norm(self.activation(self.dense(x)))
