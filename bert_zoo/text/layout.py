"""Row layouts: where special tokens and padding go around texts, as data; without TensorFlow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

# The first and the second text of a row in templates.
TEXTS = ("A", "B")


class Part(NamedTuple):
    """A text or a special token of a row."""

    name: str  # "A" or "B", or the role of a special token, such as "cls" for the tokenizer's `cls_id`
    segment: int  # `segment_ids` of its tokens

    @property
    def is_text(self) -> bool:
        return self.name in TEXTS


@dataclass(frozen=True)
class Layout:
    """Describes how a row is composed of one or two texts, special tokens and padding.

    A template lists its parts in order, with the segment after a colon unless it is 0:
    "cls A sep B:1 sep:1" is BERT's [CLS] A [SEP] B [SEP].

    Raises:
        ValueError: a template without its texts in order, or an unknown side.
    """

    single: str = "cls A sep"  # template of a row of one text
    pair: str = (
        "cls A sep B:1 sep:1"  # of a row of two texts; empty for models that read single texts
    )
    segments: bool = True  # whether the model has `segment_ids`
    padding_side: str = "right"  # or "left"
    padding_segment: int = 0  # `segment_ids` of padding

    def __post_init__(self):
        for template, count in ((self.single, 1), (self.pair, 2 if self.pair else 0)):
            if [part.name for part in _parts(template) if part.is_text] != [*TEXTS[:count]]:
                raise ValueError(
                    f"{template!r} is no template for a row of {count}. It must name "
                    f"{' and '.join(TEXTS[:count])} once each, in this order."
                )
        if self.padding_side not in ("right", "left"):
            raise ValueError(f"padding_side is {self.padding_side!r}; choose 'right' or 'left'.")

    def parts(self, texts: int) -> list[Part]:
        """The parts, in order, of a row of one or two texts; ValueError for another number."""
        if texts not in (1, 2) or (texts == 2 and not self.pair):
            most = "one or two" if self.pair else "one"
            raise ValueError(f"Got {texts} segments, but this model's rows have {most}.")
        return _parts(self.pair if texts == 2 else self.single)

    def specials(self, texts: int) -> int:
        """Number of special tokens in a row of one or two texts."""
        return len(self.parts(texts)) - texts

    @property
    def most_specials(self) -> int:
        """The most special tokens that a row may have."""
        return self.specials(2 if self.pair else 1)

    @property
    def cls_position(self) -> int:
        """Position of the token that represents the whole row: 0 (first) or -1 (last)."""
        return -1 if _parts(self.single)[-1].name == "cls" else 0

    @property
    def roles(self) -> list[str]:
        """The roles of the special tokens, such as "cls"."""
        parts = [*_parts(self.single), *_parts(self.pair)]
        return [*dict.fromkeys(part.name for part in parts if not part.is_text)]

    def get_config(self) -> dict[str, Any]:
        """The attributes, ready for JSON."""
        return asdict(self)


def _parts(template: str) -> list[Part]:
    split = (part.partition(":") for part in template.split())
    return [Part(name, int(segment or 0)) for name, _, segment in split]


# [CLS] A [SEP], or [CLS] A [SEP] B [SEP].
BERT = Layout()
# <s> A </s>, or <s> A </s></s> B </s>; no segments.
ROBERTA = Layout(pair="cls A sep sep B sep", segments=False)
# A text's tokens alone.
PLAIN = Layout(single="A", pair="", segments=False)
