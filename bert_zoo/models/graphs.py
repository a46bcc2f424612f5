"""Functions as graphs, where the backend has them."""

from collections.abc import Callable

import keras


def as_graph(function: Callable, *, static: bool = False) -> Callable:
    """The function, on TensorFlow as a graph: one for each shape if `static`, else one for many."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.function(function, reduce_retracing=not static, autograph=False)
