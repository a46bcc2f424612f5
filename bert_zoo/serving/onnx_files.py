"""ONNX: a file for each of a model's signatures on ids."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_zoo.private import onnx_optimizers
from bert_zoo.runtime.files import onnx_file
from bert_zoo.serving.portable import IdFunction

OPSET = 17
# Smaller tensors stay as they are.
_QUANTIZED_SIZE = 1024


def write_onnx(functions: Mapping[str, IdFunction], directory: Path, quantize: str | None) -> None:
    """Writes `<signature>.onnx`, each with the weights that it reads."""
    for name, function in functions.items():
        _write(_converted(function), directory / onnx_file(name), quantize)


def _converted(function: IdFunction):
    import tf2onnx

    traced = tf.function(function.traced(), autograph=False)
    with _mended():
        model, _ = tf2onnx.convert.from_function(
            traced,
            input_signature=function.specs,
            opset=OPSET,
            custom_op_handlers={
                "Erfc": (_erfc, []),
                "XlaDynamicUpdateSlice": (_dynamic_update_slice, []),
            },
        )
    return model


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    """tf2onnx 1.17 as it is right for our graphs, within this context.

    It would copy the model, weights included, before each optimization, to go on without one that
    fails. And one that leaves out the first of two reshapes takes no care of a 0 in the second's
    shape, which then means another axis: attention with a single head, as of ELECTRA's small generator,
    would not run. ONNX Runtime does the rest of what this one does.
    """
    name, optimizers = "TF2ONNX_CATCH_ERRORS", onnx_optimizers()
    before, all_of_them = os.environ.get(name), dict(optimizers)
    os.environ[name] = "FALSE"
    del optimizers["remove_back_to_back"]
    try:
        yield
    finally:
        optimizers.clear()
        optimizers.update(all_of_them)
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _erfc(graph, node, name, args) -> None:
    """1 - erf(x): tf2onnx 1.17 does not know TensorFlow's Erfc, of GELU, and ONNX has no such op."""
    node.type, node.domain = "Erf", ""
    one = graph.make_const(f"{name}_one", np.ones([], np.float32)).output[0]
    difference = graph.insert_new_node_on_output("Sub", node.output[0], name=f"{name}_difference")
    graph.replace_inputs(difference, [one, node.output[0]])


def _dynamic_update_slice(graph, node, name, args) -> None:
    """One tensor in the place of a part of another, along the axis on which it is a part.

    tf2onnx 1.17 does not know this op, by which a decoder writes into its slots. As in XLA, what does not
    fit behind the start stands at the end.
    """
    from onnx import TensorProto
    from tf2onnx.utils import make_name

    def constant(value: int) -> str:
        return graph.make_const(make_name(name), np.array([value], np.int64)).output[0]

    def made(op: str, *inputs: str, **attributes) -> str:
        return graph.make_node(op, list(inputs), attr=attributes).output[0]

    whole, part, starts = node.input
    shape, of_part = (graph.get_shape(tensor) for tensor in (whole, part))
    axis = next(i for i, size in enumerate(shape) if size not in (-1, of_part[i]))
    first, size, at_axis, behind = (constant(v) for v in (0, shape[axis], axis, axis + 1))
    length = made("Slice", made("Shape", part), at_axis, behind, first)
    start = made("Slice", made("Cast", starts, to=TensorProto.INT64), at_axis, behind, first)
    start = made("Min", start, made("Sub", size, length))
    before = made("Slice", whole, first, start, at_axis)
    after = made("Slice", whole, made("Add", start, length), size, at_axis)
    graph.remove_node(name)
    joined = [before, part, after]
    graph.make_node("Concat", joined, attr={"axis": axis}, name=name, outputs=node.output)


def _write(model, path: Path, quantize: str | None) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    if quantize == "float16":
        _weights_in_float16(model)
    onnx.save(model, path)
    if quantize == "int8":
        # Weights with a scale for each output; inputs of products are quantized as they come.
        quantize_dynamic(path, path, per_channel=True, weight_type=QuantType.QInt8)


def _weights_in_float16(model) -> None:
    """Keeps weights in float16, which the runtime widens once, when it loads them."""
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
