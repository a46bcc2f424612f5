"""What every brick shares: fresh weights, activations, dense layers."""

import functools
from collections.abc import Callable

import keras
from keras import ops

ACTIVATIONS: dict[str, Callable] = {
    "gelu": functools.partial(ops.gelu, approximate=False),
    "gelu_tanh": functools.partial(ops.gelu, approximate=True),
    "relu": ops.relu,
    "silu": ops.silu,
}


def fresh(stddev: float) -> keras.initializers.Initializer:
    """BERT's initializer. A new instance each time: Keras's draw the same values when reused."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(units: int, name: str, *, stddev: float, dtype, use_bias: bool = True):
    """A dense layer with BERT's initializer and no activation."""
    return keras.layers.Dense(
        units, use_bias=use_bias, kernel_initializer=fresh(stddev), dtype=dtype, name=name
    )


def norm(name: str, *, epsilon: float, dtype):
    """Layer normalisation over features."""
    return keras.layers.LayerNormalization(epsilon=epsilon, dtype=dtype, name=name)
