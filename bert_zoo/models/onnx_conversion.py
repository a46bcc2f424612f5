"""Corrections to tf2onnx for the models' graphs, for `bert_zoo.export` and Keras's own export."""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_zoo.private import onnx_optimizers

# The optimizers of tf2onnx 1.17 that are correct for the models' graphs. Of the others, one removes the first
# of two reshapes although a 0 in the second one's shape then means another axis; those for reshapes,
# transposes and means write shapes into the graph that are wrong for empty batches. ONNX Runtime does the
# same optimizations.
_OPTIMIZERS = ("fold_constants", "merge_duplication", "remove_identity")


@contextlib.contextmanager
def converting() -> Iterator[None]:
    """A context in which tf2onnx 1.17 converts the models' graphs correctly.

    It also keeps tf2onnx from copying the model with its weights before each optimization (in order to
    continue if one fails).
    """
    _register_ops()
    _forget_eager_tables()
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


def _forget_eager_tables() -> None:
    """Removes from TensorFlow's default graph the tables that were made eagerly, as those of tokenizers.

    TensorFlow 2.21 lists None for each of them, and warns of it at each of tf2onnx's optimizations.
    """
    import tensorflow as tf

    kind = tf.compat.v1.GraphKeys.TABLE_INITIALIZERS
    made = tf.compat.v1.get_default_graph().get_collection_ref(kind)
    made[:] = [initializer for initializer in made if initializer is not None]


@functools.cache
def _register_ops() -> None:
    """Adds TensorFlow ops that tf2onnx 1.17 does not know, once per process."""
    from tf2onnx.handler import tf_op

    handlers = {
        "Erfc": _erfc,
        "Log1p": _log1p,
        "XlaDynamicUpdateSlice": _dynamic_update_slice,
    }
    for op, handler in handlers.items():
        tf_op(op).register_compat_handler(handler, 9)


def _erfc(graph, node, **options: Any) -> None:
    """1 + erf(-x); ONNX has no erfc.

    In GELU, x is the product of a negation and sqrt(1/2). It is written as a quotient, so that ONNX Runtime
    recognises the whole GELU, for which it has a kernel.
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


def _log1p(graph, node, **options: Any) -> None:
    """log(1 + x), which ONNX has no operation for; in float32 at most 6e-8 off."""
    one = graph.make_const(f"{node.name}_one", np.array(1, np.float32)).output[0]
    sum_ = graph.make_node("Add", [node.input[0], one], op_name_scope=node.name).output[0]
    _replace(graph, node, "Log", [sum_])


def _dynamic_update_slice(graph, node, **options: Any) -> None:
    """Replaces a part of a tensor by another tensor, along the one axis on which that is smaller.

    Decoders write into their slots with it. As in XLA, a part that does not fit after the start is written
    at the end.
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
    """A tf2onnx rewriter that turns the operations of our `LayerNorm` into LayerNormalization of opset 17.

    ONNX Runtime recognises other libraries' layer norms, but not ours.
    """
    from tf2onnx.graph_matcher import GraphMatcher, OpTypePattern

    def pattern(op: str, *inputs, name: str | None = None):
        return OpTypePattern(op, name=name, inputs=[*inputs])

    # `bert_zoo.layers.common.standardize` times gamma; TensorFlow's optimizer first multiplies gamma by
    # the reciprocal root.
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
    """Replaces a node with one output by another op."""
    shapes, dtypes = node.output_shapes, node.output_dtypes
    name, outputs = node.name, node.output
    graph.remove_node(name)
    graph.make_node(
        op, inputs, attr=attributes, name=name, outputs=outputs, shapes=shapes, dtypes=dtypes
    )
