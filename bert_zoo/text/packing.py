"""Packs token ids into a model's inputs, as a `Layout` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.numpy_packing import TOO_LONG, TRUNCATIONS, WHOLE, PackingOptions


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
        behind = tf.shape(values, tf.int64)[0]
        pool = tf.concat(
            [values, tf.fill([1, *values.shape[1:]], tf.cast(otherwise, values.dtype))], 0
        )
        return tf.gather(pool, tf.where(self.inside, self.source, behind))


class Packer(PackingOptions, tf.Module):
    """Adds the special tokens, truncates, pads.

    Args, Raises: see `PackingOptions`; `sequence_length` may be an int scalar tensor, which is known when
    the graph runs.
    """

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
        if self.truncation in WHOLE:
            longest = tf.reduce_max(tf.concat([lengths[WHOLE[self.truncation]], [0]], 0))
            fits = tf.debugging.Assert(longest <= budget, [TOO_LONG, longest, budget])
            with tf.control_dependencies([fits]):
                lengths = [*map(tf.identity, lengths)]
        return TRUNCATIONS[self.truncation](tf, *lengths, budget)

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
        return packed | self._languages(packed["padding_mask"]), positions

    def _languages(self, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """The input that says of every token which language it is of, where the tokenizer knows."""
        if self.language_id is None:
            return {}
        return {"language_ids": tf.zeros_like(mask) + self.language_id}

    def pad(
        self, rows: Mapping[str, tf.RaggedTensor], others: Mapping[str, int] | None = None
    ) -> dict[str, tf.Tensor]:
        """Pads rows that were packed before and kept without padding; adds `padding_mask`.

        Args:
            rows: name -> integers [batch, (tokens), ...], all of the same lengths.
            others: the value of padding in inputs that `padding_values` does not list.
        """
        tokens = next(iter(rows.values()))
        position, is_token = self._positions(tokens.row_lengths())
        places = Positions(is_token, tokens.row_starts()[:, None] + position)
        values = {**self.padding_values, **(others or {})}
        padded = {n: places.gather(v.values, values.get(n, 0)) for n, v in rows.items()}
        mask = tf.cast(is_token, tf.int32)
        return {**padded, **self._languages(mask), "padding_mask": mask}

    def widened(
        self, inputs: Mapping[str, tf.Tensor], length: tf.Tensor, others: Mapping[str, int]
    ) -> dict[str, tf.Tensor]:
        """Pads inputs [batch, tokens] to `length` tokens, if they have fewer; `others` as in `pad`."""
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

    def _checked_length(self, length: int | tf.Tensor) -> int | tf.Tensor:
        if not has_tensorflow or not tf.is_tensor(length):
            return super()._checked_length(length)
        length = tf.cast(length, tf.int64)
        message = f"sequence_length is too short; {self._wanted_length}. It is:"
        is_enough = tf.debugging.Assert(length >= self._least_length, [message, length])
        with tf.control_dependencies([is_enough]):
            return tf.identity(length)
