"""Configurations: the sizes and settings that define an encoder, its text, pooling and head."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check, check_fields, field_problems, is_integer, setting

# The label of positions that the loss ignores, as in Hugging Face's data sets.
IGNORED_LABEL = -100
# Ways to pool token vectors, with sentence-transformers' names.
POOLING_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
DENSE_ACTIVATIONS = ("linear", "tanh", "relu", "gelu", "sigmoid", "silu")
# Ways to compare sentence vectors; the last two are negative distances.
SPARSE_STRATEGIES, SPARSE_ACTIVATIONS = ("max", "sum"), ("relu", "log1p_relu")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
# What a text is in a search, on which its prompt depends -> names of prompts for it.
ROLE_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
ROLES = (QUERY, DOCUMENT) = tuple(ROLE_PROMPTS)
# Names of `bert_zoo.layers.common.ACTIVATIONS`.
ACTIVATIONS = (
    *("gelu", "gelu_tanh", "relu", "silu", "quick_gelu", "gelu_10", "hardswish", "laplace"),
    *("leaky_relu", "linear", "mish", "relu2", "relu6", "sigmoid", "sqrtsoftplus", "tanh"),
)
# An upper limit, as blocks that share weights could run any number of times without more weights.
MOST_LAYERS = 1_000
# The largest standard deviation of randomly initialised weights, and the largest number added to a variance.
MOST_DEVIATION, MOST_EPSILON = 100, 1.0
MOST_AMOUNT = 1e9  # larger numbers of any kind would only overflow
# The longest input of models without a position table, and the largest size of anything: TensorFlow counts
# in int32.
UNLIMITED = 2**31 - 1
PARAMETER_BYTES = 4  # float32
MOST_UNITS = 65_536  # the widest layer of a head
# Files in which Linux gives a container's memory limit, for both versions of control groups.
_CONTAINER_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")

# Fields that bert_zoo 0.1 wrote for every encoder although only one family has them, with the values that
# can be ignored.
OF_OTHERS = {"num_hidden_groups": 0, "inner_group_num": 1}

# Settings with limits that several families need.
size = partial(setting, least=1, most=UNLIMITED)
rate = partial(setting, least=0, below=1)
positive = partial(setting, above=0, most=MOST_AMOUNT)
amount = partial(setting, least=0, most=MOST_AMOUNT)
deviation = partial(setting, above=0, most=MOST_DEVIATION)
activation_name = partial(setting, choices=ACTIVATIONS)


class ConfigError(ValueError):
    """An invalid configuration; the message gives all reasons."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base class of encoder configurations: changing fields, and conversion to and from dicts.

    Its defaults are for encoders without factorized embeddings, shared layers or a position table.
    """

    pooler: ClassVar[bool] = False
    # The fields that model cards show.
    on_card: ClassVar[tuple[str, ...]] = (
        *("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size"),
    )

    def __post_init__(self):
        # Each rule may rely on valid fields and on the rules before it.
        if problems := field_problems(self) or [*islice(self.contradictions(), 1)]:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    def contradictions(self) -> Iterator[str]:
        """Yields which fields do not fit together, each of which is within its limits."""
        yield from ()

    @property
    def table_width(self) -> int:
        return self.hidden_size

    @property
    def num_blocks(self) -> int:
        """Number of blocks that have their own weights."""
        return self.num_layers

    @property
    def longest_input(self) -> int:
        """Maximum number of tokens per row."""
        return UNLIMITED

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)

    def with_pooler(self, pooler: bool) -> Self:
        """The same configuration with or without a pooler, if the architecture can have one."""
        return self

    def with_layers(self, layers: Sequence[int]) -> Self:
        """The same configuration with only these layers, by number, in their order; ConfigError if one would compute
        something different in its new place."""
        return self.replace(num_layers=len(layers))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        fields = dataclasses.fields(cls)
        known = [f.name for f in fields]
        former = {name for name, value in OF_OTHERS.items() if values.get(name) == value}
        values = {n: value for n, value in values.items() if n in known or n not in former}
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

    def card(self) -> dict[str, Any]:
        """The sizes, and other settings that affect scores, for model cards."""
        return {name: getattr(self, name) for name in self.on_card}

    def sizes(self) -> dict[str, int]:
        """The integer fields, largest first."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        integers = {name: value for name, value in fields.items() if is_integer(value)}
        return dict(sorted(integers.items(), key=lambda item: -item[1]))

    def largest_sizes(self) -> str:
        """The three largest of `sizes`, for messages."""
        largest = list(self.sizes().items())[:3]
        return "Its largest sizes: " + ", ".join(f"{name} is {shown(n)}" for name, n in largest)

    def check_memory(self, parameters: int) -> None:
        """Raises ConfigError if this number of parameters needs more memory than the machine has."""
        needed, there = PARAMETER_BYTES * parameters, machine_memory()
        if there is not None and needed > there:
            raise ConfigError(
                f"This encoder cannot be built: it would take {shown(needed)} bytes, but there are only "
                f"{there:,} bytes of memory. {self.largest_sizes()}; check the configuration."
            )


class PlainSoftmax:
    """Mixin of configurations whose language model has a plain softmax: the vocabulary is one cluster."""

    cutoffs: ClassVar[tuple[int, ...]] = ()

    @property
    def cluster_bounds(self) -> tuple[int, ...]:
        return (0, self.vocab_size)

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        return (self.vocab_size,)

    @property
    def table_sizes(self) -> tuple[int, ...]:
        return (self.vocab_size,)

    @property
    def table_widths(self) -> tuple[int, ...]:
        return (self.table_width,)

    @property
    def projection_initializer_range(self) -> float:
        return self.initializer_range

    def has_own_projection(self, cluster: int) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Config):
    """Configuration of a Transformer encoder like BERT: all that its parameters and outputs depend on.

    Attributes:
        vocab_size: rows of the token table.
        hidden_size: width of the hidden states; a multiple of `num_heads`.
        num_layers: transformer blocks that an input runs through.
        num_heads: attention heads per block.
        intermediate_size: width of the feed-forward layer.
        max_positions: rows of the position table.
        num_segments: rows of the segment ("token type") table; 0 for no table.
        embedding_size: width of the tables if it differs from `hidden_size` (factorized embeddings, ALBERT
            section 3.1); 0 for `hidden_size`.
        positions_after_padding: whether the first token has row `pad_id + 1` of the position table, and
            padding always row `pad_id` (RoBERTa).
        activation: "gelu" (erf), "gelu_tanh" (the approximation that Google's BERT files call "gelu"),
            "relu", "silu" (x times its sigmoid, also called "swish"), or another of `ACTIVATIONS`, with
            transformers' names.
        layer_norm_epsilon: added to the variance.
        hidden_dropout: dropout rate after the embeddings and after both sublayers of a block.
        attention_dropout: dropout rate on attention probabilities.
        classifier_dropout: dropout rate before a fine-tuning head; None for `hidden_dropout`.
        span_dropout: dropout rate before a question-answering head; most originals have none.
        initializer_range: standard deviation of randomly initialised weights (truncated normal).
        pooler: whether there is a tanh layer over the first token.
        tie_word_embeddings: whether a masked-LM head projects onto the token table.
        pad_id: the id of padding; None if the vocabulary has none.

    Raises:
        ConfigError: a field is outside its range; the message lists all such fields.
    """

    on_card: ClassVar[tuple[str, ...]] = (*Config.on_card, "max_positions")
    # Whether all heads together are as wide as the hidden states.
    heads_fill_width: ClassVar[bool] = True
    decoder_bias: ClassVar[bool] = True  # whether a masked-LM head adds a bias to its logits

    vocab_size: int = size()
    hidden_size: int = size(768)
    num_layers: int = size(12, most=MOST_LAYERS)
    num_heads: int = size(12)
    intermediate_size: int = size(3072)
    max_positions: int = size(512)
    num_segments: int = size(2, special=(0, "no segments"))
    embedding_size: int = size(0, special=(0, "as hidden_size"))
    positions_after_padding: bool = False
    activation: str = activation_name("gelu")
    layer_norm_epsilon: float = positive(1e-12, most=MOST_EPSILON)
    hidden_dropout: float = rate(0.1)
    attention_dropout: float = rate(0.1)
    classifier_dropout: float | None = rate(None)
    span_dropout: float = rate(0.0)
    initializer_range: float = deviation(0.02)
    pooler: bool = True
    tie_word_embeddings: bool = True
    pad_id: int | None = size(0, least=0)

    def contradictions(self) -> Iterator[str]:
        if self.pad_id is None and self.positions_after_padding:
            yield "pad_id is None; it must be an id, or positions_after_padding False."
        if self.longest_input < 1:
            yield (
                f"max_positions is {self.max_positions}; pad_id {self.pad_id} with positions_after_padding leaves "
                "no row for tokens."
            )
        if self.heads_fill_width and self.hidden_size % self.num_heads:
            yield f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}."

    @property
    def table_width(self) -> int:
        return self.embedding_size or self.hidden_size

    @property
    def blocks_of_layers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the numbers of the blocks that it runs."""
        return tuple((i,) for i in range(self.num_layers))

    def with_pooler(self, pooler: bool) -> Self:
        return self.replace(pooler=pooler)

    @property
    def position_offset(self) -> int:
        """Row of the first token in the position table."""
        return self.pad_id + 1 if self.positions_after_padding else 0

    @property
    def longest_input(self) -> int:
        """Maximum number of tokens per row."""
        return self.max_positions - self.position_offset

    @property
    def head_dropout(self) -> float:
        """Dropout rate before a fine-tuning head."""
        return self.hidden_dropout if self.classifier_dropout is None else self.classifier_dropout


def machine_memory() -> int | None:
    """Memory of the machine or the container in bytes; None if the system does not tell."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):  # Windows
        return None
    for name in _CONTAINER_LIMITS:
        file = Path("/sys/fs/cgroup", name)
        limit = file.read_text().strip() if file.is_file() else ""
        if limit.isdigit():
            found.append(int(limit))
    return min(found)


@dataclass(frozen=True)
class TextSpec:
    """How a checkpoint reads text.

    Attributes:
        lowercase: whether text is lower-cased; None leaves it to the tokenizer's files.
        max_length: number of tokens that texts are cut to, special tokens included; `load` can override it.
    """

    lowercase: bool | None = True
    max_length: int = 512

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True)
class PooledDense:
    """A dense layer over pooled outputs."""

    units: int = setting(least=1, most=MOST_UNITS)  # its width
    activation: str = setting("tanh", choices=DENSE_ACTIVATIONS)
    use_bias: bool = True

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one sentence vector.

    Attributes:
        mode: "cls" for the first token; or, over all tokens but padding, "max" for the maximum, "mean" for
            the mean, "mean_sqrt_len_tokens" for the sum divided by the square root of their number,
            "weightedmean" for the mean with the weights 1, 2, 3, ..., or "lasttoken" for the last one.
            The vectors of several modes are concatenated in their order.
        layer_norm: whether the numbers of each vector are first brought to mean 0 and variance 1, all of them
            before it is cut.
        normalize: whether vectors are scaled to length 1.
        dense: dense layers on the pooled outputs, one after the other.
        include_prompt: whether the tokens of a prompt are pooled, too.
        truncate_dim: number of leading dimensions of a finished vector to keep, without scaling it again; None
            for all.
        similarity: how vectors are compared: "cosine", "dot", "euclidean" or "manhattan".

    Raises:
        ValueError: `mode`, `truncate_dim` or `similarity` is invalid.
    """

    mode: str | tuple[str, ...] = setting("mean", choices=POOLING_MODES)
    normalize: bool = True
    dense: tuple[PooledDense, ...] = ()
    include_prompt: bool = True
    truncate_dim: int | None = setting(None, least=1)
    similarity: str = setting("cosine", choices=SIMILARITIES)
    layer_norm: bool = False

    def __post_init__(self):
        # Values from JSON are lists and dicts; `__dict__`, as the dataclass is frozen.
        mode = self.mode
        if not isinstance(mode, str) and len(mode) == 1:
            (mode,) = mode
        dense = [PooledDense(**d) if isinstance(d, Mapping) else d for d in self.dense]
        self.__dict__.update(mode=mode, dense=dense)
        check_fields(self)
        if not self.modes:
            raise ValueError(
                f"mode is {shown(self.mode)}; it must be one or several of {list(POOLING_MODES)}."
            )

    @property
    def modes(self) -> tuple[str, ...]:
        return (self.mode,) if isinstance(self.mode, str) else self.mode

    @property
    def reads_first_only(self) -> bool:
        return self.mode == "cls" and self.include_prompt


# Whether rows are filled with a token: to a fixed number of tokens, to which longer ones are cut, or to at least so many.
EXPANSIONS = ("fixed", "min")


@dataclass(frozen=True)
class TokenRole:
    """How the texts of a role in late interaction, queries or documents, become rows of tokens.

    Attributes:
        max_length: number of tokens that rows are cut to, special tokens and marker included; None for the
            model's.
        marker: a token that is put before each text; None for none.
        expansion: "fixed" fills rows with a token to `expansion_length` tokens and cuts longer ones, "min" only
            fills them; None does neither. The vectors of these tokens are compared, too.
        expansion_length: see `expansion`.
        expansion_token: the token to fill rows with; None for the mask token.
        attends: whether the encoder attends to the tokens that fill a row.
        skip_words: tokens whose vectors are not compared, such as punctuation marks.

    Raises:
        ValueError: a field is outside its range, or `expansion` is without its length.
    """

    max_length: int | None = setting(None, least=1, most=UNLIMITED)
    marker: str | None = None
    expansion: str | None = setting(None, choices=EXPANSIONS)
    expansion_length: int | None = setting(None, least=1, most=UNLIMITED)
    expansion_token: str | None = None
    attends: bool = False
    skip_words: tuple[str, ...] = ()

    def __post_init__(self):
        check_fields(self)
        if (self.expansion is None) != (self.expansion_length is None):
            raise ValueError(
                f"expansion is {shown(self.expansion)} and expansion_length {shown(self.expansion_length)}; rows are "
                "filled with both, or with neither."
            )
        longest, floor = self.max_length, self.expansion_length
        if longest is not None and floor is not None and longest < floor:
            raise ValueError(
                f"max_length is {longest}, but rows are filled to {floor} tokens. Leave max_length out, or raise it."
            )


@dataclass(frozen=True)
class TokenVectors:
    """How a late-interaction model makes a vector of each token: a dense layer, then length 1.

    Attributes:
        size: length of a vector.
        use_bias: whether the dense layer has a bias.
        normalize: whether vectors are scaled to length 1.
        query, document: how the texts of each role become rows; `TokenRole`s, or dicts of their fields.

    Raises:
        ValueError: a field is outside its range.
    """

    size: int = setting(128, least=1, most=MOST_UNITS)
    use_bias: bool = False
    normalize: bool = True
    query: TokenRole = TokenRole()
    document: TokenRole = TokenRole()

    def __post_init__(self):
        for name in ("query", "document"):
            value = getattr(self, name)
            if isinstance(value, Mapping):  # from JSON
                self.__dict__[name] = TokenRole(**value)
        check_fields(self)


@dataclass(frozen=True)
class EntityHead:
    """How a model finds the entities of types that are named with each text (GLiNER).

    Attributes:
        size: width of words, spans and types; None for the encoder's.
        lstm_layers: number of bidirectional LSTMs over the words of a text.
        max_width: most words of an entity.
        max_words: most words of a text that are read together.
        max_types: most types that a text is trained with.
        negatives: in training, a text gets at most so many types of other texts for each of its entities.
        dropout: rate inside the dense layers.
        reads_marker: whether the marker before a type stands for the type; if not, the type's first token does.
        type_marker, end_marker: the tokens before each type and after the last one.

    Raises:
        ValueError: a field is outside its range.

    Source: Zaratiana et al. 2023 (arXiv:2311.08526), section 2, for the architecture; gliner 0.2.29 for the fields.
    """

    size: int | None = setting(None, least=2, most=MOST_UNITS)
    lstm_layers: int = setting(1, least=0)
    max_width: int = setting(12, least=1)
    max_words: int = setting(384, least=1, most=UNLIMITED)
    max_types: int = setting(25, least=1)
    negatives: int = setting(1, least=0)
    dropout: float = setting(0.4, least=0, below=1)
    reads_marker: bool = True
    type_marker: str = "<<ENT>>"
    end_marker: str = "<<SEP>>"

    def __post_init__(self):
        check_fields(self)
        if self.lstm_layers and (self.size or 0) % 2:
            raise ValueError(
                f"size is {self.size}; an LSTM has half of it in each direction, so it must be even."
            )


@dataclass(frozen=True)
class Autoencoder:
    """How a layer makes a sparse vector of a dense one and back (contrastive sparse representation, CSR).

    Attributes:
        hidden_dim: length of a sparse vector, its number of units; None for 4 times that of a dense one.
        k: number of units that a vector keeps, the largest; None for a quarter of the dense vector's length.
        k_aux: number of dead units that learn what the others leave out; None for half the dense vector's length, 0
            for no such learning.
        normalize: whether dense vectors are first brought to mean 0 and standard deviation 1.
        dead_threshold: a unit is dead if its counter is above this. The counter grows by 2 for each column of a batch
            in which no vector keeps the unit.

    Raises:
        ValueError: a field is outside its range.

    Source: Wen et al. 2025 (arXiv:2503.01776); None as sentence-transformers chooses it.
    """

    hidden_dim: int | None = setting(None, least=1, most=MOST_UNITS)
    k: int | None = setting(None, least=1, most=MOST_UNITS)
    k_aux: int | None = setting(None, least=0, most=MOST_UNITS)
    normalize: bool = False
    dead_threshold: int = setting(30, least=0)

    def __post_init__(self):
        check_fields(self)
        for name, kept in (("k", self.k), ("k_aux", self.k_aux)):
            if (kept or 0) > (self.hidden_dim or MOST_UNITS):
                raise ValueError(f"{name} is {kept}, but there are {self.hidden_dim} units.")

    def of_vectors(self, size: int) -> Self:
        """With numbers in place of None, for dense vectors of a length."""
        sizes = {"hidden_dim": 4 * size, "k": max(size // 4, 1), "k_aux": size // 2}
        return replace(self, **{n: s for n, s in sizes.items() if getattr(self, n) is None})


@dataclass(frozen=True)
class SparsePooling:
    """How logits over the vocabulary, those of a head for masked tokens, become one sparse vector of a text.

    Attributes:
        strategy: over a text's tokens, "max" or "sum".
        activation: of logits, "relu" for log(1 + max(x, 0)), or "log1p_relu" for the logarithm of 1 plus that
            (OpenSearch, version 3).
        max_active_dims: how many of the largest weights `embed` keeps; None for all.
        static_queries: whether a query's tokens have fixed weights, which stand in a table, so that only documents
            run through the encoder ("inference-free").
        of_tokens: whether only a text's own tokens have weights, from a dense layer on each, and a token that occurs
            several times the largest of them (BGE-M3). There are then no logits, strategy and activation.
        skipped_ids: with `of_tokens`, tokens without a weight, such as special ones.
        autoencoder: what makes the sparse vector of a sentence vector, an `Autoencoder` or a dict of its fields; None
            for vectors over the vocabulary. There are then no logits, strategy and activation either.

    Raises:
        ValueError: a field is invalid.

    Source: Formal et al. 2021 (arXiv:2107.05720, sum; arXiv:2109.10086, max); Shen et al. 2025 (arXiv:2504.14839).
    """

    strategy: str = setting("max", choices=SPARSE_STRATEGIES)
    activation: str = setting("relu", choices=SPARSE_ACTIVATIONS)
    max_active_dims: int | None = setting(None, least=1)
    static_queries: bool = False
    of_tokens: bool = False
    skipped_ids: tuple[int, ...] = ()
    autoencoder: Autoencoder | None = None

    def __post_init__(self):
        if isinstance(self.autoencoder, Mapping):
            self.__dict__["autoencoder"] = Autoencoder(**self.autoencoder)
        check_fields(self)
        names = ("of_tokens", "static_queries", "autoencoder")
        if len(chosen := [name for name in names if getattr(self, name)]) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other; choose one of them.")


@dataclass(frozen=True)
class Prompts:
    """Texts that are put before the texts to embed."""

    texts: Mapping[str, str] = field(default_factory=dict)  # prompts by name
    default: str | None = None  # name of the prompt that is used by default

    def __post_init__(self):
        if not all(isinstance(text, str) for pair in self.texts.items() for text in pair):
            raise ValueError(
                f"prompts are {shown(self.texts)}; they must be a dict from names to texts."
            )
        if self.default is not None and self.default not in self.texts:
            raise ValueError(
                f"The default prompt is {shown(self.default)}; the prompts are {quoted(self.texts)}."
            )

    def of_role(self, role: str) -> str | None:
        """The name of the prompt for texts of a role, one of `ROLES`; None if there is none."""
        check("role", role, str, choices=ROLES)
        return next((name for name in ROLE_PROMPTS[role] if name in self.texts), None)

    def text(self, prompt: str | None = None, role: str | None = None) -> str:
        """The text of a prompt: a name, or the text itself (names win); "" for no prompt, None for that of the role,
        or else the default. ValueError for what looks like a name of none, or for a prompt and a role."""
        if role is not None:
            if prompt is not None:
                raise ValueError(
                    f"prompt is {shown(prompt)} and role is {shown(role)}, which has its own prompt. Pass one of them."
                )
            prompt = self.of_role(role)
        if prompt is None:
            return "" if self.default is None else self.texts[self.default]
        if not isinstance(prompt, str):
            raise TypeError(f"prompt is {shown(prompt)}; it must be a name, a text or None.")
        if prompt in self.texts:
            return self.texts[prompt]
        if re.fullmatch(r"[a-z_]\w*([.-]\w+)*", prompt, re.ASCII | re.IGNORECASE):
            known = f"the model's are {quoted(self.texts)}" if self.texts else "the model has none"
            raise ValueError(
                f"There is no prompt {prompt!r}; {known}. A prompt of your own must end in a blank or a "
                f"punctuation mark, such as {prompt + ': '!r}."
            )
        return prompt


# Heads: a dense layer on the mean of a text's tokens; on last token, maximum and mean side by side; or on a
# BiLSTM.
HEAD_KINDS = ("linear", "concatenated", "bilstm")
BILSTM_LAYERS = 2
_FEATURES = re.compile(r"top|-?\d+|(?P<how>mix|concat)(?P<number>[1-9]\d*)?")


@dataclass(frozen=True)
class HeadSpec:
    """A head that any encoder can have instead of its family's head."""

    # The hidden states that a frozen encoder passes to the head (the embeddings are the first): "top" for the
    # last, a number for one of them, "mix" for their trained mean (`bert_zoo.layers.ScalarMix`), "concat" for
    # all side by side; "mix4" and "concat4" for the last four. None for the last one and a trained encoder.
    features: str | int | None = None
    kind: str = "linear"  # one of `HEAD_KINDS`
    size: int | None = None  # units of each LSTM; by default the encoder's hidden size
    dropout: float = 0.1  # rate on the input and between layers

    def __post_init__(self):
        features = str(self.features)
        if self.features is not None and not _FEATURES.fullmatch(features):
            raise ValueError(
                f"features is {shown(self.features)}; it must be 'top', 'mix' or 'concat' ('mix4' and 'concat4' for "
                "the last four layers), or the number of a layer, 0 for the embeddings and -1 for the top."
            )
        if self.features is not None and features.removeprefix("-").isdigit():
            self.__dict__["features"] = int(features)  # past the frozen dataclass
        check("head", self.kind, str, choices=HEAD_KINDS)
        if self.size is not None and self.kind != "bilstm":
            raise ValueError(f"head_size is {shown(self.size)}; it needs head='bilstm'.")
        check("head_size", self.size, int | None, least=1, most=MOST_UNITS)
        check("dropout", self.dropout, float, least=0, below=1)

    @classmethod
    def asked(
        cls, features: str | int | None, head: str | None, head_size: int | None
    ) -> "HeadSpec | None":
        """The head that the arguments of `load` ask for; None if they ask for none."""
        if (features, head, head_size) == (None, None, None):
            return None
        return cls(features, head or cls.kind, head_size)

    @property
    def mixes(self) -> bool:
        return str(self.features).startswith("mix")

    def layers_read(self, number: int) -> list[int]:
        """The indices of the hidden states that are read, of `number` in all; ValueError if these are too few."""
        layers = range(number)
        match = _FEATURES.fullmatch(str(self.features))
        how = match and match["how"]
        if isinstance(self.features, int):
            fits, chosen = -number <= self.features < number, layers[self.features :][:1]
        elif how and match["number"]:
            count = int(match["number"])
            fits, chosen = count <= number, layers[-count:]
        else:
            fits, chosen = True, layers if how else layers[-1:]
        if not fits:
            raise ValueError(
                f"features is {self.features!r}; this encoder has {number} layers, 0 (the embeddings) to "
                f"{number - 1}."
            )
        return [*chosen]
