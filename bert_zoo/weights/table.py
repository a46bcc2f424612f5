"""Rows that tie our layers to the names and layouts of other formats.

A family lists one `Row` a module. The row's kind says which variables the module has and how they
are stored; its names say what the module is called in each format (`bert_zoo.weights.formats`).
Loading and saving read the same rows in opposite directions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np


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


@dataclass(frozen=True)
class Head:
    """A head's rows."""

    rows: tuple[Row | RowsOf | SecondEncoder, ...]  # its modules, named from the model's root
    # Whether the task reads the pooled first token. A head over whole texts that does not has a dense
    # layer over one token in the pooler's place.
    pooler: bool = False
    # The token that it reads there: "first", "last", or "last_real", which no padding follows.
    summary: str = "first"
    # The activation of that layer, or the configuration's attribute that names it; None where there is no
    # such layer, and the logits are of the token itself.
    transform: str | None = "tanh"
    transform_size: int = 0  # its width; 0: the encoder's
    # The configuration's attribute with the rate before that layer; None for no dropout there.
    dropout_first: str | None = "head_dropout"
    of_texts: bool = False  # whether it reads texts as wholes; those with that layer or a pooler do
    # The configuration's attribute with the rate of a head that is fine-tuned; None for no dropout.
    dropout: str | None = "head_dropout"
    activation: str | None = None  # of the head's transform, where it is not the encoder's
    # Format -> the repetitions that its files may hold under a configuration.
    copies: Mapping[str, Callable[[Any], tuple[Copy, ...]]] = field(default_factory=dict)

    @property
    def predicts_tokens(self) -> bool:
        """Whether it projects onto the vocabulary."""
        return self.has("masked_lm/transform") or self.has("masked_lm/decoder")

    @property
    def projects_directly(self) -> bool:
        """Whether nothing stands before that projection."""
        return self.predicts_tokens and not self.has("masked_lm/transform")

    def projection_width(self, config: Any) -> int:
        """Width of what it projects onto the vocabulary."""
        return config.hidden_size if self.has("masked_lm/extra_decoder") else config.table_width

    @property
    def reads_first_only(self) -> bool:
        """Whether it reads no token but the first."""
        has_summary = self.transform is None or self.has("classifier/transform")
        is_first = self.summary == "first"
        summarizes = self.pooler or ((self.of_texts or has_summary) and is_first)
        return summarizes and not self.predicts_tokens

    @property
    def use_bias(self) -> bool:
        """Whether the output layer of a classifier has a bias."""
        rows = (r for r in self.rows if isinstance(r, Row) and r.ours == "classifier/dense")
        return all("bias" in row.kind for row in rows)

    @property
    def classifies(self) -> bool:
        """Whether it ends in classes, and not in the vocabulary."""
        return self.has("classifier/dense")

    def classifier_names(self, fmt: str) -> set[str]:
        """What a format calls the layers of a head that ends in classes."""
        rows = (r for r in self.rows if isinstance(r, Row) and r.ours.startswith("classifier/"))
        return {name for row in rows for name in row.names.get(fmt, ())}

    def has(self, layer: str) -> bool:
        """Whether it has that layer, by our path."""
        return any(isinstance(row, Row) and row.ours == layer for row in self.rows)
