"""Every private part of Keras and TensorFlow that the package reads or calls.

pyproject.toml names the newest versions that this was tested with; tests/test_private.py says which part
broke where a newer one is tried. Methods of Keras that `ZooModel` and `BertAdamW` replace are listed in
`REPLACED` and `CALLED`. A function says why nothing public does; "Keras 3.15" and "TensorFlow 2.21" are
the versions in which that was found.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

# Classes of Keras 3.15 -> private methods that ours replace, which Keras must go on calling: see
# `bert_zoo.models.base.ZooModel` and `bert_zoo.training.optimizers.BertAdamW` for the reasons.
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
# The same for private methods that ours call on themselves.
CALLED: dict[str, tuple[str, ...]] = {
    "keras.optimizers.AdamW": ("_clip_gradients", "_get_variable_index", "_use_weight_decay")
}

# --- layers --------------------------------------------------------------------------------------


def children(layer) -> list[Any]:
    """The layers that a layer holds, in their order. Keras has no public list of them."""
    return layer._flatten_layers(include_self=False, recursive=False)


def all_layers(layer) -> list[Any]:
    """A layer and all layers below it."""
    return layer._flatten_layers()


def own_variables(layer) -> list[Any]:
    """The variables that a layer holds itself; `weights` collects those of all layers below it."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


@contextlib.contextmanager
def adding_layers(layer) -> Iterator[None]:
    """Lets a layer that is built get further layers. Keras 3.15 locks it for good."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


@contextlib.contextmanager
def declaring(*, made: bool = True) -> Iterator[None]:
    """Declares the variables that layers make below, with their shapes; their values come at the end.

    They never come where `made` is false or an error is raised. Keras 3.15 makes them at the end of the
    next `StatelessScope`, whatever happened in this one, and outside of their layers' name scopes, from
    which TensorFlow's variables have the names that SavedModels keep.
    """
    import keras
    from keras.src.backend.common import global_state
    from keras.src.backend.common.name_scope import current_path
    from keras.src.backend.common.stateless_scope import in_stateless_scope

    are_wanted = False
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
        are_wanted = made
    finally:
        if not are_wanted:
            global_state.set_global_attribute("uninitialized_variables", [])
    if in_stateless_scope():
        return
    here = f"{current_path()}/"
    for variable in global_state.get_global_attribute("uninitialized_variables", []):
        with contextlib.ExitStack() as scopes:
            for name in variable.path.removeprefix(here).split("/")[:-1]:
                scopes.enter_context(keras.name_scope(name))
            variable._deferred_initialize()
    global_state.set_global_attribute("uninitialized_variables", [])


def has_fused_attention(query, key, value, bias) -> bool:
    """Whether Keras's `dot_product_attention` on JAX takes cuDNN's kernel for these, on a GPU.

    Publicly, it tells only by an error where it is asked to and cannot.

    Args:
        query, key, value: [batch, length, heads, head_size].
        bias: [batch, 1, queries, keys].
    """
    from keras.src.backend.jax.nn import _can_use_flash_attention

    return bool(_can_use_flash_attention(query, key, value, bias))


class LossesOfThreads:
    """Mixin of a layer whose `add_loss` counts in the thread that calls it, as replicas are threads.

    Keras 3.15 keeps what is added in one list, which all replicas fill, read and clear.
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

    The public `distribute_strategy` gives TensorFlow's default one for None.
    """
    return model._distribute_strategy


def metrics_given(model) -> Any:
    """The metrics as `compile` was given them, names or objects; None before `compile`.

    Keras makes objects of them at the first batch, and has them public from then on.
    """
    return getattr(model._compile_metrics, "_user_metrics", None)


def set_loss_tracker(model, tracker) -> None:
    """Has a compiled model average its loss with another metric.

    Past Keras's record of layers and variables, which is closed by then.
    """
    object.__setattr__(model, "_loss_tracker", tracker)


def spec_for_one_replica(iterator) -> Any:
    """What one replica gets of the batches of Keras's epoch iterator, a structure of `tf.TensorSpec`.

    Returns:
        None where batches hold anything else than tensors. tf.distribute names the class of its own
        specs, but does not export it.
    """
    import tensorflow as tf

    def first(part):
        return part._value_specs[0] if hasattr(part, "_value_specs") else part

    spec = tf.nest.map_structure(first, iterator._distributed_dataset.element_spec)
    known = all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))
    return spec if known else None


def build_for(model, data_batch) -> None:
    """Makes the variables of a compiled model, its optimizer and metrics, from the shapes of a batch."""
    model._symbolic_build(data_batch=data_batch)


def is_loading_safely() -> bool:
    """Whether Keras reads a file with `safe_mode=True`, as a layer's `from_config` is not told."""
    from keras.src.saving.serialization_lib import in_safe_mode

    return bool(in_safe_mode())


def runs_for_shapes() -> bool:
    """Whether Keras makes a call only to learn shapes and to build layers, on no data."""
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope

    return bool(in_symbolic_scope())


# --- TensorFlow ----------------------------------------------------------------------------------


def is_multi_worker(strategy) -> bool:
    """Whether the replicas of a strategy, or of None, are spread over several processes."""
    return strategy is not None and strategy.extended._in_multi_worker_mode()


def merges_replicas() -> bool:
    """Whether updates meet in one place across replicas, which TensorFlow allows in no branch.

    Keras asks the same before it merges.
    """
    import tensorflow as tf

    mergeless = tf.__internal__.distribute.strategy_supports_no_merge_call
    return tf.distribute.has_strategy() and not mergeless()


def without_tracing_warning(graph):
    """The tf.function, of whose traces TensorFlow does not warn.

    It counts them by a function's code, of all objects that have it together: from the fifth tokenizer
    on, it would warn of each one's first call.
    """
    graph._omit_frequent_tracing_warning = True
    return graph


def lasting_sentencepiece(resource) -> Any:
    """A SentencePiece model of tensorflow_text, as a resource that is there as long as the process.

    tensorflow_text 2.21 leaves it to the kernel that made it ("TODO(b/318839908)" there), which is gone
    after `tf.random.set_seed`, as TensorFlow then clears its kernels; then every text fails with
    "Resource ... does not exist". A resource with a name of its own is kept, and tokenizers of one
    model, whose bytes the name stands for, share it.
    """
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    class Lasting(type(resource)):
        def _create_resource(self):
            return sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op(
                model=self._model, shared_name=self._name
            )

    return Lasting(resource._model, resource._name)


def onnx_optimizers() -> dict[str, Any]:
    """What tf2onnx puts a graph in order by, name -> class; its `from_function` takes no choice of them."""
    from tf2onnx import optimizer

    return optimizer._optimizers


# --- Python --------------------------------------------------------------------------------------


def is_being_imported(module) -> bool:
    """Whether a module in sys.modules has not run to its end. Python's import system alone knows."""
    return getattr(module.__spec__, "_initializing", False)
