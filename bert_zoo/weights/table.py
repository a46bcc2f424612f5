"""Rows that tie our layers to the names and layouts of other formats.

A family lists one `Row` a module. The row's kind says which variables the module has and how they
are stored; its names say what the module is called in each format (`bert_zoo.weights.formats`).
Loading and saving read the same rows in opposite directions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bert_zoo.config import BILSTM_LAYERS, HeadSpec


@dataclass(frozen=True)
class Stored:
    """How one variable is stored. A family with another arithmetic has a subclass on its page.

    Some variables are stored in several tensors, their parts along our last axis; and some tensors
    hold several variables, their entries. `config` is the encoder's configuration.
    """

    suffix: str  # what is appended to the module's name
    transposed: bool = False  # whether axes are swapped
    # The stored tensor's shape under a configuration, where it has other axes than the variable: a
    # kernel [hidden, heads * size] may be stored as [hidden, heads, size].
    shape: Callable[[Any], tuple[int, ...]] | None = None

    def sizes(self, size: int, parts: int, config: Any) -> tuple[int, ...]:
        """Sizes of the parts along our last axis."""
        return (size // max(parts, 1),) * parts

    def shape_of(self, part: tuple[int, ...], config: Any) -> tuple[int, ...]:
        """The stored shape of a part of a variable."""
        if self.shape is not None:
            return self.shape(config)
        return part[::-1] if self.transposed else part

    def to_ours(self, tensor: np.ndarray, part: tuple[int, ...], config: Any) -> np.ndarray:
        """A part of a variable, of the shape `part`, from its stored tensor."""
        if self.shape is not None:
            tensor = tensor.reshape(part[::-1] if self.transposed else part)
        return tensor.T if self.transposed else tensor

    def to_stored(self, part: np.ndarray, config: Any) -> np.ndarray:
        """The inverse of `to_ours`."""
        part = part.T if self.transposed else part
        return part if self.shape is None else part.reshape(self.shape(config))

    def entry(self, block: int, blocks: int) -> tuple[int, int] | None:
        """The variable's number among the entries of its tensor, and how many those are.

        None where it has a tensor for itself. The defaults below stack the entries.
        """
        return None

    def joint_shape(self, entry: tuple[int, ...], entries: int, config: Any) -> tuple[int, ...]:
        """The shape of a tensor whose entries have the shape `entry`."""
        return (entries, *entry)

    def entry_of(self, tensor: np.ndarray, number: int, entries: int, config: Any) -> np.ndarray:
        """One of a tensor's entries."""
        return tensor[number]

    def joined(self, entries: list[np.ndarray], config: Any) -> np.ndarray:
        """A tensor from its entries, in their order."""
        return np.stack(entries)


# Variable -> how it is stored, by layout ("pytorch", "tensorflow") or, where one format differs from
# its layout, by that format's name. bert_zoo's own files hold variables as they are.
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
# The output layers of Google's fine-tuning programs are [classes, hidden] and have names of their
# own; the row's TF name is the scope that they stand in (run_classifier.py, run_squad.py).
OUTPUT: Kind = {
    "kernel": {
        "pytorch": Stored(".weight", transposed=True),
        "tensorflow": Stored("output_weights", transposed=True),
    },
    "bias": {"pytorch": Stored(".bias"), "tensorflow": Stored("output_bias")},
}
BIAS: Kind = {"bias": {"pytorch": Stored(""), "tensorflow": Stored("")}}
# A dense layer without bias.
KERNEL: Kind = {"kernel": DENSE["kernel"]}
# A layer norm without bias.
SCALE: Kind = {"gamma": NORM["gamma"]}


def raw(variable: str, **stored: Stored) -> Kind:
    """A variable that is stored as it is, under the module's name, but for the `stored` ones."""
    return {variable: {"pytorch": Stored(""), "tensorflow": Stored(""), **stored}}


def always(config: Any) -> bool:
    return True


@dataclass(frozen=True, init=False)
class Row:
    """One module of ours and what it is called elsewhere."""

    kind: Kind  # which variables the module has and how they are stored
    ours: str  # path of the layer below the encoder or the model; `{i}` is the block's number
    # Format -> the module's name, or the names of several that are fused along our last axis. A format
    # that is not there has no such module, so that zeros stand in for it, unless it derives its names
    # from another format's. A name that begins with "/" stands at the root of the file, not of the
    # encoder: a table that several encoders share.
    names: Mapping[str, tuple[str, ...]]
    when: Callable[[Any], bool]  # whether the module exists under a configuration

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
        """Whether several encoders of a file read it."""
        return any(name.startswith("/") for names in self.names.values() for name in names)

    def only(self, when: Callable[[Any], bool]) -> Self:
        """The same row under a further condition."""
        both = lambda config: when(config) and self.when(config)  # noqa: E731
        return type(self)(self.kind, self.ours, when=both, **self.names)

    def named(self, **names: str | tuple[str, ...]) -> Self:
        """The same row with further names, or other ones."""
        return type(self)(self.kind, self.ours, when=self.when, **{**self.names, **names})


# Rows of modules that only the configuration tells.
RowsOf = Callable[[Any], Iterable[Row]]


@dataclass(frozen=True)
class SecondEncoder:
    """Rows of another encoder in the same model and file, as ELECTRA's generator."""

    rows: tuple[Row | RowsOf, ...]  # without what it shares with the first encoder
    ours: str  # path of its layers in the model, with "/" at the end
    name: str  # of its root among a format's `encoders`
    config: Callable[[Any], Any]  # its own from the first encoder's; None where there is none
    # What stands on it, and is randomly initialised where it is; a task with this head alone reads this
    # encoder, of a file with both.
    head: "Head | None" = None


Rows = Iterable[Row | RowsOf | SecondEncoder]


@dataclass(frozen=True)
class Copy:
    """A stored tensor that repeats another one, as files with tied weights may hold both."""

    key: str  # the repetition; `{root}` stands for the encoder's prefix, here and below
    of: str  # what the table reads; the repetition stands in for it where it is missing
    # Whether the two must agree; False where the format's own reader uses `of` alone.
    equal: bool = True

    def below(self, root: str, head_root: str) -> Self:
        """The same under a file's roots."""

        def full(key: str) -> str:
            return key.format(root=root) if "{root}" in key else head_root + key

        return replace(self, key=full(self.key), of=full(self.of))


# What heads over whole texts read: a token, of which the last real one has no padding after it, or the
# mean; the last real token, the maximum and the mean side by side; or the text's vector, as `embed` makes it.
FIRST_TOKEN, LAST_TOKEN, LAST_REAL_TOKEN, MEAN = "first", "last", "last real", "mean"
CONCATENATED = "last real, maximum and mean"
VECTOR = "vector"
# What `bert_zoo.layers.heads.Features` makes of hidden states.
FEATURES = "features"


def first_token(config: Any) -> str:
    return FIRST_TOKEN


def after_dropout(config: Any) -> dict[str, Any]:
    """Logits of what is read, after dropout."""
    return {"dropout": config.head_dropout}


@dataclass(frozen=True)
class Head:
    """A head's rows."""

    rows: tuple[Row | RowsOf | SecondEncoder, ...]  # its modules, named from the model's root
    pooler: bool = False  # whether the task reads the pooled first token
    # (Configuration) -> what a head over a whole text reads without a pooler: one of the words above.
    summary: Callable[[Any], str] = first_token
    # (Configuration) -> options of the `OutputHead` that is fine-tuned: rates of dropout, and the layer
    # before the logits, if there is one.
    output: Callable[[Any], dict[str, Any]] = after_dropout
    # (Configuration, **options of layers) -> a layer that all goes through that the head reads.
    prepare: Callable[..., Any] | None = None
    # (Configuration, name=, dtype=) -> the decoder of a model from text to text; imports Keras when called.
    decoder: Callable[..., Any] | None = None
    activation: str | None = None  # before the logits of tokens, where it is not the encoder's
    # (Configuration, inputs) -> tokens that no answer begins or ends with, bool [batch, length].
    no_answer: Callable[[Any, Mapping[str, Any]], Any] | None = None
    # Format -> the repetitions that its files may hold under a configuration.
    copies: Mapping[str, Callable[[Any], tuple[Copy, ...]]] = field(default_factory=dict)

    @property
    def projects_directly(self) -> bool:
        """Whether nothing stands before the projection onto the vocabulary."""
        return self.has("masked_lm/decoder") and not self.has("masked_lm/transform")

    def classifier_names(self, fmt: str) -> set[str]:
        """What a format calls the layers of a head that ends in classes."""
        rows = (r for r in self.rows if isinstance(r, Row) and r.ours.startswith("classifier/"))
        return {name for row in rows for name in row.names.get(fmt, ())}

    def has(self, layer: str) -> bool:
        """Whether it has that layer, by our path."""
        return any(isinstance(row, Row) and row.ours == layer for row in self.rows)


# A head on sentence vectors, which any family may have in place of its own; no other program's format has it.
VECTOR_HEAD = Head(
    (Row(OUTPUT, "classifier/dense"),),
    summary=lambda config: VECTOR,
    output=lambda config: {"dropout": 0.0},
)
_MIX = raw("scalars") | raw("gamma")
_LSTM = raw("kernel") | raw("recurrent_kernel") | raw("bias")


def head_of(spec: HeadSpec, pools: bool) -> Head:
    """A head that any family may have in place of its own, as no other program's format has it.

    Args:
        pools: whether it is over whole texts.
    """
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
