"""Special tokens in raw texts, for tokenizers that take what stands between them by itself."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_zoo.text.offsets import joined_rows, sums_before, token_columns
from bert_zoo.text.tokenizer import TokenizeFunction, traced_once

# UTF-8 never has this byte, so it can mark special tokens in texts that were made UTF-8.
MARK = b"\xff"


def tokenize_around_special_tokens(
    texts: tf.Tensor,
    pattern: str,
    special_ids_of: Callable[[tf.Tensor], tf.Tensor],
    tokenize: TokenizeFunction,
    *,
    with_offsets: bool,
) -> tf.RaggedTensor:
    """Cuts texts at special tokens and tokenizes what is between them, as texts of their own.

    Args:
        texts: string [batch].
        pattern: RE2 for a special token.
        special_ids_of: from the segments of texts, string [segments], to int32 [segments]: the ids
            of those that are special tokens, and -1.
        tokenize: from string [n] to int32 [n, (tokens)], or [n, (tokens), 3] with offsets.
        with_offsets: whether `tokenize` gives ids, starts and ends of tokens.

    Returns:
        What `tokenize` gives, for whole texts.
    """

    # Traced once for both branches.
    tokenize = traced_once(tokenize, tf.TensorSpec([None], tf.string))

    def tokenize_segments() -> tf.RaggedTensor:
        valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        marked = tf.strings.regex_replace(valid, f"({pattern})", MARK + rb"\1" + MARK)
        segments = tf.strings.split(marked, MARK)
        special = special_ids_of(segments.values)
        is_special = special >= 0
        tokens = tokenize(tf.where(is_special, "", segments.values))
        lengths = tf.strings.length(segments.values, unit="UTF8_CHAR")
        if with_offsets:
            special = token_columns(special, tf.zeros_like(lengths), lengths)
        # A segment is either text, or one special token and so without tokens of its own.
        special = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(special, is_special), tf.cast(is_special, tf.int64), validate=False
        )
        tokens = tf.concat([tokens, special], axis=1)
        if with_offsets:
            segment_starts = sums_before(lengths, segments.row_splits)
            shifts = tf.gather(segment_starts, tokens.value_rowids())
            shifts = token_columns(tf.zeros_like(shifts), shifts, shifts)
            tokens = tokens.with_values(tokens.values + shifts)
        return joined_rows(tokens, segments)

    found = tf.strings.regex_full_match(texts, rf"\C*?(?:{pattern})\C*")
    return tf.cond(tf.reduce_any(found), tokenize_segments, lambda: tokenize(texts))
