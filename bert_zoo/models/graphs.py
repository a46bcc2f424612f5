"""Graphs for verbs: TensorFlow's, traced once for batches and texts of every size, or JAX's.

A verb calls a plain function in one of two ways:

    in_graph(model, read, texts, preprocessor=model.preprocessor)    # text and ids, on TensorFlow
    on_model(model, vectors, inputs, pooling=encoder.pooling)        # the model, on Keras's backend

`read(model, texts, *, preprocessor)` is written as if it ran eagerly. It must be defined at module level: the
graph is cached by the function, so a lambda would be traced at every call. Without TensorFlow it does run
eagerly, on NumPy arrays.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable
from functools import partial
from operator import is_
from typing import Any

import keras

from bert_zoo import private
from bert_zoo.graph import has_tensorflow

# Maximum number of graphs per model, as options may be new objects at every call. The oldest is dropped.
MAX_GRAPHS = 64


def on_model(model, function: Callable, *tensors: Any, **options: Hashable) -> Any:
    """`function(model, *tensors, **options)`, as a graph on TensorFlow and compiled on JAX; see `in_graph`.

    JAX compiles for each shape of the tensors.
    """
    if keras.backend.backend() == "tensorflow":
        return in_graph(model, function, *tensors, **options)
    if keras.backend.backend() == "jax" and not model.run_eagerly:
        key, make = (function, *options.items()), partial(_compiled, model, function, options)
        return model.graphs.of(model, key, make)(*tensors)
    return function(model, *tensors, **options)


def in_graph(model, function: Callable, *tensors: Any, **options: Hashable) -> Any:
    """`function(model, *tensors, **options)` as a graph that is traced once and kept on the model.

    It is traced again after changes to the model: layers, heads, LoRA, dtypes, and the `traced_settings` of
    its parts. Weights are read when it runs. Several threads may call it at once. Under
    `tf.config.run_functions_eagerly` and `compile(run_eagerly=True)` the function simply runs.

    Args:
        model: a `ZooModel`.
        function: a traceable function, defined at module level.
        tensors: tensors or arrays, ragged or not, in any structure of tuples, lists and dicts. The graph
            works for all sizes, except that the last axis of floating-point tensors is fixed.
        options: other arguments that the graph depends on. There is a graph for each set of them.
    """
    if not has_tensorflow:
        return function(model, *tensors, **options)
    import tensorflow as tf

    if tf.config.functions_run_eagerly() or model.run_eagerly:
        return function(model, *tensors, **options)
    tensors = keras.tree.map_structure(_as_tensor, tensors)
    specs = keras.tree.map_structure(open_spec, tensors)
    key = (function, tuple(options.items()), tuple(keras.tree.flatten_with_path(specs)))
    make = partial(_traced, model, function, specs, options)
    return model.graphs.of(model, key, make)(*tensors)


def outside_of_graphs() -> contextlib.AbstractContextManager[None]:
    """A scope in which text is read immediately, even while TensorFlow traces a graph."""
    if not has_tensorflow:
        return contextlib.nullcontext()
    from bert_zoo.graph import tf

    return tf.init_scope()


class Graphs:
    """The graphs of one model, in a plain object so that saved models do not contain them."""

    def __init__(self):
        self._graphs: dict[Hashable, Callable] = {}
        self._parts: list[Any] = []
        self._lock = threading.RLock()

    def of(self, model, key: Hashable, make: Callable[[], Callable]) -> Callable:
        """The graph with this key, created if there is none."""
        parts = _parts_of(model)
        with self._lock:
            if len(parts) != len(self._parts) or not all(map(is_, parts, self._parts)):
                self._graphs, self._parts = {}, parts
            graph = self._graphs.get(key)
            if graph is None:
                if len(self._graphs) >= MAX_GRAPHS:
                    del self._graphs[next(iter(self._graphs))]
                graph = self._graphs[key] = make()
        return graph


def _traced(model, function: Callable, specs: tuple, options: dict) -> Callable:
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert
    def run(*tensors):
        return function(model, *tensors, **options)

    # A concrete function has only one trace, so there is no warning about retracing.
    return first_alone(tf.function(run, autograph=False).get_concrete_function(*specs))


def _compiled(model, function: Callable, options: dict) -> Callable:
    """The function compiled by JAX; it updates the variables of its options, such as a sampler's seed."""
    import jax

    variables = model.variables
    held = [v for option in options.values() for v in getattr(option, "variables", ())]

    @jax.jit
    def run(values, tensors):
        scope = keras.StatelessScope(zip([*variables, *held], values, strict=True))
        with scope:
            outputs = function(model, *tensors, **options)
        return outputs, [scope.get_current_value(variable) for variable in held]

    def call(*tensors):
        outputs, states = run([variable.value for variable in [*variables, *held]], tensors)
        for variable, value in zip(held, states, strict=True):
            variable.assign(value)
        return outputs

    return call


def first_alone(graph: Callable) -> Callable:
    """The graph, with a lock until its first call has ended.

    In the first call TensorFlow 2.21 optimises the graph, and would do so again in every concurrent call.
    """
    lock, has_run = threading.Lock(), threading.Event()

    def call(*tensors):
        if has_run.is_set():
            return graph(*tensors)
        with lock:
            outputs = graph(*tensors)
            has_run.set()
            return outputs

    return call


def _as_tensor(value):
    import tensorflow as tf

    return value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)


def open_spec(tensor):
    """The spec of a tensor with all sizes open, except the last one of floating-point tensors."""
    import tensorflow as tf

    shape = [None] * tensor.shape.rank
    if isinstance(tensor, tf.RaggedTensor):
        return tf.RaggedTensorSpec(shape, tensor.dtype, tensor.ragged_rank, tensor.row_splits.dtype)
    if shape and tensor.dtype.is_floating:
        shape[-1] = tensor.shape[-1]
    return tf.TensorSpec(shape, tensor.dtype)


def _parts_of(model) -> list[Any]:
    """The objects and settings that a trace depends on."""
    parts = []
    for layer in private.all_layers(model):
        parts += layer, layer.dtype_policy, *private.own_variables(layer)
        parts += (getattr(layer, name) for name in getattr(layer, "traced_settings", ()))
    return parts
