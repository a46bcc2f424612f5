"""Functions of many cheap operations with hand-written gradients, for training.

The gradients that TensorFlow derives pass over memory more often and keep more tensors. Inference uses the
plain formulas, which TensorFlow's optimizer recognises and fuses with matrix products.
"""

import math

import keras
from keras import ops

from bert_zoo import private


def gelu(x):
    """x times the standard normal distribution function of x (Hendrycks and Gimpel 2016).

    Half precision is computed in float32, for which TensorFlow's erf is fast on a CPU.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    precise = keras.backend.result_type(dtype, "float32")

    @private.custom_gradient
    def function(x):
        wide = ops.cast(x, precise)
        below = 0.5 + 0.5 * ops.erf(wide * math.sqrt(0.5))

        def gradient(upstream):
            # Cast again: in half precision, keeping both would take more memory.
            wide = ops.cast(x, precise)
            density = ops.exp(-0.5 * ops.square(wide)) * (1 / math.sqrt(2 * math.pi))
            return ops.cast(ops.cast(upstream, precise) * (below + wide * density), dtype)

        return ops.cast(wide * below, dtype), gradient

    return function(x)


def standardize(x, epsilon: float):
    """x with mean 0 and variance 1 over its last axis, and the factor that scales the variance to 1.

    `epsilon` is added to the variance of x.
    """
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
    scale = ops.rsqrt(variance + epsilon)
    return centered * scale, scale


def standardized(x, epsilon: float):
    """The first result of `standardize`, with a faster gradient."""

    @private.custom_gradient
    def function(x):
        result, scale = standardize(x, epsilon)

        def gradient(upstream):
            mean = ops.mean(upstream, axis=-1, keepdims=True)
            along = ops.mean(upstream * result, axis=-1, keepdims=True)
            return scale * (upstream - mean - result * along)

        return result, gradient

    return function(x)
