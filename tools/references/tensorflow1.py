"""What the original codes use of TensorFlow 1 and its successor no longer has."""

import functools
import types


class TensorFlow1(types.ModuleType):
    """A module of `tf.compat.v1` with TensorFlow 1's layers, in a floating-point type of one's choice."""

    def __init__(self, dtype):
        import tensorflow as tf

        super().__init__("tensorflow")
        self._v1 = tf.compat.v1
        self.float32 = dtype
        self.zeros = functools.partial(tf.zeros, dtype=dtype)
        self.ones = functools.partial(tf.ones, dtype=dtype)
        self.get_variable = functools.partial(self._v1.get_variable, dtype=dtype)
        self.layers = types.SimpleNamespace(dense=self._dense, dropout=self._dropout)
        self.contrib = types.ModuleType("tensorflow.contrib")
        self.contrib.layers = types.SimpleNamespace(layer_norm=self._layer_norm)

    def __getattr__(self, name: str):
        return getattr(self._v1, name)

    def _dense(
        self, inputs, units, activation=None, use_bias=True, kernel_initializer=None, name=None
    ):
        with self.variable_scope(name, default_name="dense"):
            shape = [inputs.shape[-1], units]
            kernel = self.get_variable("kernel", shape, initializer=kernel_initializer)
            outputs = self.tensordot(inputs, kernel, 1)
            if use_bias:
                bias = self.get_variable("bias", [units], initializer=self.zeros_initializer())
                outputs += bias
        return outputs if activation is None else activation(outputs)

    @staticmethod
    def _dropout(inputs, rate, training, name=None):
        if training:
            raise ValueError("The golden outputs are computed without dropout.")
        return inputs

    def _layer_norm(self, inputs, begin_norm_axis, begin_params_axis=-1, scope=None):
        with self.variable_scope(scope, default_name="LayerNorm"):
            shape = [inputs.shape[-1]]
            beta = self.get_variable("beta", shape, initializer=self.zeros_initializer())
            gamma = self.get_variable("gamma", shape, initializer=self.ones_initializer())
        mean, variance = self.nn.moments(inputs, [begin_norm_axis], keepdims=True)
        return self.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)
