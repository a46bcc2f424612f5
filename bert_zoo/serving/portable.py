"""A model as functions of ids, for formats whose runtimes know neither TensorFlow nor text."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.serving import HUB_NAMES
from bert_zoo.serving.servable import (
    Tensors,
    as_served,
    by_name,
    ids_spec,
    state_specs,
    with_state,
)


class IdFunction(NamedTuple):
    """A signature on ids: what it takes, and what computes its outputs."""

    specs: tuple[tf.TensorSpec, ...]
    run: Callable[[Tensors], Tensors]

    def traced(self) -> tf.types.experimental.ConcreteFunction:
        """As a graph that takes the inputs in the order of `specs`, under their names."""
        names = [spec.name for spec in self.specs]

        def run(*values):
            return self.run(dict(zip(names, values, strict=True)))

        return tf.function(run, autograph=False, input_signature=self.specs).get_concrete_function()

    def description(self) -> dict[str, dict[str, Any]]:
        """The inputs by name, each with its shape, null where it is free, and its type."""
        return {
            spec.name: {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for spec in self.specs
        }


def id_functions(model: ZooModel) -> dict[str, IdFunction]:
    """The signatures on ids of `bert_zoo.export`, without its checks, which these formats cannot make.

    `tokens`; one for each input of positions or of second ids; and the steps of a model with a memory,
    which take `memory_0`, ..., `memory_mask` and give `new_memory_0`, ..., `new_memory_mask`, since
    ONNX has one namespace for both. Outputs are those of the model: labels' names and probabilities are
    the client's to make. A language model takes no labels and gives the log-probabilities of all tokens:
    neither converter has the op that picks labels' without computing those of rare ones.
    """
    interface, state = model.interface, state_specs(model)
    # What always carries a state reads streams, and so does every step: there is no padding.
    read = ("token_ids",) if model.always_gives_state else tuple(HUB_NAMES)
    ids = tuple(ids_spec(model, name) for name in read if name in model.id_limits())

    def function(specs, carried=(), *, next_token: bool = False) -> IdFunction:
        def run(inputs: Tensors) -> Tensors:
            outputs = _outputs(model, with_state(model, inputs), next_token=next_token)
            found = {name: outputs[name] for name in interface.outputs if name in outputs}
            return found | {f"new_{spec.name}": outputs[spec.name] for spec in carried}

        return IdFunction((*specs, *carried), run)

    functions = {"tokens": function(ids)}
    for name, shape in model.inputs_apart.items():
        functions[name] = function((*ids, tf.TensorSpec(shape, tf.int32, name=name)))
    for name, gives_next_token in interface.steps if state else ():
        functions[name] = function(ids[:1], state, next_token=gives_next_token)
    return functions


def _outputs(model: ZooModel, inputs: Tensors, *, next_token: bool) -> Tensors:
    """What a model gives, by name, in float32; with `next_token`, at the last token alone."""
    if encoder_of(model) is model:
        return as_served(model, model(inputs, training=False))
    if not next_token:
        return as_served(model, by_name(model, model.outputs_of_rows(inputs, training=False)))
    encoded = model.encoder(inputs, training=False)
    last = {**encoded, "sequence_output": encoded["sequence_output"][:, -1:]}
    outputs = as_served(model, model.head_outputs(last, {}, training=False))
    return {**outputs, "log_probs": outputs["log_probs"][:, 0]}
