"""`Preprocessor`: a Keras layer that turns texts into ids."""

import os
from pathlib import Path
from typing import Any

import keras

from bert_zoo.json_files import read_object
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.inputs import with_string_tensors
from bert_zoo.private import runs_for_shapes
from bert_zoo.text.format import WithPreprocessor
from bert_zoo.weights.files import write_json

OPTIONS_FILE = "preprocessor.json"


@keras.saving.register_keras_serializable("bert_zoo")
class Preprocessor(keras.layers.Layer):
    """Turns texts into the ids that a model of the zoo reads, inside any Keras model.

    Call it with a string tensor [batch] or [batch, 1], or for pairs with a tuple or list of two. It
    returns the dict of int32 tensors that an encoder of `bert_zoo.load` takes: in most families `token_ids`,
    `padding_mask`, and `segment_ids` if the model has segments, each [batch, length].

        text = keras.Input(shape=(), dtype="string")
        ids = bert_zoo.layers.Preprocessor("minilm_l6", max_length=64)(text)
        vectors = bert_zoo.load("minilm_l6", "embedding")(ids)
        model = keras.Model(text, keras.layers.Dense(2)(vectors))

    Such a model trains on raw strings: string tensors, tf.data, or NumPy arrays of dtype=object. Its
    `.keras` files and SavedModels contain the vocabulary. Texts that are too long are cut without a
    warning.

    Attributes:
        further_axes: for each input that it returns, the sizes of the axes after [batch, length].

    Args:
        model: a name or directory as for `bert_zoo.load` (only its vocabulary is read), or a model of the
            zoo.
        max_length: maximum number of tokens of a text, with special tokens; by default the model's.
        padding: "longest" pads a batch to its longest row, rounded up to a bucket; "fixed" pads to
            max_length; by default as the model.
        **kwargs: as for `keras.layers.Layer`.

    Raises:
        RuntimeError: Keras does not run on TensorFlow.
        ValueError: the name is unknown, or an option is outside its range.
        FileNotFoundError: the directory or its vocabulary is missing.
    """

    def __init__(
        self,
        model: str | os.PathLike | ZooModel,
        max_length: int | None = None,
        *,
        padding: str | None = None,
        **kwargs,
    ):
        stored = kwargs.pop("stored", None)
        _check_backend()
        super().__init__(**kwargs)
        # XLA has no strings.
        self.supports_jit = False
        self._preprocessor = None
        self.text_format, self.options, self.further_axes = stored or (None, None, None)
        if stored is None:
            self.text_format, preprocessor = _text_of(model, max_length, padding)
            self._use(preprocessor)
        self.built = True

    def _use(self, preprocessor) -> None:
        # The report on truncation runs Python, which a SavedModel cannot contain.
        self._preprocessor = preprocessor.with_options(report_truncation=False)
        self.options = self._preprocessor.get_config()
        row = self._preprocessor([""])
        self.further_axes = {name: [*ids.shape[2:]] for name, ids in row.items()}

    @property
    def preprocessor(self):
        """The `bert_zoo.text.Preprocessor` that the layer runs."""
        if self._preprocessor is None:
            raise ValueError(
                f"The layer {self.name!r} has no vocabulary, because Keras made it from its configuration "
                "(to_json, from_config). Make a new layer from the model's name, or load the .keras file."
            )
        return self._preprocessor

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_string_tensors(inputs), *args, **kwargs)

    def call(self, inputs):
        if self._preprocessor is None and runs_for_shapes():
            # When loading a user's own model, Keras builds it before it reads the vocabulary.
            specs = self.compute_output_spec(inputs)
            return {
                name: keras.ops.zeros(
                    (spec.shape[0], spec.shape[1] or 2, *spec.shape[2:]), spec.dtype
                )
                for name, spec in specs.items()
            }
        is_pair = isinstance(inputs, tuple | list)
        return self.preprocessor(tuple(map(_as_batch, inputs)) if is_pair else _as_batch(inputs))

    def compute_output_spec(self, inputs):
        texts = inputs[0] if isinstance(inputs, tuple | list) else inputs
        length = self.options["sequence_length"] if self.options["padding"] == "fixed" else None
        return {
            name: keras.KerasTensor((texts.shape[0], length, *sizes), dtype="int32", name=name)
            for name, sizes in self.further_axes.items()
        }

    # Keras calls these two when it writes and reads a .keras file, with a directory for assets.

    def save_assets(self, directory: str) -> None:
        self.preprocessor.save_vocabulary(directory)
        write_json(Path(directory) / OPTIONS_FILE, self.options)

    def load_assets(self, directory: str) -> None:
        from bert_zoo.text import preprocessor_from_dir

        options = read_object(Path(directory) / OPTIONS_FILE)
        self._use(preprocessor_from_dir(directory, self.text_format, **options))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        text_format = WithPreprocessor(self.text_format, self._preprocessor)
        own = {"options": self.options, "further_axes": self.further_axes}
        return {**config, "text_format": text_format, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        config = dict(config)
        text_format, options = config.pop("text_format"), config.pop("options")
        # Files of version 0.1 lack it.
        segments = {"segment_ids": []} if options["layout"]["segments"] else {}
        axes = config.pop("further_axes", {"token_ids": [], "padding_mask": [], **segments})
        layer = cls(None, stored=(str(text_format), options, axes), **config)
        if getattr(text_format, "preprocessor", None) is not None:
            layer._use(text_format.preprocessor)
        return layer


def _check_backend() -> None:
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Preprocessor needs Keras's TensorFlow backend, but the backend is "
            f"{keras.backend.backend()}, which has no strings. Set the environment variable "
            "KERAS_BACKEND=tensorflow, or pass ids: model.preprocessor(texts)."
        )


def _text_of(
    model: str | os.PathLike | ZooModel, max_length: int | None, padding: str | None
) -> tuple[str, Any]:
    """Returns the name of a model's family, and a preprocessor with these options."""
    if not isinstance(model, ZooModel):
        from bert_zoo.loading.directories import open_checkpoint
        from bert_zoo.loading.load import preprocessor_of

        opened = open_checkpoint(model)
        deferred, why_none = preprocessor_of(
            opened, opened.config, max_length, padding or "longest"
        )
        if deferred is None:
            raise FileNotFoundError(why_none)
        return opened.family.name, deferred.make()
    longest = model.longest_input
    if max_length is not None and not 3 <= max_length <= longest:
        raise ValueError(
            f"max_length is {max_length!r}; the model reads from 3 to {longest} tokens."
        )
    given = {"sequence_length": max_length, "padding": padding}
    changes = {name: value for name, value in given.items() if value is not None}
    return encoder_of(model).family, model.preprocessor.with_options(**changes)


def _as_batch(texts):
    """Returns strings [batch], from [batch] or [batch, 1]."""
    import tensorflow as tf

    return tf.squeeze(texts, axis=-1) if texts.shape.rank == 2 else texts
