"""Rows that tie our layers to the names and layouts of other formats.

A family lists one `Row` a module. The row's kind says which variables the module has, and for each
format how the tensor is called and whether it is stored transposed. Loading and saving read the
same rows in opposite directions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from bert_zoo.config import EncoderConfig

Format = Literal["hf", "tf1", "fairseq", "bert_zoo"]
# fairseq names modules otherwise, and PyTorch stores them as it stores Hugging Face's.
LAYOUTS: Mapping[Format, Format] = {"hf": "hf", "tf1": "tf1", "fairseq": "hf"}


@dataclass(frozen=True)
class Stored:
    """How a format stores one variable: what is appended to the module's name, and the layout."""

    suffix: str
    transposed: bool = False


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
        when: whether the module exists under a configuration.
    """

    kind: Kind
    ours: str
    hf: str | tuple[str, ...]
    tf1: str | tuple[str, ...] | None = None
    fairseq: str | tuple[str, ...] | None = None
    when: Callable[[EncoderConfig], bool] = lambda config: True

    def names(self, fmt: Format) -> tuple[str, ...]:
        named = {"bert_zoo": self.ours, "hf": self.hf, "tf1": self.tf1, "fairseq": self.fairseq}
        names = named[fmt]
        if fmt == "tf1" and names is None:
            return tuple(
                name.replace("layer.{i}", "layer_{i}").replace(".", "/")
                for name in self.names("hf")
            )
        if names is None:
            return ()
        return (names,) if isinstance(names, str) else names


@dataclass(frozen=True)
class Binding:
    """One variable of ours and the stored tensors that it consists of.

    Attributes:
        variable: path of the variable in the model.
        keys: the stored tensors; several are concatenated along our last axis, and none stands for
            zeros.
        transposed: whether the stored tensors are transposed.
    """

    variable: str
    keys: tuple[str, ...]
    transposed: bool = False

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of each stored tensor for a variable of `shape`."""
        part = (*shape[:-1], shape[-1] // len(self.keys))
        return part[::-1] if self.transposed else part

    def to_ours(self, tensors: list[np.ndarray]) -> np.ndarray:
        """The variable's value from the tensors of `keys`, of which there is at least one."""
        parts = [tensor.T if self.transposed else tensor for tensor in tensors]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def to_stored(self, value: np.ndarray) -> dict[str, np.ndarray]:
        if not self.keys:
            return {}
        parts = np.split(value, len(self.keys), axis=-1)
        return {
            key: np.ascontiguousarray(part.T if self.transposed else part)
            for key, part in zip(self.keys, parts, strict=True)
        }


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

    rows: tuple[Row, ...]
    hf_class: str
    pooler: bool = False
    activation: str | None = None
    copies: Mapping[Format, Callable[[EncoderConfig], tuple[Copy, ...]]] = field(
        default_factory=dict
    )


def expand(
    rows: Iterable[Row],
    config: EncoderConfig,
    fmt: Format,
    *,
    ours_prefix: str = "",
    stored_prefix: str = "",
) -> list[Binding]:
    """Writes rows out into one binding a variable, for every block of the stack."""
    bindings = []
    for row in rows:
        if not row.when(config):
            continue
        for i in range(config.num_blocks) if "{i}" in row.ours else [0]:
            group, inner = divmod(i, config.inner_group_num)

            def numbered(name: str, i=i, group=group, inner=inner) -> str:
                for placeholder, number in (("{i}", i), ("{group}", group), ("{inner}", inner)):
                    name = name.replace(placeholder, str(number))
                return name

            for variable, formats in row.kind.items():
                stored = Stored(f"/{variable}") if fmt == "bert_zoo" else formats[LAYOUTS[fmt]]
                bindings.append(
                    Binding(
                        variable=numbered(f"{ours_prefix}{row.ours}/{variable}"),
                        keys=tuple(
                            numbered(f"{stored_prefix}{name}{stored.suffix}")
                            for name in row.names(fmt)
                        ),
                        transposed=stored.transposed,
                    )
                )
    return bindings
