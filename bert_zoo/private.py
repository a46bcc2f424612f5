"""All private parts of Keras and TensorFlow that the package uses.

pyproject.toml names the newest tested versions; with newer ones, tests/test_private.py names the parts that
broke. `REPLACED` and `CALLED` list methods of Keras that `ZooModel` and the optimizers override or call.
Each function explains why nothing public works; "Keras 3.15" and "TensorFlow 2.21" are the versions in
which that was found.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

# Class of Keras 3.15 -> private methods that our subclasses override and Keras must call. For the reasons
# see `bert_zoo.models.base.ZooModel` and `bert_zoo.training.optimizers`.
REPLACED: dict[str, tuple[str, ...]] = {
    "keras.Model": (
        "_maybe_symbolic_build",
        "_make_function",
        "_default_save_signature",
        "_trackable_children",
    ),
    "keras.optimizers.AdamW": (
        "_all_reduce_sum_gradients",
        "_backend_apply_gradients",
        "_backend_update_step",
        "_distributed_tf_update_step",
        "_get_current_learning_rate",
        "_apply_weight_decay",
    ),
    "keras.optimizers.SGD": ("_update_model_variables_moving_average",),
}
# Private methods that our subclasses call.
CALLED: dict[str, tuple[str, ...]] = {
    "keras.optimizers.AdamW": ("_clip_gradients", "_get_variable_index", "_use_weight_decay")
}

# --- layers --------------------------------------------------------------------------------------


def children(layer) -> list[Any]:
    """The layers inside a layer, in order. Keras has no public list of them."""
    return layer._flatten_layers(include_self=False, recursive=False)


def all_layers(layer) -> list[Any]:
    """A layer and all layers below it."""
    return layer._flatten_layers()


def own_variables(layer) -> list[Any]:
    """A layer's own variables; `weights` also contains those of all layers below it."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


@contextlib.contextmanager
def adding_layers(layer) -> Iterator[None]:
    """Lets a built layer get further layers. Keras 3.15 locks it permanently."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


@contextlib.contextmanager
def declaring(*, made: bool = True) -> Iterator[list[Any]]:
    """Declares the variables of layers that are built inside, and creates their values at the end.

    With `made=False` or after an error, values are not created. Keras 3.15 alone would create them at
    the end of the next `StatelessScope`, even after an error, and outside their layers' name scopes,
    which give TensorFlow's variables the names in SavedModels. Yields a list that is filled at the end of the outermost
    block with its variables, for `create`.
    """
    import keras
    from keras.src.backend.common import global_state
    from keras.src.backend.common.stateless_scope import in_stateless_scope

    declared, are_wanted = [], False
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield declared
        are_wanted = True
    finally:
        if not are_wanted or not in_stateless_scope():
            declared += global_state.get_global_attribute("uninitialized_variables", [])
            global_state.set_global_attribute("uninitialized_variables", [])
    if made:
        for variable in declared:
            create(variable)


def is_declared(variable) -> bool:
    """Whether a variable of `declaring` has no value yet."""
    # What stands in place of variables, such as a StoredTable, has no `_value`.
    return getattr(variable, "_value", variable) is None


def create(variable, value: Any = None) -> None:
    """Creates the value of a declared variable, by default what its initializer draws, in the name scopes of its
    layers."""
    import keras
    from keras.src.backend.common.name_scope import current_path

    with contextlib.ExitStack() as scopes:
        for name in variable.path.removeprefix(f"{current_path()}/").split("/")[:-1]:
            scopes.enter_context(keras.name_scope(name))
        if value is None:
            variable._deferred_initialize()
        else:
            variable._initialize(variable._convert_to_tensor(value, dtype=variable._dtype))
            variable._initializer = None


def fill(variable, value: Any) -> None:
    """Assigns a tensor or array to a variable; a declared one is created with it."""
    if is_declared(variable):
        create(variable, value)
    else:
        variable.assign(value)


def start_like(variable, other) -> None:
    """Gives a declared variable the initial value that another declared one would have, which gets zeros."""
    variable._initializer = other._initializer
    other._initializer = _zeros


def _zeros(shape, dtype=None):
    from keras import ops

    return ops.zeros(shape, dtype)


def has_fused_attention(query, key, value, bias) -> bool:
    """Whether Keras's `dot_product_attention` on JAX uses cuDNN's kernel for these arguments on a GPU.

    The public function only raises an error if the kernel is requested but not available. The bias is
    [batch, 1, queries, keys], the others [batch, length, heads, head_size].
    """
    from keras.src.backend.jax.nn import _can_use_flash_attention

    return bool(_can_use_flash_attention(query, key, value, bias))


def set_mask(x, mask) -> None:
    """Sets the mask that Keras's layers find on a tensor, bool [batch, length] or None.

    The public way, `Layer.compute_mask`, does not know what a call returned. JAX's arrays do not take the
    attribute `_keras_mask`, so Keras keeps their masks elsewhere.
    """
    from keras.src.backend import set_keras_mask

    set_keras_mask(x, mask)


class LossesOfThreads:
    """Mixin for layers whose `add_loss` only affects the calling thread, because replicas are threads.

    Keras 3.15 keeps the losses in a single list, which all replicas fill, read and clear.
    """

    @property
    def _losses(self) -> list[Any]:
        return self._of_threads.__dict__.setdefault("losses", [])

    @_losses.setter
    def _losses(self, empty: list[Any]) -> None:
        self._of_threads = threading.local()


# --- models --------------------------------------------------------------------------------------


def strategy_of(model) -> Any:
    """The tf.distribute strategy in whose scope a model was made, or None.

    The public `distribute_strategy` returns TensorFlow's default one instead of None.
    """
    return model._distribute_strategy


def metrics_given(model) -> Any:
    """The metrics as passed to `compile`, names or objects; None before `compile`.

    Keras turns them into public objects only at the first batch.
    """
    return getattr(model._compile_metrics, "_user_metrics", None)


def set_loss_tracker(model, tracker) -> None:
    """Replaces the metric that averages a compiled model's loss.

    This bypasses Keras's tracking of layers and variables, which is locked by then.
    """
    object.__setattr__(model, "_loss_tracker", tracker)


def spec_for_one_replica(iterator) -> Any:
    """The specs (`tf.TensorSpec`) of one replica's part of the batches of Keras's epoch iterator.

    None if batches contain anything but tensors. tf.distribute does not export the class of its own specs.
    """
    import tensorflow as tf

    def first(part):
        return part._value_specs[0] if hasattr(part, "_value_specs") else part

    spec = tf.nest.map_structure(first, iterator._distributed_dataset.element_spec)
    known = all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))
    return spec if known else None


def build_for(model, data_batch) -> None:
    """Creates the variables of a compiled model, its optimizer and metrics, from the shapes of a batch."""
    model._symbolic_build(data_batch=data_batch)


def is_loading_safely() -> bool:
    """Whether Keras is reading a file with `safe_mode=True`; a layer's `from_config` is not told."""
    from keras.src.saving.serialization_lib import in_safe_mode

    return bool(in_safe_mode())


def runs_for_shapes() -> bool:
    """Whether Keras makes a call without data, only to infer shapes and build layers."""
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope

    return bool(in_symbolic_scope())


# --- TensorFlow ----------------------------------------------------------------------------------


def uses_onednn() -> bool:
    """Whether TensorFlow, once imported, computes with oneDNN. It decides by environment and processor and does not tell."""
    from tensorflow.python.util import _pywrap_util_port

    return _pywrap_util_port.IsMklEnabled()


def is_in_loop() -> bool:
    """Whether TensorFlow traces the body of a `tf.while_loop`. Only its private graphs tell."""
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph

    return isinstance(tf.compat.v1.get_default_graph(), WhileBodyFuncGraph)


def is_multi_worker(strategy) -> bool:
    """Whether a strategy's replicas run in several processes; False for None."""
    return strategy is not None and strategy.extended._in_multi_worker_mode()


def merges_replicas() -> bool:
    """Whether replicas are merged for updates, which TensorFlow does not allow inside a branch.

    Keras makes the same check before it merges.
    """
    import tensorflow as tf

    mergeless = tf.__internal__.distribute.strategy_supports_no_merge_call
    return tf.distribute.has_strategy() and not mergeless()


def count_traces_alone(function: Any) -> Any:
    """Has TensorFlow count the traces of each tf.function in a function, or of the tf.function itself, for it alone.

    TensorFlow 2.21 counts traces by a function's code, over all objects. So the first steps of five models, or the
    first calls of five tokenizers, would give a warning about retracing.
    """
    if hasattr(function, "_key_for_call_stats"):
        function._key_for_call_stats = function
    else:
        for cell in getattr(function, "__closure__", None) or ():
            if callable(cell.cell_contents):
                count_traces_alone(cell.cell_contents)
    return function


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """`keras.ops.custom_gradient`, whose gradient lives only as long as the graph that it is called in."""
    from keras import ops

    call = ops.custom_gradient(function)

    def bound(*tensors):
        with gradients_of_graph():
            return call(*tensors)

    return bound


@contextlib.contextmanager
def gradients_of_graph() -> Iterator[None]:
    """Custom gradients that are made inside, in a graph of TensorFlow, live only as long as the graph.

    TensorFlow 2.21 keeps each of them in a registry for ever, and with it the graph and the variables.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf
    from tensorflow.python.framework import ops

    gradients = ops.gradient_registry._registry
    known = len(gradients)
    yield
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    for name in list(gradients)[known:]:
        gradient = gradients[name]["type"]
        if not hasattr(gradient, "of_graph"):
            graph.add_to_collection("bert_zoo_gradients", gradient)
            gradients[name]["type"] = _WhileInGraph(weakref.ref(gradient))


class _WhileInGraph:
    """A gradient that something else holds."""

    def __init__(self, of_graph: Callable[[], Callable[..., Any]]):
        self.of_graph = of_graph

    def __call__(self, operation, *upstream):
        return self.of_graph()(operation, *upstream)


def numpy_function(function: Callable[..., Any], inputs: Any, dtypes: Any) -> Any:
    """`tf.numpy_function` in the graph of a dataset, whose function lives only as long as this graph.

    TensorFlow 2.21 keeps it in the outermost graph, which lives as long as the process, and with it the rows and
    the model that it reads (`_internal_py_func` in python/ops/script_ops.py).
    """
    import tensorflow as tf

    results = tf.numpy_function(function, inputs, dtypes)
    graph = outermost = tf.compat.v1.get_default_graph()
    while (outer := getattr(outermost, "outer_graph", outermost)) is not outermost:
        outermost = outer
    if outermost is not graph:
        graph.add_to_collection("bert_zoo_functions", function)
        # TensorFlow calls a wrapper, which the function holds.
        outermost._py_funcs_used_in_graph.remove(function.ag_dnc_wrapper__)
    return results


def lasting_sentencepiece(resource) -> Any:
    """Returns a SentencePiece model of tensorflow_text as a resource that lives as long as the process.

    In tensorflow_text 2.21 the kernel that made the resource owns it ("TODO(b/318839908)" there).
    `tf.random.set_seed` clears TensorFlow's kernels, and then every text fails with "Resource ... does
    not exist". A resource with its own name is kept. The name identifies the model's bytes, so tokenizers
    with the same model share the resource.
    """
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    class Lasting(type(resource)):
        def _create_resource(self):
            return sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op(
                model=self._model, shared_name=self._name
            )

    return Lasting(resource._model, resource._name)


def onnx_optimizers() -> dict[str, Any]:
    """tf2onnx's graph optimizers, name -> class; its `from_function` has no option to choose them."""
    from tf2onnx import optimizer

    return optimizer._optimizers


# --- Python --------------------------------------------------------------------------------------


def is_being_imported(module) -> bool:
    """Whether a module in sys.modules is still being executed. Only Python's import system knows."""
    return getattr(module.__spec__, "_initializing", False)
