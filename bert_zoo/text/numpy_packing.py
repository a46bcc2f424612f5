"""Layouts of rows as data, and packing of ids in NumPy that follows them; without TensorFlow and Keras.

The base class of all packers is here too. `bert_zoo.text.preprocessor` has the packer of TensorFlow's graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

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
    """How a row is composed of one or two texts, special tokens and padding. A template lists its parts in order, with
    the segment after a colon unless it is 0: "cls A sep B:1 sep:1" is BERT's [CLS] A [SEP] B [SEP].
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

Arrays = dict[str, np.ndarray]
PADDINGS = ("longest", "fixed")
FEW_LENGTHS = "few_lengths"


def _longest_first(xp: ModuleType, first: Any, second: Any, budget: Any) -> list[Any]:
    half = budget // 2
    shorter, longer = xp.minimum(first, second), xp.maximum(first, second)
    shorter_kept = xp.where(first + second > budget, xp.minimum(shorter, half), shorter)
    longer_kept = xp.minimum(longer, budget - shorter_kept)
    second_is_longer = second >= first
    return [
        xp.where(second_is_longer, shorter_kept, longer_kept),
        xp.where(second_is_longer, longer_kept, shorter_kept),
    ]


def _only_second(xp: ModuleType, first: Any, second: Any, budget: Any) -> list[Any]:
    return [first, xp.minimum(second, budget - first)]


def _only_first(xp: ModuleType, first: Any, second: Any, budget: Any) -> list[Any]:
    return _only_second(xp, second, first, budget)[::-1]


# Called with tensorflow or numpy, the lengths of two segments, int64 [batch], and the room for both. Returns
# the lengths to keep.
Truncation = Callable[[ModuleType, Any, Any, Any], list[Any]]
TRUNCATIONS: dict[str, Truncation] = {
    "longest_first": _longest_first,
    "only_first": _only_first,
    "only_second": _only_second,
}
# The index of the segment that is not truncated and must fit.
WHOLE = {"only_first": 1, "only_second": 0}
TOO_LONG = (
    "The text that this truncation keeps whole does not fit into a row. Raise sequence_length, choose "
    "truncation='longest_first', or shorten the text. Its tokens, and the tokens that fit:"
)


class PackingOptions:
    """A packer's checked options (see `bert_zoo.text.Packer`), the ids that it adds, and the values of `padding`."""

    paddings = PADDINGS

    def __init__(
        self,
        *,
        sequence_length: Any,
        layout: Layout | Mapping[str, Any] = BERT,
        padding: str = "longest",
        bucket: int = 8,
        truncation: str = "longest_first",
        language_id: int | None = None,
        **ids: int,
    ):
        super().__init__()
        if padding not in self.paddings:
            raise ValueError(f"padding is {padding!r}; choose one of {self.paddings}.")
        if bucket < 1:
            raise ValueError(f"bucket is {bucket}; it must be 1 (no rounding up) or more.")
        if truncation not in TRUNCATIONS:
            raise ValueError(f"truncation is {truncation!r}; choose one of {tuple(TRUNCATIONS)}.")
        self.padding, self.bucket, self.truncation = padding, int(bucket), truncation
        self.layout = layout if isinstance(layout, Layout) else Layout(**layout)
        if unknown := sorted(name for name in ids if not name.endswith("_id")):
            raise TypeError(f"A packer has no options {unknown}. Remove them.")
        names = {role: f"{role}_id" for role in ("pad", *self.layout.roles)}
        if missing := sorted(set(names.values()) - ids.keys()):
            raise TypeError(f"This layout also needs {', '.join(missing)}. Pass them.")
        # A plain object, so that tf.Module does not track what is inside it.
        self._ids = SimpleNamespace(**{role: int(ids[name]) for role, name in names.items()})
        self.sequence_length = self._checked_length(sequence_length)
        self.language_id = language_id

    @classmethod
    def of_tokenizer(
        cls, tokenizer: Any, layout: Layout | Mapping[str, Any] = BERT, **options: Any
    ) -> Self:
        """Makes a packer with a tokenizer's ids; padding is 0 if its vocabulary has no token for it."""
        layout = layout if isinstance(layout, Layout) else Layout(**layout)
        ids = {f"{role}_id": getattr(tokenizer, f"{role}_id") for role in layout.roles}
        ids["pad_id"] = getattr(tokenizer, "pad_id", 0)
        language_id = getattr(tokenizer, "language_id", None)
        return cls(layout=layout, language_id=language_id, **ids, **options)

    @property
    def pad_id(self) -> int:
        return self._ids.pad

    @property
    def padding_values(self) -> dict[str, int]:
        """Value of padding in each of a model's inputs, where it may be other than 0."""
        return {"token_ids": self.pad_id, "segment_ids": self.layout.padding_segment}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's keyword arguments without the ids, ready for JSON."""
        return {
            "sequence_length": self.sequence_length,
            "layout": self.layout.get_config(),
            "padding": self.padding,
            "bucket": self.bucket,
            "truncation": self.truncation,
        }

    @property
    def _least_length(self) -> int:
        return max(self.layout.most_specials, 1)

    @property
    def _wanted_length(self) -> str:
        """The part of an error on the shortest row."""
        return (
            f"it must be at least {self._least_length}, as a row has up to "
            f"{self.layout.most_specials} special tokens"
        )

    def _checked_length(self, length: Any) -> Any:
        if length != int(length):
            raise ValueError(f"sequence_length is {length}; it must be a whole number.")
        if length < self._least_length:
            raise ValueError(f"sequence_length is {length}; {self._wanted_length}.")
        return int(length)


class NumpySlices(NamedTuple):
    """One segment of every row, as slices of one vector of tokens."""

    values: np.ndarray  # int32 [tokens]
    starts: np.ndarray  # int64 [rows], start of each row's segment in `values`
    lengths: np.ndarray  # int64 [rows], number of its tokens

    def of_rows(self, numbers: np.ndarray) -> NumpySlices:
        """The segments of some of the rows."""
        return NumpySlices(self.values, self.starts[numbers], self.lengths[numbers])


class NumpyPositions(NamedTuple):
    """The positions of a segment's tokens in packed rows."""

    inside: np.ndarray  # bool [rows, width], true for the segment's tokens
    source: np.ndarray  # int64 [places], their positions in the segment's `values`, row by row

    def gather(self, values: np.ndarray, otherwise: int = 0) -> np.ndarray:
        """Lays values of the segment's tokens out in the rows; `otherwise` at all other positions."""
        found = np.full(self.inside.shape, otherwise, values.dtype)
        found[self.inside] = values[self.source]
        return found


class NumpyPacker(PackingOptions):
    """`bert_zoo.text.Packer` in NumPy: truncates, adds special tokens, and pads. A further `padding`, "few_lengths",
    pads to the next of 8, 16, 24, 32, 48, 64, 96, 128, ... tokens, for models that are compiled for each length.
    """

    paddings = (*PADDINGS, FEW_LENGTHS)

    def kept_lengths(self, lengths: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The number of tokens kept of each segment, of int64 [batch]; ValueError if truncating one cannot suffice."""
        budget = self.sequence_length - self.layout.specials(len(lengths))
        if len(lengths) == 1:
            return [np.minimum(lengths[0], budget)]
        if self.truncation in WHOLE:
            longest = lengths[WHOLE[self.truncation]].max(initial=0)
            if longest > budget:
                raise ValueError(f"{TOO_LONG} {longest}, {budget}.")
        return TRUNCATIONS[self.truncation](np, *lengths, budget)

    def width(self, row_lengths: np.ndarray) -> int:
        """Returns the length to which rows of int64 [rows] tokens are padded."""
        if self.padding == "fixed":
            return self.sequence_length
        longest = int(row_lengths.max(initial=1))
        if self.padding == FEW_LENGTHS:
            return min(_next_of_few(longest), self.sequence_length)
        return min(-(-longest // self.bucket) * self.bucket, self.sequence_length)

    def row_lengths(self, segments: Sequence[NumpySlices]) -> np.ndarray:
        """Number of tokens of each row, including special tokens, int64 [rows]."""
        return sum(segment.lengths for segment in segments) + self.layout.specials(len(segments))

    def lay_out(self, segments: Sequence[NumpySlices]) -> tuple[Arrays, list[NumpyPositions]]:
        """The model's inputs of one or two truncated segments, int32 [rows, width]: `token_ids`, `segment_ids` if the
        layout has them, `padding_mask`, 1 for tokens. And the positions of each segment.
        """
        lengths = self.row_lengths(segments)
        rows = np.arange(len(lengths))
        begin, is_token = self._places(lengths)
        position = np.arange(is_token.shape[1])
        token_ids = np.full(is_token.shape, self.pad_id, np.int32)
        segment_ids = np.full(is_token.shape, self.layout.padding_segment, np.int32)
        texts, positions = iter(segments), []
        for part in self.layout.parts(len(segments)):
            if part.is_text:
                values, starts, of_text = next(texts)
                end = begin + of_text
                place = (position >= begin[:, None]) & (position < end[:, None])
                positions.append(NumpyPositions(place, ragged_range(starts, of_text)))
                token_ids[place] = values[positions[-1].source]
            else:
                end, place = begin + 1, (rows, begin)
                token_ids[place] = getattr(self._ids, part.name)
            if part.segment != self.layout.padding_segment:
                segment_ids[place] = part.segment
            begin = end
        inputs = {"token_ids": token_ids}
        if self.layout.segments:
            inputs["segment_ids"] = segment_ids
        return inputs | {"padding_mask": is_token.astype(np.int32)}, positions

    def _places(self, row_lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first position of each row, int64 [rows], and the positions of tokens, bool [rows, width]."""
        width = self.width(row_lengths)
        begin = np.zeros_like(row_lengths)
        if self.layout.padding_side == "left":
            begin = width - row_lengths
        number = np.arange(width) - begin[:, None]
        return begin, (number >= 0) & (number < row_lengths[:, None])

    def pad(
        self, rows: Mapping[str, NumpySlices], others: Mapping[str, int] | None = None
    ) -> Arrays:
        """Pads packed rows (name -> rows of integers, [(tokens), ...], all of the same lengths) and adds
        `padding_mask`; `others` are padding values that `padding_values` does not list.
        """
        _, is_token = self._places(next(iter(rows.values())).lengths)
        values = {**self.padding_values, **(others or {})}
        padded = {}
        for name, (tokens, starts, lengths) in rows.items():
            shape = (*is_token.shape, *tokens.shape[1:])
            padded[name] = np.full(shape, values.get(name, 0), tokens.dtype)
            padded[name][is_token] = tokens[ragged_range(starts, lengths)]
        if self.language_id is not None:
            padded["language_ids"] = np.full(is_token.shape, self.language_id, np.int32)
        return {**padded, "padding_mask": is_token.astype(np.int32)}

    def fixed_to(self, length: int) -> NumpyPacker:
        """A packer that pads all rows, of at most `length` tokens, to this length."""
        packer = copy(self)
        packer.padding, packer.sequence_length = "fixed", length
        return packer

    def in_numpy(self) -> NumpyPacker:
        """The packer itself; see `bert_zoo.text.Packer`."""
        return self

    def widened(self, inputs: Mapping[str, Any], length: int, others: Mapping[str, int]) -> Arrays:
        """Pads inputs [batch, tokens] to at least `length` tokens; `others` as in `pad`."""
        values = {**self.padding_values, **others}

        def widen(name: str, value: np.ndarray) -> np.ndarray:
            more = max(length - value.shape[1], 0)
            sides = (more, 0) if self.layout.padding_side == "left" else (0, more)
            rest = ((0, 0),) * (value.ndim - 2)
            return np.pad(value, ((0, 0), sides, *rest), constant_values=values.get(name, 0))

        return {name: widen(name, value) for name, value in inputs.items()}


def _next_of_few(length: int) -> int:
    """The next power of 2, or three quarters of it if this is enough and a multiple of 8."""
    power = max(8, 1 << (length - 1).bit_length())
    less = power * 3 // 4
    return less if length <= less and less % 8 == 0 else power


def ragged_range(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates the ranges with these starts and lengths: int64 [sum of lengths]."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)
