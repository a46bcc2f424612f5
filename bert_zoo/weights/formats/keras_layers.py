"""Common base of the formats of KerasHub and Model Garden, whose models consist of Keras layers."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.table import Row, Stored

# A block's number, in rows that are listed block by block.
_NUMBER = re.compile(r"\blayer_(\d+)/")
PARTS = ("query", "key", "value")


def fused(name: str) -> tuple[str, ...]:
    """Returns the names of the three layers that are one kernel here, from a name with {}."""
    return tuple(name.replace("{}", part) for part in PARTS)


@dataclass(frozen=True, kw_only=True)
class KerasLayers(Format):
    """A format that names layers by our paths, because these programs use the same layers for most families.

    Attention kernels have an axis for heads.
    """

    # Our path -> the name of their layer.
    layers: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)

    def names(self, row: Row) -> tuple[str, ...]:
        number = _NUMBER.search(row.ours)
        found = self.layers.get(_NUMBER.sub("layer_{i}/", row.ours), ())
        names = (found,) if isinstance(found, str) else found
        return tuple(name.replace("{i}", number[1]) for name in names) if number else names

    def stored(self, row: Row, variable: str) -> Stored:
        return Stored(self.suffix(row, variable), shape=self.shape(row, variable))

    @abstractmethod
    def suffix(self, row: Row, variable: str) -> str:
        """Returns the suffix of a layer's name for one of its variables."""

    def shape(self, row: Row, variable: str) -> Callable[[Any], tuple[int, ...]] | None:
        """Returns `Stored.shape` for a variable."""
        *_, layer, part = f"//{row.ours}".split("/")
        if layer != "attention":
            return None
        gives_heads = part in ("qkv", *PARTS)
        if gives_heads and variable == "bias":
            return _heads
        if gives_heads:
            return lambda config: (config.hidden_size, *_heads(config))
        if part == "output" and variable == "kernel":
            return lambda config: (*_heads(config), config.hidden_size)
        return None


def _heads(config: Any) -> tuple[int, int]:
    return config.num_heads, config.hidden_size // config.num_heads
