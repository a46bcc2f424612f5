"""The interface of file formats, which the other modules of this package implement."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import (
    Autoencoder,
    Config,
    ConfigError,
    EntityHead,
    HeadSpec,
    Pooling,
    Prompts,
    SparsePooling,
    TextSpec,
    TokenVectors,
)
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.weights.formats.codec import ConfigCodec
from bert_zoo.weights.table import Row, Stored
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")


@dataclass(frozen=True, kw_only=True)
class Description:
    """A directory's information about a model besides its encoder's configuration; None if missing."""

    task: str | None = None  # what it was saved as
    problem_type: str | None = None  # Hugging Face's word for a classifier's task
    classes: Sequence[str] = ()  # the Hugging Face classes that it says it is
    labels: Sequence[str] | None = None  # names of its classes
    thresholds: Sequence[float] = ()  # of these
    score_activation: str | None = None  # what makes scores of a cross-encoder's one logit
    text: TextSpec | None = None  # how it reads text
    # How it makes sentence vectors; None for a model that makes none.
    pooling: Pooling | None = Pooling()  # noqa: RUF009 (frozen)
    sparse_pooling: SparsePooling | None = (
        None  # how it makes sparse vectors; None if it does not say
    )
    # The role of texts without one, of a model with an encoder of its own for queries; None for other models.
    default_role: str | None = None
    prompts: Prompts = Prompts()  # noqa: RUF009 (frozen); before its texts
    token_vectors: TokenVectors | None = None  # how it makes vectors of tokens (late interaction)
    entity_head: EntityHead | None = None  # how it finds entities of named types
    long_texts: Mapping[str, Any] | None = None  # of `bert_zoo.models.long_texts.LongTexts`
    # Ids of special tokens that the configuration does not say, by the keys of Hugging Face's config.json.
    token_ids: Mapping[str, int] = field(default_factory=dict)
    reads_vectors: bool = False  # whether its head reads sentence vectors
    head: HeadSpec | None = None  # what stands in place of its family's head
    # What it says about generating text, by the keys of `bert_zoo.generation_config`; the first one decides.
    generation: Sequence[JsonObject] = ()
    generates: bool = False  # whether it writes texts
    unsaid: frozenset[str] = frozenset()  # fields of the configuration that its file leaves out
    lacks_pooler: bool = False  # whether it has none, and Hugging Face's class would make one
    dtype: str | None = None  # of its weights

    @property
    def autoencoder(self) -> Autoencoder | None:
        return None if self.sparse_pooling is None else self.sparse_pooling.autoencoder

    @property
    def adds_to_encoder(self) -> bool:
        """Whether its head stands in files of its own beside a bare encoder in Hugging Face directories."""
        return self.token_vectors is not None or self.autoencoder is not None


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one family's checkpoints are stored in one format.

    A family with a peculiarity that others do not have overrides a method on its own page.
    """

    name: ClassVar[str]
    # The format whose names and forms of rows it has; empty for its own.
    rows_of: ClassVar[str] = ""
    layout: ClassVar[str] = "pytorch"
    # Module names in earlier versions of the format's program -> today's names.
    renames: ClassVar[Sequence[tuple[str, str]]] = ()
    # What every family's files may hold besides weights.
    never_weights: ClassVar[Sequence[str]] = ()
    # The key by which a configuration file names the family, and the attribute with its value; where there is
    # none, the first family that can read the file is the one.
    family_key: ClassVar[str] = ""
    # Whether it is asked before the formats of other families, which would take its files too.
    takes_precedence: ClassVar[bool] = False
    # Of the file of weights that is written: its name, and strings by string in it.
    weights_file: ClassVar[str] = "model.safetensors"
    metadata: ClassVar[Mapping[str, str]] = {}
    # The other program that reads what is written; empty for bert_zoo, and where nothing is.
    program: ClassVar[str] = ""
    # Whether a written directory has a model card, and whether each dense layer on sentence vectors has
    # a folder of its own.
    has_card: ClassVar[bool] = False
    has_dense_folders: ClassVar[bool] = False
    # The folder of a directory that a vocabulary may be in.
    vocabulary_folder: ClassVar[str] = ""

    codec: ConfigCodec | None = None  # of its configuration file; None where there is none
    config_file: str = ""  # name of that file
    # What stands before the encoder's names in a model with a head; None where the tensors have the
    # names of another format.
    root: str | None = ""
    # Roots of further encoders in the same file, by name.
    encoders: Mapping[str, str] = field(default_factory=dict)
    ignorable: Sequence[str] = ()  # patterns of keys that are not weights of the model
    # Pattern of a key without which tensors are not of this format; empty for none.
    required_key: str = ""
    # Field of the configuration -> pattern of the key whose rows it is, whatever a configuration file
    # says.
    sizes: Mapping[str, str] = field(default_factory=dict)
    # Patterns of keys that are weights of something that the family's models do not have -> what that
    # is, for the log.
    unread: Mapping[str, str] = field(default_factory=dict)
    # Pattern of a key that shows that tensors are of this family, though its configuration files look like
    # another's; empty for none.
    distinctive_key: str = ""
    # Patterns of keys that fine-tuned models may lack, where zeros stand in -> what that is, for the log.
    optional: Mapping[str, str] = field(default_factory=dict)
    # Task -> pattern of a key of files whose head for it was never trained.
    untrained: Mapping[str, str] = field(default_factory=dict)
    # `renames` of this family's files alone.
    own_renames: Sequence[tuple[str, str]] = ()
    # Pattern of a renamed key of a tensor that holds several ones below each other -> what the pattern stands for
    # in their names, in this order.
    packed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Adapters that its files may hold, in their order; see `bert_zoo.weights.adapters.with_adapter`.
    adapters: Sequence[str] = ()
    # Further encoder -> its file beside the first one's, with the same root.
    files_beside: Mapping[str, str] = field(default_factory=dict)
    # Field of the configuration -> the one value that the format's own program computes with, or a
    # function from a configuration to it.
    supports: Mapping[str, Any] = field(default_factory=dict)
    # Task -> the same of its head alone.
    supports_in_head: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # From a configuration to tensors below the encoder's root that are written besides weights.
    buffers: Callable[[Any], Mapping[str, Any]] = lambda config: {}

    # Names and layouts

    def names(self, row: Row) -> tuple[str, ...]:
        """What the format calls a row's module; () where it has none."""
        return row.names.get(self.rows_of or self.name, ())

    def stored(self, row: Row, variable: str) -> Stored:
        """How the format stores a variable of a row's module."""
        forms = row.kind[variable]
        return forms.get(self.rows_of or self.name) or forms[self.layout]

    def renamed(self, key: str) -> str:
        """A stored key under the names of today."""
        for pattern, name in (*self.renames, *self.own_renames):
            key = re.sub(pattern, name, key)
        return key

    def parts(self, key: str) -> Sequence[str]:
        """The names of the tensors that a stored one holds below each other: of most, one."""
        key = self.renamed(key)
        for pattern, names in self.packed.items():
            if re.search(pattern, key):
                return [re.sub(pattern, name, key) for name in names]
        return (key,)

    def read_shape(self, key: str, stored: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that a tensor is read in; of most, the stored one."""
        return stored

    def has_untrained_head(self, task: str, keys: Iterable[str]) -> bool:
        """Whether a file with these keys holds a head for a task that was never trained."""
        pattern = self.untrained.get(task)
        return pattern is not None and any(re.search(pattern, key) for key in keys)

    def is_ignorable(self, key: str) -> bool:
        """Whether a key may stay unread, as no weight."""
        return any(re.search(pattern, key) for pattern in (*self.never_weights, *self.ignorable))

    # What one family or another has of its own

    def inferred_fields(
        self, source: TensorSource, config: Config, unsaid: Collection[str]
    ) -> dict[str, Any]:
        """Infers fields of the configuration from the tensors, whatever a configuration file says.

        Args:
            source: the tensors.
            config: what the file says.
            unsaid: the fields that it leaves out.
        """
        rows = {}
        for name, pattern in self.sizes.items():
            for key in source:
                if re.search(pattern, key):
                    rows[name] = (*source.shape(key), 0)[0]
        return rows

    def root_in(self, task: str) -> str | None:
        """The prefix of the encoder's names in a model with the head of a task."""
        return self.root

    def differences(self, config: Config, unsaid: Collection[str], longest: int) -> Iterator[str]:
        """Yields sentences about what the format's own program computes differently, for the log.

        Args:
            config: the loaded model's.
            unsaid: fields that neither the configuration file nor the caller gives.
            longest: the most tokens of a row.
        """
        return iter(())

    # Configuration files

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        """The content of a configuration file."""
        return read_object(path)

    @property
    def family_value(self) -> str:
        return getattr(self, self.family_key, "")

    def is_of_family(self, values: JsonObject) -> bool:
        """Whether a configuration file may be of this family."""
        return not self.family_key or values.take(self.family_key, str) == self.family_value

    def decode(self, values: JsonObject, *, where: str) -> Config:
        """The encoder's configuration; raises ConfigError."""
        return self.codec.decode(values, where=where)

    def description(self, values: JsonObject, directory: Path) -> Description:
        """Returns what a directory with this configuration file tells about the model."""
        return Description()

    def vocabulary_directory(self, directory: Path) -> Path:
        """Where the vocabulary's files are."""
        folder = directory / self.vocabulary_folder
        return folder if folder.is_dir() else directory

    # What is written

    def check_target(self, directory: Path) -> None:
        """Raises FileExistsError for a directory with a model whose files would stay."""

    def description_of(
        self, model: Any, family: Any, description: Description, preprocessor: Any
    ) -> Description:
        """What a directory of this format says of a `ZooModel`; warns about what it cannot express.

        Args:
            family: the model's `bert_zoo.family.Family`.
            description: what a directory of bert_zoo says.
            preprocessor: None without a vocabulary.

        Raises:
            ValueError: the program has no such model.
        """
        return description

    def write_vocabulary(
        self, directory: Path, preprocessor: Any, text: Any, description: Description
    ) -> None:
        """Writes the vocabulary's files; `text` is the family's `bert_zoo.text.format.TextFormat`."""
        preprocessor.save_vocabulary(directory)

    def write_weights(self, directory: Path, tensors: Mapping[str, Any]) -> None:
        """Writes arrays, by the format's names, to a directory."""
        from bert_zoo.weights.safetensors_io import write_safetensors

        write_safetensors(directory / self.weights_file, tensors, self.metadata)

    def write_beside(
        self,
        directory: Path,
        config: Config,
        description: Description,
        tensors: Mapping[str, Any],
    ) -> None:
        """Writes a directory's files other than configuration, weights and vocabulary.

        `tensors` are those that stand in files of their own.
        """


def say_what_differs(supports: Mapping[str, Any], config: Config, program: str) -> None:
    """Warns about settings that another program's class computes differently."""
    supported = {n: v(config) if callable(v) else v for n, v in supports.items()}
    others = {n: getattr(config, n) for n, v in supported.items() if getattr(config, n) != v}
    if others:
        log.warning(
            "%s does not support %s and computes with %s: its outputs will differ.",
            program,
            others,
            {name: supported[name] for name in others},
        )


# -------------------------------------------------------------------------------------------------
# Checkpoints of Google's TensorFlow 1 programs.
# -------------------------------------------------------------------------------------------------

# ELECTRA's size of an attention head, used if files do not tell the number of heads.
HEAD_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class TF1(Format):
    """A family's TensorFlow 1 checkpoints.

    Rows without their own name have Hugging Face's, with `/` for `.` and `layer_{i}` for `layer.{i}`, as in
    Google's BERT.

    For a program whose checkpoints have no configuration file, `config_file` is "*.index", and the codec gets
    the shapes of the tensors by name.
    """

    name: ClassVar[str] = "tf1"
    layout: ClassVar[str] = "tensorflow"
    # Optimizer slots, counters and loss scales (Google's, NVIDIA's and Horovod's programs).
    never_weights: ClassVar[tuple[str, ...]] = (
        r"/(adam|lamb)_[mv]$",
        r"/(Adam|LAMB|AdamWeightDecayOptimizer|LAMBOptimizer)(_1)?$",
        r"(^|/)(global_step|beta[12]_power(_\d+)?|good_steps|loss_scale|current_loss_scale)$",
    )

    def names(self, row: Row) -> tuple[str, ...]:
        if self.name in row.names:
            return row.names[self.name]
        return tuple(
            name.replace("layer.{i}", "layer_{i}").replace(".", "/")
            for name in row.names.get("hf", ())
        )

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return shapes_in(path) if path.suffix == ".index" else read_object(path)


def shapes_in(path: Path) -> JsonObject:
    """Returns name -> shape for a checkpoint's tensors, instead of a configuration file."""
    from bert_zoo.weights.sources import open_weights

    source = open_weights(path)
    return JsonObject({key: source.shape(key) for key in source}, path)


def sizes_in(
    shapes: Mapping[str, tuple[int, ...]], places: Mapping[str, tuple[str, int]], layer: str
) -> dict[str, int]:
    """Returns a model's sizes from the shapes of its tensors.

    Args:
        shapes: name -> shape.
        places: size -> the name and axis that determine it. Absent ones are left out.
        layer: pattern for the beginning of names in a layer, with the layer's number as first group.
    """
    sizes = {
        size: shapes[name][axis]
        for size, (name, axis) in places.items()
        if axis < len(shapes.get(name, ()))
    }
    layers = {match[1] for name in shapes if (match := re.match(layer, name))}
    heads = sizes.get("hidden_size", 0) // HEAD_SIZE
    return sizes | {"num_layers": len(layers), "num_heads": max(1, heads)}


# -------------------------------------------------------------------------------------------------
# fairseq's model.pt: tensors with the arguments of their training.
# -------------------------------------------------------------------------------------------------

# Earlier versions stored the three attention projections in one tensor, one below the other.
FUSED = {
    r"\bself_attn\.in_proj_(?=weight$|bias$)": [f"self_attn.{part}_proj." for part in "qkv"],
}


@dataclass(frozen=True, kw_only=True)
class Fairseq(Format):
    """A family's fairseq files.

    The codec gets the arguments of the training, in which SpanBERT's program keeps the sizes in a separate record,
    and the numbers of rows of the tables, which the arguments do not tell.
    """

    name: ClassVar[str] = "fairseq"
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"^decoder\.(?=sentence_encoder\.|lm_head\.)", "encoder."),
        (r"\bemb_layer_norm\.", "layernorm_embedding."),
        # A classification head has its task's name.
        (r"\bclassification_heads\.[^.]+\.", "classification_heads."),
    )
    never_weights: ClassVar[tuple[str, ...]] = (r"\.version$", r"\._float_tensor$")

    config_file: str = "model.pt"
    packed: Mapping[str, Sequence[str]] = field(default_factory=lambda: FUSED)

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        from bert_zoo.weights.torch_bin import TorchSource

        source = TorchSource(path)
        if not source.arguments:
            raise ConfigError(
                f"{path} holds tensors without the arguments of their training, so sizes are unknown. "
                "Put Hugging Face's config.json of the model into its directory."
            )
        rows = {
            f"{table}_rows": source.shape(key)[0]
            for key in source
            for table in ("embed_tokens", "embed_positions")
            if key.endswith(f"{table}.weight")
        }
        record = source.arguments.get("config")
        record = record if isinstance(record, dict) else {}
        return JsonObject({**source.arguments, **record, **rows}, path)
