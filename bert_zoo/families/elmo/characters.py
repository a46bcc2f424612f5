"""Words as ids of their characters, in NumPy and in TensorFlow's graph.

A word is a row of ids: its begin, its UTF-8 bytes, its end, and padding. A row of 0 is a missing word, so ids
are one more than in the source, allenai/bilm-tf bilm/data.py, UnicodeCharsVocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.graph import tf

# Marks of sentences (words of one character) and of words.
BEGIN, END, WORD_BEGIN, WORD_END, PAD = 257, 258, 259, 260, 261
# These words of a text are read as the marks of sentences.
SENTENCE_MARKS = {"<S>": BEGIN, "</S>": END}


def boundary_ids(mark: int, size: int) -> np.ndarray:
    """The row of a sentence mark, int32 [size]."""
    return np.array([WORD_BEGIN, mark, WORD_END, *[PAD] * (size - 3)], np.int32)


def ids_of_words(words: Sequence[str], size: int) -> np.ndarray:
    """The rows of words, int32 [words, size]. Longer words are cut, even within a character."""
    ids = np.full((len(words), size), PAD, np.int32)
    for row, word in zip(ids, words, strict=True):
        if word in SENTENCE_MARKS:
            row[:] = boundary_ids(SENTENCE_MARKS[word], size)
            continue
        data = np.frombuffer(word.encode("utf-8")[: size - 2], np.uint8)
        row[0], row[len(data) + 1] = WORD_BEGIN, WORD_END
        row[1 : len(data) + 1] = data + np.int32(1)
    return ids


def ids_in_graph(words: Any, size: int) -> Any:
    """`ids_of_words` for a string tensor [words]."""
    data = tf.cast(tf.io.decode_raw(words, tf.uint8, fixed_length=size - 2), tf.int32)
    length = tf.minimum(tf.strings.length(words), size - 2)[:, None]
    place = tf.range(size)[None]
    ids = tf.where(place <= length, tf.pad(data, [[0, 0], [1, 1]]) + 1, PAD)
    ids = tf.where(place == length + 1, WORD_END, ids)
    ids = tf.where(place == 0, WORD_BEGIN, ids)
    for word, mark in SENTENCE_MARKS.items():
        ids = tf.where((words == word)[:, None], boundary_ids(mark, size), ids)
    return ids
