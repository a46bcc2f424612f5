"""Quantized layers: which can be quantized, and how a model's configuration stores them."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from bert_zoo.private import children
from bert_zoo.weights.bind import step_to

# One of the modes of `keras.Model.quantize`. "int4" rounds too coarsely: its vectors of minilm_l6 have a
# cosine of 0.93 with the original ones, and 0.98 with a scale for each 16 weights.
MODE = "int8"


def check_mode(mode: str | None) -> None:
    """Raises ValueError for a mode that the models do not support."""
    if mode != MODE:
        raise ValueError(
            f"mode is {mode!r}; bert_zoo's models can only be quantized to {MODE!r}. int4 changes their outputs "
            "too much (cosines of 0.93 to 0.98 between sentence vectors), and Keras's other modes need "
            "training or calibration that exists only for Keras's own models."
        )


def can_be_quantized(layer: keras.layers.Layer) -> bool:
    """Whether Keras can quantize a layer.

    Keras would warn about other kinds of layers, and fail for layers that were never built, such as those
    that a second encoder replaces by the first one's.
    """
    return layer.built and isinstance(layer, keras.layers.Dense | keras.layers.Embedding)


def check_is_float(model) -> None:
    """Raises ValueError for a quantized model, because checkpoint files cannot store its weights."""
    if quantized_layers(model):
        raise ValueError(
            "The model is quantized, but a checkpoint stores the original weights. Save it with "
            'model.save("model.keras") or bert_zoo.export, or save it before model.quantize.'
        )


def quantized_layers(layer, path: str = "") -> dict[str, list[Any]]:
    """Modes and configurations of the layers that Keras has quantized, by path, ready for JSON."""
    found = {}
    if layer.quantization_mode is not None:
        config = keras.saving.serialize_keras_object(getattr(layer, "quantization_config", None))
        found[path] = [layer.quantization_mode, config]
    for child in children(layer):
        found |= quantized_layers(child, f"{path}{step_to(child, layer)}/")
    return found


def quantize_layers(layer, quantized: Mapping[str, Sequence[Any]], path: str = "") -> None:
    """Quantizes the layers that `quantized_layers` found, so that their weights can be assigned."""
    if path in quantized and layer.quantization_mode is None:
        mode, config = quantized[path]
        config = keras.saving.deserialize_keras_object(config)
        layer.quantize(mode, **({} if config is None else {"config": config}))
    for child in children(layer):
        quantize_layers(child, quantized, f"{path}{step_to(child, layer)}/")
