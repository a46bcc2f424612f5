"""`SavedModelLayer`: a SavedModel as a layer of a Keras 3 model."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import keras

from bert_zoo.models.encoder import mask_padding
from bert_zoo.models.inputs import as_strings, tokens_of, with_string_tensors
from bert_zoo.private import is_loading_safely
from bert_zoo.serving import HUB_NAMES


@keras.saving.register_keras_serializable("bert_zoo")
class SavedModelLayer(keras.layers.Layer):
    """Runs and trains a SavedModel that `bert_zoo.export` wrote, inside any Keras model.

    Call it with a dict of int tensors [batch, length], with TF-Hub's names (`input_word_ids`,
    `input_mask`, `input_type_ids`) or ours (`token_ids`, `padding_mask`, `segment_ids`). Mask and
    segments are optional. A language model also needs `labels`; a model with a memory also takes it,
    under the names of its outputs (`memory_0`, ..., `memory_mask`). Called with a string tensor [batch]
    or a list of strings, the layer applies its preprocessor first. It returns the SavedModel's dict of
    outputs (docs/export.md), whose token vectors carry the Keras mask of the padding mask.

    The layer owns the SavedModel's variables: `fit` changes them in place, and a `.keras` file of the
    outer model contains their values. The graph stays in `directory`, which must exist when that file
    is loaded. Since a graph from elsewhere can be dangerous, Keras requires
    `keras.models.load_model(path, safe_mode=False)`.

    Other SavedModels with TF-Hub's interface for transformer encoders work too.

    Args:
        directory: the SavedModel's directory.
        trainable: whether training changes the variables. A frozen layer runs without dropout, like
            TF-Hub's layer.
        **kwargs: as for `keras.layers.Layer`.

    Raises:
        RuntimeError: Keras does not run on TensorFlow.
        FileNotFoundError: the directory contains no SavedModel.
        ValueError: the SavedModel does not have TF-Hub's interface.

    Source: tensorflow.org/hub, "Reusable SavedModels"; tensorflow/hub#920.
    """

    def __init__(self, directory: str | os.PathLike, trainable: bool = True, **kwargs):
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                "SavedModelLayer needs Keras's TensorFlow backend, but the backend is "
                f"{keras.backend.backend()}. Set the environment variable KERAS_BACKEND=tensorflow."
            )
        super().__init__(**kwargs)
        # XLA would compile again for every length of a batch.
        self.supports_jit = False
        self.directory = os.fspath(directory)
        self.saved_model = _load(self.directory)
        self.accepted_inputs = _accepted_inputs(self.saved_model)
        # Keras tracks variables in a list that is an attribute.
        self.saved_weights = _keras_variables(self.saved_model)
        # Set here and not in the constructor of Layer, because it only freezes existing variables.
        self.trainable = trainable
        self.built = True

    @property
    def preprocessor(self):
        """The SavedModel's preprocessor, which turns string [batch], or a tuple of two, into the layer's inputs.

        Its `tokenize` and `bert_pack_inputs` do the same in two steps. It works in tf.data.
        """
        if not hasattr(self.saved_model, "preprocessor"):
            raise ValueError(
                f"The SavedModel {self.directory} has no preprocessor, because it was exported with "
                "text=False. Call the layer with a dict of ids."
            )
        return self.saved_model.preprocessor

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_string_tensors(inputs), *args, **kwargs)

    def call(self, inputs, training=None):
        texts = as_strings(inputs)
        if getattr(texts, "dtype", None) == "string":
            inputs = self.preprocessor(texts)
        hub_inputs = _hub_inputs(inputs, self.accepted_inputs)
        # Keras passes None outside of fit.
        outputs = self.saved_model(hub_inputs, training=bool(training) and self.trainable)
        mask = HUB_NAMES["padding_mask"]
        if "padding_mask" in inputs or mask in inputs:
            length = keras.ops.shape(hub_inputs[mask])[-1]
            mask_padding(outputs, keras.ops.reshape(hub_inputs[mask], (-1, length)))
        return outputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "directory": self.directory}

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        # Like Keras's TFSMLayer: a file must not load another graph without the user's consent.
        if is_loading_safely():
            raise ValueError(
                f"This file uses the SavedModel {config['directory']!r}, whose graph can do anything that "
                "TensorFlow can, including writing files. If you trust it, pass safe_mode=False to "
                "keras.models.load_model."
            )
        return cls(**config)


def _load(directory: str):
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(directory):
        raise FileNotFoundError(
            f"There is no SavedModel in {directory}. Write one with bert_zoo.export(model, directory)."
        )
    # The import registers the tokenizers' ops. A SavedModel without text does not need them, and for
    # any other TensorFlow names the missing op.
    with contextlib.suppress(ImportError, tf.errors.OpError):
        import tensorflow_text  # noqa: F401
    saved_model = tf.saved_model.load(directory)
    if not callable(saved_model) or not hasattr(saved_model, "variables"):
        raise ValueError(
            f"The SavedModel {directory} has only signatures. This layer needs TF-Hub's reusable "
            "interface, which bert_zoo.export writes; for signatures, use keras.layers.TFSMLayer."
        )
    return saved_model


def _keras_variables(saved_model) -> list[keras.Variable]:
    """The weights as Keras variables that share their memory, without random generators' integer states."""
    trainable = {id(variable) for variable in getattr(saved_model, "trainable_variables", ())}
    variables = []
    for variable in saved_model.variables:
        if not variable.dtype.is_floating:
            continue
        # Keras's names have no slashes; optimizers recognise biases by the last part.
        *scopes, name = variable.name.removesuffix(":0").split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            wrapped = keras.Variable(
                variable, dtype=variable.dtype.name, trainable=id(variable) in trainable, name=name
            )
        # Keras 3.15 keeps a given tf.Variable, and its TFSMLayer relies on that, but it is not
        # documented. With a copy, training would have no effect.
        if wrapped.value is not variable:
            raise RuntimeError(
                f"Keras {keras.__version__} copied a variable instead of sharing it, so this layer "
                "cannot be trained. Please report it, and use an earlier Keras."
            )
        variables.append(wrapped)
    return variables


def _accepted_inputs(saved_model) -> list[dict[str, Any]]:
    """Returns the dicts of inputs, name -> TensorSpec, for which the SavedModel was traced."""
    signatures = [f.structured_input_signature for f in saved_model.__call__.concrete_functions]
    dicts = [args[0] for args, _ in signatures if args and isinstance(args[0], Mapping)]
    # Each occurs twice, with and without training.
    return list({tuple(sorted(specs)): dict(specs) for specs in dicts}.values())


def _hub_inputs(inputs: Any, accepted: list[dict[str, Any]]) -> dict[str, Any]:
    """Converts inputs with either set of names to a dict that the SavedModel accepts."""
    if not isinstance(inputs, Mapping):
        raise TypeError(
            f"SavedModelLayer takes a dict of id tensors {list(HUB_NAMES.values())} or a string tensor "
            f"[batch]; got {type(inputs).__name__}. layer.preprocessor(texts) makes the dict."
        )
    named = {HUB_NAMES.get(name, name): value for name, value in inputs.items()}
    word_ids, mask, type_ids = (HUB_NAMES[n] for n in ("token_ids", "padding_mask", "segment_ids"))
    tokens = named.get(word_ids, named.get("char_ids"))
    if tokens is not None and len(named) == len(inputs):
        tokens = tokens_of({"token_ids" if word_ids in named else "char_ids": tokens})
        zeros = keras.ops.zeros_like(tokens, dtype="int32")
        complete = {mask: zeros + 1, type_ids: zeros, **named}
        for specs in accepted:
            if named.keys() <= specs.keys() <= complete.keys():
                return {
                    name: keras.ops.cast(complete[name], spec.dtype.name)
                    for name, spec in specs.items()
                }
    raise ValueError(
        f"This SavedModel takes {' or '.join(str(list(specs)) for specs in accepted)}; {mask} and "
        f"{type_ids} are optional, and the ids may also be named {list(HUB_NAMES)}. Got {sorted(inputs)}."
    )
