"""From texts to a model's inputs in NumPy, without TensorFlow.

Hugging Face's library tokenizers reads the texts, by the description of a tokenizer
(`Tokenizer.serialized`). The inputs equal those of the classes for TensorFlow's graph that these are named
after.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.text.batches import strings
from bert_zoo.text.numpy_packing import FEW_LENGTHS, Arrays, NumpyPacker, Positions
from bert_zoo.text.numpy_windows import (
    Windows,
    most_of_question,
    windows_of_questions,
    windows_of_texts,
)
from bert_zoo.text.preprocessor import (
    NO_PAIR,
    PAIR_FOR_LANGUAGE_MODEL,
    SIZES_DIFFER,
    LanguageModelPreprocessor,
    Preprocessor,
    TextPreprocessor,
    unknown_id,
)
from bert_zoo.text.reading import Reader, Tokens, rust_tokenizer
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.windows import QUESTIONS_CUT, DocumentWindows, QuestionWindows

logger = logging.getLogger(__name__)

# Cached, as making a reader of a large vocabulary takes a second.
_READERS: weakref.WeakKeyDictionary[Tokenizer, Reader] = weakref.WeakKeyDictionary()


def reader_of(tokenizer: Tokenizer) -> Reader:
    """Returns a reader that tokenizes texts like a tokenizer, without TensorFlow.

    Raises:
        NotImplementedError: Hugging Face's library has no such tokenizer.
        ImportError: that library is missing.
    """
    if tokenizer not in _READERS:
        content = tokenizer.serialized()
        if content is None:
            raise NotImplementedError(
                f"Hugging Face's library tokenizers, which reads texts without TensorFlow, cannot replace a "
                f'{type(tokenizer).__name__}. Install TensorFlow (pip install "bert_zoo[tensorflow]"), or '
                "pass ids instead of texts."
            )
        if differences := tokenizer.rust_differences:
            logger.warning(
                "Without TensorFlow, Hugging Face's library tokenizers reads texts, and a few rare texts get "
                "other ids than the model was trained with. %s (Shown once.)",
                " ".join(differences),
            )
        _READERS[tokenizer] = Reader(
            rust_tokenizer(content),
            unk_id=getattr(tokenizer, "unk_id", None),
            split_tokens=tokenizer.split_tokens,
            blank_before_words=not tokenizer.get_config().get("add_prefix_space", True),
            source=f"{type(tokenizer).__name__} in Hugging Face's library",
        )
    return _READERS[tokenizer]


class NumpyReading(TextPreprocessor):
    """Base class of preprocessors in NumPy."""

    packer_class = NumpyPacker

    @property
    def reader(self) -> Reader:
        """The reader of texts; raises as `reader_of`."""
        return reader_of(self.tokenizer)

    def class_of(self, kind: type[TextPreprocessor]) -> type[TextPreprocessor]:
        return _NUMPY_CLASSES.get(kind, kind)

    def tokenize(self, texts: Any) -> list[list[int]]:
        """Returns the ids of each text, without special tokens."""
        return self.reader.tokenized(strings(texts)).rows()

    def widened(self, inputs: Mapping[str, np.ndarray], length: int) -> Arrays:
        """Pads a model's inputs [batch, tokens] to at least `length` tokens."""
        return self.packer.widened(inputs, length, {"labels": IGNORED_LABEL})

    def scored(self, texts: Any) -> Arrays:
        """Turns a batch of texts into inputs and the next token to predict at each position.

        See `TextPreprocessor.scored`.
        """
        tokens = self.reader.tokenized(single_texts(texts))
        if hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends":
            ids = np.insert(tokens.ids, tokens.starts, self.tokenizer.eos_id)
            tokens = Tokens(np.int32(ids), tokens.lengths + 1)
        inputs, (positions,) = self._rows([tokens], [np.maximum(tokens.lengths - 1, 0)])
        following = np.append(tokens.ids[1:], np.int32(IGNORED_LABEL))
        return {**inputs, "labels": positions.gather(following, otherwise=IGNORED_LABEL)}

    def pack_with_positions(self, segments: Sequence[Tokens]) -> tuple[Arrays, list[Positions]]:
        """Packs tokenized segments into a model's inputs, and returns the positions of each segment's tokens."""
        return self._rows(segments, [segment.lengths for segment in segments])

    def _rows(
        self, segments: Sequence[Tokens], lengths: Sequence[np.ndarray]
    ) -> tuple[Arrays, list[Positions]]:
        """Packs the first `lengths` tokens of segments, reports truncation, and returns their positions."""
        kept = self.packer.kept_lengths(lengths)
        if self.report is not None:
            self.report.count_cuts(sum(lengths), sum(kept), self.sequence_length)
            if self.sequence_length >= UNLIMITED:
                self.report.count_long(sum(lengths))
        self.watch_unknown(*segments)
        pairs = zip(segments, kept, strict=True)
        return self.packer.lay_out([segment.beginnings(number) for segment, number in pairs])

    def watch_unknown(self, *segments: Tokens) -> None:
        """Reports texts that are mostly unknown, if there is a report."""
        unk_id = unknown_id(self.tokenizer)
        if self.report is not None and unk_id is not None:
            for segment in segments:
                ends = np.cumsum([0, *segment.lengths])
                before = np.cumsum(np.append(0, segment.ids == unk_id))[ends]
                self.report.count_unknown(2 * np.diff(before) > segment.lengths)


class NumpyPreprocessor(NumpyReading, Preprocessor):
    """Tokenizes and packs texts or pairs of texts: `bert_zoo.text.Preprocessor` in NumPy.

    Args:
        tokenizer: a tokenizer of bert_zoo.text.
        sequence_length, report_truncation, **packing: as for `Preprocessor`.

    A call raises the errors of `reader_of`.
    """

    def __call__(self, texts: Any) -> Arrays:
        """Turns a batch of texts, or of pairs as a tuple of two batches, into int32 [batch, length].

        Names of the inputs and errors are those of `Preprocessor`.
        """
        return self.pack([self.reader.tokenized(batch) for batch in text_batches(texts)])

    def pack(self, segments: Sequence[Tokens]) -> Arrays:
        """Packs one or two tokenized segments into a model's inputs."""
        return self.pack_with_positions(segments)[0]


class NumpyLanguageModelPreprocessor(NumpyReading, LanguageModelPreprocessor):
    """Tokenizes texts for a language model: `bert_zoo.text.LanguageModelPreprocessor` in NumPy."""

    def __call__(self, texts: Any) -> Arrays:
        """Turns a batch of texts into int32 [batch, length]: `token_ids`, `padding_mask`."""
        return self.pack_with_positions([self.reader.tokenized(single_texts(texts))])[0]


class NumpyQuestionWindows(NumpyReading, QuestionWindows):
    """Packs each question with windows over its context: `bert_zoo.text.windows.QuestionWindows` in NumPy."""

    def __call__(self, questions: Any, contexts: Any) -> Arrays:
        """Turns questions and their contexts into rows like `QuestionWindows`; all arrays are int32."""
        questions, contexts = text_pair(questions, contexts, ("questions", "contexts"))
        question = self.reader.tokenized(questions)
        context = self.reader.tokenized(contexts, with_spans=True)
        limit = most_of_question(self.packer, self._max_question_length)
        if self.report is not None:
            kept = np.minimum(question.lengths, limit)
            self.report.count_cuts(question.lengths, kept, limit, QUESTIONS_CUT)
        self.watch_unknown(question, context)
        windows = windows_of_questions(
            self.packer,
            question,
            context,
            stride=self._stride,
            max_question_length=self._max_question_length,
        )
        inputs, (_, positions) = self.packer.lay_out(windows.segments)
        starts, ends = context.spans.T
        return {
            **inputs,
            "example": np.int32(windows.example),
            "first_token": np.int32(windows.first_token),
            "context_mask": positions.inside.astype(np.int32),
            "starts": positions.gather(starts),
            "ends": positions.gather(ends),
        }


class NumpyDocumentWindows(NumpyPreprocessor, DocumentWindows):
    """Packs each text as windows over it: `bert_zoo.text.windows.DocumentWindows` in NumPy."""

    def __call__(self, texts: Any) -> Arrays:
        """Turns texts into windows. Each pair is truncated to one window.

        Returns:
            dict of int32 [batch, windows, length]. The last windows of shorter texts are only padding.
        """
        if isinstance(texts, tuple):
            return {name: ids[:, None] for name, ids in super().__call__(texts).items()}
        texts = strings(texts)
        rows, example = self.rows(texts)
        counts = np.bincount(example, minlength=len(texts))
        most = int(counts.max(initial=0))
        if self.packer.padding == FEW_LENGTHS and most:
            most = 1 << (most - 1).bit_length()
        number = np.arange(most) < counts[:, None]
        windows = {}
        for name, ids in rows.items():
            padding = self.packer.padding_values.get(name, 0)
            windows[name] = np.full((*number.shape, ids.shape[1]), padding, np.int32)
            windows[name][number] = ids
        return windows

    def rows(self, texts: Sequence[str]) -> tuple[Arrays, np.ndarray]:
        """Returns the windows of texts as rows of a model's inputs, and the index of each window's text."""
        tokens = self.reader.tokenized(texts)
        self.watch_unknown(tokens)
        windows: Windows = windows_of_texts(self.packer, tokens, self._stride)
        return self.packer.lay_out(windows.segments)[0], windows.example


_NUMPY_CLASSES: dict[type[TextPreprocessor], type[NumpyReading]] = {
    DocumentWindows: NumpyDocumentWindows,
    QuestionWindows: NumpyQuestionWindows,
}


def single_texts(texts: Any) -> list[str]:
    if isinstance(texts, tuple):
        raise TypeError(PAIR_FOR_LANGUAGE_MODEL.format(len(texts)))
    return strings(texts)


def text_batches(texts: Any) -> list[list[str]]:
    """Returns one batch of texts, or two of the same size for pairs; raises as `Preprocessor` does."""
    if not isinstance(texts, tuple):
        return [strings(texts)]
    if len(texts) != 2:
        raise ValueError(NO_PAIR.format(len(texts)))
    return text_pair(*texts)


def text_pair(
    first: Any, second: Any, names: tuple[str, str] = ("firsts", "seconds")
) -> list[list[str]]:
    """Returns two batches of texts; errors call them by `names`."""
    first, second = strings(first, names[0]), strings(second, names[1])
    if len(first) != len(second):
        raise ValueError(SIZES_DIFFER.format(len(first), names[0], len(second), names[1]))
    return [first, second]
