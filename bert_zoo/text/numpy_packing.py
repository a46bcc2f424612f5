"""Rows of texts without TensorFlow and Keras: reading, layouts as data, packing, windows.

Hugging Face's library tokenizers reads texts in NumPy. Packing serves TensorFlow's graph too: `ops_of` chooses the
functions for the arrays that it gets.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bert_zoo import graph
from bert_zoo.error_text import check_has_utf8, shortened
from bert_zoo.text.unicode_tables import code_points, python_class

# -------------------------------------------------------------------------------------------------
# Functions for tensors and for arrays.
# -------------------------------------------------------------------------------------------------


def _concat(parts: Sequence[Any], axis: int) -> np.ndarray:
    return np.concatenate(parts, axis, dtype=parts[0].dtype)


def _of_segments(ufunc: np.ufunc, start: int) -> Callable[..., np.ndarray]:
    """A reduction of [n] values by the segments that they belong to, `start` for segments without any."""

    def reduced(values: np.ndarray, segments: np.ndarray, count: int) -> np.ndarray:
        found = np.full(count, start, values.dtype)
        ufunc.at(found, segments, values)
        return found

    return reduced


_INT32 = np.iinfo(np.int32)
# TensorFlow's functions that packing uses, for NumPy arrays.
_NUMPY = SimpleNamespace(
    int32=np.int32,
    int64=np.int64,
    argmax=lambda values, axis, output_type: values.argmax(axis).astype(output_type),
    boolean_mask=lambda values, mask: values[mask],
    cast=lambda values, dtype: np.asarray(values, dtype),
    concat=_concat,
    cumsum=np.cumsum,
    ensure_shape=lambda values, shape: values,
    fill=np.full,
    gather=lambda values, places: values[places],
    math=SimpleNamespace(
        unsorted_segment_max=_of_segments(np.maximum, _INT32.min),
        unsorted_segment_min=_of_segments(np.minimum, _INT32.max),
    ),
    maximum=np.maximum,
    minimum=np.minimum,
    pad=lambda values, sides, constant_values=0: np.pad(
        values, sides, constant_values=constant_values
    ),
    range=np.arange,
    reduce_any=np.any,
    reduce_max=lambda values, axis=None: values.max(axis, initial=np.iinfo(values.dtype).min),
    reduce_min=lambda values, axis=None: values.min(axis, initial=np.iinfo(values.dtype).max),
    reduce_sum=lambda values, axis=None: values.sum(axis, dtype=values.dtype),
    repeat=np.repeat,
    searchsorted=lambda values, wanted, side, out_type: np.searchsorted(values, wanted, side),
    shape=np.shape,
    size=lambda values, out_type=None: np.size(values),
    stack=np.stack,
    where=np.where,
    zeros_like=np.zeros_like,
)


def ops_of(values: Any) -> Any:
    """TensorFlow for tensors; for arrays functions of NumPy with TensorFlow's names and arguments."""
    return _NUMPY if isinstance(values, np.ndarray) else graph.tf


def checked(values: Sequence[Any], condition: Any, message: str, *found: Any) -> list[Any]:
    """Returns the values if the condition holds. Otherwise raises an error with the message and what was found: a
    ValueError, or in a graph tf.errors.InvalidArgumentError.
    """
    if isinstance(condition, bool | np.bool_):
        if not condition:
            raise ValueError(f"{message} {', '.join(str(np.asarray(x).tolist()) for x in found)}.")
        return [*values]
    tf = graph.tf
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, *found])]):
        return [*map(tf.identity, values)]


# -------------------------------------------------------------------------------------------------
# Layouts and packers.
# -------------------------------------------------------------------------------------------------

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

# A special token before a text, that of `Scoring`.
MARKER = "marker"
# The input that says which tokens of a row have a vector that is compared: 1, or 2 for those that the encoder does
# not attend to; 0 for others.
SCORED = "scored_tokens"


@dataclass(frozen=True)
class Scoring:
    """Which vectors of a row's tokens are compared (late interaction), and the ids of tokens that are put into rows to
    have one."""

    marker_id: int | None = None  # of a `MARKER` of the layout
    fill_to: int = 0  # number of tokens that shorter rows are filled to
    fill_id: int = 0
    attends: bool = False  # whether the encoder attends to what fills rows
    skipped_ids: Sequence[int] = ()  # tokens whose vectors are not compared

    def __post_init__(self):
        if not self.attends and self.fill_to and self.fill_id in self.skipped_ids:
            raise ValueError(
                f"Rows are filled with the id {self.fill_id}, which is also among the skipped ones. Choose another "
                "token to fill rows with, or skip fewer."
            )

    def marks(self, token_ids: Any, is_token: Any, is_filled: Any) -> Any:
        """int32 [rows, width], the input `SCORED`."""
        ops = ops_of(token_ids)
        marks = ops.cast(is_token, ops.int32)
        if self.fill_to and not self.attends:
            marks = ops.where(is_filled, np.int32(2), marks)
        if self.skipped_ids:
            is_skipped = token_ids[..., None] == np.array(self.skipped_ids, np.int32)
            marks = ops.where(ops.reduce_any(is_skipped, -1), np.int32(0), marks)
        return marks


Arrays = dict[str, np.ndarray]
PADDINGS = ("longest", "fixed")
FEW_LENGTHS = "few_lengths"


def _longest_first(ops: Any, first: Any, second: Any, budget: Any) -> list[Any]:
    half = budget // 2
    shorter, longer = ops.minimum(first, second), ops.maximum(first, second)
    shorter_kept = ops.where(first + second > budget, ops.minimum(shorter, half), shorter)
    longer_kept = ops.minimum(longer, budget - shorter_kept)
    second_is_longer = second >= first
    return [
        ops.where(second_is_longer, shorter_kept, longer_kept),
        ops.where(second_is_longer, longer_kept, shorter_kept),
    ]


# Called with functions of `ops_of`, the lengths of two segments, int64 [batch], and the room for both. Returns
# the lengths to keep.
Truncation = Callable[[Any, Any, Any, Any], list[Any]]
TRUNCATIONS: dict[str, Truncation] = {
    "longest_first": _longest_first,
    "only_first": lambda ops, first, second, budget: [ops.minimum(first, budget - second), second],
    "only_second": lambda ops, first, second, budget: [first, ops.minimum(second, budget - first)],
}
# The index of the segment that is not truncated and must fit.
WHOLE = {"only_first": 1, "only_second": 0}
TOO_LONG = (
    "The text that this truncation keeps whole does not fit into a row. Raise sequence_length, choose "
    "truncation='longest_first', or shorten the text. Its tokens, and the tokens that fit:"
)


class Slices(NamedTuple):
    """One segment of every row, as slices of one vector of tokens."""

    values: Any  # int32 [tokens]
    starts: Any  # int64 [rows], start of each row's segment in `values`
    lengths: Any  # int64 [rows], number of its tokens

    def of_rows(self, numbers: Any) -> Slices:
        """The segments of some of the rows."""
        gather = ops_of(self.starts).gather
        return Slices(self.values, gather(self.starts, numbers), gather(self.lengths, numbers))

    def beginnings(self, lengths: Any) -> Slices:
        """The first `lengths` tokens of each row's segment."""
        return Slices(self.values, self.starts, lengths)


class Positions(NamedTuple):
    """The positions of a segment's tokens in packed rows."""

    inside: Any  # bool [rows, width], true for the segment's tokens
    source: Any  # int64 [rows, width], position of such a token in the segment's `values`

    def gather(self, values: Any, otherwise: float = 0) -> Any:
        """Lays values of the segment's tokens out in the rows; `otherwise` at all other positions."""
        if isinstance(self.inside, np.ndarray):
            pool = values if len(values) else np.zeros((1, *values.shape[1:]), values.dtype)
            found = pool.take(self.source, axis=0, mode="clip")
            found[~self.inside] = otherwise
            return found
        tf = graph.tf
        last = tf.shape(values, tf.int64)[0]
        sides = [[0, 1], *[[0, 0]] * (len(values.shape) - 1)]
        pool = tf.pad(values, sides, constant_values=otherwise)
        return tf.gather(pool, tf.where(self.inside, self.source, last))


class PackingOptions:
    """A packer's checked options (see `bert_zoo.text.Packer`), the ids that it adds, and the composition of rows."""

    paddings = PADDINGS

    def __init__(
        self,
        *,
        sequence_length: Any,
        layout: Layout | Mapping[str, Any] = BERT,
        padding: str = "longest",
        bucket: int = 8,
        truncation: str = "longest_first",
        scoring: Scoring | Mapping[str, Any] | None = None,
        language_id: int | None = None,
        **ids: int,
    ):
        super().__init__()
        choices = ("padding", padding, self.paddings), ("truncation", truncation, (*TRUNCATIONS,))
        for name, value, possible in choices:
            if value not in possible:
                raise ValueError(f"{name} is {value!r}; choose one of {possible}.")
        if bucket < 1:
            raise ValueError(f"bucket is {bucket}; it must be 1 (no rounding up) or more.")
        self.padding, self.bucket, self.truncation = padding, int(bucket), truncation
        self.layout = layout if isinstance(layout, Layout) else Layout(**layout)
        self.scoring = Scoring(**scoring) if isinstance(scoring, Mapping) else scoring
        if self.scoring is not None:
            if self.scoring.fill_to and self.layout.padding_side == "left":
                raise ValueError("Rows that are padded on the left cannot be filled with a token.")
            if self.scoring.marker_id is not None:
                ids |= {f"{MARKER}_id": self.scoring.marker_id}
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
        roles = [role for role in layout.roles if role != MARKER]
        ids = {f"{role}_id": getattr(tokenizer, f"{role}_id") for role in roles}
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
            "scoring": None if self.scoring is None else asdict(self.scoring),
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

    def kept_lengths(self, lengths: Sequence[Any]) -> list[Any]:
        """The number of tokens kept of each segment, from int64 [batch] lengths."""
        ops = ops_of(lengths[0])
        budget = self.sequence_length - self.layout.specials(len(lengths))
        if len(lengths) == 1:
            return [ops.minimum(lengths[0], budget)]
        if self.truncation in WHOLE:
            longest = ops.reduce_max(ops.concat([lengths[WHOLE[self.truncation]], [0]], 0))
            lengths = checked(lengths, longest <= budget, TOO_LONG, longest, budget)
        return TRUNCATIONS[self.truncation](ops, *lengths, budget)

    def row_lengths(self, segments: Sequence[Slices]) -> Any:
        """Number of tokens of each row, including special tokens and those that fill it, int64 [rows]."""
        lengths = sum(segment.lengths for segment in segments)
        lengths += self.layout.specials(len(segments))
        if self.scoring is None:
            return lengths
        return ops_of(lengths).maximum(lengths, self.scoring.fill_to)

    def width(self, row_lengths: Any) -> Any:
        """Returns the length to which rows of int64 [rows] tokens are padded."""
        ops = ops_of(row_lengths)
        if self.padding == "fixed":
            return ops.cast(self.sequence_length, ops.int64)
        # At least 1: the maximum of a batch without rows is the smallest integer.
        longest = ops.maximum(ops.reduce_max(row_lengths), 1)
        if self.padding == FEW_LENGTHS:
            return min(_next_of_few(int(longest)), self.sequence_length)
        return ops.minimum(-(-longest // self.bucket) * self.bucket, self.sequence_length)

    def lay_out(self, segments: Sequence[Slices]) -> tuple[dict[str, Any], list[Positions]]:
        """The model's inputs of one or two truncated segments, int32 [rows, width]: `token_ids`, `segment_ids` if the
        layout has them, `padding_mask`, 1 for tokens. And the positions of each segment.
        """
        row_lengths = self.row_lengths(segments)
        ops = ops_of(row_lengths)
        position, is_token = self._positions(row_lengths)
        token_ids = ops.fill(ops.shape(is_token), np.int32(self.pad_id))
        if self.scoring is not None:  # the row's own tokens come on top
            token_ids = ops.where(is_token, np.int32(self.scoring.fill_id), token_ids)
        segment_ids = ops.fill(ops.shape(is_token), np.int32(self.layout.padding_segment))
        begin, texts, positions = ops.zeros_like(row_lengths)[:, None], iter(segments), []
        for part in self.layout.parts(len(segments)):
            if part.is_text:
                values, starts, lengths = next(texts)
                end = begin + lengths[:, None]
                inside = (position >= begin) & (position < end)
                positions.append(Positions(inside, starts[:, None] + position - begin))
                ids = positions[-1].gather(values)
            else:
                end, inside = begin + 1, position == begin
                ids = np.int32(getattr(self._ids, part.name))
            token_ids = ops.where(inside, ids, token_ids)
            if part.segment != self.layout.padding_segment:
                segment_ids = ops.where(inside, np.int32(part.segment), segment_ids)
            begin = end
        packed = {"token_ids": token_ids}
        if self.layout.segments:
            packed["segment_ids"] = segment_ids
        if self.scoring is not None:
            packed[SCORED] = self.scoring.marks(token_ids, is_token, is_token & (position >= begin))
        return self._with_mask(packed, is_token), positions

    def _positions(self, row_lengths: Any) -> tuple[Any, Any]:
        """Positions [1 or rows, width], 0 for a row's first token, and which of them have tokens."""
        width = self.width(row_lengths)
        position = ops_of(row_lengths).range(width)[None, :]
        if self.layout.padding_side == "right":
            return position, position < row_lengths[:, None]
        position = position - (width - row_lengths)[:, None]
        return position, position >= 0

    def _with_mask(self, inputs: dict[str, Any], is_token: Any) -> dict[str, Any]:
        """Adds `padding_mask`, and `language_ids` if there is a language."""
        ops = ops_of(is_token)
        inputs = {**inputs, "padding_mask": ops.cast(is_token, ops.int32)}
        if self.language_id is not None:
            inputs["language_ids"] = ops.zeros_like(inputs["padding_mask"]) + self.language_id
        return inputs

    def widened(self, inputs: Mapping[str, Any], length: Any, others: Mapping[str, int]) -> Any:
        """Pads inputs [batch, tokens] to at least `length` tokens; `others` as in `NumpyPacker.pad`."""
        values = {**self.padding_values, **others}

        def widen(name: str, value: Any) -> Any:
            ops = ops_of(value)
            more = ops.maximum(length - ops.shape(value)[1], 0)
            sides = [more, 0] if self.layout.padding_side == "left" else [0, more]
            rest = [[0, 0]] * (len(value.shape) - 2)
            wide = ops.pad(value, [[0, 0], sides, *rest], constant_values=values.get(name, 0))
            return ops.ensure_shape(wide, [value.shape[0], None, *value.shape[2:]])

        return {name: widen(name, value) for name, value in inputs.items()}


class NumpyPacker(PackingOptions):
    """`bert_zoo.text.Packer` in NumPy, which also pads rows that are packed already. A further `padding`,
    "few_lengths", pads to the next of 8, 16, 24, 32, 48, 64, 96, 128, ... tokens, for models that are compiled for
    each length.
    """

    paddings = (*PADDINGS, FEW_LENGTHS)

    def checked(self, segments: Any) -> list[Slices]:
        """The segments of `Tokens` as slices."""
        return [Slices(segment.ids, segment.starts, segment.lengths) for segment in segments]

    def pad(self, rows: Mapping[str, Slices], others: Mapping[str, int] | None = None) -> Arrays:
        """Pads packed rows (name -> rows of integers, [(tokens), ...], all of the same lengths) and adds
        `padding_mask`; `others` are padding values that `padding_values` does not list.
        """
        position, is_token = self._positions(next(iter(rows.values())).lengths)
        values = {**self.padding_values, **(others or {})}
        padded = {}
        for name, (tokens, starts, _) in rows.items():
            places = Positions(is_token, starts[:, None] + position)
            padded[name] = places.gather(tokens, values.get(name, 0))
        return self._with_mask(padded, is_token)

    def fixed_to(self, length: int) -> NumpyPacker:
        """A packer that pads all rows, of at most `length` tokens, to this length."""
        packer = copy(self)
        packer.padding, packer.sequence_length = "fixed", length
        return packer

    def in_numpy(self) -> NumpyPacker:
        """The packer itself; see `bert_zoo.text.Packer`."""
        return self


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


# -------------------------------------------------------------------------------------------------
# Texts to tokens and words in NumPy, with Hugging Face's library tokenizers.
# -------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    import tokenizers


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of the words of a raw text, in characters. Words are split as in BERT's original code: at white
    space, with each punctuation mark, ASCII symbol and Chinese character a word of its own.
    """
    return [match.span() for match in _word().finditer(text)]


@functools.cache
def _word() -> re.Pattern:
    alone = python_class("bert/punctuation", "bert/cjk")
    white_space = python_class("bert/whitespace", "python/whitespace")
    return re.compile(f"[{alone}]|[^{alone}{white_space}]+")


def row_splits_that_fit(lengths: np.ndarray, sentences: np.ndarray, budget: int) -> np.ndarray:
    """Splits sentences (row splits int [batch + 1] of words with `lengths` pieces each) between words into rows of at
    most `budget` tokens, without special ones: row splits int64 [rows + 1]. A word that is too long is a row of its
    own.
    """
    starts = []
    pieces = lengths.tolist()
    for begin, end in itertools.pairwise(sentences.tolist()):
        starts.append(begin)
        tokens = 0
        for word in range(begin, end):
            tokens += pieces[word]
            if tokens > budget and word > starts[-1]:
                starts.append(word)
                tokens = pieces[word]
    return np.array([*starts, len(pieces)], np.int64)


# The blank in SentencePiece's tokens.
_BLANK = "▁"


class Tokens(NamedTuple):
    """The concatenated tokens of texts, without special tokens."""

    ids: np.ndarray  # int32 [tokens]
    lengths: np.ndarray  # int64 [texts]
    spans: np.ndarray | None = None  # int32 [tokens, 2], start and end of each, in characters

    @property
    def starts(self) -> np.ndarray:
        """Start of each text's tokens, int64 [texts]."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self) -> list[list[int]]:
        """The ids of each text."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths).tolist()
        return [ids[start:end] for start, end in itertools.pairwise([0, *ends])]


class Reader:
    """A tokenizer of Hugging Face's library, with settings that its file cannot express.

    Args:
        tokenizer: without truncation and padding.
        unk_id: None if nothing is unknown.
        split_tokens: id of a token -> the model's ids, for tokens that the model splits.
        blank_before_words: put a blank before words that are tokenized separately, unlike before texts.
        source: name of the tokenizer in errors.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        unk_id: int | None,
        split_tokens: Mapping[int, Sequence[int]] | None = None,
        blank_before_words: bool = False,
        source: str = "The tokenizer",
    ):
        from tokenizers.pre_tokenizers import Metaspace

        self._tokenizer, self._unk_id, self._source = tokenizer, unk_id, source
        self._split_tokens = _SplitTokens(tokenizer, split_tokens) if split_tokens else None
        self._blank_before_words = blank_before_words
        self._has_blanks = isinstance(tokenizer.pre_tokenizer, Metaspace)

    def tokenized(self, texts: Sequence[str], *, with_spans: bool = False) -> Tokens:
        """Tokenizes texts, `with_spans` of tokens; ValueError if UTF-8 or the library cannot take one."""
        return self._tokens(self._tokenizer, texts, with_spans)

    def words(self, words: Sequence[str]) -> Tokens:
        """Tokenizes each word separately; a word without tokens becomes the unknown token."""
        tokens = self._tokens(self._word_tokenizer, words, False)
        missing = tokens.lengths == 0
        if not missing.any():
            return tokens
        lengths = np.maximum(tokens.lengths, 1)
        ids = np.insert(tokens.ids, tokens.starts[missing], self._unk_id)
        return Tokens(ids, lengths)

    @functools.cached_property
    def _word_tokenizer(self) -> tokenizers.Tokenizer:
        if not self._blank_before_words:
            return self._tokenizer
        tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        splitting = tokenizer.pre_tokenizer
        if hasattr(splitting, "add_prefix_space"):
            splitting.add_prefix_space = True
            tokenizer.pre_tokenizer = splitting
            return tokenizer
        from tokenizers.normalizers import Prepend, Sequence

        before = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = Sequence([Prepend(" "), *before])
        return tokenizer

    def _tokens(
        self, tokenizer: tokenizers.Tokenizer, texts: Sequence[str], with_spans: bool
    ) -> Tokens:
        # The fast method has no spans, and gives the same ids in half the time.
        encode = tokenizer.encode_batch if with_spans else tokenizer.encode_batch_fast
        try:
            encoded = encode([*texts], add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            for text in texts:
                check_has_utf8(text)
            raise ValueError(
                f"{self._source} cannot read texts: {shortened(str(error))}."
            ) from error
        rows = [encoding.ids for encoding in encoded]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        spans = None
        if with_spans:
            pairs = itertools.chain.from_iterable(encoding.offsets for encoding in encoded)
            spans = np.fromiter(pairs, np.dtype((np.int32, 2)), len(ids))
            if self._has_blanks:
                spans = _without_blanks(texts, spans, lengths)
        tokens = Tokens(ids, lengths, spans)
        return tokens if self._split_tokens is None else self._split_tokens(tokens)


class _SplitTokens:
    """Replaces one token by several."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, split_tokens: Mapping[int, Sequence[int]]):
        size = tokenizer.get_vocab_size()
        self._counts, self._starts = np.ones(size, np.int64), np.arange(size)
        pool = [*range(size)]
        # For each part, the letters of the parts before it, and its own.
        widths = [(0, 0)] * size
        for token, parts in split_tokens.items():
            self._counts[token], self._starts[token] = len(parts), len(pool)
            letters = [len(tokenizer.id_to_token(part).replace(_BLANK, "")) for part in parts]
            before = itertools.accumulate(letters, initial=0)
            pool += parts
            widths += zip(before, letters, strict=False)
        self._pool, self._widths = np.int32(pool), np.int32(widths)

    def __call__(self, tokens: Tokens) -> Tokens:
        counts = self._counts[tokens.ids]
        if not (counts > 1).any():
            return tokens
        ends = np.cumsum([0, *counts])
        text_ends = np.cumsum([0, *tokens.lengths])
        at = ragged_range(self._starts[tokens.ids], counts)
        spans = tokens.spans
        if spans is not None:
            starts, stops = np.repeat(spans, counts, axis=0).T
            before, letters = self._widths[at].T
            is_part = letters > 0
            first = np.where(is_part, np.minimum(starts + before, stops - 1), starts)
            last = np.where(is_part, np.minimum(first + letters, stops), stops)
            spans = np.stack([first, last], axis=1)
        return Tokens(self._pool[at], np.diff(ends[text_ends]), spans)


def rust_tokenizer(content: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """A tokenizer of the library from the content of a tokenizer.json; ImportError without the library."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(
            "Without TensorFlow, reading texts needs Hugging Face's library tokenizers: "
            "pip install tokenizers."
        ) from error
    return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


@functools.cache
def _white_space() -> np.ndarray:
    """Whether each code point is white space, bool [code points]."""
    is_space = np.zeros(0x110000, bool)
    is_space[code_points("python/whitespace")] = True
    return is_space


def _without_blanks(texts: Sequence[str], spans: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Trims blanks at the start of tokens' spans; a blank alone covers the character after it."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4")
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.repeat(np.cumsum(sizes) - sizes, lengths)
    ends_of_texts = np.repeat(np.cumsum(sizes), lengths)
    # The next position from each on that is no white space.
    places = np.where(_white_space()[codes], len(codes), np.arange(len(codes)))
    following = np.append(np.minimum.accumulate(places[::-1])[::-1], len(codes))
    starts, ends = spans[:, 0] + begins, spans[:, 1] + begins
    first = np.minimum(following[starts], ends)
    ends = np.minimum(np.maximum(ends, first + 1), ends_of_texts)
    first = np.minimum(first, ends_of_texts - 1)
    return np.int32(np.stack([first - begins, ends - begins], axis=1))


# -------------------------------------------------------------------------------------------------
# Divides long texts into rows that a model can read, in NumPy and in TensorFlow's graph.
# -------------------------------------------------------------------------------------------------

# Tokens between the starts of BERT's windows (google-research/bert, run_squad.py), and the overlap of longer
# windows.
STRIDE, OVERLAP = 128, 384


def usual_stride(sequence_length: int) -> int:
    """The default number of tokens between the starts of a question's windows."""
    return max(STRIDE, sequence_length - OVERLAP)


def usual_batch_size(sequence_length: int) -> int:
    """The default number of windows to read at a time: 32, or fewer of more than 512 tokens."""
    return max(32 * 512 // max(sequence_length, 512), 1)


class Windows(NamedTuple):
    """Rows with parts of texts."""

    segments: list[Slices]  # segments of the rows
    example: Any  # int64 [rows], index of each row's text
    first_token: Any  # int64 [rows], tokens of that text before the row


def most_of_question(packer: PackingOptions, max_question_length: int) -> int:
    """The most tokens of a question in a row with a context."""
    room = packer.sequence_length - packer.layout.specials(2)
    return min(max_question_length, room // 2)


def windows_of_questions(
    packer: PackingOptions,
    questions: Slices,
    contexts: Slices,
    *,
    stride: int | None,
    max_question_length: int,
) -> Windows:
    """Combines each question with windows over its context; see `bert_zoo.text.windows.QuestionWindows`."""
    minimum = ops_of(questions.lengths).minimum
    kept = minimum(questions.lengths, most_of_question(packer, max_question_length))
    room = packer.sequence_length - packer.layout.specials(2) - kept
    windows = _windows(
        contexts, room, minimum(room, stride or usual_stride(packer.sequence_length))
    )
    asked = questions.beginnings(kept).of_rows(windows.example)
    return windows._replace(segments=[asked, *windows.segments])


def windows_of_texts(packer: PackingOptions, texts: Slices, stride: int | None) -> Windows:
    """Divides texts into windows; see `bert_zoo.text.windows.DocumentWindows`."""
    ops, room = ops_of(texts.lengths), packer.sequence_length - packer.layout.specials(1)
    rooms = ops.zeros_like(texts.lengths) + room
    return _windows(texts, rooms, ops.minimum(rooms, stride or max(room * 3 // 4, 1)))


def _windows(texts: Slices, room: Any, step: Any) -> Windows:
    """Windows of texts, for each the most tokens of a window, and the step between the starts of windows, [texts]."""
    ops = ops_of(texts.lengths)
    counts = 1 - (-ops.maximum(texts.lengths - room, 0) // step)
    text = ops.repeat(ops.range(ops.size(counts, ops.int64)), counts)
    number = ops.range(ops.size(text, ops.int64)) - ops.gather(ops.cumsum(counts) - counts, text)
    room, step = (ops.gather(column, text) for column in (room, step))
    values, starts, lengths = texts.of_rows(text)
    first_token = number * step
    shown = Slices(values, starts + first_token, ops.minimum(room, lengths - first_token))
    return Windows([shown], text, first_token)
