"""Writes an ONNX file for each of a model's signatures on ids."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

import bert_zoo
from bert_zoo.loading.card import base_of
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.onnx_conversion import converting, join_layer_norms
from bert_zoo.registry import registry
from bert_zoo.runtime.files import onnx_file
from bert_zoo.serving.portable import IdFunction

OPSET = 17
# Smaller tensors are not quantized.
_QUANTIZED_SIZE = 1024


def write_onnx(
    model: ZooModel, functions: Mapping[str, IdFunction], directory: Path, quantize: str | None
) -> None:
    """Writes a `<signature>.onnx` for each function, with the weights that it reads."""
    for name, function in functions.items():
        write_graph(model, name, function, directory / onnx_file(name), quantize)


def write_graph(
    model: ZooModel, name: str, function: IdFunction, path: Path, quantize: str | None
) -> None:
    """Writes a model's function as a graph with this name."""
    import onnx

    graph = _converted(function)
    _name_axes(graph, function.free_axes())
    if quantize == "float16":
        _weights_in_float16(graph)
    elif quantize == "int8":
        graph = _in_int8(graph, path)
    _describe(graph, name, model)
    onnx.save(graph, path)


def _converted(function: IdFunction):
    import tf2onnx

    traced = tf.function(function.traced(), autograph=False)
    with converting():
        model, _ = tf2onnx.convert.from_function(
            traced,
            input_signature=function.specs,
            opset=OPSET,
            custom_rewriter=[join_layer_norms],
        )
    return model


def _name_axes(graph, axes: Mapping[str, Mapping[int, str]]) -> None:
    """Names the free axes of inputs and outputs; tf2onnx 1.17 gives each one a different number."""
    for value in (*graph.graph.input, *graph.graph.output):
        for number, name in axes[value.name].items():
            value.type.tensor_type.shape.dim[number].dim_param = name
    # Inside the graph the same axes still have the old names; ONNX infers these shapes when needed.
    del graph.graph.value_info[:]


def _describe(graph, name: str, model: ZooModel) -> None:
    """Writes producer, purpose, licence and labels into the file's metadata."""
    from onnx import helper

    use = getattr(model, "use", None)
    family = encoder_of(model).family
    graph.producer_name, graph.producer_version = "bert_zoo", bert_zoo.__version__
    graph.graph.name = name
    graph.doc_string = f"{family}, {model.task}" + (f": {use.purpose}." if use else ".")
    properties = {"family": family, "task": model.task}
    base, checkpoint = base_of(model, registry().families[family])
    if base is not None:
        properties["base_model"] = base
    if checkpoint is not None:
        properties["licence"] = checkpoint.licence
    if model.labels:
        properties["labels"] = json.dumps(model.labels, ensure_ascii=False)
    helper.set_model_props(graph, properties)


def _in_int8(graph, path: Path):
    """Quantizes weights with a scale per output; inputs of products are quantized at run time."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(graph, path, per_channel=True, weight_type=QuantType.QInt8)
    return onnx.load(path)


def _weights_in_float16(model) -> None:
    """Stores weights in float16; the runtime converts them once, when it loads them."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    casts = []
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < _QUANTIZED_SIZE:
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}_float16"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
