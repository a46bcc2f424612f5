"""Files of original PyTorch programs whose models were later ported to Hugging Face."""

from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.formats.hf import HuggingFace
from bert_zoo.weights.table import Row


@dataclass(frozen=True, kw_only=True)
class Torch(Format):
    """A family's original PyTorch files. Rows without their own name have Hugging Face's."""

    name: ClassVar[str] = "torch"
    never_weights: ClassVar[tuple[str, ...]] = HuggingFace.never_weights

    def names(self, row: Row) -> tuple[str, ...]:
        return row.names.get("torch") or row.names.get("hf", ())
