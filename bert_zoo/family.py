"""The classes that declare a family, its checkpoints and the sources of their files.

Nothing here imports TensorFlow or Keras, so listing and describing are instant.
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
    """Base class of sources."""

    # Tasks whose weights this source lacks, although another source of the checkpoint has them.
    lacks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class HF(AnySource):
    """A repository of the Hugging Face hub."""

    repo: str  # owner and name
    revision: str = "main"  # commit if known, else a branch or tag, which can move
    # SHA-256 of the weight file, if known. The hub also reports it for a commit's large files, and the
    # download is compared with that.
    sha256: str | None = None
    beside: Sequence[str] = ()  # weight files of further encoders that some tasks need

    def __str__(self) -> str:
        return f"hf://{self.repo}@{self.revision}"


@dataclass(frozen=True)
class Archive(AnySource):
    """A .zip or .tar.gz with a checkpoint, in any format that `load` reads, and its configuration."""

    url: str
    sha256: str | None = None  # of the archive, if known
    # Required file -> its SHA-256, or None if unknown.
    files: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Files(AnySource):
    """Single files in a directory on the web."""

    url: str  # of the directory
    names: Sequence[str]  # of the files in it
    sha256: Mapping[str, str] = field(default_factory=dict)  # by file name, if known


@dataclass(frozen=True)
class Package(AnySource):
    """Files inside an installed Python package, which is read but never imported."""

    distribution: str  # what to `pip install`
    module: str  # the importable name
    directory: str  # the model's folder inside the module
    sha256: Mapping[str, str]  # file name -> SHA-256, which is checked

    def __str__(self) -> str:
        return f"the Python package {self.distribution}"


@dataclass(frozen=True)
class Bundled(AnySource):
    """Files that bert_zoo contains: a folder of the source tree's `checkpoints`."""

    name: str  # of the folder
    sha256: Mapping[str, str]  # file name -> SHA-256, which is checked

    def __str__(self) -> str:
        return f"bert_zoo itself, checkpoints/{self.name}"


Source = HF | Archive | Files | Package | Bundled


@dataclass(frozen=True)
class Checkpoint:
    """Declares a released model: its name, sizes, files and licence."""

    name: str  # what `load` takes
    config: Mapping[str, Any]  # fields that differ from the family's defaults
    sources: Sequence[Source]  # where the files are, best first
    provides: frozenset[str]  # tasks whose head (or "encoder") the released files contain
    # Parameters of the encoder, with its pooler if it has one; of a language model, with its softmax.
    params: int
    licence: str  # of the weights
    paper: str  # title and where to read it
    tag: str = ""  # version; the first checkpoint with a name is the default
    labels: Sequence[str] = ()  # names of the classes, if the files contain a classifier
    encoder: str = ""  # which encoder of a file with several; "" for the family's first
    text: TextSpec = TextSpec()  # noqa: RUF009 (frozen)
    pooling: Pooling = Pooling()  # noqa: RUF009 (frozen)
    prompts: Mapping[str, str] = field(default_factory=dict)  # name -> text to put before a text
    aliases: Sequence[str] = ()  # further names
    formerly: Sequence[str] = ()  # names in earlier versions of bert_zoo
    # Published figures, as "benchmark (split, metric)" -> value.
    scores: Mapping[str, float | str] = field(default_factory=dict)
    note: str = ""  # what else users should know

    @property
    def full_name(self) -> str:
        """The name with the tag, such as "albert_base.v1"."""
        return f"{self.name}.{self.tag}" if self.tag else self.name


@dataclass(frozen=True)
class Lengthening:
    """How `bert_zoo.lengthen` turns models of other families into a family's own, which reads longer rows.

    Attributes:
        attention: the family's value for the argument `attention`.
        families: families whose models can be lengthened.
        config: (shorter model's configuration, tokens per row, tokens per window, separator's id) ->
            longer model's configuration.
        weights: (shorter configuration, longer configuration, shorter model's arrays by path, paths of
            the longer model) -> longer model's arrays by path.
    """

    attention: str
    families: Sequence[str]
    config: Callable[[Any, int, int, int], Any]
    weights: Callable[[Any, Any, Mapping[str, Any], Collection[str]], dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """Declares an architecture: its layers, file formats, text format, checkpoints and settings."""

    name: str
    # (Configuration, dtype policy) -> a `bert_zoo.layers.Backbone`; imports Keras when called.
    backbone: Callable[[Any, Any], Any]
    defaults: Mapping[str, Any]  # default fields of checkpoints' configurations
    formats: Mapping[str, Format]  # file formats by name; bert_zoo's own is added
    # Weight table of the encoder. The first row is the token table, which locates the root of a
    # source's names.
    encoder_rows: Sequence[Row | RowsOf]
    heads: Mapping[str, Head]  # weight tables by task
    text: TextFormat  # how its models read text
    checkpoints: Sequence[Checkpoint]
    # What the task "pretraining" predicts: names in `bert_zoo.tasks.objectives.table.PREDICTIONS`.
    objectives: Sequence[str] = ()
    # How tokens were chosen in pretraining: a key of `bert_zoo.tasks.objectives.OBJECTIVES`, or a
    # function from a configuration to one.
    pretraining: str | Callable[[Any], str] = ""
    config_class: type[Config] = EncoderConfig
    tasks_without_head: Sequence[str] = ("encoder", "embedding")  # tasks that add no weights
    # The task whose model a checkpoint's `params` counts, if the checkpoint provides it.
    params_task: str = "encoder"
    # Fields of the configuration that `load` may change besides dropout and activation; no weight's
    # shape or meaning depends on them.
    settings: Sequence[str] = ()
    presets: Sequence[Preset] = ()  # published settings for fine-tuning
    pretraining_preset: PretrainingPreset | None = None  # published settings for pretraining
    # Language models to train from scratch, with their settings.
    language_model_presets: Sequence[LanguageModelPreset] = ()
    lengthening: Lengthening | None = None  # how shorter models become its own

    def __post_init__(self):
        encoders = {second.name: second.ours for second in self.second_encoders}
        ours = BertZoo(family=self.name, config_class=self.config_class, encoders=encoders)
        object.__setattr__(self, "formats", {**self.formats, ours.name: ours})

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that `load` supports for the family's encoders."""
        return (*self.tasks_without_head, *self.heads)

    def with_vector_head(self, task: str) -> "Family":
        """Returns the family with a head on sentence vectors for a task."""
        return self._with_head(task, VECTOR_HEAD)

    def with_own_head(self, task: str, spec: HeadSpec, pools: bool) -> "Family":
        """Returns the family with the head of a `HeadSpec` for a task; `pools` as for `head_of`."""
        return self._with_head(task, head_of(spec, pools))

    def _with_head(self, task: str, head: Head) -> "Family":
        return replace(self, heads={**self.heads, task: head})

    @property
    def second_encoders(self) -> list[SecondEncoder]:
        """The encoders that some tasks have in addition to the first."""
        rows = (row for head in self.heads.values() for row in head.rows)
        return [row for row in rows if isinstance(row, SecondEncoder)]

    def task_of(self, second: SecondEncoder) -> str:
        """Returns the task whose head is that of a second encoder."""
        return next(task for task, head in self.heads.items() if head is second.head)

    def pretraining_of(self, config: Config) -> str:
        """Returns `pretraining` for a configuration."""
        return self.pretraining if isinstance(self.pretraining, str) else self.pretraining(config)

    def config(self, checkpoint: Checkpoint) -> Config:
        """Returns a checkpoint's configuration: the family's defaults with the checkpoint's changes."""
        return self.config_class(**{**self.defaults, **checkpoint.config})

    def count(self, config: Config) -> int:
        """Counts the parameters of an encoder without allocating them.

        Raises:
            ConfigError: they exceed the machine's memory.
        """
        from bert_zoo import private

        backbone = self.backbone(config, "float32")
        with private.declaring(made=False):
            backbone.build((None, None))
        return backbone.count_params()

    def plan(
        self, fmt: str | Format, config: Config, root: str | None = None, head_root: str = ""
    ) -> "Plan":
        """Returns the weight table for a configuration, with a format's names below a root."""
        # Imported here because it imports NumPy, which takes longer than everything else in this module.
        from bert_zoo.weights.bind import write_out

        fmt = self.formats[fmt] if isinstance(fmt, str) else fmt
        root = fmt.root if root is None else root
        return write_out(self.encoder_rows, self.heads, fmt, config, root=root, head_root=head_root)

    def plan_of(self, source: "TensorSource", config: Config, encoder: str = "") -> "Plan":
        """Returns the weight table for a source's names, and for one encoder if the file has several.

        Raises:
            WeightsError: the source contains no such encoder, or several.
        """
        from bert_zoo.weights.bind import find_root

        first = self.encoder_rows[0]
        token_table = first if isinstance(first, Row) else next(iter(first(config)))
        found = find_root(
            self.formats.values(), token_table, source, family=self.name, encoder=encoder
        )
        return self.plan(found[0], config, *found[1:])
