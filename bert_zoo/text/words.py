"""Sentences of words: to a model's inputs, in the graph and in NumPy, and from labels of words to labels of tokens.

Each word is tokenized separately, as by Hugging Face's fast tokenizers with `is_split_into_words=True` and, in
byte-level BPE, `add_prefix_space=True`: without its blank, a word would read like the end of the one before it. So
the option of a file that says otherwise holds for texts only. A word's label belongs to the first of its tokens,
the *first piece*. Unlike there, a word without tokens (such as a lone control character) becomes one unknown token,
so that every word has a label.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.batches import as_utf8, is_tensor, split_at_white_space, strings, text_batch
from bert_zoo.text.columns import as_list, is_missing
from bert_zoo.text.numpy_packing import NumpyPacker, checked, ops_of, ragged_range
from bert_zoo.text.preprocessor import Preprocessor
from bert_zoo.text.reading import Tokens
from bert_zoo.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bert_zoo.text.windows import NumpyPreprocessor


NO_WORD = -1
# The words of each row.
Words = list[list[str]]

WORDS_EXPECTED = (
    "Sentences of words are a list of lists of strings, a ragged string tensor [batch, (words)], or "
    "texts to be split at white space"
)


def check_rows(rows: Sequence[Any], name: str) -> None:
    """Raises TypeError or ValueError for a row that is no list of words, or a missing or empty word."""
    for position, row in enumerate(rows):
        if not isinstance(row, list | tuple | np.ndarray):
            raise TypeError(
                f"{name}[{position}] is {row!r} ({type(row).__name__}), not a list of words. "
                f"{WORDS_EXPECTED}."
            )
        for number, word in enumerate(row):
            if is_missing(word) or (isinstance(word, str | bytes) and not word):
                what = f"{shown(word)}, no word" if is_missing(word) else "an empty word"
                raise (TypeError if is_missing(word) else ValueError)(
                    f"{name}[{position}][{number}] is {what}. Drop it and its label. Sentences of "
                    "different lengths need no padding."
                )


def word_rows(words: Any, name: str = "words") -> Words:
    """Returns sentences as lists of words; arguments and errors are those of `words.word_batch`."""
    if not has_rows_of_words(words):
        return [text.split() for text in strings(words, name)]
    rows = [*as_list(words)]
    check_rows(rows, name)
    return [strings(row, f"{name}[{position}]") for position, row in enumerate(rows)]


class PackedWords(NamedTuple):
    """A model's inputs, and the word of each token."""

    inputs: dict[str, Any]  # as from a preprocessor, int32 [batch, length] each
    # int32 [batch, length], index of the token's word in its row; -1 for special tokens and padding
    word_ids: Any

    @property
    def first_pieces(self) -> Any:
        """bool [batch, length], the first tokens of words."""
        pad = ops_of(self.word_ids).pad
        before = pad(self.word_ids[:, :-1], [[0, 0], [1, 0]], constant_values=NO_WORD)
        return (self.word_ids != NO_WORD) & (self.word_ids != before)


def pack_word_pieces(
    pieces: Tokens, lengths: np.ndarray, preprocessor: NumpyPreprocessor
) -> PackedWords:
    """Packs the tokens of words; `lengths` int64 [batch] is the number of words in each row."""
    splits = np.cumsum([0, *lengths])
    before = np.append(pieces.starts, len(pieces.ids))
    tokens = Tokens(pieces.ids, np.diff(before[splits]))
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    number_of_word = ragged_range(np.zeros_like(lengths), lengths)
    number_of_token = np.int32(np.repeat(number_of_word, pieces.lengths))
    return PackedWords(inputs, positions.gather(number_of_token, otherwise=NO_WORD))


def has_rows_of_words(words: Any) -> bool:
    """Whether data are sentences of words, rather than texts."""
    if has_tensorflow and isinstance(words, tf.RaggedTensor):
        return True
    if is_tensor(words):
        return (words.shape.rank or 0) > 1
    words = as_list(words)
    is_list = isinstance(words, list | np.ndarray) and len(words) > 0
    return is_list and isinstance(words[0], list | tuple | np.ndarray)


def word_batch(words: Any, name: str = "words") -> tf.RaggedTensor | Words:
    """Returns sentences as a ragged string tensor [batch, (words)] with int64 row splits, or without TensorFlow as
    lists of words. `words` is a sequence, or a column of a table, of sequences of strings; a string tensor [batch,
    words], ragged or not; or texts as for `text_batch`, which are split like Python's `str.split`.

    Raises:
        TypeError, ValueError: an item that is not a word, or an empty word.
        tf.errors.InvalidArgumentError: an empty word in a tensor.
    """
    if not has_tensorflow:
        return word_rows(words, name)
    if not has_rows_of_words(words):
        return split_at_white_space(as_utf8(text_batch(words, name)))
    if isinstance(words, tf.Tensor):
        words = tf.RaggedTensor.from_tensor(words) if words.shape.rank == 2 else words
    if not isinstance(words, tf.RaggedTensor | tf.Tensor):
        rows = word_rows(words, name)
        flat = tf.constant([*itertools.chain.from_iterable(rows)], tf.string)
        lengths = np.array([*map(len, rows)], np.int64)
        return tf.RaggedTensor.from_row_lengths(flat, lengths, validate=False)
    if words.dtype != tf.string or words.shape.rank != 2:
        raise ValueError(
            f"{name} is a tensor of {words.dtype.name} with shape {words.shape}. {WORDS_EXPECTED}."
        )
    words = words.with_row_splits_dtype(tf.int64)
    message = f"{name} has empty words. Do not pad sentences: pass a ragged tensor."
    return words.with_values(*checked([words.values], tf.reduce_all(words.values != ""), message))


@tf.autograph.experimental.do_not_convert
def pack_words(words: Any, preprocessor: Preprocessor) -> PackedWords:
    """Turns sentences, as for `word_batch`, into a model's inputs; traceable. Rows longer than the preprocessor's
    `sequence_length` are truncated with a warning. A preprocessor in NumPy makes NumPy arrays.
    """
    if isinstance(preprocessor.packer, NumpyPacker):
        words = word_rows(words)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        pieces = preprocessor.reader.words([*itertools.chain.from_iterable(words)])
        return pack_word_pieces(pieces, lengths, preprocessor)
    return pack_pieces(word_pieces(word_batch(words), preprocessor.tokenizer), preprocessor)


def word_pieces(words: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Tokenizes each word separately, string [batch, (words)] to int32 [batch, (words), (pieces), ...]; a word without
    tokens becomes the unknown token.
    """
    if hasattr(tokenizer, "pieces_of_words"):  # a tokenizer of words
        return words.with_values(tokenizer.pieces_of_words(words.values))
    pieces = _word_tokenizer(tokenizer)(words.values).with_row_splits_dtype(tf.int64)
    missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(missing)], tokenizer.unk_id), missing, validate=False
    )
    return words.with_values(tf.concat([pieces, unknown], axis=1))


# Cached, as making a tokenizer of 50,000 tokens takes seconds.
_PREFIXING: weakref.WeakKeyDictionary[Tokenizer, Tokenizer] = weakref.WeakKeyDictionary()


def _word_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, or its twin with `add_prefix_space` if words need a blank before them."""
    if tokenizer.get_config().get("add_prefix_space", True):
        return tokenizer
    if tokenizer not in _PREFIXING:
        _PREFIXING[tokenizer] = tokenizer.with_options(add_prefix_space=True)
    return _PREFIXING[tokenizer]


def pack_pieces(pieces: tf.RaggedTensor, preprocessor: Preprocessor) -> PackedWords:
    """Packs what `word_pieces` returns."""
    tokens = pieces.merge_dims(1, 2)
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    words = pieces.values
    row_of_word, first_word = pieces.value_rowids(), pieces.row_starts()
    number = tf.range(words.nrows()) - tf.gather(first_word, row_of_word)
    number_of_token = tf.cast(tf.gather(number, words.value_rowids()), tf.int32)
    return PackedWords(inputs, positions.gather(number_of_token, otherwise=NO_WORD))


def token_labels(
    labels: Any,
    packed: PackedWords,
    words: tf.RaggedTensor | Words,
    otherwise: float = IGNORED_LABEL,
) -> tf.Tensor | np.ndarray:
    """Gives the label (or weight) of each word [batch, (words)] to its first piece [batch, length], and all other
    tokens `otherwise`; traceable.

    Raises:
        ValueError: labels of another rank.
        tf.errors.InvalidArgumentError: a row has more or fewer labels than words; ValueError in NumPy.
    """
    ops = ops_of(packed.word_ids)
    if isinstance(packed.word_ids, np.ndarray):
        counts = zip(itertools.count(), map(len, words), map(len, labels), strict=False)
        if wrong := [each for each in counts if each[1] != each[2]]:
            raise ValueError(
                "Some rows of this batch do not have one label per word (or one weight). (row, words, labels): "
                f"{shown(wrong)}."
            )
        values = np.array([*itertools.chain.from_iterable(labels), otherwise])
        starts = np.cumsum([0, *map(len, labels)])[:-1]
    else:
        values, starts = _checked_labels(labels, words)
        values = tf.concat([values, tf.constant([otherwise], values.dtype)], axis=0)
    at = starts[:, None] + ops.cast(packed.word_ids, ops.int64)
    last = ops.size(values, ops.int64) - 1
    return ops.gather(values, ops.where(packed.first_pieces, at, last))


def _checked_labels(labels: Any, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The labels of all words, and the start of each row."""
    if labels.shape.rank != 2:
        raise ValueError(
            f"Labels or weights of words have shape {labels.shape}; they must be ragged [batch, (words)], one per word."
        )
    if isinstance(labels, tf.Tensor):
        labels = tf.RaggedTensor.from_tensor(labels)
    labels = labels.with_row_splits_dtype(tf.int64)
    number_of_labels, number_of_words = labels.row_lengths(), words.row_lengths()
    # The operator != loses the rank if only one of the sizes is known.
    wrong = tf.not_equal(number_of_labels, number_of_words)
    message = "Some rows of this batch do not have one label per word (or one weight). Rows, words, labels:"
    found = (tf.where(wrong)[:, 0], number_of_words[wrong], number_of_labels[wrong])
    return checked([labels.values, labels.row_starts()], ~tf.reduce_any(wrong), message, *found)
