"""Rows that map our layers to the names and layouts of other formats.

A family lists one `Row` per module. The row's kind defines the module's variables and how they are
stored; its names are the module's names in each format (`bert_zoo.weights.formats`). Loading and saving
read the same rows in opposite directions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bert_zoo.config import BILSTM_LAYERS, EntityHead, HeadSpec


@dataclass(frozen=True)
class Stored:
    """How one variable is stored. Families that store values differently define a subclass.

    A variable may be stored in several tensors, its parts along our last axis. A tensor may contain
    several variables, its entries. `config` is the encoder's configuration.
    """

    suffix: str  # appended to the module's name
    transposed: bool = False  # whether the axes are swapped
    # (Configuration) -> the stored tensor's shape, if its axes differ from the variable's: a kernel
    # [hidden, heads * size] may be stored as [hidden, heads, size].
    shape: Callable[[Any], tuple[int, ...]] | None = None
    # (Configuration) -> for each place along our last axis, its place in the stored tensors joined, if the
    # orders differ.
    order: Callable[[Any], np.ndarray] | None = None
    # (Configuration) -> the sizes of several parts, if they differ.
    part_sizes: Callable[[Any], tuple[int, ...]] | None = None

    def sizes(self, size: int, parts: int, config: Any) -> tuple[int, ...]:
        """The sizes of the parts along our last axis."""
        if self.part_sizes is not None and parts > 1:
            return self.part_sizes(config)
        return (size // max(parts, 1),) * parts

    def whole(self, parts: list[np.ndarray]) -> np.ndarray:
        """A variable from its parts."""
        return np.concatenate(parts, axis=-1)

    def parted(self, value: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
        """The parts of a variable."""
        return np.split(value, np.cumsum(sizes)[:-1], axis=-1)

    def shape_of(self, part: tuple[int, ...], config: Any) -> tuple[int, ...]:
        if self.shape is not None:
            return self.shape(config)
        return part[::-1] if self.transposed else part

    def to_ours(self, tensor: np.ndarray, part: tuple[int, ...], config: Any) -> np.ndarray:
        """A part of a variable, with the shape `part`, from a stored tensor."""
        if self.shape is not None:
            tensor = tensor.reshape(part[::-1] if self.transposed else part)
        return tensor.T if self.transposed else tensor

    def to_stored(self, part: np.ndarray, config: Any) -> np.ndarray:
        part = part.T if self.transposed else part
        return part if self.shape is None else part.reshape(self.shape(config))

    def entry(self, block: int, blocks: int) -> tuple[int, int] | None:
        """The variable's number among the entries of its tensor, and the number of entries.

        None means that the variable has its own tensor. The methods below stack entries.
        """
        return None

    def joint_shape(self, entry: tuple[int, ...], entries: int, config: Any) -> tuple[int, ...]:
        """The shape of a tensor whose entries have the shape `entry`."""
        return (entries, *entry)

    def entry_of(self, tensor: np.ndarray, number: int, entries: int, config: Any) -> np.ndarray:
        return tensor[number]

    def joined(self, entries: list[np.ndarray], config: Any) -> np.ndarray:
        return np.stack(entries)


@dataclass(frozen=True)
class Sum(Stored):
    """A variable that is stored as several tensors to add, such as the two biases of torch's LSTM."""

    def sizes(self, size: int, parts: int, config: Any) -> tuple[int, ...]:
        return (size,) * parts

    def whole(self, parts: list[np.ndarray]) -> np.ndarray:
        return sum(parts)

    def parted(self, value: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
        return [value, *(np.zeros_like(value) for _ in sizes[1:])]


@dataclass(frozen=True)
class OfTwoLogits(Stored):
    """The weights of one logit, stored as those of two: the second's minus the first's.

    The logit's sigmoid is then the softmax's probability of the second class.
    """

    def shape_of(self, part: tuple[int, ...], config: Any) -> tuple[int, ...]:
        return super().shape_of((*part[:-1], 2), config)

    def to_ours(self, tensor: np.ndarray, part: tuple[int, ...], config: Any) -> np.ndarray:
        both = super().to_ours(tensor, (*part[:-1], 2), config)
        return both[..., 1:] - both[..., :1]


# Variable -> how it is stored, by layout ("pytorch", "tensorflow"), or by a format's name if it differs
# from its layout. bert_zoo's own files store variables unchanged.
Kind = Mapping[str, Mapping[str, Stored]]

EMBED: Kind = {"embeddings": {"pytorch": Stored(".weight"), "tensorflow": Stored("")}}
# PyTorch's Linear keeps [out, in]; TensorFlow's dense kernels and ours are [in, out].
DENSE: Kind = {
    "kernel": {"pytorch": Stored(".weight", transposed=True), "tensorflow": Stored("/kernel")},
    "bias": {"pytorch": Stored(".bias"), "tensorflow": Stored("/bias")},
}
NORM: Kind = {
    "gamma": {"pytorch": Stored(".weight"), "tensorflow": Stored("/gamma")},
    "beta": {"pytorch": Stored(".bias"), "tensorflow": Stored("/beta")},
}
# The output layers of Google's fine-tuning programs are [classes, hidden] and have special names; the
# row's TF name is their scope (run_classifier.py, run_squad.py).
OUTPUT: Kind = {
    "kernel": {
        "pytorch": Stored(".weight", transposed=True),
        "tensorflow": Stored("output_weights", transposed=True),
    },
    "bias": {"pytorch": Stored(".bias"), "tensorflow": Stored("output_bias")},
}
TOKEN_WEIGHTS: Kind = {"weight": EMBED["embeddings"]}
BIAS: Kind = {"bias": {"pytorch": Stored(""), "tensorflow": Stored("")}}
# A dense layer without bias.
KERNEL: Kind = {"kernel": DENSE["kernel"]}
# A layer norm without bias.
SCALE: Kind = {"gamma": NORM["gamma"]}


def raw(variable: str, **stored: Stored) -> Kind:
    """The kind of a module with one variable, stored unchanged under the module's name but in layouts or formats of
    `stored`."""
    return {variable: {"pytorch": Stored(""), "tensorflow": Stored(""), **stored}}


def stored_with(kind: Kind, **changes: Any) -> Kind:
    """A kind with changed fields of `Stored` for all its variables."""
    return {
        variable: {layout: replace(stored, **changes) for layout, stored in layouts.items()}
        for variable, layouts in kind.items()
    }


def always(config: Any) -> bool:
    return True


@dataclass(frozen=True, init=False)
class Row:
    """A row of a weight table: a layer of our models, and its names in other formats.

    Attributes:
        kind: the layer's variables and how they are stored.
        ours: path of the layer below the encoder or the model; `{i}` is the block's number.
        names: format -> the layer's name, or several names whose tensors are joined along our last
            axis. In a format without a name the layer is missing and is filled with zeros, unless the
            format derives its names from another one. A name with a leading "/" is relative to the root
            of the file, not of the encoder: a table that several encoders share.
        when: (configuration) -> whether the layer exists.
    """

    kind: Kind
    ours: str
    names: Mapping[str, tuple[str, ...]]
    when: Callable[[Any], bool]

    def __init__(
        self,
        kind: Kind,
        ours: str,
        *,
        when: Callable[[Any], bool] = always,
        **names: str | tuple[str, ...],
    ):
        listed = {fmt: (name,) if isinstance(name, str) else name for fmt, name in names.items()}
        # Past the frozen dataclass.
        self.__dict__.update(kind=kind, ours=ours, names=listed, when=when)

    @property
    def is_shared(self) -> bool:
        """Whether several encoders of a file read the module."""
        return any(name.startswith("/") for names in self.names.values() for name in names)

    def only(self, when: Callable[[Any], bool]) -> Self:
        """Returns the row with a further condition."""
        both = lambda config: when(config) and self.when(config)  # noqa: E731
        return type(self)(self.kind, self.ours, when=both, **self.names)

    def named(self, **names: str | tuple[str, ...]) -> Self:
        """Returns the row with further or changed names."""
        return type(self)(self.kind, self.ours, when=self.when, **{**self.names, **names})


# (Configuration) -> rows, for modules that depend on the configuration.
RowsOf = Callable[[Any], Iterable[Row]]


@dataclass(frozen=True)
class SecondEncoder:
    """Rows of another encoder in the same model and file, such as ELECTRA's generator."""

    rows: tuple[Row | RowsOf, ...]  # without modules that it shares with the first encoder
    ours: str  # path of its layers in the model, with a trailing "/"
    name: str  # key of its root in a format's `encoders`
    config: Callable[[Any], Any]  # (first encoder's configuration) -> its own; None without one
    # Its head, which is randomly initialised together with it. In a file with both encoders, the task
    # with only this head reads this encoder.
    head: "Head | None" = None


Rows = Iterable[Row | RowsOf | SecondEncoder]


@dataclass(frozen=True)
class Copy:
    """A stored tensor that repeats another one, for files that store tied weights twice."""

    key: str  # the copy; `{root}` is the encoder's prefix, here and below
    of: str  # the tensor that the table reads; if it is missing, the copy is read
    # Whether the two must be equal; False if the format's own reader only uses `of`.
    equal: bool = True

    def below(self, root: str, head_root: str) -> Self:
        """With a file's roots."""

        def full(key: str) -> str:
            return key.format(root=root) if "{root}" in key else head_root + key

        return replace(self, key=full(self.key), of=full(self.of))


# What heads on whole texts read: the first token; the last one of `padding_mask`, or the last of these whose id
# is not that of padding, as transformers' GPTs do; or the mean; each token, of whose logits there is the mean;
# the last token, the maximum and the mean joined; or the vector of `embed`.
FIRST_TOKEN, LAST_REAL_TOKEN, LAST_WITHOUT_PAD_ID = "first", "last real", "last without pad_id"
MEAN = "mean"
MEAN_OF_LOGITS = "mean of logits"
CONCATENATED = "last real, maximum and mean"
VECTOR = "vector"
# What `bert_zoo.layers.heads.Features` makes of hidden states.
FEATURES = "features"


def first_token(config: Any) -> str:
    return FIRST_TOKEN


def after_dropout(config: Any) -> dict[str, Any]:
    """Options of a head that applies only dropout before the logits."""
    return {"dropout": config.head_dropout}


@dataclass(frozen=True)
class Head:
    """The weight table of a task's head, and what the head reads and computes.

    Attributes:
        rows: its modules, named from the model's root.
        pooler: whether the task reads the pooled first token.
        reads_decoder: whether the task reads a decoder that is part of some models' encoders (T5).
        summary: (configuration) -> what a head on a whole text reads without a pooler, such as
            `FIRST_TOKEN` or `MEAN`.
        output: (configuration) -> options of the fine-tuned `OutputHead`: dropout rates, and the layer
            before the logits if there is one.
        prepare: (configuration, **layer options) -> a layer that processes everything the head reads.
        decoder: (configuration, name=, dtype=) -> the decoder of a text-to-text model; imports Keras when
            called.
        activation: activation before the logits of tokens, if it differs from the encoder's.
        no_answer: (configuration, inputs) -> tokens at which no answer starts or ends, bool
            [batch, length].
        copies: format -> (configuration) -> the copies of tensors that its files may contain.
    """

    rows: tuple[Row | RowsOf | SecondEncoder, ...]
    pooler: bool = False
    reads_decoder: bool = False
    summary: Callable[[Any], str] = first_token
    output: Callable[[Any], dict[str, Any]] = after_dropout
    prepare: Callable[..., Any] | None = None
    decoder: Callable[..., Any] | None = None
    activation: str | None = None
    no_answer: Callable[[Any, Mapping[str, Any]], Any] | None = None
    copies: Mapping[str, Callable[[Any], tuple[Copy, ...]]] = field(default_factory=dict)

    @property
    def projects_directly(self) -> bool:
        """Whether the head projects onto the vocabulary without a transform before it."""
        return self.has("masked_lm/decoder") and not self.has("masked_lm/transform")

    def classifier_names(self, fmt: str) -> set[str]:
        """Returns a format's names for the layers of a classifier."""
        rows = (r for r in self.rows if isinstance(r, Row) and r.ours.startswith("classifier/"))
        return {name for row in rows for name in row.names.get(fmt, ())}

    def has(self, layer: str) -> bool:
        """Whether the head has a layer with this path in our models."""
        return any(isinstance(row, Row) and row.ours == layer for row in self.rows)


# The weights of queries' tokens in a sparse model that does not encode queries; no family's table has them.
QUERY_WEIGHTS = "query_weights"
# A head on sentence vectors for any family; other programs' formats do not support it.
VECTOR_HEAD = Head(
    (Row(OUTPUT, "classifier/dense"),),
    summary=lambda config: VECTOR,
    output=lambda config: {"dropout": 0.0},
)


def token_head(use_bias: bool = False) -> Head:
    """A dense layer on each token for late interaction, for any family; it stands at the root of Stanford's files."""
    return Head((Row(DENSE if use_bias else KERNEL, "projection", hf="linear"),))


# A weight of each token, and both of these heads.
WEIGHT_HEAD = Head((Row(DENSE, "token_weights", hf="sparse_linear"),))
# The autoencoder of sentence-transformers, which writes the tied kernel once, under either name.
_AUTOENCODER: Kind = {
    ours: dict.fromkeys(
        ("pytorch", "tensorflow"), Stored(f".{theirs}", transposed=ours == "kernel")
    )
    for ours, theirs in {
        "kernel": "decoder.linear.weight",
        "pre_bias": "pre_bias",
        "latent_bias": "latent_bias",
        "unused": "stats_last_nonzero",
    }.items()
}
AUTOENCODER = "autoencoder"
AUTOENCODER_HEAD = Head(
    (Row(_AUTOENCODER, AUTOENCODER, hf=AUTOENCODER),),
    copies={
        "hf": lambda config: (
            Copy(f"{AUTOENCODER}.encoder.weight", f"{AUTOENCODER}.decoder.linear.weight"),
        )
    },
)


def hybrid_head(use_bias: bool = True) -> Head:
    return Head((*token_head(use_bias).rows, *WEIGHT_HEAD.rows))


_MIX = raw("scalars") | raw("gamma")
_LSTM = raw("kernel") | raw("recurrent_kernel") | raw("bias")


# The dense layers of an entity head, and what gliner calls them: two for each of starts, ends, spans and types.
_SPANS = "span_rep_layer.span_rep_layer."
ENTITY_LAYERS = {
    "start": f"{_SPANS}project_start",
    "end": f"{_SPANS}project_end",
    "span": f"{_SPANS}out_project",
    "type": "prompt_rep_layer",
}
DIRECTIONS = {"forward": "", "backward": "_reverse"}


def entity_head(spec: EntityHead = EntityHead()) -> Head:  # noqa: B008 (frozen)
    """The weight table of a head that finds entities, for any family; its names are gliner's."""

    def rows() -> Iterable[Row]:
        is_wider = lambda config: spec.size not in (None, config.hidden_size)  # noqa: E731
        yield Row(DENSE, "entities/projection", hf="token_rep_layer.projection", when=is_wider)
        for number in range(spec.lstm_layers):
            for direction, suffix in DIRECTIONS.items():
                cell = f"entities/{direction}_{number}/lstm_cell"

                def of(tensor: str, end: str = f"_l{number}{suffix}") -> str:
                    return f"rnn.lstm.{tensor}{end}"

                for variable, tensor in (
                    ("kernel", "weight_ih"),
                    ("recurrent_kernel", "weight_hh"),
                ):
                    stored = Stored("", transposed=True)
                    yield Row(raw(variable, pytorch=stored), cell, hf=of(tensor))
                biases = of("bias_ih"), of("bias_hh")
                yield Row(raw("bias", pytorch=Sum("")), cell, hf=biases)
        for ours, theirs in ENTITY_LAYERS.items():
            yield Row(DENSE, f"entities/{ours}_hidden", hf=f"{theirs}.0")
            yield Row(DENSE, f"entities/{ours}_output", hf=f"{theirs}.3")

    return Head(tuple(rows()))


def head_of(spec: HeadSpec, pools: bool) -> Head:
    """The weight table of a head that any family may have instead of its own, of a task on whole texts if it
    `pools`. Other programs' formats do not support such heads."""
    rows = [Row(_MIX, "features/mix")] if spec.mixes else []
    if spec.kind == "bilstm":
        rows += [
            Row(_LSTM, f"features/{direction}_{number}/lstm_cell")
            for number in range(BILSTM_LAYERS)
            for direction in ("forward", "backward")
        ]
        rows += [Row(DENSE, "features/attention")] if pools else []
    return Head(
        (*rows, Row(OUTPUT, "classifier/dense")),
        summary=lambda config: FEATURES,
        output=lambda config: {"dropout": spec.dropout},
    )
