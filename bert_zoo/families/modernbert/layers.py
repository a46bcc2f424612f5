"""The layer that all heads of ModernBERT share."""

from typing import Any

import keras

from bert_zoo.layers.common import Activation, dense, norm


class PredictionHead(keras.layers.Layer):
    """A dense layer, an activation and a norm before the head of every task. Fine-tuning therefore starts from the
    layer that was pretrained on masked tokens. Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663);
    ModernBertPredictionHead of transformers.
    """

    def __init__(self, config: Any, *, initializer_range: float, **kwargs):
        super().__init__(**kwargs)
        dtype, use_bias = self.dtype_policy, config.classifier_bias
        self.dense = dense(
            config.hidden_size, "dense", stddev=initializer_range, use_bias=use_bias, dtype=dtype
        )
        self.activation = Activation(config.classifier_activation, dtype=dtype, name="activation")
        epsilon, use_bias = config.layer_norm_epsilon, config.norm_bias
        self.norm = norm("norm", epsilon=epsilon, use_bias=use_bias, dtype=dtype)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.norm.build(input_shape)
        self.built = True

    def call(self, x):
        return self.norm(self.activation(self.dense(x)))
