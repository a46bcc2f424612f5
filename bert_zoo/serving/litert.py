"""Writes LiteRT (TensorFlow Lite) files with a model's signatures on ids."""

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

    Batch size and length are free: LiteRT resizes a signature when they change. Additional signatures
    with fixed lengths were hardly faster.
    """
    module = tf.Module()
    module.held = [variable.value for variable in model.served_variables()]
    with tempfile.TemporaryDirectory() as saved:
        traced = {name: function.traced() for name, function in functions.items()}
        tf.saved_model.save(module, saved, signatures=traced)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=list(traced))
        if quantize is not None:
            # int8 weights with a scale per output, and inputs of products quantized at run time; or
            # float16 weights, which the runtime converts once.
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        (directory / LITERT_FILE).write_bytes(converter.convert())
