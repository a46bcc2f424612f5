"""Rows that tie our layers to the names and layouts of other formats.

A family lists one `Row` a module. The row's kind says which variables the module has, and for each
format how the tensor is called and whether it is stored transposed. Loading and saving read the
same rows in opposite directions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bert_zoo.config import Config

Format = Literal["hf", "tf1", "fairseq", "torch", "bert_zoo"]
# Other PyTorch programs ("torch" is the original of a model that was ported to Hugging Face) name
# modules otherwise, and PyTorch stores them as it stores Hugging Face's.
LAYOUTS: Mapping[Format, Format] = {"hf": "hf", "tf1": "tf1", "fairseq": "hf", "torch": "hf"}


@dataclass(frozen=True)
class Stored:
    """How a format stores one variable.

    Attributes:
        suffix: what is appended to the module's name.
        transposed: whether axes are swapped.
        reversed: whether rows stand in reverse order.
    """

    suffix: str
    transposed: bool = False
    reversed: bool = False


# Variable -> how each foreign layout stores it; our own files hold variables as they are.
Kind = Mapping[str, Mapping[Format, Stored]]

EMBED: Kind = {"embeddings": {"hf": Stored(".weight"), "tf1": Stored("")}}
# PyTorch's Linear keeps [out, in]; TensorFlow's dense kernels and ours are [in, out].
DENSE: Kind = {
    "kernel": {"hf": Stored(".weight", transposed=True), "tf1": Stored("/kernel")},
    "bias": {"hf": Stored(".bias"), "tf1": Stored("/bias")},
}
NORM: Kind = {
    "gamma": {"hf": Stored(".weight"), "tf1": Stored("/gamma")},
    "beta": {"hf": Stored(".bias"), "tf1": Stored("/beta")},
}
# The output layers of Google's fine-tuning programs are [classes, hidden] and have names of their
# own; the row's TF name is the scope that they stand in (run_classifier.py, run_squad.py).
OUTPUT: Kind = {
    "kernel": {
        "hf": Stored(".weight", transposed=True),
        "tf1": Stored("output_weights", transposed=True),
    },
    "bias": {"hf": Stored(".bias"), "tf1": Stored("output_bias")},
}
BIAS: Kind = {"bias": {"hf": Stored(""), "tf1": Stored("")}}
# A dense layer without bias.
KERNEL: Kind = {"kernel": DENSE["kernel"]}


def raw(variable: str, **layouts: Stored) -> Kind:
    """A variable that formats store as it is, under the module's name, but for `layouts`."""
    return {variable: {"hf": Stored(""), "tf1": Stored(""), **layouts}}


@dataclass(frozen=True)
class Row:
    """One module of ours and what it is called elsewhere.

    Attributes:
        kind: which variables the module has and how formats store them.
        ours: path of the layer below the encoder or the model; `{i}` stands for the block's number,
            in names of other formats also `{group}` and `{inner}` for those of its group and in it.
        hf: the module's name in Hugging Face's files; several names are fused along the last axis.
        tf1: the name in TF1 checkpoints; None where it is the HF name with `/` for `.` and
            `layer_{i}` for `layer.{i}`, as in all of Google's BERT.
        fairseq: the name in fairseq's files; None where they have no such module, so that zeros
            stand in for it.
        torch: the name in the files of an original program in PyTorch; None where it is the HF name.
        stacked: formats that keep all blocks' variables in one tensor, below each other.
        sizes: extents of the fused parts along our last axis, where they are not equal.
        when: whether the module exists under a configuration.
    """

    kind: Kind
    ours: str
    hf: str | tuple[str, ...]
    tf1: str | tuple[str, ...] | None = None
    fairseq: str | tuple[str, ...] | None = None
    torch: str | tuple[str, ...] | None = None
    stacked: tuple[Format, ...] = ()
    sizes: tuple[int, ...] = ()
    when: Callable[[Any], bool] = lambda config: True

    def names(self, fmt: Format) -> tuple[str, ...]:
        named = {
            "bert_zoo": self.ours,
            "hf": self.hf,
            "tf1": self.tf1,
            "fairseq": self.fairseq,
            "torch": self.torch or self.hf,
        }
        names = named[fmt]
        if fmt == "tf1" and names is None:
            return tuple(
                name.replace("layer.{i}", "layer_{i}").replace(".", "/")
                for name in self.names("hf")
            )
        if names is None:
            return ()
        return (names,) if isinstance(names, str) else names


# Rows of modules that only the configuration tells.
RowsOf = Callable[[Any], Iterable[Row]]


@dataclass(frozen=True)
class Binding:
    """One variable of ours and the stored tensors that it consists of.

    Attributes:
        variable: path of the variable in the model.
        keys: the stored tensors; several are concatenated along our last axis, and none stands for
            zeros.
        layout: how they are stored.
        sizes: extents of the parts along our last axis; equal parts where it is empty.
        entry: (number, of how many) where the tensor holds several variables below each other.
    """

    variable: str
    keys: tuple[str, ...]
    layout: Stored = Stored("")
    sizes: tuple[int, ...] = ()
    entry: tuple[int, int] | None = None

    def stored_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Shapes of the stored tensors for a variable of `shape`."""
        sizes = self.sizes or (shape[-1] // max(len(self.keys), 1),) * len(self.keys)
        parts = [(*shape[:-1], size) for size in sizes]
        if self.layout.transposed:
            parts = [part[::-1] for part in parts]
        return parts if self.entry is None else [(self.entry[1], *part) for part in parts]

    def to_ours(self, tensors: list[np.ndarray]) -> np.ndarray:
        """The variable's value from the tensors of `keys`, of which there is at least one."""
        if self.entry is not None:
            tensors = [tensor[self.entry[0]] for tensor in tensors]
        parts = [self._turned(tensor) for tensor in tensors]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def to_stored(self, value: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors of `keys`; of one that holds several variables, this variable's entry."""
        if not self.keys:
            return {}
        cuts = np.cumsum(self.sizes)[:-1] if self.sizes else len(self.keys)
        parts = np.split(value, cuts, axis=-1)
        return {
            key: np.ascontiguousarray(self._turned(part))
            for key, part in zip(self.keys, parts, strict=True)
        }

    def _turned(self, tensor: np.ndarray) -> np.ndarray:
        """To our layout, or back."""
        tensor = tensor.T if self.layout.transposed else tensor
        return tensor[::-1] if self.layout.reversed else tensor


@dataclass(frozen=True)
class Copy:
    """A stored tensor that repeats another one, as files with tied weights may hold both.

    Attributes:
        key: the repetition; `{root}` stands for the encoder's prefix, here and below.
        of: the tensor that the table reads; the repetition stands in for it where it is missing.
        equal: whether the two must agree; False where the format's own reader uses `of` alone.
    """

    key: str
    of: str
    equal: bool = True


@dataclass(frozen=True)
class Head:
    """A head's rows, and the Hugging Face class that a checkpoint with it belongs to.

    Attributes:
        rows: the head's modules, named from the model's root.
        hf_class: the `architectures` entry of a checkpoint of this task.
        pooler: whether the task reads the pooled first token.
        activation: of the head's transform, where it is not the encoder's.
        copies: format -> the repetitions that its files may hold under a configuration.
    """

    rows: tuple[Row | RowsOf, ...]
    hf_class: str
    pooler: bool = False
    activation: str | None = None
    copies: Mapping[Format, Callable[[Any], tuple[Copy, ...]]] = field(default_factory=dict)


def rows_under(rows: Iterable[Row | RowsOf], config: Config) -> Iterator[Row]:
    """The rows of the modules that exist under a configuration."""
    for entry in rows:
        for row in [entry] if isinstance(entry, Row) else entry(config):
            if row.when(config):
                yield row


def expand(
    rows: Iterable[Row | RowsOf],
    config: Config,
    fmt: Format,
    *,
    ours_prefix: str = "",
    stored_prefix: str = "",
) -> list[Binding]:
    """Writes rows out into one binding a variable, for every block of the stack."""
    bindings = []
    for row in rows_under(rows, config):
        in_blocks = "{i}" in row.ours
        names = row.names(fmt)
        for i in range(config.num_blocks) if in_blocks else [0]:
            for variable, formats in row.kind.items():
                if fmt == "bert_zoo":
                    stored = Stored(f"/{variable}")
                else:
                    stored = formats.get(fmt) or formats[LAYOUTS[fmt]]
                bindings.append(
                    Binding(
                        variable=_numbered(f"{ours_prefix}{row.ours}/{variable}", i, config),
                        keys=tuple(
                            _numbered(f"{stored_prefix}{name}{stored.suffix}", i, config)
                            for name in names
                        ),
                        layout=stored,
                        sizes=row.sizes if len(names) > 1 else (),
                        entry=(i, config.num_blocks) if fmt in row.stacked else None,
                    )
                )
    return bindings


def _numbered(name: str, block: int, config: Config) -> str:
    """A name with a block's number, that of its group and that in it."""
    name = name.replace("{i}", str(block))
    if "{group}" not in name:
        return name
    group, inner = divmod(block, config.inner_group_num)
    return name.replace("{group}", str(group)).replace("{inner}", str(inner))
