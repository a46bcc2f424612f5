"""Packs token ids into a model's inputs, following a `Layout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.numpy_packing import TOO_LONG, TRUNCATIONS, WHOLE, NumpyPacker, PackingOptions


class Slices(NamedTuple):
    """One segment of every row, as slices of one vector of tokens."""

    values: tf.Tensor  # int32 [tokens]
    starts: tf.Tensor  # int64 [rows], start of each row's segment in `values`
    lengths: tf.Tensor  # int64 [rows], number of its tokens

    @classmethod
    def of_beginnings(cls, segment: tf.RaggedTensor, lengths: tf.Tensor) -> Slices:
        """The first `lengths` tokens of each row."""
        return cls(segment.values, segment.row_starts(), lengths)


class Positions(NamedTuple):
    """The positions of a segment's tokens in packed rows."""

    inside: tf.Tensor  # bool [rows, width], true for the segment's tokens
    source: tf.Tensor  # int64 [rows, width], position of such a token in the segment's `values`

    def gather(self, values: tf.Tensor, otherwise: int = 0) -> tf.Tensor:
        """Lays values of the segment's tokens out in the rows; `otherwise` at all other positions."""
        last = tf.shape(values, tf.int64)[0]
        pool = tf.concat(
            [values, tf.fill([1, *values.shape[1:]], tf.cast(otherwise, values.dtype))], 0
        )
        return tf.gather(pool, tf.where(self.inside, self.source, last))


class Packer(PackingOptions, tf.Module):
    """Packs tokenized texts into rows: truncates, adds special tokens, and pads.

    Args:
        sequence_length: the most tokens of a row, including special tokens. It may be an int scalar
            tensor.
        layout: where special tokens and padding go: a `bert_zoo.text.layout.Layout`, or a dict of its
            attributes.
        padding: "longest" pads to the longest row of the batch, rounded up to a multiple of `bucket`
            and at most `sequence_length`. "fixed" always pads to `sequence_length`, the static shape
            that XLA and TPUs need.
        bucket: see `padding`.
        truncation: for pairs that are too long. "longest_first" shortens the longer text, or both to
            half the room if both are longer (an odd token goes to the longer text, or to the second if
            they are equal), as Hugging Face's fast tokenizers do. "only_first" and "only_second"
            shorten that text, and raise an error if this is not enough.
        language_id: value of `language_ids`, for models with this input.
        **ids: ids of padding and of the layout's special tokens: `pad_id`, `cls_id`, ...

    Raises:
        ValueError: an option outside its range.
        TypeError: an id is missing, or an unknown option.
    """

    def __call__(self, segments: Any) -> dict[str, tf.Tensor]:
        """Packs one or two segments.

        Args:
            segments: a ragged tensor int32 [batch, (tokens)], or a sequence of one or two of them.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `segment_ids` if the layout has them;
            `padding_mask`, 1 for tokens and 0 for padding.

        Raises:
            ValueError: not one or two segments, or not ragged tensors of rank 2.
            tf.errors.InvalidArgumentError: "only_first" or "only_second" cannot shorten a row enough.
        """
        segments = self.checked(segments)
        kept = self.kept_lengths([segment.row_lengths() for segment in segments])
        return self.lay_out([*map(Slices.of_beginnings, segments, kept)])[0]

    def kept_lengths(self, lengths: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the number of tokens kept of each segment, from int64 [batch] lengths."""
        budget = self.sequence_length - self.layout.specials(len(lengths))
        if len(lengths) == 1:
            return [tf.minimum(lengths[0], budget)]
        if self.truncation in WHOLE:
            longest = tf.reduce_max(tf.concat([lengths[WHOLE[self.truncation]], [0]], 0))
            fits = tf.debugging.Assert(longest <= budget, [TOO_LONG, longest, budget])
            with tf.control_dependencies([fits]):
                lengths = [*map(tf.identity, lengths)]
        return TRUNCATIONS[self.truncation](tf, *lengths, budget)

    def width(self, row_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the length to which rows of int64 [rows] tokens are padded."""
        if self.padding == "fixed":
            return tf.convert_to_tensor(self.sequence_length, tf.int64)
        # At least 1: the maximum of a batch without rows is the smallest integer.
        longest = tf.maximum(tf.reduce_max(row_lengths), 1)
        return tf.minimum(-(-longest // self.bucket) * self.bucket, self.sequence_length)

    def lay_out(self, segments: Sequence[Slices]) -> tuple[dict[str, tf.Tensor], list[Positions]]:
        """Lays truncated segments out in rows. Returns the model's inputs and each segment's positions."""
        parts = self.layout.parts(len(segments))
        row_lengths = tf.add_n([s.lengths for s in segments]) + (len(parts) - len(segments))
        position, is_token = self._positions(row_lengths)

        # Every token of the result is an index into one pool: all segments' tokens, then special ones.
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
        return packed | self._languages(packed["padding_mask"]), positions

    def _languages(self, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """The input `language_ids`, if there is a language."""
        if self.language_id is None:
            return {}
        return {"language_ids": tf.zeros_like(mask) + self.language_id}

    def in_numpy(self) -> NumpyPacker:
        """The packer that pads rows outside of the graph."""
        ids = {f"{role}_id": id for role, id in vars(self._ids).items()}
        return NumpyPacker(**self.get_config(), language_id=self.language_id, **ids)

    def widened(
        self, inputs: Mapping[str, tf.Tensor], length: tf.Tensor, others: Mapping[str, int]
    ) -> dict[str, tf.Tensor]:
        """Pads inputs [batch, tokens] to at least `length` tokens; `others` as in `pad`."""
        values = {**self.padding_values, **others}

        def widen(name: str, value: tf.Tensor) -> tf.Tensor:
            more = tf.maximum(length - tf.shape(value)[1], 0)
            sides = [more, 0] if self.layout.padding_side == "left" else [0, more]
            rest = [[0, 0]] * (value.shape.rank - 2)
            wide = tf.pad(value, [[0, 0], sides, *rest], constant_values=values.get(name, 0))
            wide.set_shape([value.shape[0], None, *value.shape[2:]])
            return wide

        return {name: widen(name, value) for name, value in inputs.items()}

    def _positions(self, row_lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Positions [1 or rows, width], 0 for a row's first token, and which of them have tokens."""
        width = self.width(row_lengths)
        position = tf.range(width)[None, :]
        if self.layout.padding_side == "right":
            return position, position < row_lengths[:, None]
        position -= (width - row_lengths)[:, None]
        return position, position >= 0

    def checked(self, segments: Any) -> list[tf.RaggedTensor]:
        """Returns the segments as int32 with int64 row splits; raises the errors of a call."""
        segments = [segments] if isinstance(segments, tf.RaggedTensor) else list(segments)
        self.layout.parts(len(segments))
        for number, segment in enumerate(segments):
            if not isinstance(segment, tf.RaggedTensor) or segment.shape.rank != 2:
                raise ValueError(
                    f"Segment {number} is {segment!r}. A segment must be a ragged tensor "
                    "[batch, (tokens)], as the tokenizer returns it. tf.RaggedTensor.from_tensor and "
                    "tf.ragged.constant make one."
                )
        return [tf.cast(segment, tf.int32).with_row_splits_dtype(tf.int64) for segment in segments]

    def _checked_length(self, length: int | tf.Tensor) -> int | tf.Tensor:
        if not has_tensorflow or not tf.is_tensor(length):
            return super()._checked_length(length)
        length = tf.cast(length, tf.int64)
        message = f"sequence_length is too small; {self._wanted_length}. It is:"
        is_enough = tf.debugging.Assert(length >= self._least_length, [message, length])
        with tf.control_dependencies([is_enough]):
            return tf.identity(length)
