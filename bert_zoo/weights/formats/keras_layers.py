"""What the formats of programs made of Keras's layers have in common: KerasHub's and Model Garden's."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.table import Row, Stored

# Of a block in rows that are listed block by block.
_NUMBER = re.compile(r"\blayer_(\d+)/")
PARTS = ("query", "key", "value")


def fused(name: str) -> tuple[str, ...]:
    """The names of the three layers whose kernels are one of ours, from theirs with {} in it."""
    return tuple(name.replace("{}", part) for part in PARTS)


@dataclass(frozen=True, kw_only=True)
class KerasLayers(Format):
    """Names by our own paths: these programs put most families together of the same layers.

    Kernels of attention have an axis for heads.
    """

    # Our path -> what their layer is called.
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
        """What is appended to a layer's name for one of its variables."""

    def shape(self, row: Row, variable: str) -> Callable[[Any], tuple[int, ...]] | None:
        """As `Stored.shape`."""
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
