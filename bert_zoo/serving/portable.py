"""A model's functions on ids, written for LiteRT and ONNX Runtime."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import bert_zoo
from bert_zoo.loading.save import base_of
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.onnx_conversion import converting, join_layer_norms
from bert_zoo.registry import registry
from bert_zoo.runtime.description import LITERT_FILE, onnx_file
from bert_zoo.serving.servable import (
    Tensors,
    as_served,
    by_name,
    ids_spec,
    names_of_ids,
    next_token_outputs,
    state_specs,
    with_state,
)


class IdFunction(NamedTuple):
    """A signature on ids: inputs, the function that computes its outputs, and the names of all axes of each input."""

    specs: tuple[tf.TensorSpec, ...]
    run: Callable[[Tensors], Tensors]
    axes: Mapping[str, Sequence[str]]

    def traced(self) -> tf.types.experimental.ConcreteFunction:
        """Returns a graph that takes the inputs by name, in the order of `specs`."""
        names = [spec.name for spec in self.specs]

        def run(*values):
            return self.run(dict(zip(names, values, strict=True)))

        return tf.function(run, autograph=False, input_signature=self.specs).get_concrete_function()

    def free_axes(self) -> dict[str, dict[int, str]]:
        """Free axes of inputs and outputs: number -> name, an output's own if it matches no input's axis."""
        names = dict.fromkeys(
            name
            for spec in self.specs
            for name, size in zip(self.axes[spec.name], spec.shape, strict=False)
            if size is None
        )
        # Different sizes, by which the axes are recognised in the outputs' shapes.
        sizes = dict(zip(names, (2, 11, 13, 17), strict=False))
        named = {spec.name: _free(spec, self.axes[spec.name]) for spec in self.specs}
        fixed = [
            tf.TensorSpec(
                [size or sizes[named[spec.name][i]] for i, size in enumerate(spec.shape)],
                spec.dtype,
                spec.name,
            )
            for spec in self.specs
        ]
        of_sizes = {size: name for name, size in sizes.items()}
        outputs = self._replace(specs=tuple(fixed)).traced().structured_outputs
        for name, spec in self.traced().structured_outputs.items():
            found = [of_sizes.get(s, f"{name}_{i}") for i, s in enumerate(outputs[name].shape)]
            named[name] = _free(spec, found)
        return named

    def description(self) -> dict[str, dict[str, Any]]:
        """Returns each input's shape, with null for free axes, and dtype."""
        return {
            spec.name: {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for spec in self.specs
        }


def _free(spec: tf.TensorSpec, names: Sequence[str]) -> dict[int, str]:
    return {i: names[i] for i, size in enumerate(spec.shape) if size is None}


def id_functions(model: ZooModel) -> dict[str, IdFunction]:
    """Returns the signatures on ids of `bert_zoo.export`, without its checks, which these formats lack: `tokens`, one
    signature for each input of positions or second ids, and the steps of a model with a memory. Steps take
    `memory_0`, ..., `memory_mask` and return `new_memory_0`, ..., `new_memory_mask`, because ONNX has a single
    namespace. Outputs are the model's own; clients turn them into labels and probabilities. A model from text to
    text also takes the target's tokens, which have their own axis. A language model takes no labels and returns the
    log-probabilities of all tokens, because neither converter supports the op that computes only the labels'.
    """
    interface, state = model.interface, state_specs(model)
    # Models that always carry a state read streams, without padding; so does every step.
    read = ("token_ids",) if model.always_gives_state else names_of_ids(model)
    labels = interface.labels if interface.needs_labels else ()
    names = (*read, *interface.marks, *labels)
    ids = tuple(ids_spec(model, name) for name in names if name in model.id_limits())

    # Inputs with a value per token have the axes of ids.
    positions = model.positions_read.keys() - set(getattr(model, "columns_read", ()))
    of_ids = ("batch", "sequence") if model.ids_rank == 2 else ("batch", "choices", "sequence")

    def function(specs, carried=(), *, next_token: bool = False) -> IdFunction:
        def run(inputs: Tensors) -> Tensors:
            outputs = _outputs(model, with_state(model, inputs), next_token=next_token)
            found = {name: outputs[name] for name in interface.outputs if name in outputs}
            return found | {f"new_{spec.name}": outputs[spec.name] for spec in carried}

        axes = {spec.name: (*of_ids, "characters") for spec in (*specs, *carried)}
        axes |= {name: ("batch", name) for name in positions}
        axes |= dict.fromkeys(labels, ("batch", "target"))
        return IdFunction((*specs, *carried), run, axes)

    functions = {"tokens": function(ids)}
    for name, shape in model.inputs_apart.items():
        functions[name] = function((*ids, tf.TensorSpec(shape, tf.int32, name=name)))
    for name, gives_next_token in interface.steps if state else ():
        functions[name] = function(ids[:1], state, next_token=gives_next_token)
    return functions


# Hugging Face's names of inputs and outputs -> bert_zoo's.
_HF_INPUTS = {
    "input_ids": "token_ids",
    "attention_mask": "padding_mask",
    "token_type_ids": "segment_ids",
}
_HF_OUTPUTS = {
    "last_hidden_state": "sequence_output",
    "logits": "logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


def hugging_face_function(model: ZooModel) -> IdFunction:
    """A model's function with the names of Hugging Face's ONNX files, and ids in int64; ValueError if its programs do
    not support the model. Clients pool sentence vectors from `last_hidden_state`.
    """
    encoder = encoder_of(model)
    family = registry().families[encoder.family]
    if model.task not in family.heads:
        model = encoder
    found = {hf: name for hf, name in _HF_OUTPUTS.items() if name in model.interface.outputs}
    others = {*model.interface.outputs} - {*found.values(), "pooled_output"}
    if model.always_gives_state or model.interface.needs_labels or others:
        raise ValueError(
            f"layout='hf' supports encoders and heads with the outputs {', '.join(_HF_OUTPUTS)}, but a model "
            f"of task {model.task!r} has {', '.join(model.interface.outputs)}. Leave layout out, or export "
            "model.encoder."
        )
    of_ids = id_functions(model)["tokens"]
    by_name = {spec.name: spec for spec in of_ids.specs}
    if not family.text.layout.segments:
        by_name.pop("segment_ids", None)
    names = {hf: name for hf, name in _HF_INPUTS.items() if name in by_name}

    def run(inputs: Tensors) -> Tensors:
        outputs = of_ids.run({names[hf]: tf.cast(ids, tf.int32) for hf, ids in inputs.items()})
        return {hf: outputs[name] for hf, name in found.items()}

    specs = (tf.TensorSpec(by_name[name].shape, tf.int64, hf) for hf, name in names.items())
    return IdFunction(tuple(specs), run, {hf: of_ids.axes[name] for hf, name in names.items()})


def _outputs(model: ZooModel, inputs: Tensors, *, next_token: bool) -> Tensors:
    """Returns a model's outputs by name, in float32; with `next_token`, only at the last token."""
    if encoder_of(model) is model:
        return as_served(model, model(inputs, training=False))
    if next_token:
        return next_token_outputs(model, inputs)
    return as_served(model, by_name(model, model.outputs_of_rows(inputs, training=False)))


def write_litert(
    model: ZooModel, functions: Mapping[str, IdFunction], directory: Path, quantize: str | None
) -> None:
    """Writes `model.tflite`, whose signatures share the weights. Batch size and length are free: LiteRT resizes a
    signature when they change. Additional signatures with fixed lengths were hardly faster.
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
