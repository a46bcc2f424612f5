"""Sentences of words in NumPy, without TensorFlow; `bert_zoo.text.words` has them in TensorFlow's graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.text.batches import strings
from bert_zoo.text.columns import as_list, is_missing
from bert_zoo.text.numpy_packing import Arrays, ragged_range
from bert_zoo.text.reading import Tokens

if TYPE_CHECKING:
    from bert_zoo.text.numpy_preprocessor import NumpyPreprocessor

NO_WORD = -1
# The words of each row.
Words = list[list[str]]

WORDS_EXPECTED = (
    "Sentences of words are a list of lists of strings, a ragged string tensor [batch, (words)], or "
    "texts to be split at white space"
)


def are_rows_of_words(words: Any) -> bool:
    """Whether data other than tensors are sentences of words, rather than texts."""
    words = as_list(words)
    if isinstance(words, list | np.ndarray) and len(words):
        return isinstance(words[0], list | tuple | np.ndarray)
    return False


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
    if not are_rows_of_words(words):
        return [text.split() for text in strings(words, name)]
    rows = [*as_list(words)]
    check_rows(rows, name)
    return [strings(row, f"{name}[{position}]") for position, row in enumerate(rows)]


class NumpyPackedWords(NamedTuple):
    """A model's inputs, and the word of each token."""

    inputs: Arrays  # as from a preprocessor, int32 [batch, length] each
    # int32 [batch, length], index of the token's word in its row; -1 for special tokens and padding
    word_ids: np.ndarray

    @property
    def first_pieces(self) -> np.ndarray:
        """bool [batch, length], the first tokens of words."""
        before = np.pad(self.word_ids[:, :-1], ((0, 0), (1, 0)), constant_values=NO_WORD)
        return (self.word_ids != NO_WORD) & (self.word_ids != before)


def pack_rows_of_words(words: Words, preprocessor: NumpyPreprocessor) -> NumpyPackedWords:
    """Turns sentences of `word_rows` into a model's inputs; long ones are truncated with a warning."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    pieces = preprocessor.reader.words([*itertools.chain.from_iterable(words)])
    return pack_word_pieces(pieces, lengths, preprocessor)


def pack_word_pieces(
    pieces: Tokens, lengths: np.ndarray, preprocessor: NumpyPreprocessor
) -> NumpyPackedWords:
    """Packs the tokens of words; `lengths` int64 [batch] is the number of words in each row."""
    splits = np.cumsum([0, *lengths])
    before = np.append(pieces.starts, len(pieces.ids))
    tokens = Tokens(pieces.ids, np.diff(before[splits]))
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    number_of_word = ragged_range(np.zeros_like(lengths), lengths)
    number_of_token = np.int32(np.repeat(number_of_word, pieces.lengths))
    return NumpyPackedWords(inputs, positions.gather(number_of_token, otherwise=NO_WORD))


def labels_of_tokens(
    labels: Sequence[Sequence[float]],
    packed: NumpyPackedWords,
    words: Words,
    otherwise: float = IGNORED_LABEL,
) -> np.ndarray:
    """Gives the label of each word to its first piece, [batch, length]; all other tokens get `otherwise`.

    Raises:
        ValueError: a row has more or fewer labels than words.
    """
    counts = [
        (number, len(of_row), len(row))
        for number, (of_row, row) in enumerate(zip(words, labels, strict=True))
    ]
    if wrong := [each for each in counts if each[1] != each[2]]:
        raise ValueError(
            "Some rows of this batch do not have one label per word (or one weight). (row, words, labels): "
            f"{shown(wrong)}."
        )
    flat = np.array([*itertools.chain.from_iterable(labels), otherwise])
    starts = np.cumsum([0, *map(len, labels)])[:-1]
    at = np.where(packed.first_pieces, starts[:, None] + packed.word_ids, len(flat) - 1)
    return flat[at]
