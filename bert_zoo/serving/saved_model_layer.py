"""A SavedModel as a layer of a Keras 3 model."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import keras

from bert_zoo.models.inputs import as_strings, with_string_tensors
from bert_zoo.private import is_loading_safely
from bert_zoo.serving import HUB_NAMES


@keras.saving.register_keras_serializable("bert_zoo")
class SavedModelLayer(keras.layers.Layer):
    """Runs, and trains, a SavedModel that `bert_zoo.export` wrote, inside any Keras model.

    Called with a dict of int tensors [batch, length] under TF-Hub's names (`input_word_ids`,
    `input_mask`, `input_type_ids`) or ours (`token_ids`, `padding_mask`, `segment_ids`); mask and
    segments may be missing. A language model also wants `labels`, and a model with a memory takes
    that too, under the names of its outputs (`memory_0`, ..., `memory_mask`). Called with a string
    tensor [batch] or a list of strings, the layer applies its preprocessor first. Returns the
    SavedModel's dict of outputs; see docs/export.md.

    The SavedModel's variables are the layer's own: `fit` changes them in place, and a `.keras` file
    of the outer model holds their values. The graph stays in `directory`, which has to be there when
    that file is loaded. Reading a graph from elsewhere is a risk that Keras wants confirmed:
    `keras.models.load_model(path, safe_mode=False)`.

    Any other SavedModel with TF-Hub's interface for transformer encoders works too.

    Args:
        directory: of the SavedModel.
        trainable: whether training changes it. A frozen layer runs without dropout, as TF-Hub's
            layer did.
        **kwargs: as `keras.layers.Layer`.

    Raises:
        RuntimeError: Keras runs on another backend than TensorFlow.
        FileNotFoundError: there is no SavedModel.
        ValueError: it does not have TF-Hub's interface.

    Source: tensorflow.org/hub, "Reusable SavedModels"; tensorflow/hub#920.
    """

    def __init__(self, directory: str | os.PathLike, trainable: bool = True, **kwargs):
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                "SavedModelLayer needs Keras's TensorFlow backend, and this is "
                f"{keras.backend.backend()}. Set the environment variable KERAS_BACKEND=tensorflow."
            )
        super().__init__(**kwargs)
        # XLA would compile anew for every length of a batch.
        self.supports_jit = False
        self.directory = os.fspath(directory)
        self.saved_model = _load(self.directory)
        self.accepted_inputs = _accepted_inputs(self.saved_model)
        # Keras tracks what it finds in an attribute's list.
        self.saved_weights = _keras_variables(self.saved_model)
        # Not the constructor's argument: setting it freezes the variables that are there by now.
        self.trainable = trainable
        self.built = True

    @property
    def preprocessor(self):
        """Turns string [batch], or a tuple of two, into the dict that the layer is called with.

        Its `tokenize` and `bert_pack_inputs` do so in two steps. Works in tf.data.
        """
        if not hasattr(self.saved_model, "preprocessor"):
            raise ValueError(
                f"The SavedModel {self.directory} holds no preprocessor; it was exported with "
                "text=False. Call the layer with a dict of ids."
            )
        return self.saved_model.preprocessor

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_string_tensors(inputs), *args, **kwargs)

    def call(self, inputs, training=None):
        texts = as_strings(inputs)
        if getattr(texts, "dtype", None) == "string":
            inputs = self.preprocessor(texts)
        # Keras passes None outside of fit.
        inputs = _hub_inputs(inputs, self.accepted_inputs)
        return self.saved_model(inputs, training=bool(training) and self.trainable)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "directory": self.directory}

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        # As Keras's TFSMLayer: a file must not bring in someone's graph unasked.
        if is_loading_safely():
            raise ValueError(
                f"This file asks for the SavedModel {config['directory']!r}, whose graph may do "
                "anything that TensorFlow can, writing files included. If you trust it, pass "
                "safe_mode=False to keras.models.load_model."
            )
        return cls(**config)


def _load(directory: str):
    import tensorflow as tf

    if not tf.saved_model.contains_saved_model(directory):
        raise FileNotFoundError(
            f"There is no SavedModel in {directory}. Write one with bert_zoo.export(model, directory)."
        )
    # Importing it registers the tokenizers' ops. A SavedModel without text does well without them,
    # and TensorFlow names the missing op of any other.
    with contextlib.suppress(ImportError, tf.errors.OpError):
        import tensorflow_text  # noqa: F401
    saved_model = tf.saved_model.load(directory)
    if not callable(saved_model) or not hasattr(saved_model, "variables"):
        raise ValueError(
            f"The SavedModel {directory} has signatures alone. This layer needs TF-Hub's reusable "
            "interface, which bert_zoo.export writes; keras.layers.TFSMLayer runs signatures."
        )
    return saved_model


def _keras_variables(saved_model) -> list[keras.Variable]:
    """The SavedModel's weights as Keras variables that share their memory.

    States of random generators stay out: they are integers, and no weights.
    """
    trainable = {id(variable) for variable in getattr(saved_model, "trainable_variables", ())}
    variables = []
    for variable in saved_model.variables:
        if not variable.dtype.is_floating:
            continue
        # Keras's names have no slashes; optimizers tell biases from matrices by the last part.
        *scopes, name = variable.name.removesuffix(":0").split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            wrapped = keras.Variable(
                variable, dtype=variable.dtype.name, trainable=id(variable) in trainable, name=name
            )
        # Keras 3.15 keeps a tf.Variable that it is given, as its TFSMLayer relies on, but does not
        # promise to. With a copy, training would change nothing.
        if wrapped.value is not variable:
            raise RuntimeError(
                f"Keras {keras.__version__} copied a variable instead of sharing it, so this layer "
                "could not be trained. Please report it, and use an earlier Keras."
            )
        variables.append(wrapped)
    return variables


def _accepted_inputs(saved_model) -> list[dict[str, Any]]:
    """The dicts of inputs, name -> TensorSpec, that the SavedModel was traced for."""
    signatures = [f.structured_input_signature for f in saved_model.__call__.concrete_functions]
    dicts = [args[0] for args, _ in signatures if args and isinstance(args[0], Mapping)]
    # Each is there with and without training.
    return list({tuple(sorted(specs)): dict(specs) for specs in dicts}.values())


def _hub_inputs(inputs: Any, accepted: list[dict[str, Any]]) -> dict[str, Any]:
    """One of the dicts that the SavedModel takes, from either set of names."""
    if not isinstance(inputs, Mapping):
        raise TypeError(
            f"SavedModelLayer is called with a dict of id tensors {list(HUB_NAMES.values())} or with "
            f"a string tensor [batch]; got {type(inputs).__name__}. layer.preprocessor(texts) makes "
            "the dict."
        )
    named = {HUB_NAMES.get(name, name): value for name, value in inputs.items()}
    word_ids, mask, type_ids = (HUB_NAMES[n] for n in ("token_ids", "padding_mask", "segment_ids"))
    if word_ids in named and len(named) == len(inputs):
        named.setdefault(mask, keras.ops.ones_like(named[word_ids], dtype="int32"))
        named.setdefault(type_ids, keras.ops.zeros_like(named[word_ids], dtype="int32"))
        for specs in accepted:
            if named.keys() == specs.keys():
                return {
                    name: keras.ops.cast(named[name], spec.dtype.name)
                    for name, spec in specs.items()
                }
    raise ValueError(
        f"This SavedModel takes {' or '.join(str(list(specs)) for specs in accepted)}, where "
        f"{mask} and {type_ids} may be missing and {list(HUB_NAMES)} are names for the ids too; got "
        f"{sorted(inputs)}."
    )
