"""`load`: makes a model with weights from a name or a directory."""

import fnmatch
import inspect
import logging
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from bert_zoo import private
from bert_zoo.config import (
    Config,
    ConfigError,
    EntityHead,
    HeadSpec,
    Pooling,
    SparsePooling,
    TokenVectors,
)
from bert_zoo.error_text import listing
from bert_zoo.family import TextSpec
from bert_zoo.fields import check
from bert_zoo.generation_config import GenerationConfig
from bert_zoo.loading.argument_names import unknown_arguments
from bert_zoo.loading.directories import PROBLEM_TYPES, TRAINED_BY_USERS, Opened, open_checkpoint
from bert_zoo.loading.growing import add_tokens
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.labels import HeadChoice, Thresholds, label_names
from bert_zoo.models.long_texts import LongTexts
from bert_zoo.models.task_model import LabelledModel
from bert_zoo.registry import registry
from bert_zoo.tasks import TASKS, EntityRecognizer, no_such_task
from bert_zoo.text.files import AddedToken
from bert_zoo.text.format import DeferredPreprocessor
from bert_zoo.training.presets import compile_for_task
from bert_zoo.weights.bind import (
    ENCODER_PREFIX,
    POOLER,
    Binding,
    assign,
    bindings_beside,
    variables_of,
)
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.table import AUTOENCODER_HEAD, QUERY_WEIGHTS, Head, OfTwoLogits, head_of
from bert_zoo.weights.table import entity_head as entity_table

log = logging.getLogger("bert_zoo")

# Prefix of the variables of heads' last layer.
LOGITS = "classifier/dense/"
# The most rows of a token table that may be padding without a token: number, and share of the table.
UNUSED_ROWS = 128
UNUSED_SHARE = 0.02


def load(
    name: str | os.PathLike,
    task: str | None = None,
    *,
    weights: str | None = "pretrained",
    num_classes: int | None = None,
    num_labels: int | None = None,
    labels: Sequence[str] | Mapping[str, int] | Mapping[int, str] | None = None,
    problem_type: str | None = None,
    thresholds: Thresholds | None = None,
    init: Sequence[str] = (),
    ignore: Sequence[str] = (),
    adapter: str | None = None,
    dtype: str | None = None,
    max_length: int | None = None,
    padding: str = "longest",
    long_texts: str | None = None,
    stride: int | None = None,
    truncate_dim: int | None = None,
    sparse_pooling: SparsePooling | None = None,
    token_vectors: TokenVectors | None = None,
    entity_head: EntityHead | None = None,
    features: str | int | None = None,
    head: str | None = None,
    head_size: int | None = None,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    activation: str | None = None,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
    model_name: str | None = None,
    **settings: Any,
) -> ZooModel:
    """Loads a model with pretrained or random weights.

    Args:
        name: a name from `list_models()`, "hf://org/repo@revision", or the path of a directory. The
            directory can hold a model of bert_zoo, Hugging Face, KerasHub (a preset), TF1, TensorFlow
            Model Garden (a checkpoint or SavedModel) or fairseq (model.pt), an adapter of peft, or a run
            of `bert_zoo finetune`. If the run has several seeds, the best one is loaded. If a directory
            holds several checkpoints, pass the path of one: a weight file, or the prefix of a TensorFlow
            checkpoint ("out/model.ckpt-1000"). Of several of TensorFlow, the default is the latest.
        task: "encoder", "classification", "multi_label_classification", "regression", "reranking",
            "token_classification", "question_answering", "beam_question_answering", "multiple_choice",
            "masked_lm", "next_sentence_prediction", "pretraining", "causal_lm", "text_to_text",
            "embedding", "sparse_embedding", "late_interaction" or "entity_recognition". By default a bert_zoo directory keeps
            the task that it was saved with, a reranker of sentence-transformers loads as "reranking", a
            sparse encoder (SPLADE) as "sparse_embedding", late-interaction models (ColBERT) as
            "late_interaction", GLiNER as "entity_recognition", and all others as "encoder".
        weights: "pretrained", or None for random weights without a download.
        num_classes: number of classes of a classifier or tagger; by default the checkpoint's, else 2.
        labels: their names, as a sequence in the order of the classes, or as a dict in either
            direction, such as {"negative": 0, "positive": 1}. A regression model takes one label,
            the name of its score.
        num_labels: Hugging Face's name for num_classes.
        problem_type: Hugging Face's setting for task="classification": "single_label_classification",
            "multi_label_classification" or "regression". By default, task="classification" loads a
            multi-label checkpoint as "multi_label_classification", with a warning.
        thresholds: the probability above which a label applies in multi-label classification: one
            number, one per label, or a dict by label; by default the checkpoint's, else 0.5.
        init: parts to initialise randomly, even if the checkpoint has weights for them:
            "classifier", "span", "pooler", "masked_lm", "next_sentence", "sentence_order",
            "span_boundary", "replaced_token", "generator" (with its head), "softmax".
        ignore: names of tensors in the checkpoint to leave unread, such as those of a head that
            bert_zoo lacks. "*" matches any characters: ("cls.species.*",).
        adapter: of the adapters that the file of weights holds, the one to merge into them, such as
            "retrieval.query" of jina_embeddings_v3. Its prompt is then the default of `embed`. By default
            none is merged.
        dtype: a Keras dtype policy, such as "mixed_bfloat16" (slower than float32 on processors
            without instructions for it) or "mixed_float16" (for GPUs without bfloat16).
        max_length: maximum number of tokens of a text or window; by default the checkpoint's.
        padding: "longest" pads a batch to its longest row, rounded up to a bucket; "fixed" pads to
            max_length, for TPUs and XLA.
        long_texts: how to read texts of more than max_length tokens in `embed` and in tasks on whole
            texts. "cut" (the default) truncates them, with a warning. "mean" and "max" read them in
            windows and take the mean or maximum of the windows' logits or vectors, also in training.
            Pairs of texts are always cut. A bert_zoo directory keeps its setting.
        stride: tokens from the start of one window to the next; by default three quarters of a window.
        truncate_dim: keeps only the first numbers of a sentence vector; by default as the checkpoint
            says, else all.
        sparse_pooling: how a model of sparse vectors makes them, of logits or of a sentence vector with an
            autoencoder, and whether queries are weights from a table, a `bert_zoo.config.SparsePooling`; by
            default as the checkpoint says, else of logits, the maximum over tokens, for all texts.
        token_vectors: how a late-interaction model makes vectors of tokens and rows of queries and
            documents, a `bert_zoo.config.TokenVectors`; by default as the checkpoint says, else a new layer
            to 128 numbers for all tokens.
        entity_head: how a model finds entities of types that are named with each text, a
            `bert_zoo.config.EntityHead`; by default as the checkpoint says, else a new one as wide as the
            encoder, whose marker tokens are added to the vocabulary.
        features: freezes the encoder and trains only a head on its layers ("feature-based"), for tasks
            on whole texts and tagging. "mix" learns a weighted sum of all layers
            (`bert_zoo.layers.ScalarMix`), "concat" joins all layers, "mix4" and "concat4" use the last
            four, and "top" the last one. An integer selects one layer: 0 for the embeddings' output,
            -1 for the last layer.
        head: "linear"; "concatenated", which joins last token, maximum and mean of a text, as in
            ULMFiT; or "bilstm", a two-layer BiLSTM before the logits, with attention pooling for tasks
            on whole texts. Without `features` and `head`, the model has its family's head, or the one
            that a bert_zoo directory was saved with.
        head_size: units of each LSTM in each direction; by default the encoder's hidden size.
        dropout: replaces all dropout rates of the checkpoint.
        attention_dropout: dropout rate on attention probabilities; overrides `dropout`. With 0.0,
            training on a GPU can use a kernel that does not store the probabilities (Keras on JAX,
            16-bit types; docs/measured/gpu.md).
        activation: replaces the checkpoint's, with a name in `bert_zoo.config.ACTIVATIONS`; "gelu_tanh"
            is Google's original approximation, "gelu" the exact function (erf) that Hugging Face's
            ports use.
        output_hidden_states, output_attentions: whether an encoder also returns these.
        model_name: Keras's name for the model; by default the task, numbered if there are several.
        **settings: further fields of the family's configuration: for Transformer-XL `mem_len`,
            `clamp_len`, `same_length`, `same_length_keys` and `memory_start` (see
            `bert_zoo.families.transformer_xl.family.RecurrentConfig`).

    Returns:
        A `keras.Model`. Models with a loss are compiled with the task's loss, metrics and default
        optimizer.

    Raises:
        ValueError: the name or an argument is invalid, or the files do not match the model
            (`WeightsError`, `ConfigError`).
        TypeError: an argument has the wrong type, or a setting is unknown.
        FileNotFoundError: the directory or one of its files is missing.
    """
    num_classes = _checked(task, weights, num_classes, num_labels, settings)
    if adapter is not None and weights is None:
        raise ValueError(
            f"adapter is {adapter!r}, but weights=None loads none. Leave one of them out."
        )
    opened = open_checkpoint(name, with_weights=weights is not None, task=task, adapter=adapter)
    task = _task_of(opened, task, problem_type, init)
    opened = _with_head(opened, task, HeadSpec.asked(features, head, head_size), dropout)
    opened = _with_sparse_pooling(opened, task, sparse_pooling)
    opened = _with_token_vectors(opened, task, token_vectors)
    opened = _with_entity_head(opened, task, entity_head)
    config = _task_config(opened, task, dropout, attention_dropout, activation, settings)
    untrained = _untrained_parts(opened, task, init)
    arguments = _head_arguments(opened, task, untrained, num_classes, labels, thresholds)
    preprocessor, why_none = preprocessor_of(
        opened, config, max_length, padding, TASKS[task].truncation
    )
    if task != Encoder.task and (output_hidden_states or output_attentions):
        raise ValueError(
            f"output_hidden_states and output_attentions are for task='encoder'; this is {task!r}. Leave them "
            "out, or load the encoder."
        )
    # Values are created below, by the files or an initializer, so that none is drawn to be overwritten.
    with private.declaring(made=opened.source is None) as declared:
        model = encoder = Encoder(
            config,
            opened.family.name,
            pooling=_pooling(opened, task, truncate_dim),
            prompts=opened.description.prompts,
            preprocessor=preprocessor,
            why_no_vocabulary=why_none,
            dtype=dtype,
            name=model_name if task == Encoder.task else None,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        encoder.loaded_from = opened.origin
        encoder.long_texts = _long_texts(opened, task, encoder, long_texts, stride)
        if task != Encoder.task:
            model = TASKS[task](encoder, name=model_name, **arguments)
    if opened.source is not None:
        _assign(model, opened, untrained, ignore)
        for variable in filter(private.is_declared, declared):
            private.create(variable)
    if opened.query_directory is not None:
        _add_query_encoder(model, opened, weights, dtype)
    _say_what_differs(model, opened, untrained, settings, max_length)
    compile_for_task(model)
    if opened.further_tokens:
        _add_further_tokens(encoder, opened)
    return _with_own_tokens(model)


def _add_further_tokens(encoder: Encoder, opened: Opened) -> None:
    """Adds to the vocabulary the tokens that have rows without it; ConfigError if others have, too."""
    before, tokens, rows = encoder.preprocessor, opened.further_tokens, encoder.config.vocab_size
    added = [AddedToken(token, special=True) for token in tokens]
    tokenizer = before.tokenizer.with_added_tokens(added)
    if tokenizer.vocab_size != rows:
        raise ConfigError(
            f"The vocabulary in {opened.vocabularies[0]} has {tokenizer.vocab_size:,} tokens with {listing(tokens)}, "
            f"but the token table of {opened.name} has {rows:,} rows. Check that it belongs to these weights."
        )
    encoder.preprocessor = type(before)(tokenizer, **before.get_config())


def _with_own_tokens(model: ZooModel) -> ZooModel:
    """The model, with the tokens of its task in the vocabulary."""
    tokenizer = (
        model.preprocessor.tokenizer if model.own_tokens and model.has_preprocessor else None
    )
    known = {} if tokenizer is None else {*tokenizer.vocabulary}
    missing = [token for token in model.own_tokens if token not in known]
    if tokenizer is None or not missing:
        return model
    origin = encoder_of(model).loaded_from
    added = [AddedToken(token, special=True) for token in missing]
    model = add_tokens(model, added, rows="random")
    encoder_of(model).loaded_from = origin
    return model


def _add_query_encoder(model: ZooModel, opened: Opened, weights: str | None, dtype: Any) -> None:
    if not hasattr(model, "add_query_encoder"):
        log.warning(
            "%s has an encoder of its own for queries, which a model for task %r leaves out.",
            *(opened.name, model.task),
        )
        return
    queries = load(opened.query_directory, Encoder.task, weights=weights, dtype=dtype)
    model.add_query_encoder(queries, opened.description.default_role)


def _checked(
    task: str | None,
    weights: str | None,
    num_classes: int | None,
    num_labels: int | None,
    settings: Mapping[str, Any],
) -> int | None:
    """Checks what needs no files; returns the number of classes by either of its names."""
    if task is not None and task not in TASKS:
        raise ValueError(no_such_task(task))
    known = {name for family in registry().families.values() for name in family.settings}
    if unknown := sorted(set(settings) - known):
        arguments = [name for name in inspect.signature(load).parameters if name != "settings"]
        raise unknown_arguments(unknown, [*arguments, *known])
    check("weights", weights, str | None, choices=["pretrained"])
    if num_labels is not None and num_classes not in (None, num_labels):
        raise ValueError(
            f"num_classes is {num_classes!r} and num_labels {num_labels!r}; both mean the number of "
            "classes. Leave one out."
        )
    return num_classes if num_labels is None else num_labels


def _task_of(
    opened: Opened, task: str | None, problem_type: str | None, init: Sequence[str]
) -> str:
    """Returns the task to load; warns if the checkpoint's head is for another one or is left out."""
    trained, keeps_head = opened.trained_task, "classifier" not in init
    replaced = TASKS[trained].replaces if trained is not None and keeps_head else None
    if problem_type is not None:
        check("problem_type", problem_type, str, choices=PROBLEM_TYPES)
        named, general = PROBLEM_TYPES[problem_type], next(iter(PROBLEM_TYPES.values()))
        if task not in (None, general, named):
            raise ValueError(
                f"problem_type={problem_type!r} requires task={general!r}; got task={task!r}."
            )
        task = named
    elif task is None:
        if opened.description.task is None and opened.source is not None:
            _say_what_is_left_out(opened)
        return opened.description.task or Encoder.task
    elif task == replaced:
        log.warning(
            "%s is a multi-label model and is loaded as one. Pass "
            'problem_type="single_label_classification" to load it as a single-label model.',
            opened.name,
        )
        return trained
    replaces = TASKS[task].replaces if keeps_head else None
    if trained is not None and (replaced == task or replaces == trained):
        log.warning(
            "%s was trained for %s but is loaded for %s: train it before you use it.",
            opened.name,
            trained,
            task,
        )
    return task


def _say_what_is_left_out(opened: Opened) -> None:
    """Warns if a checkpoint with a fine-tuned head is loaded as an encoder."""
    found = [
        task
        for task in _heads_in(opened)
        if task in TRAINED_BY_USERS
        # A head with one logit is no classifier.
        and (_stored_logits(opened, task) or math.inf) >= TASKS[task].least_logits
    ]
    if opened.trained_task in found:
        found = [opened.trained_task]
    if found:
        log.warning(
            "%s has a trained head, but only its encoder was loaded. Pass task=%s to load the head, "
            "or task='encoder' to silence this.",
            opened.name,
            " or ".join(map(repr, found)),
        )


def _with_head(opened: Opened, task: str, asked: HeadSpec | None, dropout: float | None) -> Opened:
    """Returns a checkpoint whose description has the head of the task's model: the requested one, else the saved one.

    Raises:
        ValueError: the task supports no such head.
    """
    description, model_class = opened.description, TASKS[task]
    is_as_saved = task == description.task
    head = description.head if is_as_saved else None
    if asked is not None:
        if not getattr(model_class, "takes_features", False):
            takes = [n for n, other in TASKS.items() if getattr(other, "takes_features", False)]
            raise ValueError(
                f"features, head and head_size are for the tasks {', '.join(takes)}; this is {task!r}. To get an "
                "encoder's layers, pass output_hidden_states=True."
            )
        if head is None or replace(head, dropout=asked.dropout) != asked:
            own = head_of(asked, not model_class.outputs_per_token)
            opened = _with_table(opened, task, own, is_new=True)
        head = asked
    if head is not None and dropout is not None:
        head = replace(head, dropout=dropout)
    reads_vectors = is_as_saved and head is None and description.reads_vectors
    description = replace(description, head=head, reads_vectors=reads_vectors)
    return replace(opened, description=description)


def _with_table(opened: Opened, task: str, head: Head, is_new: bool = False) -> Opened:
    """Returns a checkpoint with another weight table of a task's head; one that `is_new` is not read from the files."""
    family, plan = opened.family.with_head(task, head), opened.plan
    own = family.plan(plan.format, opened.config, plan.root, plan.head_root)
    replaced = frozenset(plan.keys()) if is_new else opened.replaced_head
    return replace(opened, family=family, plan=own, replaced_head=replaced)


def _with_sparse_pooling(opened: Opened, task: str, asked: SparsePooling | None) -> Opened:
    """Returns a checkpoint whose description has the requested sparse vectors."""
    if asked is None:
        return opened
    if not getattr(TASKS[task], "takes_sparse_pooling", False):
        raise ValueError(
            f"sparse_pooling is for models of sparse vectors; this is {task!r}. Leave it out."
        )
    stored = opened.description.sparse_pooling or SparsePooling()
    if asked.autoencoder is not None and stored.autoencoder is None:
        opened = _with_table(opened, task, AUTOENCODER_HEAD, is_new=True)
    elif asked.of_tokens != stored.of_tokens or (stored.autoencoder and not asked.autoencoder):
        raise ValueError(
            f"sparse_pooling is {asked}, but {opened.name} has the layers for {stored}. Change that one, as "
            "dataclasses.replace(model.sparse_pooling, ...) does."
        )
    return replace(opened, description=replace(opened.description, sparse_pooling=asked))


def _with_token_vectors(opened: Opened, task: str, asked: TokenVectors | None) -> Opened:
    """Returns a checkpoint whose description has the requested vectors of tokens."""
    if asked is None:
        return opened
    if not getattr(TASKS[task], "takes_token_vectors", False):
        raise ValueError(
            f"token_vectors is for late-interaction models; this is {task!r}. Leave it out."
        )
    opened = _with_table(opened, task, TASKS[task].token_head(asked.use_bias))
    return replace(opened, description=replace(opened.description, token_vectors=asked))


def _with_entity_head(opened: Opened, task: str, asked: EntityHead | None) -> Opened:
    """Returns a checkpoint whose description has the requested head for entities."""
    if asked is None:
        return opened
    if task != EntityRecognizer.task:
        raise ValueError(
            f"entity_head is for models of entities of named types; this is {task!r}. Leave it out."
        )
    opened = _with_table(opened, task, entity_table(asked))
    return replace(opened, description=replace(opened.description, entity_head=asked))


def _pooling(opened: Opened, task: str, truncate_dim: int | None) -> Pooling:
    """Returns how the model makes sentence vectors; without layers after it if nothing reads them."""
    gives_vectors = task in opened.family.tasks_without_head
    if truncate_dim is not None and not gives_vectors:
        raise ValueError(
            f"truncate_dim is {truncate_dim!r}, which sentence vectors are cut to; task {task!r} gives none. "
            "Leave it out."
        )
    pooling = opened.description.pooling
    if truncate_dim is not None:
        return replace(pooling, truncate_dim=truncate_dim)
    if gives_vectors or opened.description.reads_vectors or opened.description.autoencoder:
        return pooling
    return replace(pooling, dense=(), truncate_dim=None)


def _say_what_differs(
    model: ZooModel,
    opened: Opened,
    untrained: frozenset[str],
    settings: Collection[str],
    max_length: int | None,
) -> None:
    """Warns where outputs differ from those of the format's program, and where training is still to come."""
    config = encoder_of(model).config
    if opened.source is not None:
        unsaid, longest = (
            opened.description.unsaid - set(settings),
            _longest_text(opened, config, max_length),
        )
        for difference in opened.plan.format.differences(config, unsaid, longest):
            log.warning("%s: %s", opened.name, difference)
    if untrained:
        log.warning(
            "%s has no trained %s%s; it is randomly initialised. Train the model before you use it.",
            opened.name,
            " and ".join(sorted(untrained)),
            f" for {model.num_classes} classes" if isinstance(model, LabelledModel) else "",
        )
    if model.if_untrained and opened.source is not None and model.task not in opened.provides:
        log.warning(
            "%s %s. bert_zoo.list_models(provides=%r) lists checkpoints that were.",
            opened.name,
            model.if_untrained,
            model.task,
        )


def _task_config(
    opened: Opened,
    task: str,
    dropout: float | None,
    attention_dropout: float | None,
    activation: str | None,
    settings: Mapping[str, Any],
) -> Config:
    """Returns the encoder's configuration for a task."""
    if unknown := sorted(set(settings) - set(opened.family.settings)):
        known = ", ".join(opened.family.settings) or "none"
        raise TypeError(
            f"load() got the unknown settings {unknown}; the family {opened.family.name} has: {known}."
        )
    rates = (field.name for field in fields(opened.config) if field.name.endswith("_dropout"))
    asked = dict.fromkeys(rates, dropout) | {"activation": activation}
    if attention_dropout is not None:
        asked["attention_dropout"] = attention_dropout
    changes = {name: value for name, value in asked.items() if value is not None}
    return opened.config.with_pooler(_has_pooler(opened, task)).replace(**{**settings, **changes})


def _has_pooler(opened: Opened, task: str) -> bool:
    """Whether a task's model has the encoder's pooler, because something reads it."""
    head = opened.family.heads.get(task)
    if head is None:
        return opened.config.pooler and task == Encoder.task
    return head.pooler or head.reads_decoder


def stored_task(name: str | os.PathLike) -> str:
    """Returns the task that a checkpoint declares, else the task of its largest head, else "encoder".

    Args:
        name: as for `load`.
    """
    opened = open_checkpoint(name, with_weights=True)
    heads = _heads_in(opened)
    largest = max(heads, key=heads.get, default=Encoder.task)
    return opened.description.task or opened.trained_task or largest


def _heads_in(opened: Opened) -> dict[str, int]:
    """Maps each task whose head is complete in the checkpoint to the number of the head's tensors."""
    heads = {
        task: {key for binding in opened.plan.heads[task] for key in binding.keys}
        for task in opened.family.heads
        if _says_it_is(opened, task)
    }
    return {
        task: len(keys)
        for task, keys in heads.items()
        if keys and all(key in opened.source for key in keys)
    }


def missing_parts(name: str | os.PathLike, task: str) -> frozenset[str]:
    """Returns the parts of a task's model without weights in the checkpoint, as `load(init=...)` names them.

    Args:
        name, task: as for `load`.
    """
    opened = open_checkpoint(name, with_weights=True, task=task)
    return frozenset(part for part, is_there in _parts(opened, task).items() if not is_there)


def _parts(opened: Opened, task: str) -> dict[str, bool]:
    """Maps each part besides the encoder to whether the checkpoint has trained weights for it."""
    source = opened.source or ()
    keys: dict[str, set[str]] = {}
    for binding in opened.plan.bindings(task, _has_pooler(opened, task)):
        if binding.part == POOLER or not binding.variable.startswith(ENCODER_PREFIX):
            of_part = keys.setdefault(binding.part, set())
            # A head on a second encoder does not prove that the encoder itself is there.
            if not binding.encoder or binding.variable.startswith(f"{binding.encoder}/"):
                of_part.update(binding.keys)
    is_trained = not opened.plan.format.has_untrained_head(task, source)
    is_of_task = _says_it_is(opened, task)
    return {
        part: is_trained
        and any(key in source for key in of_part)
        and (part == POOLER or is_of_task)
        for part, of_part in keys.items()
    }


def _untrained_parts(opened: Opened, task: str, init: Sequence[str]) -> frozenset[str]:
    """Returns the parts that stay randomly initialised.

    Raises:
        ValueError: `init` names an unknown part.
        WeightsError: the checkpoint lacks the task's head, and it is not a head that users train.
    """
    if isinstance(init, str):
        raise TypeError(f"init is a sequence of parts, such as ({init!r},); got a string.")
    if task not in opened.family.tasks:
        raise ValueError(
            f"The family {opened.family.name} has no task {task!r}; it has "
            f"{', '.join(opened.family.tasks)}."
        )
    parts = _parts(opened, task)
    if unknown := sorted(set(init) - set(parts)):
        raise ValueError(
            f"init contains {unknown}; task {task!r} can randomly initialise {list(parts)}."
        )
    if opened.source is None:
        return frozenset()
    if opened.replaced_head is not None:
        return frozenset(parts)
    missing = {part for part, is_there in parts.items() if not is_there}
    refused = sorted(missing - set(init)) if task not in TRAINED_BY_USERS else ()
    if refused:
        heads = " and ".join(map(repr, _heads_in(opened)))
        names = [c.full_name for c in opened.family.checkpoints if task in c.provides]
        more = f" and {len(names) - 5} more (list_models(provides={task!r}))" if names[5:] else ""
        provided = f"Checkpoints that provide it: {', '.join(names[:5])}{more}."
        raise WeightsError(
            f"{opened.name} has no {' and no '.join(refused)}, which task {task!r} needs. "
            f"{f'It has a head for {heads}. ' if heads else ''}"
            f"{provided if names else 'No registered checkpoint of this family provides it.'} To start with random "
            f"weights, pass init={tuple(refused)}."
        )
    return frozenset(missing | set(init))


def _says_it_is(opened: Opened, task: str) -> bool:
    """Whether the checkpoint's head can belong to this task, by the class that its files name.

    Heads for sentences, tokens and choices have the same tensor names and often the same shapes; only
    the class distinguishes them.
    """
    heads = opened.family.heads
    if not opened.description.classes or task not in heads:
        return True
    classes = opened.family.formats["hf"].classes
    rivals = {
        classes.get(other)
        for other in heads
        if heads[other].rows == heads[task].rows
        or heads[other].classifier_names("hf") & heads[task].classifier_names("hf")
    }
    named = rivals & set(opened.description.classes)
    return not named or classes.get(task) in named


def _head_arguments(
    opened: Opened,
    task: str,
    untrained: frozenset[str],
    num_classes: int | None,
    labels: Sequence[str] | Mapping | None,
    thresholds: Thresholds | None,
) -> dict[str, Any]:
    """Returns the arguments of the task's class besides the encoder."""
    description, model_class = opened.description, TASKS[task]
    is_trained = opened.source is not None and "classifier" not in untrained
    # Labels are those of a stored head; without weights a model gets them too.
    has_labels = is_trained or opened.source is None
    arguments = model_class.head_arguments(
        HeadChoice(
            opened.name,
            num_classes,
            None if labels is None else label_names(None, labels),
            thresholds,
            is_trained=is_trained,
            num_logits=_stored_logits(opened, task) if is_trained else None,
            stored_labels=tuple(description.labels or ()) if has_labels else (),
            stored_thresholds=tuple(description.thresholds) if has_labels else (),
            score_activation=description.score_activation if has_labels else None,
            token_vectors=description.token_vectors,
            sparse_pooling=description.sparse_pooling,
            entity_head=description.entity_head,
        )
    )
    if description.head is not None:
        arguments["head"] = description.head
    if description.reads_vectors:
        arguments["reads_vectors"] = True
    if model_class.generates:
        vocab_size = opened.config.vocab_size
        arguments["generation_config"] = GenerationConfig.read(description.generation, vocab_size)
    return arguments


def _stored_logits(opened: Opened, task: str) -> int | None:
    """Returns the number of logits of the task's head in the checkpoint; None without such a head."""
    # The last binding is the bias, or the kernel without one: each has an axis for the logits.
    found = [b for b in opened.plan.heads.get(task, ()) if b.variable.startswith(LOGITS)]
    if not found or found[-1].keys[0] not in opened.source:
        return None
    shape = opened.source.shape(found[-1].keys[0])
    return shape[-(len(shape) == 2 and not found[-1].layout.transposed)]


def _assign(
    model: ZooModel, opened: Opened, untrained: frozenset[str], ignore: Sequence[str]
) -> None:
    """Assigns the checkpoint's tensors to the model's variables, except in untrained parts."""
    plan, source, variables = opened.plan, opened.source, variables_of(model)
    bindings = plan.bindings(model.task, encoder_of(model).config.pooler)
    beside = [*bindings_beside(opened.description, plan.format)]
    bindings += [binding for binding in beside if binding.variable in variables]
    unread = _unread(model.task, opened, bindings, untrained, ignore)
    # Only models of vectors have these layers; other tasks leave them unread.
    unread += {key for binding in beside for key in binding.keys}
    unread += [key for key in source if key.startswith(QUERY_WEIGHTS)]
    if getattr(model, "num_outputs", None) == 1 and _stored_logits(opened, model.task) == 2:
        bindings = [
            replace(b, layout=OfTwoLogits(b.layout.suffix, b.layout.transposed))
            if b.variable.startswith(LOGITS)
            else b
            for b in bindings
        ]
    # What fine-tuned models lack -> what it is.
    absent = sorted({key for b in bindings for key in b.keys if key not in source})
    optional = plan.format.optional.items()
    zeros = {key: what for key in absent for name, what in optional if re.search(name, key)}
    if zeros:
        log.warning(
            "%s has no %s (%s), as is usual for fine-tuned models. It is filled with zeros.",
            opened.name,
            " and no ".join(dict.fromkeys(zeros.values())),
            listing(zeros),
        )
    left_out = {b.variable for b in bindings if b.part in untrained}
    if absent and all(key.startswith(QUERY_WEIGHTS) for key in absent):
        log.warning("%s has no weights of the tokens of queries. All are 1.", opened.name)
        left_out |= {b.variable for b in bindings if {*b.keys} & {*absent}}
    assign(
        {path: v for path, v in variables.items() if path not in left_out},
        [
            replace(b, keys=()) if b.keys and {*b.keys} <= {*zeros} else b
            for b in bindings
            if b.variable not in left_out
        ],
        source,
        plan,
        unread=unread,
    )


def _unread(
    task: str,
    opened: Opened,
    bindings: Sequence[Binding],
    untrained: frozenset[str],
    ignore: Sequence[str],
) -> list[str]:
    """Returns the keys that may stay unread: ignored, replaced, or of what the family's models lack."""
    if isinstance(ignore, str):
        raise TypeError(f"ignore is a sequence of names, such as ({ignore!r},); got a string.")
    source, unread = opened.source, [*(opened.replaced_head or ())]
    needed = {key for b in bindings if b.part not in untrained for key in b.keys}
    for pattern in ignore:
        keys = fnmatch.filter(source, pattern)
        if not keys:
            raise ValueError(
                f"ignore contains {pattern!r}, which matches no tensor of {source.location}. Its "
                f"tensors are {listing(source)}."
            )
        if read := [key for key in keys if key in needed]:
            raise ValueError(
                f"ignore contains {pattern!r}, but the model needs {listing(read)}. Name only other "
                "tensors, or pass init=(...) to give a part of the model random weights."
            )
        unread += keys
    read = {key for binding in bindings for key in binding.keys}
    for pattern, what in opened.plan.format.unread.items():
        keys = [key for key in source if re.search(pattern, key) and key not in read]
        unread += keys
        if keys:
            log.warning(
                "%s has a %s (%s), which is not loaded: models for task %r have none.",
                opened.name,
                what,
                listing(keys),
                task,
            )
    return unread


def _long_texts(
    opened: Opened, task: str, encoder: Encoder, mode: str | None, stride: int | None
) -> LongTexts:
    """Returns the user's choice, else the saved one."""
    written = opened.description.long_texts
    saved = LongTexts() if written is None else written.record(LongTexts)
    pools = TASKS[task].pools_windows and not encoder.always_gives_state
    saved = saved if pools else LongTexts()
    if mode is None and stride is None:
        return saved
    mode = mode or saved.mode
    asked = LongTexts(mode, saved.stride if stride is None and mode == saved.mode else stride)
    if asked.in_windows and not pools:
        tasks = ", ".join(name for name, other in TASKS.items() if other.pools_windows)
        raise ValueError(
            f"long_texts is {mode!r}, but only models without a memory read windows, for the tasks {tasks}. "
            f"This is {task!r} of the family {opened.family.name}. Leave long_texts and stride out."
        )
    return asked


def _longest_text(opened: Opened, config: Config, max_length: int | None) -> int:
    """Returns the most tokens of a text: the caller's number, else the checkpoint's."""
    if max_length is not None:
        return max_length
    text = opened.description.text
    return config.longest_input if text is None else min(text.max_length, config.longest_input)


def preprocessor_of(
    opened: Opened,
    config: Config,
    max_length: int | None,
    padding: str,
    truncation: str | None = None,
) -> tuple[DeferredPreprocessor | None, str | None]:
    """Returns the preprocessor, or None and the reason why the vocabulary is missing."""
    text = opened.description.text or TextSpec(lowercase=None)
    length = _longest_text(opened, config, max_length)
    note = f"the tokens that {opened.name} reads"
    check("max_length", length, int, least=3, most=config.longest_input, note=note)
    check("padding", padding, str, choices=("longest", "fixed"))
    lacking = []
    for directory in opened.vocabularies:
        try:
            preprocessor = DeferredPreprocessor(
                directory,
                opened.family.text.of_model(config),
                sequence_length=length,
                padding=padding,
                tokenizer_options={} if text.lowercase is None else {"lowercase": text.lowercase},
                **({} if truncation is None else {"truncation": truncation}),
            )
        except FileNotFoundError as error:
            lacking.append(str(error))
            continue
        if lacking:
            log.warning(
                "The vocabulary in %s is read, as %s has none.", directory, opened.vocabularies[0]
            )
        tokens, rows = preprocessor.vocab_size or 0, config.vocab_size
        # The token table is often padded to a multiple of 64.
        if tokens > rows:
            raise ConfigError(
                f"The vocabulary in {directory} has {tokens:,} tokens, but the token table of "
                f"{opened.name} has {rows:,} rows. Check that the vocabulary belongs to these weights."
            )
        if tokens and rows - tokens > max(UNUSED_ROWS, UNUSED_SHARE * rows):
            log.warning(
                "The vocabulary in %s has %s tokens, but the token table of %s has %s rows: part of the "
                "vocabulary may be missing. Texts are read with the tokens that exist.",
                directory,
                f"{tokens:,}",
                opened.name,
                f"{rows:,}",
            )
        return preprocessor, None
    return None, " ".join(lacking) or None
