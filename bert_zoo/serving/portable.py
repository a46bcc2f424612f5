"""A model's functions on ids, for runtimes without TensorFlow and text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.registry import registry
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
    """A signature on ids: its inputs, the function that computes its outputs, and the inputs' axes.

    `axes` names all axes of each input; the names of fixed axes are unused.
    """

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
        """Maps each input and output to its free axes: number -> name.

        A free axis of an output that matches no input's axis is named after the output.
        """
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
    """Returns the signatures on ids of `bert_zoo.export`, without its checks, which these formats lack.

    There is `tokens`, one signature for each input of positions or second ids, and the steps of a model
    with a memory. Steps take `memory_0`, ..., `memory_mask` and return `new_memory_0`, ...,
    `new_memory_mask`, because ONNX has a single namespace. Outputs are the model's own; clients turn
    them into labels and probabilities. A model from text to text also takes the target's tokens, which
    have their own axis. A language model takes no labels and returns the log-probabilities of all
    tokens, because neither converter supports the op that computes only the labels'.
    """
    interface, state = model.interface, state_specs(model)
    # Models that always carry a state read streams, without padding; so does every step.
    read = ("token_ids",) if model.always_gives_state else names_of_ids(model)
    labels = interface.labels if interface.needs_labels else ()
    ids = tuple(ids_spec(model, n) for n in (*read, *labels) if n in model.id_limits())

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


# Hugging Face's names of inputs and outputs -> ours.
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
    """Returns a model's function with the names of Hugging Face's ONNX files, and ids in int64.

    Clients pool sentence vectors from `last_hidden_state`.

    Raises:
        ValueError: Hugging Face's programs do not support the model.
    """
    encoder = encoder_of(model)
    family = registry().families[encoder.family]
    if model.task not in family.heads:
        model = encoder
    found = {hf: ours for hf, ours in _HF_OUTPUTS.items() if ours in model.interface.outputs}
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
    names = {hf: ours for hf, ours in _HF_INPUTS.items() if ours in by_name}

    def run(inputs: Tensors) -> Tensors:
        outputs = of_ids.run({names[hf]: tf.cast(ids, tf.int32) for hf, ids in inputs.items()})
        return {hf: outputs[ours] for hf, ours in found.items()}

    specs = (tf.TensorSpec(by_name[ours].shape, tf.int64, hf) for hf, ours in names.items())
    return IdFunction(tuple(specs), run, {hf: of_ids.axes[ours] for hf, ours in names.items()})


def _outputs(model: ZooModel, inputs: Tensors, *, next_token: bool) -> Tensors:
    """Returns a model's outputs by name, in float32; with `next_token`, only at the last token."""
    if encoder_of(model) is model:
        return as_served(model, model(inputs, training=False))
    if next_token:
        return next_token_outputs(model, inputs)
    return as_served(model, by_name(model, model.outputs_of_rows(inputs, training=False)))
