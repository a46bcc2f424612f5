"""Helpers of tokenizers: rows of tokens, and the characters of a text that tokens cover."""

from __future__ import annotations

from typing import Any

from bert_zoo.graph import tf
from bert_zoo.text.unicode_tables import PAGE_BITS, code_points


def token_columns(ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Stacks columns of tokens, integers [n] each, to int32 [n, 3]."""
    return tf.stack([tf.cast(column, tf.int32) for column in (ids, starts, ends)], axis=1)


def joined_rows(tokens: tf.RaggedTensor, parts: tf.RaggedTensor) -> tf.RaggedTensor:
    """Joins the tokens [parts, (tokens)] of each row's parts [batch, (parts)] to [batch, (tokens)]."""
    row_splits = tf.gather(tokens.row_splits, parts.row_splits)
    return tf.RaggedTensor.from_row_splits(tokens.values, row_splits, validate=False)


def picked(values: tf.Tensor, is_picked: tf.Tensor) -> tf.Tensor:
    """The values [n, ...] where a mask, bool [n], is true; tf.boolean_mask makes a graph thrice as large."""
    return tf.gather(values, tf.squeeze(tf.where(is_picked), 1))


def sums_before(lengths: tf.Tensor, row_splits: tf.Tensor) -> tf.Tensor:
    """Returns for each of [n] lengths the sum of the lengths before it in its row."""
    before = tf.concat([[0], tf.cumsum(lengths)], 0)
    before_row = tf.gather(before, row_splits[:-1])
    return before[:-1] - tf.repeat(before_row, row_splits[1:] - row_splits[:-1])


def is_white_space(codes: tf.Tensor, table: str = "python/whitespace") -> tf.Tensor:
    """Whether code points [n] are white space, in Python or by another of the tables, bool [n]."""
    return tf.reduce_any(codes[:, None] == code_points(table), axis=1)


def at_origins(
    tokens: tf.RaggedTensor, origins: tf.Tensor, row_splits: tf.Tensor
) -> tf.RaggedTensor:
    """Replaces the offsets of tokens in changed texts by offsets in the original texts.

    Args:
        tokens: ids, starts and ends, [batch, (tokens), 3].
        origins: [characters], original position of each character of the changed texts.
        row_splits: int64 [batch + 1], row splits of these characters.
    """
    ids, starts, ends = tf.unstack(tf.cast(tokens.values, tf.int64), axis=1)
    shifts = tf.gather(row_splits, tokens.value_rowids())
    firsts, lasts = (tf.gather(origins, place + shifts) for place in (starts, ends - 1))
    return tokens.with_values(token_columns(ids, firsts, lasts + 1))


def utf8_lengths(codes: tf.Tensor) -> tf.Tensor:
    """Returns the number of UTF-8 bytes of each code point, int32 [n]."""
    return 1 + sum(tf.cast(codes > last, tf.int32) for last in (0x7F, 0x7FF, 0xFFFF))


def characters_of_bytes(codes: tf.Tensor) -> tf.Tensor:
    """Returns the index of the code point [n] to which each UTF-8 byte belongs, int32 [bytes]."""
    return tf.repeat(tf.range(tf.size(codes)), utf8_lengths(codes))


def look_up(codes: tf.Tensor, pages: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Looks up code points [n] in a table of `unicode_tables.paged`."""
    page = tf.gather(pages, tf.bitwise.right_shift(codes, PAGE_BITS))
    offset = tf.bitwise.bitwise_and(codes, (1 << PAGE_BITS) - 1)
    return tf.gather(rows, page * (1 << PAGE_BITS) + offset)


def lookup_table(keys: Any, values: Any, default: int) -> tf.lookup.StaticHashTable:
    """Returns a table, which is part of a SavedModel if a tf.Module holds it."""
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values))
    return tf.lookup.StaticHashTable(initializer, default)
