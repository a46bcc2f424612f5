"""Words as ids of their characters, in NumPy and in TensorFlow's graph.

A word is a row of ids: its begin, its UTF-8 bytes, its end, and padding. A row of 0 is a missing word, so ids
are one more than in the source, allenai/bilm-tf bilm/data.py, UnicodeCharsVocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8, is_white_space, split_at_white_space, strings, text_batch
from bert_zoo.text.files import Vocabulary
from bert_zoo.text.numpy_packing import NumpyPacker, PackingOptions, Positions, Slices, Tokens
from bert_zoo.text.preprocessor import LanguageModelPreprocessor, Packer, slices_of
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.windows import NumpyLanguageModelPreprocessor

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


MARKS = {BEGIN: "<S>", END: "</S>", WORD_BEGIN: "<W>", WORD_END: "</W>", PAD: "<pad>"}
# The text of each character id.
NAMES = ("<none>", *(f"<0x{byte:02X}>" for byte in range(256)), *MARKS.values())


class CharacterTokenizer(Tokenizer):
    """Splits texts at white space, like Python's `str.split`, and words into characters: int32 [batch, (words),
    characters] of a word's begin, its UTF-8 bytes, its end, and padding. The words <S> and </S> in a text become the
    marks of sentences. Words longer than `max_characters` are cut, even within a character.
    """

    unit = "word"

    def __init__(self, max_characters: int = 50):
        super().__init__(Vocabulary(NAMES), max_characters=max_characters)
        self.max_characters = max_characters
        self._build_graph()

    def _build(self) -> None:
        self._trace(self._words, self._words_with_offsets)

    def _words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._spelled(split_at_white_space(as_utf8(texts)))

    def _spelled(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        return words.with_values(ids_in_graph(words.values, self.max_characters))

    def _words_with_offsets(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch, (words), characters + 2]: ids, start and end."""
        words = self._words(texts)
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        is_inside = codes.with_values(~is_white_space(codes.values))
        # With white space around each text, words begin and end where characters change to or from white space.
        edges = tf.pad(is_inside.to_tensor(False), [[0, 0], [1, 1]])
        starts = tf.where(edges[:, 1:] & ~edges[:, :-1])[:, 1]
        ends = tf.where(~edges[:, 1:] & edges[:, :-1])[:, 1]
        spans = tf.cast(tf.stack([starts, ends], axis=1), tf.int32)
        return words.with_values(tf.concat([words.values, spans], axis=1))

    def tokenize_with_offsets(self, texts: Any):
        """As of `Tokenizer`; ids are int32 [batch, (words), characters]."""
        self._check_has_graph()
        words = self._untracked.tokenize_with_offsets(text_batch(texts))
        ids = words.with_values(words.values[:, :-2])
        starts, ends = (words.with_values(words.values[:, i]) for i in (-2, -1))
        return ids, starts, ends

    def pieces_of_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Words [n] without splitting at white space: int32 [n, (1), characters]."""
        ids = ids_in_graph(as_utf8(words), self.max_characters)
        return tf.RaggedTensor.from_uniform_row_length(ids, 1)

    def ids_of_words(self, words: Sequence[str]) -> np.ndarray:
        """Words without splitting, outside a graph: int32 [words, characters]."""
        return ids_of_words(words, self.max_characters)

    def _files(self) -> dict[str, Any]:
        return {"tokenizer_config.json": self._config(type(self).__name__, **self.get_config())}


class _Reader:
    """The counterpart of `bert_zoo.text.numpy_packing.Reader` for this tokenizer."""

    def __init__(self, size: int):
        self.size = size

    def tokenized(self, texts: Sequence[str], *, with_spans: bool = False) -> Tokens:
        rows = [text.split() for text in texts]
        return self.words([word for row in rows for word in row])._replace(
            lengths=np.array([*map(len, rows)], np.int64)
        )

    def words(self, words: Sequence[str]) -> Tokens:
        return Tokens(ids_of_words(words, self.size), np.ones(len(words), np.int64))


class _WordRows(PackingOptions):
    """Packs words into rows: int32 [batch, words, characters], padded with 0."""

    def lay_out(self, segments: Sequence[Slices]) -> tuple[dict[str, Any], list[Positions]]:
        (words,) = segments
        place, is_word = self._positions(words.lengths)
        positions = Positions(is_word, words.starts[:, None] + place)
        return self._with_mask({"char_ids": positions.gather(words.values)}, is_word), [positions]


class WordPacker(_WordRows, Packer):
    def checked(self, segments: Any) -> list[Slices]:
        segments = [segments] if isinstance(segments, tf.RaggedTensor) else list(segments)
        self.layout.parts(len(segments))
        return [*map(slices_of, segments)]


class NumpyWordPacker(_WordRows, NumpyPacker):
    pass


class WordPreprocessor(LanguageModelPreprocessor):
    """Texts to `char_ids` [batch, words, characters] and `padding_mask` [batch, words], in the graph."""

    packer_class = WordPacker


class NumpyWordPreprocessor(NumpyLanguageModelPreprocessor):
    packer_class = NumpyWordPacker

    @property
    def reader(self) -> _Reader:
        return _Reader(self.tokenizer.max_characters)

    def tokenize(self, texts: Any) -> list[Any]:
        """The ids of each text's words, int32 [words, characters]."""
        tokens = self.reader.tokenized(strings(texts))
        return np.split(tokens.ids, np.cumsum(tokens.lengths)[:-1])
