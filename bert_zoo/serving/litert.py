"""LiteRT (TensorFlow Lite): one file with a model's signatures on ids."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from bert_zoo.models.base import ZooModel
from bert_zoo.runtime.files import LITERT_FILE
from bert_zoo.serving.portable import IdFunction


def write_litert(
    model: ZooModel, functions: Mapping[str, IdFunction], directory: Path, quantize: str | None
) -> None:
    """Writes `model.tflite`, whose signatures share the weights.

    Batch and length stay free. LiteRT resizes a signature when they change, and computes shapes then:
    signatures of fixed length gained too little to have several.
    """
    module = tf.Module()
    module.held = [variable.value for variable in model.served_variables()]
    with tempfile.TemporaryDirectory() as saved:
        traced = {name: function.traced() for name, function in functions.items()}
        tf.saved_model.save(module, saved, signatures=traced)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=list(traced))
        if quantize is not None:
            # Weights in int8 with a scale for each output, inputs of products quantized as they come;
            # or weights in float16, which the runtime widens once.
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        (directory / LITERT_FILE).write_bytes(converter.convert())
