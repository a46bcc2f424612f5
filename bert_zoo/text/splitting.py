"""Splits texts into words, and words into rows; without TensorFlow."""

from __future__ import annotations

import itertools
import re

import numpy as np

from bert_zoo.text.unicode_tables import python_class


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of the words of a raw text, in characters.

    Words are split as in BERT's original code: at white space, with each punctuation mark, ASCII symbol and
    Chinese character a word of its own.
    """
    return [match.span() for match in _WORD.finditer(text)]


_ALONE = python_class("bert/punctuation", "bert/cjk")
_WHITE_SPACE = python_class("bert/whitespace", "python/whitespace")
_WORD = re.compile(f"[{_ALONE}]|[^{_ALONE}{_WHITE_SPACE}]+")


def row_splits_that_fit(lengths: np.ndarray, sentences: np.ndarray, budget: int) -> np.ndarray:
    """Splits sentences that are too long for one row into several, between words.

    Args:
        lengths: int [words], number of pieces of each word of all sentences.
        sentences: int [batch + 1], row splits of the words.
        budget: the most tokens of a row, without special tokens.

    Returns:
        int64 [rows + 1], row splits of the words in the new rows. A word that is too long is a row of
        its own.
    """
    starts = []
    pieces = lengths.tolist()
    for begin, end in itertools.pairwise(sentences.tolist()):
        starts.append(begin)
        tokens = 0
        for word in range(begin, end):
            tokens += pieces[word]
            if tokens > budget and word > starts[-1]:
                starts.append(word)
                tokens = pieces[word]
    return np.array([*starts, len(pieces)], np.int64)
