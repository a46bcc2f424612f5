"""Turns what users pass as texts into a string tensor, or says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from bert_zoo.error_text import check_has_utf8, shown
from bert_zoo.forks import refuse_fork
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.columns import as_list, column_names, is_missing
from bert_zoo.text.unicode_tables import re2_class

# Stands before and after what is found in texts that are UTF-8, which never has this byte.
MARK = b"\xff"
_EXPECTED = (
    "Texts are a string (a batch of one), a list or NumPy array of strings, or a string tensor "
    "[batch]"
)


def text_batch(texts: Any, name: str = "texts") -> tf.Tensor | np.ndarray:
    """Returns texts as a string tensor [batch]; without TensorFlow as an array of str, of dtype object.

    Args:
        texts: a str or bytes (a batch of one); a sequence or one-dimensional array of them; or a
            string tensor [batch]. bytes are UTF-8.
        name: what an error calls the argument.

    Raises:
        TypeError: something that is not a text; names the first such item and its position.
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
    except ValueError:  # TensorFlow 2.21 has a ValueError of its own for what UTF-8 cannot encode
        _check_have_utf8(items, name)
        raise


def strings(texts: Any, name: str = "texts") -> list[str]:
    """What `text_batch` takes, as Python's strings; bytes that are not UTF-8 give U+FFFD."""
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
    """Whether a value is a tensor or a variable of TensorFlow."""
    return has_tensorflow and isinstance(value, tf.Tensor | tf.Variable)


def _text_list(texts: Any, name: str) -> list[str | bytes]:
    """What is no tensor as a list, checked as `text_batch` says."""
    if has_tensorflow and isinstance(texts, tf.RaggedTensor | tf.SparseTensor):
        raise TypeError(
            f"{name} is a {type(texts).__name__}. {_EXPECTED}; flatten it first, for example with "
            "`.flat_values`."
        )
    if isinstance(texts, str | bytes):
        texts = [texts]
    if column_names(texts) is not None:
        raise TypeError(_table_advice(texts, name))
    if hasattr(texts, "element_spec"):
        raise TypeError(f"{name} is a tf.data.Dataset, which `predict` takes. {_EXPECTED}.")
    if isinstance(texts, Mapping | Set):
        what = "the values that are texts" if isinstance(texts, Mapping) else "a list, in order"
        raise TypeError(f"{name} is a {type(texts).__name__}. {_EXPECTED}: pass {what}.")
    if isinstance(texts, np.ndarray) and texts.ndim != 1:
        raise ValueError(
            f"{name} has shape {texts.shape}. {_EXPECTED}; a batch of pairs is passed as a tuple "
            "of two batches, (firsts, seconds)."
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
    """Texts in which bytes that are not UTF-8 became U+FFFD, as in `decode("utf-8", "replace")`."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def replaced(texts: tf.Tensor, rules: Iterable[tuple[str, str]]) -> tf.Tensor:
    """Texts after replacements, one after the other: patterns of RE2 and what takes their places."""
    for pattern, rewrite in rules:
        texts = tf.strings.regex_replace(texts, pattern, rewrite)
    return texts


def is_marked(parts: tf.RaggedTensor) -> tf.Tensor:
    """Whether each of the parts, which marks divide, stood between two of them: every other one, bool [n]."""
    return tf.ragged.range(parts.row_lengths()).values % 2 == 1


def split_at_white_space(texts: tf.Tensor) -> tf.RaggedTensor:
    """The words of texts in UTF-8 [batch, (words)], split where Python's `str.split` does."""
    # tf.strings.split knows ASCII's white space only, and not all of it.
    white_space = f"[{re2_class('python/whitespace')}]+"
    return tf.strings.split(tf.strings.regex_replace(texts, white_space, " "))


def _checked_tensor(texts: tf.Tensor, name: str) -> tf.Tensor:
    if texts.dtype != tf.string:
        raise TypeError(f"{name} is a tensor of {texts.dtype.name}. {_EXPECTED}.")
    if texts.shape.rank is None:
        return tf.ensure_shape(texts, [None])
    if texts.shape.rank == 0:
        raise ValueError(
            f"{name} is a scalar string tensor. {_EXPECTED}; in tf.data, call `.batch()` before "
            "`.map()`."
        )
    if texts.shape.rank > 1:
        raise ValueError(
            f"{name} is a string tensor of shape {texts.shape}. {_EXPECTED}; use tf.reshape or "
            "tf.squeeze, and pass pairs as a tuple of two batches, (firsts, seconds)."
        )
    return texts


def _table_advice(table: Any, name: str) -> str:
    """What to do with pandas' tables, over which a loop gives the names of the columns."""
    columns = [repr(column) for column in column_names(table)]
    some = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
    column = columns[0] if columns else "'text'"
    pair = ", ".join(f"table[{column}]" for column in columns[:2])
    pairs = f", or a pair of them as a tuple, ({pair})" if len(columns) > 1 else ""
    return (
        f"{name} is a {type(table).__name__} with the columns {some}. {_EXPECTED}: pass a column, "
        f"table[{column}]{pairs}."
    )


def _bad_item(item: Any, position: int, name: str) -> str:
    if isinstance(item, list | tuple | np.ndarray):
        advice = "Pairs are passed as a tuple of two batches, (firsts, seconds), not as rows."
    elif is_missing(item) or isinstance(item, float):
        advice = "Replace missing texts with '' or drop their rows."
    else:
        advice = "Convert it with str() if it is meant as text."
    return f"{name}[{position}] is {_described(item)}, not a string. {advice}"


def _described(value: Any) -> str:
    return f"{shown(value, 60)} ({type(value).__name__})"
