"""What tf2onnx lacks or does wrongly for the graphs of our models; `bert_zoo.export` and Keras's own go by it."""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_zoo.private import onnx_optimizers

# What tf2onnx 1.17 puts a graph in order by that is right for our graphs. Of the others, one leaves out the
# first of two reshapes and takes no care of a 0 in the second's shape, which then means another axis; those of
# reshapes, transposes and means write shapes into the graph that an empty batch does not have. ONNX Runtime
# does what they do.
_OPTIMIZERS = ("fold_constants", "merge_duplication", "remove_identity")


@contextlib.contextmanager
def converting() -> Iterator[None]:
    """tf2onnx 1.17 as it is right for our graphs, within this context.

    It would copy the model, weights included, before each optimization, to go on without one that fails.
    """
    _register_ops()
    name, optimizers = "TF2ONNX_CATCH_ERRORS", onnx_optimizers()
    before, all_of_them = os.environ.get(name), dict(optimizers)
    os.environ[name] = "FALSE"
    for other in all_of_them.keys() - _OPTIMIZERS:
        del optimizers[other]
    try:
        yield
    finally:
        optimizers.clear()
        optimizers.update(all_of_them)
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


@functools.cache
def _register_ops() -> None:
    """Adds the ops of TensorFlow that tf2onnx 1.17 does not know to those that it does, once a process."""
    from tf2onnx.handler import tf_op

    for op, handler in (("Erfc", _erfc), ("XlaDynamicUpdateSlice", _dynamic_update_slice)):
        tf_op(op).register_compat_handler(handler, 9)


def _erfc(graph, node, **options: Any) -> None:
    """1 + erf(-x); ONNX has no erfc.

    In GELU, x is the product of a negation and sqrt(1/2). That is written as a quotient, by which ONNX
    Runtime finds the whole of GELU, for which it has a kernel.
    """
    name, before = node.name, node.inputs[0]

    def constant(what: str, value: float) -> str:
        return graph.make_const(f"{name}_{what}", np.array(value, np.float32)).output[0]

    if before.type == "Mul" and before.inputs[0].type == "Neg" and before.inputs[1].is_const():
        factor = before.inputs[1].get_tensor_value(as_list=False)
        parts = [before.inputs[0].input[0], constant("divisor", 1 / factor)]
        negated = graph.make_node("Div", parts, op_name_scope=name).output[0]
    else:
        negated = graph.make_node("Neg", node.input, op_name_scope=name).output[0]
    erf = graph.make_node("Erf", [negated], op_name_scope=name).output[0]
    _replace(graph, node, "Add", [erf, constant("one", 1)])


def _dynamic_update_slice(graph, node, **options: Any) -> None:
    """One tensor in the place of a part of another, along the axis on which it is a part.

    A decoder writes into its slots by it. As in XLA, a part that does not fit after the start is written at the end.
    """
    from onnx import TensorProto
    from tf2onnx.utils import make_name

    name = node.name

    def constant(value: int) -> str:
        return graph.make_const(make_name(name), np.array([value], np.int64)).output[0]

    def made(op: str, *inputs: str, **attributes) -> str:
        return graph.make_node(op, list(inputs), attr=attributes).output[0]

    whole, part, starts = node.input
    shape, of_part = (graph.get_shape(tensor) for tensor in (whole, part))
    axis = next(i for i, size in enumerate(shape) if size not in (-1, of_part[i]))
    first, size, at_axis, after_axis = (constant(v) for v in (0, shape[axis], axis, axis + 1))
    length = made("Slice", made("Shape", part), at_axis, after_axis, first)
    start = made("Slice", made("Cast", starts, to=TensorProto.INT64), at_axis, after_axis, first)
    start = made("Min", start, made("Sub", size, length))
    before = made("Slice", whole, first, start, at_axis)
    after = made("Slice", whole, made("Add", start, length), size, at_axis)
    _replace(graph, node, "Concat", [before, part, after], axis=axis)


def join_layer_norms(graph, ops) -> list[Any]:
    """A rewriter of tf2onnx: the operations of our `LayerNorm` become ONNX's LayerNormalization, of opset 17.

    ONNX Runtime, which joins those of other programs' layer norms, does not know ours.
    """
    from tf2onnx.graph_matcher import GraphMatcher, OpTypePattern

    def pattern(op: str, *inputs, name: str | None = None):
        return OpTypePattern(op, name=name, inputs=[*inputs])

    # `bert_zoo.layers.gradients.standardize` and its product with gamma, which TensorFlow's optimizer
    # multiplies with the reciprocal root first.
    centered = pattern("Sub", pattern("*"), pattern("Mean", name="mean"), name="centered")
    variance = pattern("Mean", pattern("Square", pattern("Sub", name="squared")), pattern("*"))
    deviation = pattern("Rsqrt", pattern("Add|AddV2", variance, pattern("Const", name="epsilon")))
    scale = pattern("Mul", pattern("Const", name="gamma"), deviation)
    scaled = pattern("Mul", centered, scale, name="scaled")
    for match in GraphMatcher(scaled).match_ops(ops):
        centered, scaled, gamma = map(match.get_op, ("centered", "scaled", "gamma"))
        x, gamma = centered.input[0], gamma.output[0]
        if match.get_op("squared") is not centered or match.get_op("mean").input[0] != x:
            continue
        last, inputs = scaled, [x, gamma]
        after = graph.find_output_consumers(scaled.output[0])
        if len(after) == 1 and after[0].type in ("Add", "AddV2"):
            beta = after[0].input[1]
            if graph.get_shape(beta) == graph.get_shape(gamma):
                last, inputs = after[0], [x, gamma, beta]
        epsilon = float(match.get_op("epsilon").get_tensor_value(as_list=False))
        _replace(graph, last, "LayerNormalization", inputs, axis=-1, epsilon=epsilon)
    return graph.get_nodes()


def _replace(graph, node, op: str, inputs: list[str], **attributes: Any) -> None:
    """Puts another op in the place of a node with one output."""
    shapes, dtypes = node.output_shapes, node.output_dtypes
    name, outputs = node.name, node.output
    graph.remove_node(name)
    graph.make_node(
        op, inputs, attr=attributes, name=name, outputs=outputs, shapes=shapes, dtypes=dtypes
    )
