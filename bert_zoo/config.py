"""The sizes and choices that define an encoder, and how other formats spell them."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from bert_zoo.error_text import listing, shown

# The label of positions that do not count, as in Hugging Face's data sets.
IGNORED_LABEL = -100
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
# Blocks that share their weights could be run any number of times, which no file of weights tells.
MOST_LAYERS = 1_000


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
        fields = dataclasses.fields(cls)
        known = [f.name for f in fields]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigError(
                f"Unknown encoder settings {shown(unknown)}; this version of bert_zoo knows {known}."
            )
        missing = [
            f.name for f in fields if f.default is dataclasses.MISSING and f.name not in values
        ]
        if missing:
            raise ConfigError(f"The encoder settings {missing} are missing.")
        return cls(**values)

    def rough_parameters(self) -> int:
        """About how many parameters the encoder has, told without building it."""
        raise NotImplementedError

    def problems_with(
        self,
        *,
        positive: Sequence[str] = (),
        natural: Mapping[str, str],
        rates: Sequence[str],
        deviations: Sequence[str] = ("initializer_range",),
        flags: Sequence[str] = (),
    ) -> list[str]:
        """What is wrong with fields that every kind of encoder has.

        Args:
            positive: fields that must be positive integers.
            natural: fields that may be 0 too -> what 0 means.
            rates: fields that are dropout rates.
            deviations: fields that are standard deviations.
            flags: fields that are true or false.
        """
        problems = [
            f"{name} is {shown(getattr(self, name))}; it must be a positive integer."
            for name in positive
            if not is_integer(getattr(self, name)) or getattr(self, name) < 1
        ]
        problems += [
            f"{name} is {shown(getattr(self, name))}; it must be 0 ({meaning}) or a positive integer."
            for name, meaning in natural.items()
            if not is_integer(getattr(self, name)) or getattr(self, name) < 0
        ]
        problems += [
            f"{name} is {shown(getattr(self, name))}; it must be at least 0 and below 1."
            for name in rates
            if not is_number(getattr(self, name)) or not 0 <= getattr(self, name) < 1
        ]
        problems += [
            f"{name} is {shown(getattr(self, name))}; it must be a positive number."
            for name in deviations
            if not is_number(getattr(self, name)) or getattr(self, name) <= 0
        ]
        problems += [
            f"{name} is {shown(getattr(self, name))}; it must be True or False."
            for name in flags
            if not isinstance(getattr(self, name), bool)
        ]
        if is_integer(self.num_layers) and self.num_layers > MOST_LAYERS:
            problems.append(
                f"num_layers is {shown(self.num_layers)}; it must be at most {MOST_LAYERS:,}."
            )
        if self.activation not in ACTIVATIONS:
            problems.append(f"activation is {shown(self.activation)}; choose one of {ACTIVATIONS}.")
        epsilon = self.layer_norm_epsilon
        if not isinstance(epsilon, float) or not 0 < epsilon < math.inf:
            problems.append(f"layer_norm_epsilon is {shown(epsilon)}; it must be a positive float.")
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
            "gelu"), "relu" or "silu" (x times its sigmoid, also called "swish").
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
            flags=("positions_after_padding", "pooler", "tie_word_embeddings"),
        )
        if not is_integer(self.pad_id) or self.pad_id < 0:
            problems.append(f"pad_id is {shown(self.pad_id)}; it must be an id, 0 or more.")
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

    def rough_parameters(self) -> int:
        tables = (self.vocab_size + self.max_positions + self.num_segments) * self.table_width
        block = 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size
        return tables + self.num_blocks * block

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


def is_number(value: Any) -> bool:
    """Whether a value is an integer or a float, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        for theirs, ours in self.values.items():
            if theirs == value:
                return ours
        raise ConfigError(
            f"{self.key} is {shown(value)}; known values are {sorted(map(str, self.values))}."
        )

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
        problems, fields, unknown = [], {}, []
        for key, value in values.items():
            if key in rows:
                if value is None and rows[key].optional:
                    continue
                try:
                    fields[rows[key].field] = rows[key].decode(value)
                except ConfigError as error:
                    problems.append(str(error))
            elif key in self.fixed:
                if value not in self.fixed[key]:
                    problems.append(
                        f"{key} is {shown(value)}; only {list(self.fixed[key])} is supported."
                    )
            elif self.ignored is not None and key not in self.ignored:
                unknown.append(f"{key} (= {shown(value, 60)})")
        if unknown:
            problems.append(
                f"{listing(unknown)} is not known; if it changes nothing in the model, take it out of "
                "the file."
            )
        missing = [row.key for row in self.rows if not row.optional and row.key not in values]
        if missing:
            problems.append(f"The keys {missing} are missing.")
        if problems:
            raise ConfigError(f"{where} cannot be used: " + " ".join(problems))
        try:
            return self.config_class(**{**self.defaults, **fields})
        except ConfigError as error:
            other_names = [
                f"{row.field} is {row.key} in the file"
                for row in self.rows
                if row.field != row.key and re.search(rf"\b{row.field}\b", str(error))
            ]
            said = f" ({'; '.join(other_names)}.)" if other_names else ""
            raise ConfigError(f"{where}: {error}{said}") from error

    def unsaid(self, values: Mapping[str, Any]) -> frozenset[str]:
        """The fields that a configuration file leaves out."""
        values = self.prepare(values)
        said = {row.field for row in self.rows if row.key in values}
        return frozenset(field.name for field in dataclasses.fields(self.config_class)) - said

    def encode(self, config: Config) -> dict[str, Any]:
        """The file's content for `config`; fields that the format lacks are left out."""
        values = {row.key: row.encode(getattr(config, row.field)) for row in self.rows}
        return {**self.written, **values}
