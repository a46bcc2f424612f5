"""Special and added tokens in raw texts, around which tokenizers take what stands there by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tensorflow as tf

from bert_zoo.text.batches import MARK, as_utf8
from bert_zoo.text.offsets import (
    joined_rows,
    lookup_table,
    picked,
    sums_before,
    token_columns,
)
from bert_zoo.text.tokenizer import TokenizeFunction
from bert_zoo.text.unicode_tables import re2_class

# Tokens that one pattern looks for: from 2,000 on, RE2 logs for every text that it lacks memory.
_GROUP = 200


class SpecialTokens(tf.Module):
    """Finds tokens in raw texts.

    Args:
        ids: token -> id.
        lstrip: the token that takes the white space before it, if one does.
    """

    def __init__(self, ids: Mapping[str, int], lstrip: str | None = None):
        super().__init__()
        self._ids = lookup_table([*ids], [*ids.values()], default=-1)
        white_space = f"[{re2_class('byte_bpe/whitespace')}]*"
        # The longest first: they are found before those that they hold.
        escaped = [
            (white_space if token == lstrip else "") + re.escape(token)
            for token in sorted(ids, key=len, reverse=True)
        ]
        groups = (escaped[i : i + _GROUP] for i in range(0, len(escaped), _GROUP))
        self._patterns = tuple("|".join(group) for group in groups)
        self._stripped = None
        if lstrip is not None:
            self._stripped = (f"^{white_space}{re.escape(lstrip)}$", lstrip.replace("\\", r"\\"))

    def tokenize_around(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        """Cuts texts [batch] at special tokens, and tokenizes what is between them as texts of their own.

        `tokenize` takes string [n] and gives int32 [n, (tokens)], or [n, (tokens), 3] with offsets.
        """
        if len(self._patterns) > 1:
            is_cut = tf.constant(True)
        else:
            found = tf.strings.regex_full_match(texts, rf"\C*?(?:{self._patterns[0]})\C*")
            is_cut = tf.reduce_any(found)

        def segmented() -> tuple[tf.Tensor, ...]:
            segments = self._segments(texts)
            special = self._ids_of(segments.values)
            # A segment is either text, or one special token and so without tokens of its own.
            plain = tf.where(special >= 0, "", segments.values)
            return plain, segments.values, segments.row_splits, special

        def whole() -> tuple[tf.Tensor, ...]:
            row_splits = tf.range(tf.size(texts, tf.int64) + 1)
            return texts, texts, row_splits, tf.fill(tf.shape(texts), -1)

        # `tokenize` stands in neither branch: a pass over a data set begins with optimising the graph,
        # which takes the longer the more of it there is, even where it is the same twice.
        plain, segments, row_splits, special = tf.cond(is_cut, segmented, whole)
        tokens = tokenize(plain)

        def joined() -> tuple[tf.Tensor, tf.Tensor]:
            rows = tf.RaggedTensor.from_row_splits(segments, row_splits, validate=False)
            found = _with_special_tokens(tokens, rows, special, with_offsets)
            return found.values, found.row_splits

        values, splits = tf.cond(is_cut, joined, lambda: (tokens.values, tokens.row_splits))
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def _ids_of(self, segments: tf.Tensor) -> tf.Tensor:
        """The ids of the segments that are special tokens, and -1."""
        if self._stripped is not None:
            segments = tf.strings.regex_replace(segments, *self._stripped)
        return self._ids.lookup(segments)

    def _segments(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts [batch] into special tokens and what stands between them [batch, (segments)]."""
        segments = tf.RaggedTensor.from_uniform_row_length(as_utf8(texts), 1)
        if len(self._patterns) == 1:
            return self._cut(segments, self._patterns[0])

        def cut(state: tuple[tf.Tensor, tf.Tensor], pattern: tf.Tensor):
            segments = tf.RaggedTensor.from_row_splits(*state, validate=False)
            segments = self._cut(segments, pattern)
            return segments.values, segments.row_splits

        state = (segments.values, segments.row_splits)
        state = tf.foldl(cut, tf.constant(self._patterns), state)
        return tf.RaggedTensor.from_row_splits(*state, validate=False)

    def _cut(self, segments: tf.RaggedTensor, pattern: str | tf.Tensor) -> tf.RaggedTensor:
        marked = tf.strings.regex_replace(segments.values, pattern, MARK + rb"\0" + MARK)
        marked = tf.where(self._ids_of(segments.values) >= 0, segments.values, marked)
        return joined_rows(tf.strings.split(marked, MARK), segments)


def _with_special_tokens(
    tokens: tf.RaggedTensor, segments: tf.RaggedTensor, special: tf.Tensor, with_offsets: bool
) -> tf.RaggedTensor:
    """The tokens of texts, from those of their segments and the ids of what is special, else -1."""
    is_special = special >= 0
    lengths = tf.strings.length(segments.values, unit="UTF8_CHAR")
    if with_offsets:
        special = token_columns(special, tf.zeros_like(lengths), lengths)
    # Each special token has a segment to itself, which has no others.
    before = tf.concat([[0], tf.cumsum(tf.cast(is_special, tf.int64))], 0)
    row_splits = tokens.row_splits + before
    segment = tf.cast(tokens.value_rowids(), tf.int64)
    of_text = tf.range(tf.size(segment, tf.int64)) + tf.gather(before, segment)
    of_special = picked(row_splits[:-1], is_special)
    places = [tf.cast(each, tf.int32) for each in (of_text, of_special)]
    values = tf.dynamic_stitch(places, [tokens.values, picked(special, is_special)])
    tokens = tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
    if with_offsets:
        segment_starts = sums_before(lengths, segments.row_splits)
        shifts = tf.gather(segment_starts, tokens.value_rowids())
        shifts = token_columns(tf.zeros_like(shifts), shifts, shifts)
        tokens = tokens.with_values(tokens.values + shifts)
    return joined_rows(tokens, segments)
