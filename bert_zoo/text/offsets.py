"""What tokenizers share: rows of tokens, and which characters of a text their tokens stand for."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bert_zoo.text.batches import MARK, is_marked
from bert_zoo.text.unicode_tables import PAGE_BITS, code_points, re2_class


def token_columns(ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Stacks what is known of tokens, [n] of any integers each, to int32 [n, 3]."""
    return tf.stack([tf.cast(column, tf.int32) for column in (ids, starts, ends)], axis=1)


def joined_rows(tokens: tf.RaggedTensor, parts: tf.RaggedTensor) -> tf.RaggedTensor:
    """The tokens [parts, (tokens)] of all parts of each row, of which there are [batch, (parts)]."""
    row_splits = tf.gather(tokens.row_splits, parts.row_splits)
    return tf.RaggedTensor.from_row_splits(tokens.values, row_splits, validate=False)


def picked(values: tf.Tensor, is_picked: tf.Tensor) -> tf.Tensor:
    """The values [n, ...] where a mask, bool [n], says so; tf.boolean_mask makes thrice the graph for it."""
    return tf.gather(values, tf.squeeze(tf.where(is_picked), 1))


def sums_before(lengths: tf.Tensor, row_splits: tf.Tensor) -> tf.Tensor:
    """Returns for each of [n] lengths the sum of those before it in its row."""
    before = tf.concat([[0], tf.cumsum(lengths)], 0)
    before_row = tf.gather(before, row_splits[:-1])
    return before[:-1] - tf.repeat(before_row, row_splits[1:] - row_splits[:-1])


def is_white_space(codes: tf.Tensor) -> tf.Tensor:
    """Whether code points [n] are what Python calls white space, bool [n]."""
    return tf.reduce_any(codes[:, None] == code_points("python/whitespace"), axis=1)


def spans_of_characters(texts: tf.Tensor) -> tf.Tensor:
    """Where each character of texts [batch], UTF-8, begins and ends in its own: int32 [characters, 2].

    White space is left out here and in `spans_after`, so that a step which only changes white space, or
    puts one character in the place of one, leaves the spans as they are.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    positions = tf.ragged.range(tf.cast(codes.row_lengths(), tf.int32)).values
    starts = picked(positions, ~is_white_space(codes.values))
    return tf.stack([starts, starts + 1], axis=1)


def spans_after(spans: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The spans of characters after a change of texts, from those before it.

    A character that is new has the span of all that it and its neighbours replace; if that was white
    space, what stands between the characters around it.

    Args:
        spans: int32 [characters, 2], of the characters before; each begins and ends no earlier than the
            one before it.
        before, after: string [batch], the same texts; in both, MARK stands before and after each thing that
            changes. Elsewhere they are alike, white space aside.

    Returns:
        int32 [characters, 2], in the order in which the characters stand after the change.
    """
    old, new = (tf.strings.split(texts, MARK) for texts in (before, after))
    is_changed = is_marked(old)
    old, new = (_lengths_without_white_space(parts.values) for parts in (old, new))
    part = tf.repeat(tf.range(tf.size(new)), new)
    place = tf.range(tf.size(part)) - tf.gather(tf.cumsum(new, exclusive=True), part)
    begin, length, is_changed = (
        tf.gather(column, part) for column in (tf.cumsum(old, exclusive=True), old, is_changed)
    )
    first = tf.where(is_changed, begin, begin + place)
    last = tf.where(is_changed, begin + length - 1, first)
    # Of what replaces white space, `first` is the character behind it and `last` the one before.
    is_inserted = last < first
    starts, ends = spans[:, 0], spans[:, 1]
    return tf.stack(
        [
            tf.where(is_inserted, tf.gather(ends, last), tf.gather(starts, first)),
            tf.where(is_inserted, tf.gather(starts, first), tf.gather(ends, last)),
        ],
        axis=1,
    )


def _lengths_without_white_space(texts: tf.Tensor) -> tf.Tensor:
    white_space = f"[{re2_class('python/whitespace')}]+"
    return tf.strings.length(tf.strings.regex_replace(texts, white_space, ""), unit="UTF8_CHAR")


def at_origins(
    tokens: tf.RaggedTensor, origins: tf.Tensor, row_splits: tf.Tensor
) -> tf.RaggedTensor:
    """The tokens of changed texts [batch, (tokens), 3] with offsets of the texts as they came.

    Args:
        tokens: ids, starts and ends.
        origins: [characters], which character of its text each of the changed texts' comes from.
        row_splits: int64 [batch + 1], where the changed texts begin among these.
    """
    ids, starts, ends = tf.unstack(tf.cast(tokens.values, tf.int64), axis=1)
    shifts = tf.gather(row_splits, tokens.value_rowids())
    firsts, lasts = (tf.gather(origins, place + shifts) for place in (starts, ends - 1))
    return tokens.with_values(token_columns(ids, firsts, lasts + 1))


def utf8_lengths(codes: tf.Tensor) -> tf.Tensor:
    """Returns how many bytes of UTF-8 each code point takes, int32 [n]."""
    return 1 + sum(tf.cast(codes > last, tf.int32) for last in (0x7F, 0x7FF, 0xFFFF))


def characters_of_bytes(codes: tf.Tensor) -> tf.Tensor:
    """Returns which of the code points [n] each byte of their UTF-8 belongs to, int32 [bytes]."""
    return tf.repeat(tf.range(tf.size(codes)), utf8_lengths(codes))


def look_up(codes: tf.Tensor, pages: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The numbers of code points [n] in a table of `unicode_tables.paged`."""
    page = tf.gather(pages, tf.bitwise.right_shift(codes, PAGE_BITS))
    offset = tf.bitwise.bitwise_and(codes, (1 << PAGE_BITS) - 1)
    return tf.gather(rows, page * (1 << PAGE_BITS) + offset)


def lookup_table(keys: Any, values: Any, default: int) -> tf.lookup.StaticHashTable:
    """Returns a table that is part of a SavedModel when a tf.Module holds it."""
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values))
    return tf.lookup.StaticHashTable(initializer, default)
