"""Divides long texts into rows that a model can read, in the graph; from texts to inputs in NumPy.

Source of questions: google-research/bert, run_squad.py (convert_examples_to_features).
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.graph import tf
from bert_zoo.text.batches import strings, text_batch
from bert_zoo.text.numpy_packing import FEW_LENGTHS, Arrays, NumpyPacker, NumpyPositions
from bert_zoo.text.preprocessor import (
    SIZES_DIFFER,
    LanguageModelPreprocessor,
    Preprocessor,
    Slices,
    TextPreprocessor,
    single_texts,
    text_batches,
    text_pair,
    unknown_id,
)
from bert_zoo.text.reading import (
    WRONG_ANSWERS,
    Reader,
    Tokens,
    Windows,
    answers_in_rows,
    most_of_question,
    no_answers_in_rows,
    rust_tokenizer,
    usual_stride,
    windows_of_questions,
    windows_of_texts,
)
from bert_zoo.text.tokenizer import Tokenizer

MAX_QUESTION_LENGTH = 64

# Arguments: as for bert_zoo.text.preprocessor.TEXTS_CUT.
QUESTIONS_CUT = (
    "%d of the %d questions of a batch exceed the limit of %d tokens for a question and were truncated. "
    "The longest has %d. Raise max_question_length, or sequence_length: a question takes at most half "
    "of a row. (Shown once.)"
)
# Columns of rows besides a model's inputs: [rows], and [rows, width].
ROW_COLUMNS = ("example", "first_token")
TOKEN_COLUMNS = ("context_mask", "starts", "ends")


class QuestionWindows(TextPreprocessor):
    """Packs each question with windows that together cover its whole context.

    A window has as many tokens as fit next to the question. The next one begins `stride` tokens later (or
    directly after a shorter window), and the last one ends with the context. Every question has at least one
    window, even if its context is empty.

    Args:
        tokenizer: as for `Preprocessor`, with a method `tokenize_with_offsets`.
        stride: tokens between the starts of a context's windows. None for 128, or for an overlap of 384
            tokens if rows have more than 512.
        max_question_length: the most tokens of a question; longer ones are truncated. A question never
            takes more than half of a row, to leave room for the context.
        **options: further options of `Preprocessor`. Only truncated questions are reported, as contexts
            are never truncated.

    Raises:
        TypeError: the tokenizer has no offsets.
        ValueError: an option outside its range.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        stride: int | None = None,
        max_question_length: int = MAX_QUESTION_LENGTH,
        **options: Any,
    ):
        if not hasattr(tokenizer, "tokenize_with_offsets"):
            raise TypeError(
                f"A {type(tokenizer).__name__} has no method tokenize_with_offsets, which finds answers in "
                "a context. Use a tokenizer of bert_zoo.text, or add the method as described in "
                "bert_zoo.text.tokenizer.Tokenizer."
            )
        for name, value in (("stride", stride), ("max_question_length", max_question_length)):
            if value is not None and (not isinstance(value, Integral) or value < 1):
                raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        super().__init__(tokenizer, **options)
        self._stride, self._max_question_length = stride, int(max_question_length)
        specials = self.packer.layout.specials(2)
        self._room = self.sequence_length - specials
        if self._room < 2:
            raise ValueError(
                f"sequence_length is {self.sequence_length}, and {specials} of these are special tokens. "
                f"It must be at least {specials + 2}, with one token each for question and context."
            )

    def get_config(self) -> dict[str, Any]:
        windows = {"stride": self._stride, "max_question_length": self._max_question_length}
        return {**super().get_config(), **windows}

    @tf.autograph.experimental.do_not_convert
    def __call__(self, questions: Any, contexts: Any) -> dict[str, tf.Tensor]:
        """Turns questions and their contexts into rows, with all rows of a question in order.

        Args:
            questions, contexts: texts [batch], as for the tokenizer; question i is about context i.

        Returns:
            dict of int32. A model's inputs [rows, width], as from `Packer` for pairs: `token_ids`,
            `segment_ids` if the model has them, `padding_mask`. For each row [rows]: `example`, the
            index of its question in the batch, and `first_token`, the number of context tokens before
            the row. For each token [rows, width]: `context_mask`, 1 for tokens of the context, and
            their `starts` and `ends`, the characters (code points) of the context that they cover.

        Raises:
            TypeError, ValueError: not a batch of texts, or the sizes differ.
        """
        questions, contexts = text_pair(questions, contexts, ("questions", "contexts"))
        question = _with_long_splits(self.tokenizer(questions))
        context, starts, ends = map(
            _with_long_splits, self.tokenizer.tokenize_with_offsets(contexts)
        )
        limit = min(self._max_question_length, self._room // 2)
        kept = tf.minimum(question.row_lengths(), limit)
        if self.report is not None:
            self.report.watch_cuts(question.row_lengths(), kept, limit, QUESTIONS_CUT)
        self.watch_unknown(question, context)
        room = self._room - kept
        stride = self._stride or usual_stride(self.sequence_length)
        step = tf.minimum(room, stride)
        example, first_token, length = _windows(context.row_lengths(), room, step)
        question_starts, kept = (tf.gather(v, example) for v in (question.row_starts(), kept))
        starts_in_context = tf.gather(context.row_starts(), example) + first_token
        packed, (_, positions) = self.packer.lay_out(
            [
                Slices(question.values, question_starts, kept),
                Slices(context.values, starts_in_context, length),
            ]
        )
        return {
            **packed,
            "example": tf.cast(example, tf.int32),
            "first_token": tf.cast(first_token, tf.int32),
            "context_mask": tf.cast(positions.inside, tf.int32),
            "starts": positions.gather(starts.values),
            "ends": positions.gather(ends.values),
        }


class DocumentWindows(Preprocessor):
    """Packs each text as windows that together cover the whole text: `Preprocessor` for long texts.

    The next window begins `stride` tokens after the start of the previous one (or directly after a shorter
    window; None for three quarters of a window), and the last one ends with the text. Pairs of texts are
    truncated.
    """

    def __init__(self, tokenizer: Tokenizer, *, stride: int | None = None, **options: Any):
        super().__init__(tokenizer, **options)
        self._stride = stride

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stride": self._stride}

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns texts into windows. Each pair is truncated to one window.

        Returns:
            dict of int32 [batch, windows, length]: a model's inputs. The last windows of shorter texts are
            only padding.
        """
        if isinstance(texts, tuple):
            return {name: ids[:, None] for name, ids in super().__call__(texts).items()}
        texts = text_batch(texts)
        rows, example = self.rows(texts)
        padding = self.packer.padding_values
        number = tf.size(texts, tf.int64)
        windows = {
            name: tf.RaggedTensor.from_value_rowids(ids, example, number).to_tensor(
                padding.get(name, 0)
            )
            for name, ids in rows.items()
        }
        width = self.sequence_length if self.packer.padding == "fixed" else None
        for value in windows.values():
            value.set_shape([texts.shape[0], None, width])
        return windows

    def rows(self, texts: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns the windows of texts as rows of a model's inputs, and the index of each window's text."""
        tokens = _with_long_splits(self.tokenizer(texts))
        self.watch_unknown(tokens)
        room = self.sequence_length - self.packer.layout.specials(1)
        stride = self._stride or max(room * 3 // 4, 1)
        lengths = tokens.row_lengths()
        rooms = tf.fill(tf.shape(lengths), tf.constant(room, tf.int64))
        example, first_token, length = _windows(lengths, rooms, tf.minimum(rooms, stride))
        starts = tf.gather(tokens.row_starts(), example) + first_token
        rows, _ = self.packer.lay_out([Slices(tokens.values, starts, length)])
        return rows, example


def document_windows(preprocessor: Preprocessor, stride: int | None) -> DocumentWindows:
    """Makes windows that read text like a model's preprocessor, and share its report."""
    kind = preprocessor.class_of(DocumentWindows)
    windows = kind(preprocessor.tokenizer, stride=stride, **preprocessor.get_config())
    windows.report = preprocessor.report
    return windows


def _windows(
    lengths: tf.Tensor, room: tf.Tensor, step: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Each window's text, first token and number of tokens, [windows] each; arguments as for `reading._windows`."""
    counts = 1 - (-tf.maximum(lengths - room, 0) // step)
    text = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    number = tf.ragged.range(counts).values
    room, step, length = (tf.gather(column, text) for column in (room, step, lengths))
    first_token = number * step
    return text, first_token, tf.minimum(room, length - first_token)


def question_windows(preprocessor: Preprocessor, **options: Any) -> QuestionWindows:
    """Makes windows that read text like a model's preprocessor, with options of `QuestionWindows`."""
    kind = preprocessor.class_of(QuestionWindows)
    windows = kind(preprocessor.tokenizer, **{**preprocessor.get_config(), **options})
    if windows.report is not None:
        windows.report = preprocessor.report
    return windows


def model_inputs(rows: dict[str, tf.Tensor], columns: tuple[str, ...] = ()) -> dict[str, tf.Tensor]:
    """The inputs of a model in the rows of `QuestionWindows`, and the `columns` of TOKEN_COLUMNS that it reads too."""
    others = {*ROW_COLUMNS, *TOKEN_COLUMNS} - {*columns}
    return {name: value for name, value in rows.items() if name not in others}


def answer_positions(
    rows: dict[str, tf.Tensor],
    answer_starts: tf.Tensor,
    answer_ends: tf.Tensor,
    cls_position: int = 0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the positions of answers in the rows of `QuestionWindows`; traceable. An answer reaches from the first to
    the last token that covers one of its characters.

    Args:
        answer_starts, answer_ends: int [batch], in characters of the context; -1 and -1 for no answer.
        cls_position: `cls_position` of the rows' layout.

    Returns:
        Two int32 [rows]: the positions of the answer's first and last token. Both are the position of
        [CLS] if there is no answer, or the row does not have all of it.

    Raises:
        tf.errors.InvalidArgumentError: an answer without characters, or outside its context.
    """
    if isinstance(rows["example"], np.ndarray):
        return answers_in_rows(rows, answer_starts, answer_ends, cls_position)
    example, in_context = rows["example"], rows["context_mask"] == 1
    with tf.control_dependencies([_answers_in_contexts(rows, answer_starts, answer_ends)]):
        start, end = (
            tf.gather(tf.cast(places, tf.int32), example)[:, None]
            for places in (answer_starts, answer_ends)
        )
    is_answer = in_context & (rows["ends"] > start) & (rows["starts"] < end)

    # Tokens are numbered in the whole context. A row has the whole answer if it has as much of it as all
    # rows of its question together.
    begin = tf.argmax(in_context, axis=1, output_type=tf.int32)
    position = tf.range(tf.shape(is_answer)[1])
    number = position + (rows["first_token"] - begin)[:, None]
    first = tf.reduce_min(tf.where(is_answer, number, tf.int32.max), axis=1)
    last = tf.reduce_max(tf.where(is_answer, number, -1), axis=1)
    questions = tf.size(answer_starts)
    shows_all = (
        (last >= 0)
        & (first == tf.gather(tf.math.unsorted_segment_min(first, example, questions), example))
        & (last == tf.gather(tf.math.unsorted_segment_max(last, example, questions), example))
    )
    shift = begin - rows["first_token"]
    nowhere = no_answer_positions(rows["padding_mask"], cls_position)
    return tuple(tf.where(shows_all, place + shift, nowhere) for place in (first, last))


def first_tokens(padding_mask: tf.Tensor) -> tf.Tensor:
    """The position of each row's first token, int32 [rows]: 0 unless padding is on the left."""
    if isinstance(padding_mask, np.ndarray):
        return no_answers_in_rows(padding_mask, 0)
    return tf.argmax(padding_mask, axis=1, output_type=tf.int32)


def no_answer_positions(padding_mask: tf.Tensor, cls_position: int) -> tf.Tensor:
    """The position in each row that means no answer, int32 [rows]: the layout's [CLS]."""
    if isinstance(padding_mask, np.ndarray):
        return no_answers_in_rows(padding_mask, cls_position)
    first = first_tokens(padding_mask)
    return first + tf.reduce_sum(padding_mask, axis=1) + cls_position if cls_position else first


def _answers_in_contexts(
    rows: dict[str, tf.Tensor], answer_starts: tf.Tensor, answer_ends: tf.Tensor
) -> tf.Operation:
    starts, ends = tf.cast(answer_starts, tf.int32), tf.cast(answer_ends, tf.int32)
    row_end = tf.reduce_max(rows["ends"], axis=1)
    context_end = tf.math.unsorted_segment_max(row_end, rows["example"], tf.size(starts))
    is_none = (starts == -1) & (ends == -1)
    wrong = ~is_none & ((starts < 0) | (ends <= starts) | (starts >= context_end))
    spans = tf.stack([starts, ends, context_end], axis=1)
    found = [WRONG_ANSWERS, tf.boolean_mask(spans, wrong)]
    return tf.debugging.Assert(~tf.reduce_any(wrong), found)


def _with_long_splits(tokens: tf.RaggedTensor) -> tf.RaggedTensor:
    return tf.cast(tokens, tf.int32).with_row_splits_dtype(tf.int64)


# -------------------------------------------------------------------------------------------------
# From texts to a model's inputs in NumPy, without TensorFlow.
#
# Hugging Face's library tokenizers reads the texts, by the description of a tokenizer
# (`Tokenizer.serialized`). The inputs equal those of the classes for TensorFlow's graph that these are named
# after.
# -------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

# Cached, as making a reader of a large vocabulary takes a second.
_READERS: weakref.WeakKeyDictionary[Tokenizer, Reader] = weakref.WeakKeyDictionary()


def reader_of(tokenizer: Tokenizer) -> Reader:
    """A reader that tokenizes like a tokenizer, without TensorFlow.

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

    def scored(self, texts: Any) -> Arrays:
        """See `TextPreprocessor.scored`."""
        tokens = self.reader.tokenized(single_texts(texts, strings))
        if hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends":
            ids = np.insert(tokens.ids, tokens.starts, self.tokenizer.eos_id)
            tokens = Tokens(np.int32(ids), tokens.lengths + 1)
        inputs, (positions,) = self._rows([tokens], [np.maximum(tokens.lengths - 1, 0)])
        following = np.append(tokens.ids[1:], np.int32(IGNORED_LABEL))
        return {**inputs, "labels": positions.gather(following, otherwise=IGNORED_LABEL)}

    def pack_with_positions(
        self, segments: Sequence[Tokens]
    ) -> tuple[Arrays, list[NumpyPositions]]:
        """Packs tokenized segments into a model's inputs, and returns the positions of each segment's tokens."""
        return self._rows(segments, [segment.lengths for segment in segments])

    def _rows(
        self, segments: Sequence[Tokens], lengths: Sequence[np.ndarray]
    ) -> tuple[Arrays, list[NumpyPositions]]:
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
    """`bert_zoo.text.Preprocessor` in NumPy; a call raises the errors of `reader_of`."""

    def __call__(self, texts: Any) -> Arrays:
        """int32 [batch, length] of a batch of texts, or of pairs as a tuple of two batches; see `Preprocessor`."""
        batches = text_batches(texts, strings, numpy_text_pair)
        return self.pack([self.reader.tokenized(batch) for batch in batches])


class NumpyLanguageModelPreprocessor(NumpyReading, LanguageModelPreprocessor):
    """Tokenizes texts for a language model: `bert_zoo.text.LanguageModelPreprocessor` in NumPy."""

    def __call__(self, texts: Any) -> Arrays:
        """Turns a batch of texts into int32 [batch, length]: `token_ids`, `padding_mask`."""
        return self.pack_with_positions([self.reader.tokenized(single_texts(texts, strings))])[0]


class NumpyQuestionWindows(NumpyReading, QuestionWindows):
    """Packs each question with windows over its context: `bert_zoo.text.windows.QuestionWindows` in NumPy."""

    def __call__(self, questions: Any, contexts: Any) -> Arrays:
        """Turns questions and their contexts into rows like `QuestionWindows`; all arrays are int32."""
        questions, contexts = numpy_text_pair(questions, contexts, ("questions", "contexts"))
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
        """int32 [batch, windows, length]; shorter texts end with padding. A pair is truncated to one window."""
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


def numpy_text_pair(
    first: Any, second: Any, names: tuple[str, str] = ("firsts", "seconds")
) -> list[list[str]]:
    """Returns two batches of texts; errors call them by `names`."""
    first, second = strings(first, names[0]), strings(second, names[1])
    if len(first) != len(second):
        raise ValueError(SIZES_DIFFER.format(len(first), names[0], len(second), names[1]))
    return [first, second]
