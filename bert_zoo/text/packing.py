"""Packs token ids into a model's inputs, as a `Layout` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import tensorflow as tf

from bert_zoo.text.layout import BERT, Layout

PADDINGS = ("longest", "fixed")


class Slices(NamedTuple):
    """One segment of every row, cut from tokens that lie one after the other."""

    values: tf.Tensor  # int32 [tokens]
    starts: tf.Tensor  # int64 [rows], where in `values` a row's segment starts
    lengths: tf.Tensor  # int64 [rows], its tokens

    @classmethod
    def of_beginnings(cls, segment: tf.RaggedTensor, lengths: tf.Tensor) -> Slices:
        """The first `lengths` tokens of each row."""
        return cls(segment.values, segment.row_starts(), lengths)


class Positions(NamedTuple):
    """Where a segment stands in packed rows."""

    inside: tf.Tensor  # bool [rows, width], whether a token of the segment stands there
    source: tf.Tensor  # int64 [rows, width], that token's position in the segment's `values`

    def gather(self, values: tf.Tensor, otherwise: int = 0) -> tf.Tensor:
        """What is known of the segment's tokens, in the rows; `otherwise` where none stands."""
        behind = tf.size(values, out_type=tf.int64)
        pool = tf.concat([values, [tf.cast(otherwise, values.dtype)]], 0)
        return tf.gather(pool, tf.where(self.inside, self.source, behind))


class Packer(tf.Module):
    """Adds the special tokens, truncates, pads.

    Args:
        sequence_length: the most tokens a row may have, special ones included; a number, or an int
            scalar tensor, which is known when the graph runs.
        layout: where special tokens and padding stand; a `Layout` or its configuration.
        padding: "longest" pads to the batch's longest row rounded up to a multiple of `bucket`, never
            above `sequence_length`; "fixed" always to `sequence_length`, a static shape, which XLA
            and TPUs need.
        bucket: see `padding`.
        truncation: for pairs that are too long. "longest_first" shortens the longer segment, and
            both to half when both are longer than that (an odd token goes to the longer one, the
            second if they are equal), as Hugging Face's fast tokenizers do. "only_first" and
            "only_second" shorten that one segment, and fail on a row where that is not enough.
        language_id: what `language_ids` are everywhere; None for models without.
        **ids: of padding and of the special tokens that the layout names: `pad_id`, `cls_id`, ...

    Raises:
        ValueError: an option outside its range.
        TypeError: an id is missing.
    """

    def __init__(
        self,
        *,
        sequence_length: int | tf.Tensor,
        layout: Layout | Mapping[str, Any] = BERT,
        padding: str = "longest",
        bucket: int = 8,
        truncation: str = "longest_first",
        language_id: int | None = None,
        **ids: int,
    ):
        super().__init__()
        if padding not in PADDINGS:
            raise ValueError(f"padding is {padding!r}; choose one of {PADDINGS}.")
        if bucket < 1:
            raise ValueError(f"bucket is {bucket}; it must be 1 (no rounding up) or more.")
        if truncation not in TRUNCATIONS:
            raise ValueError(f"truncation is {truncation!r}; choose one of {tuple(TRUNCATIONS)}.")
        self.padding, self.bucket, self.truncation = padding, int(bucket), truncation
        self.layout = layout if isinstance(layout, Layout) else Layout(**layout)
        if unknown := sorted(name for name in ids if not name.endswith("_id")):
            raise TypeError(f"A packer has no options {unknown}.")
        names = {role: f"{role}_id" for role in ("pad", *self.layout.roles)}
        if missing := sorted(set(names.values()) - ids.keys()):
            raise TypeError(f"A packer of this layout needs {', '.join(missing)} too.")
        # A plain object, so that tf.Module does not track what is inside it.
        self._ids = SimpleNamespace(**{role: int(ids[name]) for role, name in names.items()})
        self.sequence_length = _checked_length(sequence_length, self.layout.most_specials)
        self.language_id = language_id

    @classmethod
    def of_tokenizer(
        cls, tokenizer: Any, layout: Layout | Mapping[str, Any] = BERT, **options: Any
    ) -> Packer:
        """A packer with a tokenizer's ids; padding is 0 where its vocabulary has no token for it."""
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
        """What padding is in each of a model's inputs where it is not 0."""
        return {"token_ids": self.pad_id, "segment_ids": self.layout.padding_segment}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's keyword arguments but for the ids, ready for JSON."""
        return {
            "sequence_length": self.sequence_length,
            "layout": self.layout.get_config(),
            "padding": self.padding,
            "bucket": self.bucket,
            "truncation": self.truncation,
        }

    def __call__(self, segments: Any) -> dict[str, tf.Tensor]:
        """Packs one or two segments.

        Args:
            segments: int32 [batch, (tokens)], or a sequence of one or two such ragged tensors.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `segment_ids` where the model has them;
            `padding_mask`, 1 where a token is.

        Raises:
            ValueError: not one or two segments, or not ragged tensors of rank 2.
            tf.errors.InvalidArgumentError: a row that "only_first" or "only_second" cannot shorten
                enough.
        """
        segments = self.checked(segments)
        kept = self.kept_lengths([segment.row_lengths() for segment in segments])
        return self.lay_out([*map(Slices.of_beginnings, segments, kept)])[0]

    def kept_lengths(self, lengths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns how many tokens of each segment remain, from int64 [batch] lengths."""
        budget = self.sequence_length - self.layout.specials(len(lengths))
        if len(lengths) == 1:
            return [tf.minimum(lengths[0], budget)]
        return TRUNCATIONS[self.truncation](*lengths, budget)

    def width(self, row_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the common length that rows of int64 [rows] tokens are padded to."""
        if self.padding == "fixed":
            return tf.convert_to_tensor(self.sequence_length, tf.int64)
        # The 1 keeps a batch without rows, whose maximum is the smallest integer, at one bucket.
        longest = tf.maximum(tf.reduce_max(row_lengths), 1)
        return tf.minimum(-(-longest // self.bucket) * self.bucket, self.sequence_length)

    def lay_out(self, segments: Sequence[Slices]) -> tuple[dict[str, tf.Tensor], list[Positions]]:
        """What `__call__` does with segments once they are cut; also says where each then stands."""
        parts = self.layout.parts(len(segments))
        row_lengths = tf.add_n([s.lengths for s in segments]) + (len(parts) - len(segments))
        position, is_token = self._positions(row_lengths)

        # Every token of the result is an index into one pool: all segments' tokens, then these.
        ids = vars(self._ids)
        pool = tf.concat([*(s.values for s in segments), [*ids.values()]], axis=0)
        size = tf.size(pool, out_type=tf.int64)
        special_at = {role: size - len(ids) + number for number, role in enumerate(ids)}
        index = tf.fill(tf.shape(is_token), special_at["pad"])
        segment_ids = tf.fill(tf.shape(is_token), self.layout.padding_segment)
        begin, pool_start = tf.zeros_like(row_lengths)[:, None], tf.constant(0, tf.int64)
        texts, positions = iter(segments), []
        for part in parts:
            if part.is_text:
                values, starts, lengths = next(texts)
                end = begin + lengths[:, None]
                inside = (position >= begin) & (position < end)
                source = starts[:, None] + position - begin
                positions.append(Positions(inside, source))
                index = tf.where(inside, pool_start + source, index)
                pool_start += tf.size(values, out_type=tf.int64)
            else:
                end, inside = begin + 1, position == begin
                index = tf.where(inside, special_at[part.name], index)
            if part.segment != self.layout.padding_segment:
                segment_ids = tf.where(inside, part.segment, segment_ids)
            begin = end
        packed = {
            "token_ids": tf.gather(pool, index),
            **({"segment_ids": segment_ids} if self.layout.segments else {}),
            "padding_mask": tf.cast(is_token, tf.int32),
        }
        return packed | self._languages(packed["token_ids"]), positions

    def _languages(self, token_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """The input that says of every token which language it is of, where the tokenizer knows."""
        if self.language_id is None:
            return {}
        return {"language_ids": tf.zeros_like(token_ids) + self.language_id}

    def pad(
        self, rows: Mapping[str, tf.RaggedTensor], others: Mapping[str, int] | None = None
    ) -> dict[str, tf.Tensor]:
        """Pads rows that were packed before and kept without padding; adds `padding_mask`.

        Args:
            rows: name -> integers [batch, (tokens)], `token_ids` among them, all of the same lengths.
            others: the value of padding in inputs that `padding_values` does not list.
        """
        tokens = rows["token_ids"]
        position, is_token = self._positions(tokens.row_lengths())
        places = Positions(is_token, tokens.row_starts()[:, None] + position)
        values = {**self.padding_values, **(others or {})}
        padded = {n: places.gather(v.values, values.get(n, 0)) for n, v in rows.items()}
        padded |= self._languages(padded["token_ids"])
        return {**padded, "padding_mask": tf.cast(is_token, tf.int32)}

    def widened(
        self, inputs: Mapping[str, tf.Tensor], length: tf.Tensor, others: Mapping[str, int]
    ) -> dict[str, tf.Tensor]:
        """Pads inputs [batch, tokens] to `length` tokens, if they have fewer; `others` as in `pad`."""
        values = {**self.padding_values, **others}

        def widen(name: str, value: tf.Tensor) -> tf.Tensor:
            more = tf.maximum(length - tf.shape(value)[1], 0)
            sides = [more, 0] if self.layout.padding_side == "left" else [0, more]
            wide = tf.pad(value, [[0, 0], sides], constant_values=values.get(name, 0))
            wide.set_shape([value.shape[0], None])
            return wide

        return {name: widen(name, value) for name, value in inputs.items()}

    def _positions(self, row_lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Positions [1 or rows, width], 0 that of a row's first token, and which have tokens."""
        width = self.width(row_lengths)
        position = tf.range(width)[None, :]
        if self.layout.padding_side == "right":
            return position, position < row_lengths[:, None]
        position -= (width - row_lengths)[:, None]
        return position, position >= 0

    def checked(self, segments: Any) -> list[tf.RaggedTensor]:
        """The segments as int32 with int64 row splits; raises as calling the packer does."""
        segments = [segments] if isinstance(segments, tf.RaggedTensor) else list(segments)
        self.layout.parts(len(segments))
        for number, segment in enumerate(segments):
            if not isinstance(segment, tf.RaggedTensor) or segment.shape.rank != 2:
                raise ValueError(
                    f"Segment {number} is {segment!r}; a segment is a ragged tensor "
                    "[batch, (tokens)], as the tokenizer returns it. tf.RaggedTensor.from_tensor or "
                    "tf.ragged.constant make one."
                )
        return [tf.cast(segment, tf.int32).with_row_splits_dtype(tf.int64) for segment in segments]


def _checked_length(sequence_length: int | tf.Tensor, specials: int) -> int | tf.Tensor:
    least = max(specials, 1)
    wanted = f"it must be {least} at least: a row has up to {specials} special tokens"
    if tf.is_tensor(sequence_length):
        length = tf.cast(sequence_length, tf.int64)
        message = f"sequence_length is too short; {wanted}. It is:"
        with tf.control_dependencies([tf.debugging.Assert(length >= least, [message, length])]):
            return tf.identity(length)
    if sequence_length != int(sequence_length):
        raise ValueError(f"sequence_length is {sequence_length}; it must be a whole number.")
    if sequence_length < least:
        raise ValueError(f"sequence_length is {sequence_length}; {wanted}.")
    return int(sequence_length)


def _longest_first(first: tf.Tensor, second: tf.Tensor, budget: int | tf.Tensor) -> list[tf.Tensor]:
    half = budget // 2
    shorter, longer = tf.minimum(first, second), tf.maximum(first, second)
    shorter_kept = tf.where(first + second > budget, tf.minimum(shorter, half), shorter)
    longer_kept = tf.minimum(longer, budget - shorter_kept)
    second_is_longer = second >= first
    return [
        tf.where(second_is_longer, shorter_kept, longer_kept),
        tf.where(second_is_longer, longer_kept, shorter_kept),
    ]


def _only_second(first: tf.Tensor, second: tf.Tensor, budget: int | tf.Tensor) -> list[tf.Tensor]:
    longest = tf.reduce_max(tf.concat([first, [0]], 0))
    message = (
        "The segment that truncation leaves whole is longer than all the tokens that a pair may "
        "have beside its special ones. Raise sequence_length, choose truncation='longest_first', "
        "or shorten the text. Tokens it has, and may have:"
    )
    fits = tf.debugging.Assert(longest <= budget, [message, longest, budget])
    with tf.control_dependencies([fits]):
        return [tf.identity(first), tf.minimum(second, budget - first)]


def _only_first(first: tf.Tensor, second: tf.Tensor, budget: int | tf.Tensor) -> list[tf.Tensor]:
    return _only_second(second, first, budget)[::-1]


Truncation = Callable[[tf.Tensor, tf.Tensor, int | tf.Tensor], list[tf.Tensor]]
TRUNCATIONS: dict[str, Truncation] = {
    "longest_first": _longest_first,
    "only_first": _only_first,
    "only_second": _only_second,
}
