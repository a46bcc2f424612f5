"""Functions as graphs of one signature."""

from collections.abc import Callable

import tensorflow as tf


def traced_once(function: Callable, *signature: tf.TensorSpec) -> Callable:
    """The function as a graph that is traced when it is first called, and never again.

    TensorFlow counts traces by a function's code, of all objects that have it together, and warns from
    the fifth on that tracing is expensive: each tokenizer's first call would count.
    """
    graph = tf.function(function, input_signature=signature, autograph=False)
    graph._omit_frequent_tracing_warning = True
    return graph
