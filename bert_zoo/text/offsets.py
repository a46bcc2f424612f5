"""What tokenizers share that say which characters of a text their tokens stand for."""

from __future__ import annotations

import tensorflow as tf


def token_columns(ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Stacks what is known of tokens, [n] of any integers each, to int32 [n, 3]."""
    return tf.stack([tf.cast(column, tf.int32) for column in (ids, starts, ends)], axis=1)


def sums_before(lengths: tf.Tensor, row_splits: tf.Tensor) -> tf.Tensor:
    """Returns for each of [n] lengths the sum of those before it in its row."""
    before = tf.concat([[0], tf.cumsum(lengths)], 0)
    before_row = tf.gather(before, row_splits[:-1])
    return before[:-1] - tf.repeat(before_row, row_splits[1:] - row_splits[:-1])


def utf8_lengths(codes: tf.Tensor) -> tf.Tensor:
    """Returns how many bytes of UTF-8 each code point takes, int32 [n]."""
    return 1 + sum(tf.cast(codes > last, tf.int32) for last in (0x7F, 0x7FF, 0xFFFF))


def characters_of_bytes(codes: tf.Tensor) -> tf.Tensor:
    """Returns which of the code points [n] each byte of their UTF-8 belongs to, int32 [bytes]."""
    return tf.repeat(tf.range(tf.size(codes)), utf8_lengths(codes))
