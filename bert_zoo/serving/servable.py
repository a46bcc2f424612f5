"""Turns a model into TensorFlow functions and variables for tf.saved_model.save."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_zoo.layers.common import at_positions
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.graphs import in_chunks
from bert_zoo.models.inputs import tokens_of
from bert_zoo.models.long_texts import pooled_rows
from bert_zoo.runtime.description import TOKENIZER_FILE
from bert_zoo.serving import HUB_NAMES
from bert_zoo.text.format import with_rows
from bert_zoo.text.windows import document_windows
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")


def text_description(model: ZooModel, directory: Path, *, text: bool) -> dict[str, Any]:
    """Writes `tokenizer.json`, and returns the description's `text`: None, with `text_missing`, if it reads none."""
    if not text:
        return {"text": None, "text_missing": ["it was exported with text=False."]}
    preprocessor = model.preprocessor
    content = with_rows(preprocessor)
    if content is None:
        reason = (
            f"Hugging Face's tokenizers library has no equivalent of {type(preprocessor.tokenizer).__name__}, "
            "so ids must be made elsewhere."
        )
        log.warning("The export takes only ids: %s", reason)
        return {"text": None, "text_missing": [reason]}
    differences = [*preprocessor.tokenizer.rust_differences]
    if split_tokens := preprocessor.tokenizer.split_tokens:
        differences.append(
            "Pieces of a digit and a comma are not split; bert_zoo.runtime splits them by split_tokens."
        )
    if differences:
        log.warning(
            "Some ids of %s differ from the model's: %s", TOKENIZER_FILE, " ".join(differences)
        )
    write_json(directory / TOKENIZER_FILE, content)
    tokenizer, packer = preprocessor.tokenizer, preprocessor.packer
    roles = {"pad": packer.pad_id, "unk": getattr(tokenizer, "unk_id", packer.pad_id)}
    roles |= {role: getattr(tokenizer, f"{role}_id") for role in packer.layout.roles}
    options = tokenizer.get_config()
    described = {
        "layout": packer.layout.get_config(),
        "sequence_length": packer.sequence_length,
        "truncation": packer.truncation,
        "bucket": packer.bucket,
        "ids": {role: int(index) for role, index in roles.items()},
        # Words that are tokenized separately, for tagging, have a space before them; see `text.preprocessor`.
        "blank_before_words": not options.get("add_prefix_space", True),
        "split_tokens": split_tokens,
        "vocabulary_size": model.id_limits()["token_ids"][0],
        "roles": {
            role: model.reader_of_role(role, preprocessor).packer.get_config()
            for role in model.served_roles
        },
        "differences": differences,
    }
    return {"text": described}


Tensors = dict[str, tf.Tensor]

PAIR = (("text", 1), ("text_pair", 1))


def make_servable(
    model: ZooModel, *, pairs: bool, text: bool, label_template: str | None = None
) -> tuple[tf.train.Checkpoint, dict[str, Any]]:
    """Returns the object to save, and its signatures; see `bert_zoo.export`."""
    interface = model.interface
    packs_pairs = text and _packs_pairs(model)
    reads_pairs = interface.pairs and packs_pairs
    if pairs and not reads_pairs:
        raise ValueError(
            "pairs=True needs a model that reads one text or two, and text=True; this one has the task "
            f"{model.task!r} and reads single texts, or is exported with text={text}. Leave pairs out."
        )
    state = state_specs(model)
    # Models that always carry a state read streams, without padding.
    names = ("token_ids",) if model.always_gives_state else names_of_ids(model)
    more = [ids_spec(model, name) for name in (*interface.labels, *interface.marks)]
    ids = [*(ids_spec(model, name) for name in names), *more]
    call = call_function(model, more, state)
    servable = reusable_object(model, call)

    def step(inputs: Tensors) -> Tensors:
        """Runs ids and, if there is one, a state; then it also returns the new one."""
        outputs = call(under_hub_names(inputs), training=False)
        carried = (spec.name for spec in state if spec.name in inputs)
        return served_outputs(model, outputs) | {name: outputs[name] for name in carried}

    def next_token(inputs: Tensors) -> Tensors:
        """Returns the next token's log-probabilities and the new state."""
        outputs = next_token_outputs(model, model.check_in_graph(with_state(model, inputs)))
        return {name: outputs[name] for name in ("log_probs", *(spec.name for spec in state))}

    def with_further_input(ids: Tensors) -> Tensors:
        """Runs ids with a further input, such as the only positions at which logits are computed."""
        _, outputs = _run(model, _under_our_names(model, under_hub_names(ids)), training=False)
        return served_outputs(model, as_served(model, outputs))

    def initial_memory(inputs: Tensors) -> Tensors:
        return as_served(model, model.initial_memory(inputs["batch_size"]))

    signatures = {"tokens": signature(step, ids)}
    for name, shape in model.inputs_apart.items():
        specs = [ids_spec(model, of_ids) for of_ids in names_of_ids(model)]
        specs.append(tf.TensorSpec(shape, tf.int32, name=name))
        signatures[name] = signature(with_further_input, specs)
    if state:
        size = tf.TensorSpec([], tf.int32, name="batch_size")
        signatures["initial_memory"] = signature(initial_memory, [size])
        for name, gives_next_token in interface.steps:
            run, read = (next_token, ids[:1]) if gives_next_token else (step, ids)
            signatures[name] = signature(run, [*read, *state])
    if not text:
        return servable, {"serving_default": signatures["tokens"], **signatures}

    # The report on truncation runs Python, which a SavedModel does not hold.
    preprocessor = model.preprocessor.with_options(report_truncation=False)
    servable.preprocessor = _preprocessor_object(model, preprocessor, packs_pairs)
    if reads_pairs:
        signatures["pairs"] = _text_signature(model, call, preprocessor, PAIR)
    if pairs:
        default = signatures["pairs"]
    else:
        default = _text_signature(model, call, preprocessor, interface.texts)
    # Whose tables the signatures read.
    servable.readers_of_roles = {
        role: model.reader_of_role(role, preprocessor) for role in model.served_roles
    }
    for role in model.served_roles:
        signatures[role] = _text_signature(model, call, preprocessor, interface.texts, role)
    if interface.text_name is not None:
        signatures[interface.text_name] = default
    if label_template is not None:
        signatures["zero_shot"] = _zero_shot_signature(model, call, preprocessor, label_template)
    return servable, {"serving_default": default, **signatures}


def _packs_pairs(model: ZooModel) -> bool:
    """Whether the model reads two texts, separated by segments or, as RoBERTa, only by separators."""
    layout = model.preprocessor.packer.layout
    # Models that read labels score single texts.
    if not layout.pair or model.interface.labels or model.interface.marks:
        return False
    num_segments, _ = model.id_limits().get("segment_ids", (0, ""))
    return num_segments > 1 or not layout.segments


def names_of_ids(model: ZooModel) -> tuple[str, ...]:
    """Returns the signatures' inputs: ids, mask and, for models on tokens, segments even if unused."""
    main = encoder_of(model).backbone.main_input
    return tuple(HUB_NAMES) if main in HUB_NAMES else (main, "padding_mask")


def ids_spec(model: ZooModel, name: str, hub_name: str | None = None) -> tf.TensorSpec:
    return tf.TensorSpec(model.ids_shape(name), tf.int32, name=hub_name or name)


def reusable_object(model: ZooModel, call) -> tf.train.Checkpoint:
    """Returns an object with the attributes that TF-Hub's interface requires of every model."""
    # A Checkpoint accepts any attribute, and saves nothing of its own.
    servable = tf.train.Checkpoint()
    servable.__call__ = call
    served = model.served_variables()
    servable.variables = [variable.value for variable in served]
    servable.trainable_variables = [variable.value for variable in served if variable.trainable]
    servable.regularization_losses = []
    return servable


def call_function(model: ZooModel, labels: Sequence[tf.TensorSpec], state: Sequence[tf.TensorSpec]):
    """Returns TF-Hub's function, (dict of inputs, training) -> dict of outputs; `state` is optional."""

    @tf.function(autograph=False)
    def call(inputs, training=False):
        ids = _under_our_names(model, inputs)
        encoded, outputs = _run(model, ids, training)
        encoded["encoder_outputs"] = encoded.pop("hidden_states")[1:]
        outputs = {**encoded, **outputs}
        outputs["default"] = _default(model, ids, outputs)
        return as_served(model, outputs)

    ids = [ids_spec(model, name, HUB_NAMES.get(name)) for name in names_of_ids(model)]
    ids += labels
    for specs in (ids, [*ids, *state]) if state else (ids,):
        for training in (False, True):
            call.get_concrete_function({spec.name: spec for spec in specs}, training=training)
    return call


def _run(model: ZooModel, ids: Tensors, training: bool) -> tuple[dict[str, Any], Tensors]:
    """Returns the outputs of the encoder, with hidden states, and of the head, by name."""
    ids = model.check_in_graph(ids)
    encoder = encoder_of(model)
    read = ids if encoder is model else model.encoder_inputs(ids)
    backbone, options = encoder.backbone, {}
    if backbone.has_global_tokens:
        options["global_tokens"] = getattr(model, "global_tokens", None)
    in_encoder = training and not model.fixes_encoder
    encoded = dict(backbone(read, training=in_encoder, **options))
    attentions = encoded.pop("attentions")
    if encoder.output_attentions:
        length = tf.shape(read[backbone.main_input])[1]
        encoded |= backbone.shown_attentions(attentions, length)
    if encoder is model:
        return encoded, {}
    positions = model.positions_of(read)
    read_by_head = model.read_by_head(encoded, read, training)
    if positions is not None:
        at_them = at_positions(encoded["sequence_output"], positions)
        read_by_head = {**encoded, "sequence_output": at_them}
    return encoded, by_name(model, model.head_outputs(read_by_head, ids, training))


def by_name(model: ZooModel, outputs) -> Tensors:
    return outputs if isinstance(outputs, dict) else {model.interface.outputs[0]: outputs}


def _default(model: ZooModel, ids: Tensors, outputs: dict[str, Any]) -> tf.Tensor:
    """Returns one vector per row, which TF-Hub's interface requires."""
    for name in ("embedding", "pooled_output"):
        if name in outputs:
            return outputs[name]
    encoder = encoder_of(model)
    read = ids if encoder is model else model.encoder_inputs(ids)
    return encoder.sentence_vectors(outputs["sequence_output"], read)


def as_served(model: ZooModel, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Converts outputs to float32, and splits a state into layers: `memory_0`, ..."""

    def as_float32(value: tf.Tensor) -> tf.Tensor:
        return tf.cast(value, tf.float32) if value.dtype.is_floating else value

    served = {}
    for name, value in tf.nest.map_structure(as_float32, dict(outputs)).items():
        if name in model.state and isinstance(value, list):
            served |= {f"{name}_{layer}": of_layer for layer, of_layer in enumerate(value)}
        else:
            served[name] = value
    return served


def signature(function: Callable[[Tensors], Tensors], specs: Sequence[tf.TensorSpec]):
    named = tf.function(lambda **inputs: function(inputs), autograph=False)
    return named.get_concrete_function(**{spec.name: spec for spec in specs})


def served_outputs(model: ZooModel, outputs: Tensors) -> Tensors:
    served = {name: outputs[name] for name in model.interface.outputs if name in outputs}
    return served | model.served_answers(served)


def under_hub_names(inputs: Tensors) -> Tensors:
    """Renames ids to TF-Hub's names and adds missing ones; other inputs keep their names."""
    zeros = tf.zeros_like(tokens_of(inputs))
    # Models on tokens without segments take zeros, like TF-Hub's.
    segments = {"segment_ids": zeros} if "token_ids" in inputs else {}
    named = {**segments, "padding_mask": zeros + 1, **inputs}
    return {HUB_NAMES.get(name, name): value for name, value in named.items()}


def _under_our_names(model: ZooModel, inputs: Tensors) -> dict[str, Any]:
    """Converts the SavedModel's inputs to the model's, without ids that it does not read."""
    ids = {n: inputs[hub] for n, hub in HUB_NAMES.items() if n in model.id_limits()}
    others = {n: value for n, value in inputs.items() if n not in HUB_NAMES.values()}
    return ids | with_state(model, others)


def with_state(model: ZooModel, inputs: Tensors) -> dict[str, Any]:
    """Joins a state's layers, `memory_0`, ..., again; the inverse of `as_served`."""
    inputs = dict(inputs)
    for name in model.state:
        layers = []
        while (key := f"{name}_{len(layers)}") in inputs:
            layers.append(inputs.pop(key))
        if layers:
            inputs[name] = layers
    return inputs


def state_specs(model: ZooModel) -> list[tf.TensorSpec]:
    memory = as_served(model, model.initial_memory(1)) if model.state else {}
    return [
        tf.TensorSpec([None, *value.shape[1:]], value.dtype, name=name)
        for name, value in memory.items()
    ]


def next_token_outputs(model: ZooModel, inputs: Tensors) -> Tensors:
    """Returns a language model's outputs at the last token; the softmax is computed only there."""
    encoded = model.encoder.unmasked(inputs, training=False)
    last = {**encoded, "sequence_output": encoded["sequence_output"][:, -1:]}
    outputs = as_served(model, model.head_outputs(last, {}, training=False))
    return {**outputs, "log_probs": outputs["log_probs"][:, 0]}


def outputs_of_texts(
    model: ZooModel, call, preprocessor, texts: tuple[tf.Tensor, ...], role: str | None = None
) -> Tensors:
    """Returns the outputs for any number of texts, in the order of the interface, or pairs."""
    if model.reads_windows and len(texts) == 1:
        return _outputs_of_windows(model, texts[0], preprocessor)

    def run(ids: Tensors) -> Tensors:
        return served_outputs(model, call(under_hub_names(ids), training=False))

    def run_in_chunks(ids: Tensors) -> Tensors:
        return in_chunks(run, ids, by_length=not model.outputs_per_token)

    if role is not None:
        return model.served_of_role(role, *texts, run_in_chunks, preprocessor)
    return model.served_of_texts(texts, run_in_chunks, preprocessor)


def _outputs_of_windows(model: ZooModel, texts: tf.Tensor, preprocessor) -> Tensors:
    """Returns the outputs for texts that are read in windows."""
    long_texts = model.encoder.long_texts
    rows, text = document_windows(preprocessor, long_texts.stride).rows(model.prompted(texts))
    outputs = in_chunks(model.window_outputs, model.check_in_graph(rows), by_length=True)
    pooled = pooled_rows(outputs, text, tf.size(texts, tf.int64), long_texts.mode)
    return served_outputs(model, by_name(model, model.from_pooled(pooled)))


def _text_signature(
    model: ZooModel,
    call,
    preprocessor,
    inputs: tuple[tuple[str, int], ...],
    role: str | None = None,
):
    specs = [tf.TensorSpec([None] * rank, tf.string, name=name) for name, rank in inputs]
    vocabulary = tf.constant(preprocessor.tokenizer.vocabulary)

    def serve(named_texts: Tensors) -> Tensors:
        texts = tuple(named_texts[spec.name] for spec in specs)
        outputs = outputs_of_texts(model, call, preprocessor, texts, role)
        if "token_ids" in outputs:
            outputs |= _shown_tokens(outputs["token_ids"], outputs["padding_mask"])
        return outputs

    def _shown_tokens(token_ids, mask) -> Tensors:
        if hasattr(preprocessor.tokenizer, "pad_id"):
            return {"tokens": tf.gather(vocabulary, token_ids)}
        # The vocabulary has no token for padding.
        token_ids = tf.where(mask == 1, token_ids, 0)
        tokens = tf.where(mask == 1, tf.gather(vocabulary, token_ids), "")
        return {"token_ids": token_ids, "tokens": tokens}

    return signature(serve, specs)


def _zero_shot_signature(model: ZooModel, call, preprocessor, template: str):
    def run(*texts: tf.Tensor, **options: Any) -> Tensors:
        return outputs_of_texts(model, call, preprocessor.with_options(**options), texts)

    def serve(inputs: Tensors) -> Tensors:
        *before, last = template.split("{}")
        parts = [part for text in before for part in (text, inputs["labels"])]
        return model.served_by_name(inputs["text"], tf.strings.join([*parts, last]), run)

    specs = [tf.TensorSpec([None], tf.string, name=name) for name in ("text", "labels")]
    return signature(serve, specs)


def _preprocessor_object(model: ZooModel, preprocessor, packs_pairs: bool) -> tf.train.Checkpoint:
    """TF-Hub's preprocessor: callable, with the callables `tokenize` and `bert_pack_inputs`, which is missing without
    packing. It takes pairs if the model reads two texts.
    """
    texts = tf.TensorSpec([None], tf.string, name="texts")

    @tf.function(autograph=False)
    def call(texts):
        read = (
            model.texts_to_inputs(texts, preprocessor)
            if model.interface.labels or model.interface.marks
            else preprocessor(model.prompted(texts))
        )
        return under_hub_names(read)

    @tf.function(autograph=False)
    def tokenize(texts):
        return preprocessor.tokenize(texts)

    call.get_concrete_function(texts)
    tokenize.get_concrete_function(texts)
    steps = {"tokenize": tokenize}
    if packs_pairs:
        call.get_concrete_function((texts, tf.TensorSpec([None], tf.string, name="texts_pair")))
    if hasattr(preprocessor, "bert_pack_inputs"):
        steps["bert_pack_inputs"] = _packing_function(preprocessor, packs_pairs)

    served = tf.train.Checkpoint()
    served.__call__ = call
    # Tables and SentencePiece models are only saved as attributes of an object.
    served.resources = preprocessor.tokenizer
    for name, function in steps.items():
        subobject = tf.train.Checkpoint()
        subobject.__call__ = function
        setattr(served, name, subobject)
    return served


def _packing_function(preprocessor, packs_pairs: bool):
    ragged = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)

    @tf.function(autograph=False)
    def bert_pack_inputs(segments, seq_length=preprocessor.sequence_length):
        return preprocessor.bert_pack_inputs(segments, seq_length)

    seq_length = tf.TensorSpec([], tf.int32, name="seq_length")
    for number in (1, 2) if packs_pairs else (1,):
        bert_pack_inputs.get_concrete_function([ragged] * number, seq_length=seq_length)
    return bert_pack_inputs
