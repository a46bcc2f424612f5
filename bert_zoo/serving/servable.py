"""A model as TensorFlow functions and variables, ready for tf.saved_model.save."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from bert_zoo.heads.pooling import pool
from bert_zoo.models.base import ZooModel
from bert_zoo.models.chunks import in_chunks
from bert_zoo.models.inputs import PLACES, STATE
from bert_zoo.models.long_texts import outputs_in_chunks, pooled_rows
from bert_zoo.models.question_answering import MAX_ANSWER_LENGTH, N_BEST
from bert_zoo.models.tasks import OBJECTIVES
from bert_zoo.serving import HUB_NAMES
from bert_zoo.serving.answers import best_answers
from bert_zoo.text.windows import document_windows, model_inputs, question_windows

Tensors = dict[str, tf.Tensor]


# ---------------------------------------------------------------------------------------------
# How each task is served
# ---------------------------------------------------------------------------------------------


def _class_answers(model: ZooModel, outputs: Tensors) -> Tensors:
    logits = outputs["logits"]
    return {
        "probabilities": tf.nn.softmax(logits),
        "label": tf.gather(tf.constant(model.labels), tf.argmax(logits, axis=-1)),
    }


def _label_answers(model: ZooModel, outputs: Tensors) -> Tensors:
    probabilities = tf.nn.sigmoid(outputs["logits"])
    # A signature has no ragged outputs: names stand where their probabilities do.
    names = tf.where(probabilities > tf.constant(model.thresholds), tf.constant(model.labels), "")
    return {"probabilities": probabilities, "labels": names}


def _value(model: ZooModel, outputs: Tensors) -> Tensors:
    return {"value": outputs["logits"][:, 0]}


def _choice_answers(model: ZooModel, outputs: Tensors) -> Tensors:
    logits = outputs["logits"]
    choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {"probabilities": tf.nn.softmax(logits), "choice": choice}


def _total_log_prob(model: ZooModel, outputs: Tensors) -> Tensors:
    return {"total_log_prob": tf.reduce_sum(outputs["log_probs"], axis=-1)}


def _outputs_in_chunks(model: ZooModel, call, ids: Tensors) -> Tensors:
    """What is served of rows of texts; however many they are, few go through the model at a time."""

    def run(ids: Tensors) -> Tensors:
        return served_outputs(model, call(under_hub_names(ids), training=False))

    return in_chunks(run, ids, by_length=not model.outputs_per_token)


def _outputs_of_windows(model: ZooModel, texts: tf.Tensor, preprocessor) -> Tensors:
    """What is served of texts that are read in windows."""
    long_texts = model.encoder.long_texts
    rows, text = document_windows(preprocessor, long_texts.stride).rows(texts)
    outputs = outputs_in_chunks(model.window_outputs, model.check_in_graph(rows))
    pooled = pooled_rows(outputs, text, tf.size(texts, tf.int64), long_texts.mode)
    (name,) = INTERFACES[model.task].outputs
    return served_outputs(model, {name: model.from_pooled(pooled)})


def _outputs_of_texts(model: ZooModel, call, preprocessor) -> Callable[[tuple], Tensors]:
    """Texts in the order of the interface -> what the model gives for them."""

    def serve(texts: tuple[tf.Tensor, ...]) -> Tensors:
        if model.reads_windows and len(texts) == 1:
            return _outputs_of_windows(model, texts[0], preprocessor)
        ids = model.texts_to_inputs(texts if len(texts) > 1 else texts[0], preprocessor)
        outputs = _outputs_in_chunks(model, call, ids)
        # Without them, a client could not tell what the rows stand for.
        return outputs | ids if model.outputs_per_token else outputs

    return serve


def _answers_of_texts(model: ZooModel, call, preprocessor) -> Callable[[tuple], Tensors]:
    """Questions and contexts of any length -> answers, and what was found in each window."""
    windows = question_windows(preprocessor)

    def serve(texts: tuple[tf.Tensor, ...]) -> Tensors:
        # What is not UTF-8 is cut as the tokenizer counts it.
        questions, contexts = (tf.strings.unicode_transcode(t, "UTF-8", "UTF-8") for t in texts)
        rows = windows(questions, contexts)
        rows |= _outputs_in_chunks(model, call, model_inputs(rows))
        answers = best_answers(contexts, rows, n_best=N_BEST, max_answer_length=MAX_ANSWER_LENGTH)
        return rows | answers

    return serve


@dataclass(frozen=True)
class Interface:
    """What a task's signatures take and give.

    Attributes:
        outputs: the model's outputs that signatures give, as far as the model has them.
        answers: (model, those outputs) -> what is computed from them for clients.
        texts: inputs of the text signature -> their rank.
        pairs: whether one text or two can be read.
        read: (model, its call, preprocessor) -> the text signature's function.
    """

    outputs: tuple[str, ...] = ("logits",)
    answers: Callable[[ZooModel, Tensors], Tensors] | None = None
    texts: tuple[tuple[str, int], ...] = (("text", 1),)
    pairs: bool = True
    read: Callable[..., Callable[[tuple], Tensors]] = _outputs_of_texts


PAIR = (("text", 1), ("text_pair", 1))
INTERFACES = {
    "encoder": Interface(("sequence_output", "pooled_output")),
    "classification": Interface(answers=_class_answers),
    "multi_label_classification": Interface(answers=_label_answers),
    "regression": Interface(answers=_value),
    "token_classification": Interface(answers=_class_answers),
    "question_answering": Interface(
        ("start_logits", "end_logits"),
        texts=(("question", 1), ("context", 1)),
        pairs=False,
        read=_answers_of_texts,
    ),
    "multiple_choice": Interface(
        answers=_choice_answers, texts=(("text", 1), ("choices", 2)), pairs=False
    ),
    "masked_lm": Interface(),
    "pretraining": Interface(
        ("mlm_logits", *(objective.output for objective in OBJECTIVES.values()))
    ),
    "causal_lm": Interface(("log_probs",), answers=_total_log_prob, pairs=False),
    "embedding": Interface(("embedding",)),
}


# ---------------------------------------------------------------------------------------------
# The object and its signatures
# ---------------------------------------------------------------------------------------------


def make_servable(
    model: ZooModel, *, pairs: bool, text: bool
) -> tuple[tf.train.Checkpoint, dict[str, Any]]:
    """The object that is saved, and its signatures; see `bert_zoo.export`.

    Raises:
        ValueError: `pairs` of a model that does not read pairs.
    """
    interface = INTERFACES[model.task]
    packs_pairs = text and _packs_pairs(model)
    reads_pairs = interface.pairs and packs_pairs
    if pairs and not reads_pairs:
        raise ValueError(
            "pairs=True is for models that read one text or two, exported with text=True; this one "
            f"is of task {model.task!r}, with {model.id_limits()['segment_ids'][0]} segment(s), "
            f"exported with text={text}. Leave pairs out."
        )
    call = call_function(model)
    servable = reusable_object(model, call)
    signatures = {"tokens": _tokens_signature(model, call)}
    for place in model.places_read:
        signatures[place] = _place_signature(model, place)
    if not text:
        return servable, {"serving_default": signatures["tokens"], **signatures}

    # The report on truncation runs Python, which a SavedModel does not hold.
    preprocessor = model.preprocessor.with_options(report_truncation=False)
    servable.preprocessor = _packing_object(preprocessor, packs_pairs)
    if reads_pairs:
        signatures["pairs"] = _text_signature(model, call, preprocessor, PAIR)
    if pairs:
        default = signatures["pairs"]
    else:
        default = _text_signature(model, call, preprocessor, interface.texts)
    return servable, {"serving_default": default, **signatures}


def _packs_pairs(model: ZooModel) -> bool:
    """Whether the model tells two texts apart, by segments or, as RoBERTa, by separators alone."""
    num_segments = model.id_limits()["segment_ids"][0]
    return num_segments > 1 or not model.preprocessor.get_config()["segments"]


def ids_spec(model: ZooModel, name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None] * model.ids_rank, tf.int32, name=name)


def _place_spec(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None, None, *PLACES[name]], tf.int32, name=name)


def reusable_object(model: ZooModel, call) -> tf.train.Checkpoint:
    """What TF-Hub's interface asks of every model."""
    # A Checkpoint is an object that attributes can be hung on, and saves nothing of its own.
    servable = tf.train.Checkpoint()
    servable.__call__ = call
    servable.variables = [variable.value for variable in model.variables]
    servable.trainable_variables = [variable.value for variable in model.trainable_variables]
    servable.regularization_losses = []
    return servable


def call_function(model: ZooModel, more: Iterable[Mapping[str, tf.TensorSpec]] = ({},)):
    """TF-Hub's interface: (dict of inputs, training) -> dict of outputs.

    Args:
        model: any model of the zoo.
        more: for each set of inputs that it can be called with, those beside ids under TF-Hub's names.
    """

    @tf.function(autograph=False)
    def call(inputs, training=False):
        ids = _under_our_names(model, inputs)
        encoded, outputs = _run(model, ids, training)
        encoded["encoder_outputs"] = encoded.pop("hidden_states")[1:]
        outputs = {**encoded, **outputs}
        outputs["default"] = _default(model, ids, outputs)
        return as_served(outputs)

    specs = {theirs: ids_spec(model, theirs) for theirs in HUB_NAMES.values()}
    for others in more:
        for training in (False, True):
            call.get_concrete_function({**specs, **others}, training=training)
    return call


def _run(model: ZooModel, ids: Tensors, training: bool) -> tuple[dict[str, Any], Tensors]:
    """The outputs of the encoder, hidden states among them, and those of the head, by name."""
    ids = model.check_in_graph(ids)
    if model.task == "encoder":
        with _hidden_states(model):
            return dict(model(ids, training=training)), {}
    with _hidden_states(model.encoder):
        encoded = model.encoder(model.encoder_inputs(ids), training=training)
    outputs = model.head_outputs(encoded, ids, training)
    if not isinstance(outputs, dict):
        (name,) = INTERFACES[model.task].outputs
        outputs = {name: outputs}
    return dict(encoded), outputs


@contextmanager
def _hidden_states(encoder) -> Iterator[None]:
    before = encoder.output_hidden_states
    encoder.output_hidden_states = True
    try:
        yield
    finally:
        encoder.output_hidden_states = before


def _default(model: ZooModel, ids: Tensors, outputs: dict[str, Any]) -> tf.Tensor:
    """One vector a row, as TF-Hub's interface asks for."""
    for name in ("embedding", "pooled_output"):
        if name in outputs:
            return outputs[name]
    encoder = getattr(model, "encoder", model)
    return pool(outputs["sequence_output"], ids["padding_mask"], encoder.pooling)


def as_served(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs as they leave the SavedModel: in float32, and a state by layers, `memory_0`, ..."""

    def as_float32(value: tf.Tensor) -> tf.Tensor:
        return tf.cast(value, tf.float32) if value.dtype.is_floating else value

    served = {}
    for name, value in tf.nest.map_structure(as_float32, dict(outputs)).items():
        served |= layer_names(name, value) if name in STATE else {name: value}
    return served


def layer_names(name: str, layers: Iterable[Any]) -> dict[str, Any]:
    """What a state holds of each layer, by the name of its input and output."""
    return {f"{name}_{layer}": value for layer, value in enumerate(layers)}


def signature(function: Callable[[Tensors], Tensors], specs: Sequence[tf.TensorSpec]):
    named = tf.function(lambda **inputs: function(inputs), autograph=False)
    return named.get_concrete_function(**{spec.name: spec for spec in specs})


def served_outputs(model: ZooModel, outputs: Tensors) -> Tensors:
    interface = INTERFACES[model.task]
    served = {name: outputs[name] for name in interface.outputs if name in outputs}
    if interface.answers is not None:
        served |= interface.answers(model, served)
    return served


def under_hub_names(inputs: Tensors) -> Tensors:
    """Ids under TF-Hub's names, all of which are there; other inputs keep theirs."""
    zeros = tf.zeros_like(inputs["token_ids"])
    # Models without segments take zeros there, as TF-Hub's do.
    named = {"segment_ids": zeros, "padding_mask": zeros + 1, **inputs}
    return {HUB_NAMES.get(name, name): value for name, value in named.items()}


def _under_our_names(model: ZooModel, inputs: Tensors) -> dict[str, Any]:
    """The model's inputs from those of the SavedModel, without ids that it does not read."""
    ids = {n: inputs[hub] for n, hub in HUB_NAMES.items() if n in model.id_limits()}
    others = {n: value for n, value in inputs.items() if n not in HUB_NAMES.values()}
    return ids | with_state(others)


def with_state(inputs: Tensors) -> dict[str, Any]:
    """A model's inputs from those by layers, `memory_0`, ..., as `as_served` made them."""
    inputs = dict(inputs)
    for name in STATE:
        layers = []
        while (key := f"{name}_{len(layers)}") in inputs:
            layers.append(inputs.pop(key))
        if layers:
            inputs[name] = layers
    return inputs


def _tokens_signature(model: ZooModel, call):
    def serve(ids: Tensors) -> Tensors:
        return served_outputs(model, call(under_hub_names(ids), training=False))

    return signature(serve, [ids_spec(model, name) for name in HUB_NAMES])


def _place_signature(model: ZooModel, place: str):
    """Traced by itself, so that the vocabulary projection runs at the places only."""

    def serve(ids: Tensors) -> Tensors:
        _, outputs = _run(model, ids, training=False)
        return served_outputs(model, as_served(outputs))

    ids = [ids_spec(model, name) for name in HUB_NAMES]
    return signature(serve, [*ids, _place_spec(place)])


def _text_signature(model: ZooModel, call, preprocessor, inputs: tuple[tuple[str, int], ...]):
    specs = [tf.TensorSpec([None] * rank, tf.string, name=name) for name, rank in inputs]
    vocabulary = tf.constant(preprocessor.tokenizer.vocabulary)
    outputs_of = INTERFACES[model.task].read(model, call, preprocessor)

    def serve(named_texts: Tensors) -> Tensors:
        outputs = outputs_of(tuple(named_texts[spec.name] for spec in specs))
        if "token_ids" in outputs:
            outputs["tokens"] = tf.gather(vocabulary, outputs["token_ids"])
        return outputs

    return signature(serve, specs)


# ---------------------------------------------------------------------------------------------
# The preprocessor beside the model
# ---------------------------------------------------------------------------------------------


def _packing_object(preprocessor, packs_pairs: bool) -> tf.train.Checkpoint:
    """TF-Hub's preprocessor: callable, with the callables `tokenize` and `bert_pack_inputs`.

    It takes pairs where the model tells two texts apart.
    """
    texts = tf.TensorSpec([None], tf.string, name="texts")
    pair = (texts, tf.TensorSpec([None], tf.string, name="texts_pair"))
    ragged = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)

    @tf.function(autograph=False)
    def call(texts):
        return under_hub_names(preprocessor(texts))

    @tf.function(autograph=False)
    def tokenize(texts):
        return preprocessor.tokenize(texts)

    @tf.function(autograph=False)
    def bert_pack_inputs(segments, seq_length=preprocessor.sequence_length):
        return preprocessor.bert_pack_inputs(segments, seq_length)

    tokenize.get_concrete_function(texts)
    call.get_concrete_function(texts)
    seq_length = tf.TensorSpec([], tf.int32, name="seq_length")
    bert_pack_inputs.get_concrete_function([ragged], seq_length=seq_length)
    if packs_pairs:
        call.get_concrete_function(pair)
        bert_pack_inputs.get_concrete_function([ragged, ragged], seq_length=seq_length)

    steps = {"tokenize": tokenize, "bert_pack_inputs": bert_pack_inputs}
    return preprocessor_object(preprocessor, call, steps)


def preprocessor_object(preprocessor, call, steps: Mapping[str, Any]) -> tf.train.Checkpoint:
    """A callable with callables.

    Args:
        preprocessor: whose tokenizer's tables the functions read.
        call: the function.
        steps: its attributes, functions too.
    """
    served = tf.train.Checkpoint()
    served.__call__ = call
    # Tables and SentencePiece models are saved only with an object that holds them.
    served.resources = preprocessor.tokenizer
    for name, function in steps.items():
        subobject = tf.train.Checkpoint()
        subobject.__call__ = function
        setattr(served, name, subobject)
    return served
