"""A model that carries a memory, as TensorFlow functions: whole texts, or segment by segment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from bert_zoo.models.base import ZooModel
from bert_zoo.serving import HUB_NAMES
from bert_zoo.serving.servable import (
    Tensors,
    as_served,
    call_function,
    ids_spec,
    layer_names,
    preprocessor_object,
    reusable_object,
    served_outputs,
    signature,
    under_hub_names,
    with_state,
)

Specs = Mapping[str, tf.TensorSpec]


def make_servable(
    model: ZooModel, *, pairs: bool, text: bool
) -> tuple[tf.train.Checkpoint, dict[str, Any]]:
    """The object that is saved, and its signatures; see `bert_zoo.export`.

    Raises:
        ValueError: `pairs`, which these models do not read.
    """
    if pairs:
        raise ValueError(
            "pairs=True is for models that read one text or two; this one, of task "
            f"{model.task!r} with a memory, reads single texts. Leave pairs out."
        )
    interface = INTERFACES[model.task]
    ids = {name: ids_spec(model, name) for name in interface.reads}
    memory = _memory_specs(model)
    others = {name: spec for name, spec in ids.items() if name not in HUB_NAMES}
    call = call_function(model, more=[others, {**others, **memory}])
    servable = reusable_object(model, call)

    signatures = {
        "initial_memory": _initial_memory_signature(model),
        "tokens": _segment_signature(model, call, ids, memory={}),
    }
    for name, make in interface.steps.items():
        signatures[name] = make(model, call, ids, memory)
    if not text:
        return servable, {"serving_default": signatures["tokens"], **signatures}

    # The report on truncation runs Python, which a SavedModel does not hold.
    preprocessor = model.preprocessor.with_options(report_truncation=False)
    servable.preprocessor = _preprocessor_object(model, preprocessor)
    by_text = _text_signature(model, call, preprocessor, shown=interface.reads[-1])
    names = ("serving_default", *interface.text_names)
    return servable, {**dict.fromkeys(names, by_text), **signatures}


def _memory_specs(model: ZooModel) -> Specs:
    """The memory's tensors, one a layer, and its mask."""
    config = getattr(model, "encoder", model).config
    names = layer_names("memory", range(config.num_layers))
    shape = [None, config.mem_len, config.hidden_size]
    return {
        **{name: tf.TensorSpec(shape, tf.float32, name=name) for name in names},
        "memory_mask": tf.TensorSpec(shape[:2], tf.int32, name="memory_mask"),
    }


def _initial_memory_signature(model: ZooModel):
    def serve(inputs: Tensors) -> Tensors:
        return as_served(model.initial_memory(inputs["batch_size"]))

    return signature(serve, [tf.TensorSpec([], tf.int32, name="batch_size")])


def _segment_signature(model: ZooModel, call, ids: Specs, memory: Specs):
    """The outputs of a segment, and the new memory where one is carried."""

    def serve(inputs: Tensors) -> Tensors:
        outputs = call(under_hub_names(inputs), training=False)
        return served_outputs(model, outputs) | {name: outputs[name] for name in memory}

    return signature(serve, [*ids.values(), *memory.values()])


def _next_token_signature(model: ZooModel, call, ids: Specs, memory: Specs):
    """Log-probabilities of every token after the segment, and the new memory.

    Traced by itself, so that the softmax over the vocabulary runs at the last token only.
    """

    def serve(inputs: Tensors) -> Tensors:
        encoded = model.encoder(model.check_in_graph(with_state(inputs)), training=False)
        last = {**encoded, "sequence_output": encoded["sequence_output"][:, -1:]}
        outputs = as_served(model.head_outputs(last, {}, training=False))
        carried = {name: outputs[name] for name in memory}
        return {"log_probs": outputs["log_probs"][:, 0], **carried}

    return signature(serve, [ids["token_ids"], *memory.values()])


def _text_signature(model: ZooModel, call, preprocessor, shown: str):
    """As `_segment_signature`, from texts.

    Args:
        shown: the ids that the outputs are about.
    """
    vocabulary = tf.constant(preprocessor.tokenizer.vocabulary)

    def serve(inputs: Tensors) -> Tensors:
        ids = model.texts_to_inputs(inputs["text"], preprocessor)
        outputs = served_outputs(model, call(under_hub_names(ids), training=False))
        is_token = ids["padding_mask"] == 1
        # Vocabularies need not have a token for padding.
        token_ids = tf.where(is_token, ids[shown], 0)
        tokens = tf.where(is_token, tf.gather(vocabulary, token_ids), "")
        read = {"token_ids": token_ids, "tokens": tokens, "padding_mask": ids["padding_mask"]}
        return {**outputs, **read}

    return signature(serve, [tf.TensorSpec([None], tf.string, name="text")])


def _preprocessor_object(model: ZooModel, preprocessor) -> tf.train.Checkpoint:
    """From texts to what the reloaded object is called with; with the callable `tokenize`."""
    texts = [tf.TensorSpec([None], tf.string, name="texts")]

    @tf.function(input_signature=texts, autograph=False)
    def call(texts):
        return under_hub_names(model.texts_to_inputs(texts, preprocessor))

    @tf.function(input_signature=texts, autograph=False)
    def tokenize(texts):
        return preprocessor.tokenize(texts)

    return preprocessor_object(preprocessor, call, {"tokenize": tokenize})


@dataclass(frozen=True)
class RecurrentInterface:
    """What a task's signatures take beside what `servable.INTERFACES` says that they give.

    Attributes:
        reads: inputs int [batch, length]; the last are those that outputs are about.
        steps: signatures that carry a memory -> what makes them.
        text_names: what the signature that takes texts is called beside `serving_default`.
    """

    reads: tuple[str, ...]
    steps: Mapping[str, Callable]
    text_names: tuple[str, ...] = ()


INTERFACES = {
    "encoder": RecurrentInterface(("token_ids",), {"step": _segment_signature}),
    "causal_lm": RecurrentInterface(
        ("token_ids", "labels"),
        {"step": _next_token_signature, "step_scores": _segment_signature},
        text_names=("score",),
    ),
}
