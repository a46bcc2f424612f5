"""Graphs for verbs: TensorFlow's, traced once for batches and texts of every size, or JAX's.

A verb calls a plain function in one of two ways:

    in_graph(model, read, texts, preprocessor=model.preprocessor)    # text and ids, on TensorFlow
    on_model(model, vectors, inputs, pooling=encoder.pooling)        # the model, on Keras's backend

`read(model, texts, *, preprocessor)` is written as if it ran eagerly. It must be defined at module level: the
graph is cached by the function, so a lambda would be traced at every call. Without TensorFlow it does run
eagerly, on NumPy arrays.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from operator import is_
from typing import Any

import keras

from bert_zoo import private
from bert_zoo.graph import has_tensorflow

# -------------------------------------------------------------------------------------------------
# Runs a model on chunks of rows, so that memory does not grow with their number.
# -------------------------------------------------------------------------------------------------

# Including padding: 16 rows of 512. A base model's attention then takes 200 MB per float32 matrix.
TOKENS_A_CHUNK = 8192
# Widths of chunks are multiples of this, as those of batches are by default.
BUCKET = 8


def in_chunks(
    run: Callable[[dict[str, Any]], Any], ids: Mapping[str, Any], *, by_length: bool
) -> Any:
    """`run(ids)`, computed in chunks of rows, one after the other; traceable, on TensorFlow.

    A chunk has at most TOKENS_A_CHUNK tokens, padding included; a single row may have more.

    Args:
        run: function from ids to tensors [rows, ...], in any structure; the result for a row must not
            depend on other rows.
        ids: int [rows, width] or [rows, several, width], including `padding_mask`, padded on the right;
            character ids have another axis.
        by_length: whether to group rows of similar length and cut their common padding, so that one long
            row does not make all rows long. For outputs without an axis of tokens.
    """
    import tensorflow as tf

    ids = {name: tf.convert_to_tensor(value) for name, value in ids.items()}
    mask = ids["padding_mask"]
    shape = tf.shape(mask)
    number, width, parts = shape[0], shape[-1], tf.reduce_prod(shape[1:-1])
    order = tf.range(number)
    if by_length:
        in_row = tf.range(1, mask.shape.rank)
        ends = tf.where(mask > 0, tf.range(1, width + 1), 0)
        lengths = tf.reduce_max(ends, axis=in_row)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def chunk(start):
        """The ids of the rows from place `start` of `order` on, and their number."""
        chunk_width = width
        if by_length:
            longest = tf.reduce_max(tf.gather(lengths, order[start : start + 1]))
            longest = -(-tf.maximum(longest, 1) // BUCKET) * BUCKET
            chunk_width = tf.minimum(longest, width)
        size = tf.maximum(TOKENS_A_CHUNK // tf.maximum(chunk_width * parts, 1), 1)
        rows = order[start : start + size]
        return {name: cut(tf.gather(value, rows), chunk_width) for name, value in ids.items()}, size

    def cut(value, chunk_width):
        characters = (slice(None),) * (value.shape.rank - mask.shape.rank)
        return value[(..., slice(chunk_width), *characters)]

    run_all = _one_by_one if tf.executing_eagerly() else _in_a_loop
    outputs = run_all(run, chunk, number)
    if by_length:
        back = tf.math.invert_permutation(order)
        outputs = tf.nest.map_structure(lambda value: tf.gather(value, back), outputs)
    return outputs


def _one_by_one(run, chunk, number):
    import tensorflow as tf

    inputs, start = chunk(0)
    chunks = [run(inputs)]
    while start < number:
        inputs, size = chunk(start)
        chunks.append(run(inputs))
        start += size
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *chunks)


def _in_a_loop(run, chunk, number):
    import tensorflow as tf

    inputs, _ = chunk(0)
    specs = tf.nest.map_structure(
        lambda value: tf.TensorSpec([None, *value.shape[1:-1], None], value.dtype), inputs
    )
    traced = tf.function(lambda ids: run(ids), autograph=False).get_concrete_function(specs)
    specs = tf.nest.flatten(traced.structured_outputs)
    shapes = [[None, *spec.shape[1:]] for spec in specs]
    options = {"size": 0, "dynamic_size": True, "infer_shape": False}
    arrays = [
        tf.TensorArray(spec.dtype, element_shape=shape, **options)
        for spec, shape in zip(specs, shapes, strict=True)
    ]

    def body(start, number_of_chunk, arrays):
        inputs, size = chunk(start)
        outputs = tf.nest.flatten(traced(inputs))
        pairs = zip(arrays, outputs, strict=True)
        return start + size, number_of_chunk + 1, [a.write(number_of_chunk, o) for a, o in pairs]

    # An empty batch runs once, to get empty outputs. Parallel iterations would take the memory of several
    # chunks.
    _, _, arrays = tf.while_loop(
        lambda start, number_of_chunk, arrays: (start < number) | (number_of_chunk == 0),
        body,
        (0, 0, arrays),
        parallel_iterations=1,
    )
    outputs = [
        tf.ensure_shape(array.concat(), shape) for array, shape in zip(arrays, shapes, strict=True)
    ]
    return tf.nest.pack_sequence_as(traced.structured_outputs, outputs)


# -------------------------------------------------------------------------------------------------
# Batches of ids from generators and PyDatasets.
# -------------------------------------------------------------------------------------------------


def peeked(source: Iterator | keras.utils.PyDataset) -> tuple[Any, Any]:
    """The first batch of a generator or PyDataset, and data for Keras with all batches."""
    if isinstance(source, keras.utils.PyDataset):
        return source[0], source
    try:
        first = next(source)
    except StopIteration:
        raise ValueError(
            "The generator is empty or already used up. Create a new one: a generator can be read only once."
        ) from None
    return first, (batch for batch in itertools.chain([first], source))


class _Mapped(keras.utils.PyDataset):
    """A PyDataset with a function applied to each batch."""

    def __init__(self, function: Callable[[Any], Any], source: keras.utils.PyDataset):
        names = ("workers", "use_multiprocessing", "max_queue_size")
        super().__init__(**{name: getattr(source, name) for name in names})
        self.function, self.source = function, source
        self.on_epoch_begin, self.on_epoch_end = source.on_epoch_begin, source.on_epoch_end

    @property
    def num_batches(self) -> int | None:
        return self.source.num_batches

    def __getitem__(self, index: int) -> Any:
        return self.function(self.source[index])


def mapped(function: Callable[[Any], Any], source: Iterator | keras.utils.PyDataset) -> Any:
    """A generator or PyDataset with a function applied to each batch."""
    is_generator = not isinstance(source, keras.utils.PyDataset)
    # Keras recognises generators by their type.
    return (function(batch) for batch in source) if is_generator else _Mapped(function, source)


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
    return with_first_call_locked(tf.function(run, autograph=False).get_concrete_function(*specs))


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


def with_first_call_locked(graph: Callable) -> Callable:
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
