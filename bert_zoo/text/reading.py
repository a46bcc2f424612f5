"""Texts to tokens, words and rows in NumPy, with Hugging Face's library tokenizers; without TensorFlow and Keras."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_zoo.error_text import check_has_utf8, shortened
from bert_zoo.text.numpy_packing import PackingOptions, Slices, ops_of, ragged_range
from bert_zoo.text.unicode_tables import code_points, python_class

if TYPE_CHECKING:
    import tokenizers


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of the words of a raw text, in characters. Words are split as in BERT's original code: at white
    space, with each punctuation mark, ASCII symbol and Chinese character a word of its own.
    """
    return [match.span() for match in _WORD.finditer(text)]


_ALONE = python_class("bert/punctuation", "bert/cjk")
_WHITE_SPACE = python_class("bert/whitespace", "python/whitespace")
_WORD = re.compile(f"[{_ALONE}]|[^{_ALONE}{_WHITE_SPACE}]+")


def row_splits_that_fit(lengths: np.ndarray, sentences: np.ndarray, budget: int) -> np.ndarray:
    """Splits sentences (row splits int [batch + 1] of words with `lengths` pieces each) between words into rows of at
    most `budget` tokens, without special ones: row splits int64 [rows + 1]. A word that is too long is a row of its
    own.
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


# The blank in SentencePiece's tokens.
_BLANK = "▁"


class Tokens(NamedTuple):
    """The concatenated tokens of texts, without special tokens."""

    ids: np.ndarray  # int32 [tokens]
    lengths: np.ndarray  # int64 [texts]
    spans: np.ndarray | None = None  # int32 [tokens, 2], start and end of each, in characters

    @property
    def starts(self) -> np.ndarray:
        """Start of each text's tokens, int64 [texts]."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self) -> list[list[int]]:
        """The ids of each text."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths).tolist()
        return [ids[start:end] for start, end in itertools.pairwise([0, *ends])]


class Reader:
    """A tokenizer of Hugging Face's library, with settings that its file cannot express.

    Args:
        tokenizer: without truncation and padding.
        unk_id: None if nothing is unknown.
        split_tokens: id of a token -> the model's ids, for tokens that the model splits.
        blank_before_words: put a blank before words that are tokenized separately, unlike before texts.
        source: name of the tokenizer in errors.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        unk_id: int | None,
        split_tokens: Mapping[int, Sequence[int]] | None = None,
        blank_before_words: bool = False,
        source: str = "The tokenizer",
    ):
        from tokenizers.pre_tokenizers import Metaspace

        self._tokenizer, self._unk_id, self._source = tokenizer, unk_id, source
        self._split_tokens = _SplitTokens(tokenizer, split_tokens) if split_tokens else None
        self._blank_before_words = blank_before_words
        self._has_blanks = isinstance(tokenizer.pre_tokenizer, Metaspace)

    def tokenized(self, texts: Sequence[str], *, with_spans: bool = False) -> Tokens:
        """Tokenizes texts, `with_spans` of tokens; ValueError if UTF-8 or the library cannot take one."""
        return self._tokens(self._tokenizer, texts, with_spans)

    def words(self, words: Sequence[str]) -> Tokens:
        """Tokenizes each word separately; a word without tokens becomes the unknown token."""
        tokens = self._tokens(self._word_tokenizer, words, False)
        missing = tokens.lengths == 0
        if not missing.any():
            return tokens
        lengths = np.maximum(tokens.lengths, 1)
        ids = np.insert(tokens.ids, tokens.starts[missing], self._unk_id)
        return Tokens(ids, lengths)

    @functools.cached_property
    def _word_tokenizer(self) -> tokenizers.Tokenizer:
        if not self._blank_before_words:
            return self._tokenizer
        tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        splitting = tokenizer.pre_tokenizer
        splitting.add_prefix_space = True
        tokenizer.pre_tokenizer = splitting
        return tokenizer

    def _tokens(
        self, tokenizer: tokenizers.Tokenizer, texts: Sequence[str], with_spans: bool
    ) -> Tokens:
        # The fast method has no spans, and gives the same ids in half the time.
        encode = tokenizer.encode_batch if with_spans else tokenizer.encode_batch_fast
        try:
            encoded = encode([*texts], add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            for text in texts:
                check_has_utf8(text)
            raise ValueError(
                f"{self._source} cannot read texts: {shortened(str(error))}."
            ) from error
        rows = [encoding.ids for encoding in encoded]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        spans = None
        if with_spans:
            pairs = itertools.chain.from_iterable(encoding.offsets for encoding in encoded)
            spans = np.fromiter(pairs, np.dtype((np.int32, 2)), len(ids))
            if self._has_blanks:
                spans = _without_blanks(texts, spans, lengths)
        tokens = Tokens(ids, lengths, spans)
        return tokens if self._split_tokens is None else self._split_tokens(tokens)


class _SplitTokens:
    """Replaces one token by several."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, split_tokens: Mapping[int, Sequence[int]]):
        size = tokenizer.get_vocab_size()
        self._counts, self._starts = np.ones(size, np.int64), np.arange(size)
        pool = [*range(size)]
        # For each part, the letters of the parts before it, and its own.
        widths = [(0, 0)] * size
        for token, parts in split_tokens.items():
            self._counts[token], self._starts[token] = len(parts), len(pool)
            letters = [len(tokenizer.id_to_token(part).replace(_BLANK, "")) for part in parts]
            before = itertools.accumulate(letters, initial=0)
            pool += parts
            widths += zip(before, letters, strict=False)
        self._pool, self._widths = np.int32(pool), np.int32(widths)

    def __call__(self, tokens: Tokens) -> Tokens:
        counts = self._counts[tokens.ids]
        if not (counts > 1).any():
            return tokens
        ends = np.cumsum([0, *counts])
        text_ends = np.cumsum([0, *tokens.lengths])
        at = ragged_range(self._starts[tokens.ids], counts)
        spans = tokens.spans
        if spans is not None:
            starts, stops = np.repeat(spans, counts, axis=0).T
            before, letters = self._widths[at].T
            is_part = letters > 0
            first = np.where(is_part, np.minimum(starts + before, stops - 1), starts)
            last = np.where(is_part, np.minimum(first + letters, stops), stops)
            spans = np.stack([first, last], axis=1)
        return Tokens(self._pool[at], np.diff(ends[text_ends]), spans)


def rust_tokenizer(content: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """A tokenizer of the library from the content of a tokenizer.json; ImportError without the library."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(
            "Without TensorFlow, reading texts needs Hugging Face's library tokenizers: "
            "pip install tokenizers."
        ) from error
    return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


@functools.cache
def _white_space() -> np.ndarray:
    """Whether each code point is white space, bool [code points]."""
    is_space = np.zeros(0x110000, bool)
    is_space[code_points("python/whitespace")] = True
    return is_space


def _without_blanks(texts: Sequence[str], spans: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Trims blanks at the start of tokens' spans; a blank alone covers the character after it."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4")
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.repeat(np.cumsum(sizes) - sizes, lengths)
    ends_of_texts = np.repeat(np.cumsum(sizes), lengths)
    # The next position from each on that is no white space.
    places = np.where(_white_space()[codes], len(codes), np.arange(len(codes)))
    following = np.append(np.minimum.accumulate(places[::-1])[::-1], len(codes))
    starts, ends = spans[:, 0] + begins, spans[:, 1] + begins
    first = np.minimum(following[starts], ends)
    ends = np.minimum(np.maximum(ends, first + 1), ends_of_texts)
    first = np.minimum(first, ends_of_texts - 1)
    return np.int32(np.stack([first - begins, ends - begins], axis=1))


# -------------------------------------------------------------------------------------------------
# Divides long texts into rows that a model can read, in NumPy and in TensorFlow's graph.
# -------------------------------------------------------------------------------------------------

# Tokens between the starts of BERT's windows (google-research/bert, run_squad.py), and the overlap of longer
# windows.
STRIDE, OVERLAP = 128, 384


def usual_stride(sequence_length: int) -> int:
    """The default number of tokens between the starts of a question's windows."""
    return max(STRIDE, sequence_length - OVERLAP)


def usual_batch_size(sequence_length: int) -> int:
    """The default number of windows to read at a time: 32, or fewer of more than 512 tokens."""
    return max(32 * 512 // max(sequence_length, 512), 1)


class Windows(NamedTuple):
    """Rows with parts of texts."""

    segments: list[Slices]  # segments of the rows
    example: Any  # int64 [rows], index of each row's text
    first_token: Any  # int64 [rows], tokens of that text before the row


def most_of_question(packer: PackingOptions, max_question_length: int) -> int:
    """The most tokens of a question in a row with a context."""
    room = packer.sequence_length - packer.layout.specials(2)
    return min(max_question_length, room // 2)


def windows_of_questions(
    packer: PackingOptions,
    questions: Slices,
    contexts: Slices,
    *,
    stride: int | None,
    max_question_length: int,
) -> Windows:
    """Combines each question with windows over its context; see `bert_zoo.text.windows.QuestionWindows`."""
    minimum = ops_of(questions.lengths).minimum
    kept = minimum(questions.lengths, most_of_question(packer, max_question_length))
    room = packer.sequence_length - packer.layout.specials(2) - kept
    windows = _windows(
        contexts, room, minimum(room, stride or usual_stride(packer.sequence_length))
    )
    asked = questions.beginnings(kept).of_rows(windows.example)
    return windows._replace(segments=[asked, *windows.segments])


def windows_of_texts(packer: PackingOptions, texts: Slices, stride: int | None) -> Windows:
    """Divides texts into windows; see `bert_zoo.text.windows.DocumentWindows`."""
    ops, room = ops_of(texts.lengths), packer.sequence_length - packer.layout.specials(1)
    rooms = ops.zeros_like(texts.lengths) + room
    return _windows(texts, rooms, ops.minimum(rooms, stride or max(room * 3 // 4, 1)))


def _windows(texts: Slices, room: Any, step: Any) -> Windows:
    """Windows of texts, for each the most tokens of a window, and the step between the starts of windows, [texts]."""
    ops = ops_of(texts.lengths)
    counts = 1 - (-ops.maximum(texts.lengths - room, 0) // step)
    text = ops.repeat(ops.range(ops.size(counts, ops.int64)), counts)
    number = ops.range(ops.size(text, ops.int64)) - ops.gather(ops.cumsum(counts) - counts, text)
    room, step = (ops.gather(column, text) for column in (room, step))
    values, starts, lengths = texts.of_rows(text)
    first_token = number * step
    shown = Slices(values, starts + first_token, ops.minimum(room, lengths - first_token))
    return Windows([shown], text, first_token)
