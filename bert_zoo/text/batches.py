"""Texts that users pass become string tensors; rows of tokens and their characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from bert_zoo.error_text import check_has_utf8, shown
from bert_zoo.forks import refuse_fork
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.columns import as_list, column_names, is_missing
from bert_zoo.text.unicode_tables import PAGE_BITS, code_points, re2_class

# Marks both ends of a match in UTF-8 texts, which never have this byte.
MARK = b"\xff"
_EXPECTED = (
    "Texts are a string (a batch of one), a list or NumPy array of strings, or a string tensor "
    "[batch]"
)


def text_batch(texts: Any, name: str = "texts") -> tf.Tensor | np.ndarray:
    """Returns texts (a str or bytes in UTF-8, a sequence or one-dimensional array of them, a string tensor [batch]) as
    a string tensor [batch], or without TensorFlow as an object array of str; `name` is the argument's in errors.

    Raises:
        TypeError: an item that is not a text; names the first one and its position.
        ValueError: a wrong number of dimensions, or a str that UTF-8 cannot encode.
    """
    refuse_fork()
    if not has_tensorflow:
        return np.fromiter(strings(texts, name), object)
    if is_tensor(texts):
        return _checked_tensor(tf.convert_to_tensor(texts), name)
    items = _text_list(texts, name)
    try:
        return tf.constant(items, tf.string, shape=[len(items)])
    except ValueError:  # of TensorFlow 2.21, for a str that UTF-8 cannot encode
        _check_have_utf8(items, name)
        raise


def strings(texts: Any, name: str = "texts") -> list[str]:
    """Returns texts, as `text_batch` takes them, as Python strings; bytes that are not UTF-8 give U+FFFD."""
    refuse_fork()
    if is_tensor(texts):
        texts = text_batch(texts, name).numpy()
    items = [
        text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        for text in _text_list(texts, name)
    ]
    _check_have_utf8(items, name)
    return items


def is_tensor(value: Any) -> bool:
    return has_tensorflow and isinstance(value, tf.Tensor | tf.Variable)


def _text_list(texts: Any, name: str) -> list[str | bytes]:
    """Returns texts other than tensors as a list, checked as in `text_batch`."""
    if has_tensorflow and isinstance(texts, tf.RaggedTensor | tf.SparseTensor):
        raise TypeError(
            f"{name} is a {type(texts).__name__}. {_EXPECTED}. Flatten it first, for example with "
            "`.flat_values`."
        )
    if isinstance(texts, str | bytes):
        texts = [texts]
    if column_names(texts) is not None:
        raise TypeError(_table_advice(texts, name))
    if hasattr(texts, "element_spec"):
        raise TypeError(f"{name} is a tf.data.Dataset. {_EXPECTED}. Pass a Dataset to `predict`.")
    if isinstance(texts, Mapping | Set):
        what = "the values that are texts" if isinstance(texts, Mapping) else "a list, in order"
        raise TypeError(f"{name} is a {type(texts).__name__}. {_EXPECTED}. Pass {what}.")
    if isinstance(texts, np.ndarray) and texts.ndim != 1:
        raise ValueError(
            f"{name} has shape {texts.shape}. {_EXPECTED}. Pass a batch of pairs as a tuple of two "
            "batches, (firsts, seconds)."
        )
    try:
        items = list(as_list(texts))
    except TypeError:
        raise TypeError(f"{name} is {_described(texts)}. {_EXPECTED}.") from None
    for position, item in enumerate(items):
        if not isinstance(item, str | bytes):
            raise TypeError(_bad_item(item, position, name))
    return items


def _check_have_utf8(items: Iterable[str | bytes], name: str) -> None:
    """Names the first str that UTF-8 cannot encode."""
    for position, item in enumerate(items):
        if isinstance(item, str):
            check_has_utf8(item, f"{name}[{position}]")


def as_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD, as `decode("utf-8", "replace")` does."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def replaced(texts: tf.Tensor, rules: Iterable[tuple[str, str]]) -> tf.Tensor:
    """Applies replacements (RE2 pattern, rewrite) to texts, one after the other."""
    for pattern, rewrite in rules:
        texts = tf.strings.regex_replace(texts, pattern, rewrite)
    return texts


def is_marked(parts: tf.RaggedTensor) -> tf.Tensor:
    """Returns which parts of texts that were split at marks are matches: every other one, bool [n]."""
    return tf.ragged.range(parts.row_lengths()).values % 2 == 1


def split_at_white_space(texts: tf.Tensor) -> tf.RaggedTensor:
    """The words of texts in UTF-8 [batch, (words)], split where Python's `str.split` does."""
    # tf.strings.split knows only some of ASCII's white space.
    white_space = f"[{re2_class('python/whitespace')}]+"
    return tf.strings.split(tf.strings.regex_replace(texts, white_space, " "))


def _checked_tensor(texts: tf.Tensor, name: str) -> tf.Tensor:
    if texts.dtype != tf.string:
        raise TypeError(f"{name} is a tensor of {texts.dtype.name}. {_EXPECTED}.")
    if texts.shape.rank is None:
        return tf.ensure_shape(texts, [None])
    if texts.shape.rank == 0:
        raise ValueError(
            f"{name} is a scalar string tensor. {_EXPECTED}. In tf.data, call `.batch()` before "
            "`.map()`."
        )
    if texts.shape.rank > 1:
        raise ValueError(
            f"{name} is a string tensor of shape {texts.shape}. {_EXPECTED}. Use tf.reshape or "
            "tf.squeeze, and pass pairs as a tuple of two batches, (firsts, seconds)."
        )
    return texts


def _table_advice(table: Any, name: str) -> str:
    """The error for a table, such as a pandas DataFrame, whose iteration gives column names."""
    columns = [repr(column) for column in column_names(table)]
    some = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
    column = columns[0] if columns else "'text'"
    pair = ", ".join(f"table[{column}]" for column in columns[:2])
    pairs = f", or a pair of them as a tuple, ({pair})" if len(columns) > 1 else ""
    return (
        f"{name} is a {type(table).__name__} with the columns {some}. {_EXPECTED}. Pass a column, "
        f"table[{column}]{pairs}."
    )


def _bad_item(item: Any, position: int, name: str) -> str:
    if isinstance(item, list | tuple | np.ndarray):
        advice = "Pass pairs as a tuple of two batches, (firsts, seconds), not as rows."
    elif is_missing(item) or isinstance(item, float):
        advice = "Replace missing texts with '' or drop their rows."
    else:
        advice = "Convert it with str() if it is meant as text."
    return f"{name}[{position}] is {_described(item)}, not a string. {advice}"


def _described(value: Any) -> str:
    return f"{shown(value, 60)} ({type(value).__name__})"


# -------------------------------------------------------------------------------------------------
# Helpers of tokenizers: rows of tokens, and the characters of a text that tokens cover.
# -------------------------------------------------------------------------------------------------


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
    """Replaces offsets in changed texts, of tokens = ids, starts, ends [batch, (tokens), 3], by offsets in the original
    ones: `origins` [characters], int64 `row_splits` [batch + 1], are the positions of the changed texts' characters.
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
