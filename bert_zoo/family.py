"""The classes that declare a family, its checkpoints and the sources of their files.

Nothing here imports TensorFlow or Keras, so listing and describing are instant.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bert_zoo.config import Config, EncoderConfig, Pooling, SparsePooling, TextSpec, TokenVectors
from bert_zoo.presets import LanguageModelPreset, Preset, PretrainingPreset
from bert_zoo.text.format import TextFormat
from bert_zoo.weights.formats import BertZoo, Format
from bert_zoo.weights.table import Head, Row, RowsOf, SecondEncoder

if TYPE_CHECKING:
    from bert_zoo.weights.bind import Plan


@dataclass(frozen=True, kw_only=True)
class AnySource:
    """Base class of sources."""

    # Tasks whose weights this source lacks, although another source of the checkpoint has them.
    lacks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class HF(AnySource):
    """A repository of the Hugging Face hub.

    Attributes:
        repo: owner and name.
        revision: a commit if it is known, else a branch or tag, which can move.
        sha256: SHA-256 of the weight file, if known. The hub also reports it for a commit's large files,
            and the download is compared with that.
        beside: weight files of further encoders that some tasks need.
    """

    repo: str
    revision: str = "main"
    sha256: str | None = None
    beside: Sequence[str] = ()

    def __str__(self) -> str:
        return f"hf://{self.repo}@{self.revision}"


@dataclass(frozen=True)
class Archive(AnySource):
    """A .zip or .tar.gz with a checkpoint, in any format that `load` reads, and its configuration.

    Attributes:
        url: the archive's address.
        sha256: SHA-256 of the archive, if known.
        files: name of each required file -> its SHA-256, or None if unknown.
    """

    url: str
    sha256: str | None = None
    files: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Files(AnySource):
    """Single files in a directory on the web.

    Attributes:
        url: the directory's address.
        names: names of the files in it.
        sha256: their SHA-256 by name, as far as known.
    """

    url: str
    names: Sequence[str]
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Package(AnySource):
    """Files inside an installed Python package, which is read but never imported.

    Attributes:
        distribution: what to `pip install`.
        module: the importable name.
        directory: the model's folder inside the module.
        sha256: file name -> its SHA-256, which is checked.
    """

    distribution: str
    module: str
    directory: str
    sha256: Mapping[str, str]

    def __str__(self) -> str:
        return f"the Python package {self.distribution}"


@dataclass(frozen=True)
class Bundled(AnySource):
    """Files that bert_zoo contains: a folder of the source tree's `checkpoints`.

    Attributes:
        name: the folder's name.
        sha256: file name -> its SHA-256, which is checked.
    """

    name: str
    sha256: Mapping[str, str]

    def __str__(self) -> str:
        return f"bert_zoo itself, checkpoints/{self.name}"


Source = HF | Archive | Files | Package | Bundled


@dataclass(frozen=True)
class Checkpoint:
    """Declares a released model: its name, sizes, files and licence.

    Attributes:
        name: what `load` takes.
        config: fields of the configuration that differ from the family's defaults.
        sources: where the files are, best first.
        provides: tasks whose head (or "encoder") the released files contain.
        params: number of parameters of the encoder, with its pooler if it has one; for a language model
            with its softmax.
        licence: the weights' licence.
        paper: title, and where to read it.
        tag: version; the first checkpoint with a name is the default.
        labels: names of the classes, if the files contain a classifier.
        encoder: name of the encoder in a file with several; "" for the family's first.
        text: how texts are read.
        pooling: how sentence vectors are made.
        sparse_pooling: how sparse vectors are made, of a model that is trained for them.
        token_vectors: the same of vectors of tokens.
        prompts: name -> text to put before texts.
        score_activation: what makes a reranker's score of its logit: "linear" or "sigmoid"; None for the latter.
        aliases: further names.
        formerly: names in earlier versions of bert_zoo.
        scores: published figures, as "benchmark (split, metric)" -> value.
        note: what else users should know.
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
    encoder: str = ""
    text: TextSpec = TextSpec()  # noqa: RUF009 (frozen)
    pooling: Pooling = Pooling()  # noqa: RUF009 (frozen)
    sparse_pooling: SparsePooling | None = None
    token_vectors: TokenVectors | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    score_activation: str | None = None
    aliases: Sequence[str] = ()
    formerly: Sequence[str] = ()
    scores: Mapping[str, float | str] = field(default_factory=dict)
    note: str = ""

    @property
    def full_name(self) -> str:
        """The name with the tag, such as "albert_base.v1"."""
        return f"{self.name}.{self.tag}" if self.tag else self.name


def read_table(text: str) -> list[dict[str, Any]]:
    """Reads a table for a family's constructor of checkpoints: a line of columns' names, then one line for each row.

    Cells are separated by spaces, which only the last one may contain. Numbers are converted, and a row lacks the
    columns in which it has "-".
    """
    columns, *lines = text.strip().splitlines()
    names = columns.split()
    cells = (line.split(maxsplit=len(names) - 1) for line in lines)
    return [
        {name: number_of(cell) for name, cell in zip(names, row, strict=True) if cell != "-"}
        for row in cells
    ]


def number_of(cell: str) -> int | float | str:
    """The number in a cell, or the cell as it is. A commit or hash is none, even if its digits look like one."""
    kinds = (int, float) if len(cell) < 40 else ()
    for kind in kinds:
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def scores_of(columns: Sequence[str], cells: str | float) -> dict[str, float | str]:
    """Scores by the names of their columns, from cells separated by spaces; "-" is none, and so are cells at the end."""
    pairs = zip(columns, str(cells).split(), strict=False)
    return {name: number_of(cell) for name, cell in pairs if cell != "-"}


@dataclass(frozen=True)
class Lengthening:
    """How `bert_zoo.lengthen` turns models of other families into a family's own, which reads longer rows."""

    attention: str  # the family's value for the argument `attention`
    families: Sequence[str]  # families whose models can be lengthened
    # (Shorter model's configuration, tokens per row, tokens per window, separator's id) -> longer model's
    # configuration.
    config: Callable[[Any, int, int, int], Any]
    # (Shorter configuration, longer configuration, shorter model's arrays by path, paths of the longer model) ->
    # longer model's arrays by path.
    weights: Callable[[Any, Any, Mapping[str, Any], Collection[str]], dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """Declares an architecture: its layers, file formats, text format, checkpoints and settings.

    Attributes:
        name: the family's name.
        backbone: (configuration, dtype policy) -> a `bert_zoo.layers.Backbone`; imports Keras when called.
        defaults: default fields of checkpoints' configurations.
        formats: file formats by name; bert_zoo's own is added.
        encoder_rows: weight table of the encoder. The first row is the token table, which locates the
            root of a source's names.
        heads: weight tables of heads by task.
        text: how its models read text.
        checkpoints: its released models.
        objectives: what the task "pretraining" predicts: names in
            `bert_zoo.tasks.objectives.table.PREDICTIONS`.
        pretraining: how tokens were chosen in pretraining: a key of `bert_zoo.tasks.objectives.OBJECTIVES`,
            or a function from a configuration to one.
        config_class: class of its configurations.
        tasks_without_head: tasks that add no weights.
        params_task: the task whose model a checkpoint's `params` counts, if the checkpoint provides it.
        settings: fields of the configuration that `load` may change besides dropout and activation; no
            weight's shape or meaning depends on them.
        presets: published settings for fine-tuning; without any, those of the first family are used.
        pretraining_preset: published settings for pretraining.
        language_model_presets: language models to train from scratch, with their settings.
        lengthening: how shorter models become its own.
    """

    name: str
    backbone: Callable[[Any, Any], Any]
    defaults: Mapping[str, Any]
    formats: Mapping[str, Format]
    encoder_rows: Sequence[Row | RowsOf]
    heads: Mapping[str, Head]
    text: TextFormat
    checkpoints: Sequence[Checkpoint]
    objectives: Sequence[str] = ()
    pretraining: str | Callable[[Any], str] = ""
    config_class: type[Config] = EncoderConfig
    tasks_without_head: Sequence[str] = ("encoder", "embedding")
    params_task: str = "encoder"
    settings: Sequence[str] = ()
    presets: Sequence[Preset] = ()
    pretraining_preset: PretrainingPreset | None = None
    language_model_presets: Sequence[LanguageModelPreset] = ()
    lengthening: Lengthening | None = None

    def __post_init__(self):
        encoders = {second.name: second.ours for second in self.second_encoders}
        own = BertZoo(family=self.name, config_class=self.config_class, encoders=encoders)
        object.__setattr__(self, "formats", {**self.formats, own.name: own})

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that `load` supports for the family's encoders."""
        return (*self.tasks_without_head, *self.heads)

    def with_head(self, task: str, head: Head) -> "Family":
        """With another head for a task."""
        return replace(self, heads={**self.heads, task: head})

    @property
    def second_encoders(self) -> list[SecondEncoder]:
        """The encoders that some tasks have in addition to the first."""
        rows = (row for head in self.heads.values() for row in head.rows)
        return [row for row in rows if isinstance(row, SecondEncoder)]

    def task_of(self, second: SecondEncoder) -> str:
        """The task whose head is that of a second encoder."""
        return next(task for task, head in self.heads.items() if head is second.head)

    def pretraining_of(self, config: Config) -> str:
        """How tokens were chosen in pretraining, a key of `OBJECTIVES`, for a configuration."""
        return self.pretraining if isinstance(self.pretraining, str) else self.pretraining(config)

    def config(self, checkpoint: Checkpoint) -> Config:
        """A checkpoint's configuration: the family's defaults with the checkpoint's changes."""
        return self.config_class(**{**self.defaults, **checkpoint.config})

    def count(self, config: Config) -> int:
        """Counts the parameters of an encoder without allocating them."""
        from bert_zoo import private

        backbone = self.backbone(config, "float32")
        with private.declaring(made=False):
            backbone.build((None, None))
        return backbone.count_params()

    def plan(
        self, fmt: str | Format, config: Config, root: str | None = None, head_root: str = ""
    ) -> "Plan":
        """The weight table for the encoder's configuration, with the names of a format.

        Args:
            root: prefix of the encoder's names; by default the format's.
            head_root: prefix of the names of heads and of tensors that several encoders share.
        """
        # Imported here because it imports NumPy, which takes longer than everything else in this module.
        from bert_zoo.weights.bind import ENCODER_PREFIX, Plan, expand

        fmt = self.formats[fmt] if isinstance(fmt, str) else fmt
        root, config = fmt.root if root is None else root, config.with_pooler(True)
        copies = {
            copy.below(root, head_root)
            for head in self.heads.values()
            if fmt.name in head.copies
            for copy in head.copies[fmt.name](config)
        }
        encoder = expand(self.encoder_rows, config, fmt, ENCODER_PREFIX, root, head_root)
        heads = {
            task: tuple(expand(head.rows, config, fmt, "", head_root, head_root))
            for task, head in self.heads.items()
        }
        copies = tuple(sorted(copies, key=lambda copy: copy.key))
        return Plan(fmt, root, head_root, tuple(encoder), heads, copies)
