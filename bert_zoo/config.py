"""The sizes and choices that define an encoder, and how other formats spell them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

# The label of positions that do not count, as in Hugging Face's data sets.
IGNORED_LABEL = -100
ACTIVATIONS = ("gelu", "gelu_tanh", "relu")


class ConfigError(ValueError):
    """A configuration that cannot be used, with every reason in the message."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What configurations of encoders share: changing a field, and the way to JSON and back."""

    pooler: ClassVar[bool] = False

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def with_pooler(self, pooler: bool) -> Self:
        """The same with or without a pooler, in architectures that can have one."""
        return self

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        unknown = sorted(set(values) - {f.name for f in dataclasses.fields(cls)})
        if unknown:
            raise ConfigError(
                f"Unknown encoder settings {unknown}; this version of bert_zoo knows "
                f"{[f.name for f in dataclasses.fields(cls)]}."
            )
        return cls(**values)

    def problems_with(
        self, *, positive: Sequence[str] = (), natural: Mapping[str, str], rates: Sequence[str]
    ) -> list[str]:
        """What is wrong with fields that every kind of encoder has.

        Args:
            positive: fields that must be positive integers.
            natural: fields that may be 0 too -> what 0 means.
            rates: fields that are dropout rates.
        """
        problems = [
            f"{name} is {getattr(self, name)!r}; it must be a positive integer."
            for name in positive
            if not is_integer(getattr(self, name)) or getattr(self, name) < 1
        ]
        problems += [
            f"{name} is {getattr(self, name)!r}; it must be 0 ({meaning}) or a positive integer."
            for name, meaning in natural.items()
            if not is_integer(getattr(self, name)) or getattr(self, name) < 0
        ]
        for name in rates:
            rate = getattr(self, name)
            if not isinstance(rate, int | float) or not 0 <= rate < 1:
                problems.append(f"{name} is {rate!r}; it must be at least 0 and below 1.")
        if self.activation not in ACTIVATIONS:
            problems.append(f"activation is {self.activation!r}; choose one of {ACTIVATIONS}.")
        if not isinstance(self.layer_norm_epsilon, float) or self.layer_norm_epsilon <= 0:
            problems.append(
                f"layer_norm_epsilon is {self.layer_norm_epsilon!r}; it must be a positive float."
            )
        return problems


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Config):
    """Everything that fixes an encoder's parameters and arithmetic.

    Attributes:
        vocab_size: rows of the token table.
        hidden_size: width of the residual stream; a multiple of `num_heads`.
        num_layers: transformer blocks that an input runs through.
        num_heads: attention heads a block.
        intermediate_size: width of the feed-forward layer.
        max_positions: rows of the position table.
        num_segments: rows of the segment ("token type") table.
        embedding_size: width of the tables where it differs from `hidden_size` (factorized
            embeddings, ALBERT section 3.1); 0 means `hidden_size`.
        num_hidden_groups: groups of blocks that layers share their weights in (ALBERT section 3.1);
            0 means that every layer has weights of its own.
        inner_group_num: blocks a group; a layer runs through all of its group's.
        positions_after_padding: whether the first token stands in row `pad_id + 1` of the position
            table and padding in row `pad_id`, wherever it is (RoBERTa).
        activation: "gelu" (erf), "gelu_tanh" (the approximation that Google's BERT files call
            "gelu") or "relu".
        layer_norm_epsilon: added to the variance.
        hidden_dropout: rate after the embeddings and after both sublayers of a block.
        attention_dropout: rate on attention probabilities.
        classifier_dropout: rate before a fine-tuning head; None means `hidden_dropout`.
        initializer_range: standard deviation of fresh weights (truncated normal).
        pooler: whether the encoder ends with a tanh layer over the first token.
        tie_word_embeddings: whether a masked-language-model head projects onto the token table.
        pad_id: the id of padding.
    """

    vocab_size: int
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    max_positions: int = 512
    num_segments: int = 2
    embedding_size: int = 0
    num_hidden_groups: int = 0
    inner_group_num: int = 1
    positions_after_padding: bool = False
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-12
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    pooler: bool = True
    tie_word_embeddings: bool = True
    pad_id: int = 0

    def __post_init__(self):
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
        rates = ["hidden_dropout", "attention_dropout"]
        if self.classifier_dropout is not None:
            rates.append("classifier_dropout")
        problems = self.problems_with(
            positive=(*sizes, "max_positions", "num_segments", "inner_group_num"),
            natural={
                "embedding_size": "as hidden_size",
                "num_hidden_groups": "nothing is shared",
            },
            rates=rates,
        )
        if not problems and self.hidden_size % self.num_heads:
            problems.append(
                f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}."
            )
        if not problems and self.num_hidden_groups > self.num_layers:
            problems.append(
                f"num_hidden_groups is {self.num_hidden_groups}; there are {self.num_layers} layers "
                "to share them."
            )
        if not problems and self.longest_input < 1:
            problems.append(
                f"max_positions is {self.max_positions}; pad_id {self.pad_id} leaves no row for tokens."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def table_width(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def num_blocks(self) -> int:
        """Blocks with weights of their own."""
        return self.num_hidden_groups * self.inner_group_num or self.num_layers

    @property
    def blocks_of_layers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the blocks that it runs through (albert modeling.py, transformer_model)."""
        if not self.num_hidden_groups:
            return tuple((i,) for i in range(self.num_layers))
        groups = (i * self.num_hidden_groups // self.num_layers for i in range(self.num_layers))
        return tuple(
            tuple(group * self.inner_group_num + j for j in range(self.inner_group_num))
            for group in groups
        )

    def with_pooler(self, pooler: bool) -> Self:
        return self.replace(pooler=pooler)

    @property
    def priced_lengths(self) -> tuple[int, ...]:
        """Lengths of input whose cost a checkpoint's card shows."""
        return (128, self.longest_input)

    def card(self) -> dict[str, int]:
        """The sizes that a checkpoint's card shows."""
        shown = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
        return {name: getattr(self, name) for name in (*shown, "max_positions")}

    def forward_flops(self, length: int) -> int:
        """Floating-point operations of the encoder's products for one row of `length` tokens.

        Layers that share weights count as often as they run.
        """
        hidden = self.hidden_size
        runs = sum(map(len, self.blocks_of_layers))
        dense = 4 * hidden**2 + 2 * hidden * self.intermediate_size
        attention = 2 * length * hidden
        projection = self.embedding_size * hidden if self.table_width != hidden else 0
        pooler = hidden**2 if self.pooler else 0
        return 2 * (length * (runs * (dense + attention) + projection) + pooler)

    @property
    def position_offset(self) -> int:
        """Row of the first token in the position table."""
        return self.pad_id + 1 if self.positions_after_padding else 0

    @property
    def longest_input(self) -> int:
        """The most tokens that a row may have."""
        return self.max_positions - self.position_offset

    @property
    def head_dropout(self) -> float:
        """Dropout rate before a fine-tuning head."""
        return self.hidden_dropout if self.classifier_dropout is None else self.classifier_dropout


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class ConfigRow:
    """How one field of a configuration is spelled in a source format.

    Attributes:
        field: the field of our configuration.
        key: the key in the source's JSON file.
        values: translation of the source's values to ours, where they differ.
        optional: whether a file may leave the key out (our default then applies).
    """

    field: str
    key: str
    values: Mapping[Any, Any] | None = None
    optional: bool = False

    def decode(self, value: Any) -> Any:
        if self.values is None:
            return value
        if value not in self.values:
            raise ConfigError(
                f"{self.key} is {value!r}; known values are {sorted(map(str, self.values))}."
            )
        return self.values[value]

    def encode(self, value: Any) -> Any:
        if self.values is None:
            return value
        return next(theirs for theirs, ours in self.values.items() if ours == value)


@dataclass(frozen=True)
class ConfigCodec:
    """One format's configuration file: rows that carry information, and keys that do not.

    Attributes:
        rows: the fields that the file gives.
        fixed: keys whose only supported values are the listed ones (another value would ask for
            an architecture that this family does not have).
        ignored: keys that change nothing in the encoder; None where all others do not.
        written: constant keys that a written file carries besides the rows.
        defaults: fields of the configuration that the format fixes, or means where a file says nothing.
        config_class: of the configuration that is read.
        prepare: from a file's content to one without keys that only other versions of the program
            wrote.
    """

    rows: Sequence[ConfigRow]
    fixed: Mapping[str, tuple] = field(default_factory=dict)
    ignored: frozenset[str] | None = frozenset()
    written: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    config_class: type[Config] = EncoderConfig
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def decode(self, values: Mapping[str, Any], *, where: str) -> Config:
        """Reads a configuration file's content.

        Args:
            values: the parsed JSON object.
            where: the file's name, for messages.

        Raises:
            ConfigError: a key is unknown, missing, or asks for something this family has not.
        """
        values = self.prepare(values)
        rows = {row.key: row for row in self.rows}
        problems, fields = [], {}
        for key, value in values.items():
            if key in rows:
                try:
                    fields[rows[key].field] = rows[key].decode(value)
                except ConfigError as error:
                    problems.append(str(error))
            elif key in self.fixed:
                if value not in self.fixed[key]:
                    problems.append(
                        f"{key} is {value!r}; only {list(self.fixed[key])} is supported."
                    )
            elif self.ignored is not None and key not in self.ignored:
                problems.append(
                    f"{key} (= {value!r}) is not known; if it changes nothing in the model, take "
                    "it out of the file."
                )
        missing = [row.key for row in self.rows if not row.optional and row.key not in values]
        if missing:
            problems.append(f"The keys {missing} are missing.")
        if problems:
            raise ConfigError(f"{where} cannot be used: " + " ".join(problems))
        return self.config_class(**{**self.defaults, **fields})

    def unsaid(self, values: Mapping[str, Any]) -> frozenset[str]:
        """The fields that a configuration file leaves out."""
        values = self.prepare(values)
        said = {row.field for row in self.rows if row.key in values}
        return frozenset(field.name for field in dataclasses.fields(self.config_class)) - said

    def encode(self, config: Config) -> dict[str, Any]:
        """The file's content for `config`; fields that the format lacks are left out."""
        values = {row.key: row.encode(getattr(config, row.field)) for row in self.rows}
        return {**self.written, **values}
