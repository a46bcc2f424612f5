"""Packs token ids into inputs: [CLS] A [SEP], or [CLS] A [SEP] B [SEP]; RoBERTa's between is [SEP] [SEP]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

PADDINGS = ("longest", "fixed")


class Slices(NamedTuple):
    """One segment of every row, cut from tokens that lie one behind the other.

    Attributes:
        values: int32 [tokens].
        starts: int64 [rows], where in `values` a row's segment starts.
        lengths: int64 [rows], its tokens.
    """

    values: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor


class Places(NamedTuple):
    """Where a segment stands in packed rows.

    Attributes:
        inside: bool [rows, width], whether a token of the segment stands there.
        source: int64 [rows, width], that token's place in the segment's `values`.
    """

    inside: tf.Tensor
    source: tf.Tensor


class Packer(tf.Module):
    """Adds the special tokens, truncates, pads.

    Args:
        cls_id, sep_id, pad_id: ids of the special tokens.
        sequence_length: the most tokens a row may have, special ones included; a number, or an int
            scalar tensor, which is known when the graph runs.
        padding: "longest" pads to the batch's longest row rounded up to a multiple of `bucket`, never
            above `sequence_length`; "fixed" always to `sequence_length`, a static shape, which XLA
            and TPUs need.
        bucket: see `padding`.
        separators: how many [SEP] stand between the segments of a pair.
        segments: whether the model has `segment_ids`.
        truncation: for pairs that are too long. "longest_first" shortens the longer segment, and
            both to half when both are longer than that (an odd token goes to the longer one, the
            second if they are equal), as Hugging Face's fast tokenizers do. "only_first" and
            "only_second" shorten that one segment, and fail on a row where that is not enough.

    Raises:
        ValueError: an option outside its range.
    """

    def __init__(
        self,
        *,
        cls_id: int,
        sep_id: int,
        pad_id: int,
        sequence_length: int | tf.Tensor,
        padding: str = "longest",
        bucket: int = 8,
        separators: int = 1,
        segments: bool = True,
        truncation: str = "longest_first",
    ):
        super().__init__(name="packer")
        check_padding(padding, bucket)
        if truncation not in TRUNCATIONS:
            raise ValueError(f"truncation is {truncation!r}; choose one of {tuple(TRUNCATIONS)}.")
        self.cls_id, self.sep_id, self.pad_id = int(cls_id), int(sep_id), int(pad_id)
        self.padding, self.bucket, self.truncation = padding, int(bucket), truncation
        self.separators, self.segments = separators, segments
        self.sequence_length = _checked_length(sequence_length, self.specials(2))

    def __call__(self, segments: Any) -> dict[str, tf.Tensor]:
        """Packs one or two segments.

        Args:
            segments: int32 [batch, (tokens)], or a sequence of one or two such ragged tensors.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `segment_ids`, 1 in the second segment and
            its [SEP], where the model has them; `padding_mask`, 1 where a token is.

        Raises:
            ValueError: not one or two segments, or not ragged tensors of rank 2.
            tf.errors.InvalidArgumentError: a row that "only_first" or "only_second" cannot shorten
                enough.
        """
        segments = _checked_segments(segments)
        kept = self.kept_lengths([segment.row_lengths() for segment in segments])
        packed, _ = self.lay_out(
            [
                Slices(segment.values, segment.row_starts(), length)
                for segment, length in zip(segments, kept, strict=True)
            ]
        )
        return packed

    def kept_lengths(self, lengths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns how many tokens of each segment remain, from int64 [batch] lengths."""
        budget = self.sequence_length - self.specials(len(lengths))
        if len(lengths) == 1:
            return [tf.minimum(lengths[0], budget)]
        return TRUNCATIONS[self.truncation](*lengths, budget)

    def specials(self, segments: int) -> int:
        """How many special tokens a row of so many segments has."""
        return 2 if segments == 1 else 2 + self.separators

    def width(self, row_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the common length that rows of int64 [rows] tokens are padded to."""
        return padded_width(row_lengths, self.sequence_length, self.padding, self.bucket)

    def lay_out(self, segments: Sequence[Slices]) -> tuple[dict[str, tf.Tensor], list[Places]]:
        """Frames and pads one or two segments that fit, as `__call__` does once it has cut them.

        Returns:
            What `__call__` returns, and where each segment stands in it.
        """
        row_lengths = tf.add_n([s.lengths for s in segments]) + self.specials(len(segments))
        position = tf.range(self.width(row_lengths))[None, :]

        # Every place of the result is an index into one pool: all segments' tokens, then these.
        pool = tf.concat(
            [*(s.values for s in segments), [self.cls_id, self.sep_id, self.pad_id]], axis=0
        )
        cls_at, sep_at, pad_at = (tf.size(pool, out_type=tf.int64) - back for back in (3, 2, 1))
        index = tf.where(position == 0, cls_at, pad_at)
        segment_ids = tf.zeros_like(index, tf.int32)
        pool_start, first = tf.constant(0, tf.int64), tf.ones_like(row_lengths)
        places = []
        for number, (values, starts, lengths) in enumerate(segments):
            begin, end = first[:, None], (first + lengths)[:, None]
            inside = (position >= begin) & (position < end)
            source = starts[:, None] + position - begin
            places.append(Places(inside, source))
            separators = 1 if number == len(segments) - 1 else self.separators
            behind = (position >= end) & (position < end + separators)
            index = tf.where(inside, pool_start + source, tf.where(behind, sep_at, index))
            segment_ids = tf.where(inside | behind, number, segment_ids)
            pool_start += tf.size(values, out_type=tf.int64)
            first += lengths + separators
        packed = {
            "token_ids": tf.gather(pool, index),
            **({"segment_ids": segment_ids} if self.segments else {}),
            "padding_mask": tf.cast(position < row_lengths[:, None], tf.int32),
        }
        return packed, places


def check_padding(padding: str, bucket: int) -> None:
    """Raises ValueError for a `padding` that there is not, or a `bucket` below 1."""
    if padding not in PADDINGS:
        raise ValueError(f"padding is {padding!r}; choose one of {PADDINGS}.")
    if bucket < 1:
        raise ValueError(f"bucket is {bucket}; it must be 1 (no rounding up) or more.")


def padded_width(
    row_lengths: tf.Tensor, sequence_length: int | tf.Tensor, padding: str, bucket: int
) -> tf.Tensor:
    """Returns the common length of rows of int64 [batch] tokens; options as for Packer."""
    if padding == "fixed":
        return tf.convert_to_tensor(sequence_length, tf.int64)
    # The 1 keeps a batch without rows, whose maximum is the smallest integer, at one bucket.
    longest = tf.maximum(tf.reduce_max(row_lengths), 1)
    return tf.minimum(-(-longest // bucket) * bucket, sequence_length)


def _checked_length(sequence_length: int | tf.Tensor, least: int) -> int | tf.Tensor:
    problem = f"A pair has {least} special tokens, so sequence_length must be {least} at least"
    if tf.is_tensor(sequence_length):
        length = tf.cast(sequence_length, tf.int64)
        with tf.control_dependencies(
            [tf.debugging.Assert(length >= least, [f"{problem}:", length])]
        ):
            return tf.identity(length)
    if sequence_length != int(sequence_length):
        raise ValueError(f"sequence_length is {sequence_length}; it must be a whole number.")
    if sequence_length < least:
        raise ValueError(f"{problem}; it is {sequence_length}. BERT's maximum is 512.")
    return int(sequence_length)


def _checked_segments(segments: Any) -> list[tf.RaggedTensor]:
    if isinstance(segments, tf.RaggedTensor):
        segments = [segments]
    segments = list(segments)
    if len(segments) not in (1, 2):
        raise ValueError(f"Got {len(segments)} segments; BERT packs one or two.")
    for number, segment in enumerate(segments):
        if not isinstance(segment, tf.RaggedTensor) or segment.shape.rank != 2:
            raise ValueError(
                f"Segment {number} is {segment!r}; a segment is a ragged tensor [batch, (tokens)], as "
                "the tokenizer returns it. tf.RaggedTensor.from_tensor or tf.ragged.constant make "
                "one."
            )
    return [tf.cast(segment, tf.int32).with_row_splits_dtype(tf.int64) for segment in segments]


# ---------------------------------------------------------------------------------------------
# Truncation of pairs: lengths int64 [batch] of both and the budget, to the lengths that remain
# ---------------------------------------------------------------------------------------------


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
    with tf.control_dependencies(
        [tf.debugging.Assert(longest <= budget, [message, longest, budget])]
    ):
        return [tf.identity(first), tf.minimum(second, budget - first)]


def _only_first(first: tf.Tensor, second: tf.Tensor, budget: int | tf.Tensor) -> list[tf.Tensor]:
    return _only_second(second, first, budget)[::-1]


Truncation = Callable[[tf.Tensor, tf.Tensor, int | tf.Tensor], list[tf.Tensor]]
TRUNCATIONS: dict[str, Truncation] = {
    "longest_first": _longest_first,
    "only_first": _only_first,
    "only_second": _only_second,
}
