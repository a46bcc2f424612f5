"""Long texts as rows that a model can read, in the graph: contexts of questions, and documents.

Source of questions: google-research/bert, run_squad.py (convert_examples_to_features).
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.batches import text_batch
from bert_zoo.text.numpy_windows import (
    WRONG_ANSWERS,
    answers_in_rows,
    no_answers_in_rows,
    usual_stride,
)
from bert_zoo.text.packing import Slices
from bert_zoo.text.preprocessor import Preprocessor, TextPreprocessor, text_pair
from bert_zoo.text.tokenizer import Tokenizer

MAX_QUESTION_LENGTH = 64

# Arguments: as for bert_zoo.text.preprocessor.TEXTS_CUT.
QUESTIONS_CUT = (
    "%d of the %d questions of a batch exceed the limit of %d tokens for a question and were truncated. "
    "The longest has %d. Raise max_question_length, or sequence_length: a question takes at most half "
    "of a row. (Shown once.)"
)
# What rows hold beside a model's inputs: [rows], and [rows, width].
ROW_COLUMNS = ("example", "first_token")
TOKEN_COLUMNS = ("context_mask", "starts", "ends")


class QuestionWindows(TextPreprocessor):
    """Packs each question with windows over its context, which together show all of it.

    A window holds as many tokens as fit beside the question; the next one begins `stride` tokens
    further (after the whole window, where that is shorter), and the last one ends with the context.
    Every question has a window, if its context is empty one without tokens of it.

    Args:
        tokenizer: as for Preprocessor; its `tokenize_with_offsets` is called.
        stride: tokens between the beginnings of a context's windows. None stands for 128, or for so
            many in windows of more than 512 tokens that two have 384 in common.
        max_question_length: tokens that a question is cut to, if it has more. It never has more
            than half of a row, which leaves room for a context in short rows.
        **options: further ones of Preprocessor; what is reported are cut questions, for contexts are
            never cut.

    Raises:
        TypeError: the tokenizer does not say where its tokens come from.
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
                f"{type(tokenizer).__name__} has no method tokenize_with_offsets, and answers are "
                "found in a context by the positions of its tokens. Use one of bert_zoo.text's "
                "tokenizers, or add the method as bert_zoo.text.tokenizer.Tokenizer describes it."
            )
        for name, value in (("stride", stride), ("max_question_length", max_question_length)):
            if value is not None and (not isinstance(value, Integral) or value < 1):
                raise ValueError(f"{name} is {value!r}; it is a number of tokens, at least 1.")
        super().__init__(tokenizer, **options)
        self._stride, self._max_question_length = stride, int(max_question_length)
        specials = self.packer.layout.specials(2)
        self._room = self.sequence_length - specials
        if self._room < 2:
            raise ValueError(
                f"sequence_length is {self.sequence_length}, of which {specials} are special "
                "tokens; a question and its context need one token each at least."
            )

    def get_config(self) -> dict[str, Any]:
        windows = {"stride": self._stride, "max_question_length": self._max_question_length}
        return {**super().get_config(), **windows}

    @tf.autograph.experimental.do_not_convert
    def __call__(self, questions: Any, contexts: Any) -> dict[str, tf.Tensor]:
        """Turns questions and their contexts into rows, all of one question's in order.

        Args:
            questions, contexts: texts [batch], as the tokenizer takes them; question i is about
                context i.

        Returns:
            dict of int32. A model's inputs [rows, width], as Packer lays out pairs: `token_ids`,
            `segment_ids` where the model has them, `padding_mask`. For each row [rows]: `example`,
            the number of its question in the batch, and `first_token`, the tokens of the context
            before it. For each token [rows, width]: `context_mask`, 1 where it is of the context,
            and there `starts` and `ends`, the characters (code points) of the context that it
            stands for, the end exclusive.

        Raises:
            TypeError, ValueError: something that is no batch of texts; or the sizes differ.
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
    """Packs each text as windows that together show all of it: `Preprocessor` for long texts.

    The next window begins `stride` tokens after the beginning of the one before (after the whole
    window, where that is shorter; None stands for three quarters of a window), and the last one ends
    with the text. Pairs of texts are cut.
    """

    def __init__(self, tokenizer: Tokenizer, *, stride: int | None = None, **options: Any):
        super().__init__(tokenizer, **options)
        self._stride = stride

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stride": self._stride}

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns texts into windows, and pairs, which are cut, into one each.

        Returns:
            dict of int32 [batch, windows, length]: a model's inputs. Texts with fewer windows than
            others have padding alone in the last ones.
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
        """The windows of texts as rows of a model's inputs, and the number of each one's text."""
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
    """Windows that read text as a model's preprocessor does, and report cut pairs as it does."""
    kind = preprocessor.class_of(DocumentWindows)
    windows = kind(preprocessor.tokenizer, stride=stride, **preprocessor.get_config())
    windows.report = preprocessor.report
    return windows


def _windows(
    lengths: tf.Tensor, room: tf.Tensor, step: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """For each window its text's number, the text's tokens before it, and its own.

    Of each text [texts] are given its tokens, a window's at most, and those between beginnings.
    """
    counts = 1 - (-tf.maximum(lengths - room, 0) // step)
    text = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    number = tf.ragged.range(counts).values
    room, step, length = (tf.gather(column, text) for column in (room, step, lengths))
    first_token = number * step
    return text, first_token, tf.minimum(room, length - first_token)


def question_windows(preprocessor: Preprocessor, **options: Any) -> QuestionWindows:
    """Windows that read text as a model's preprocessor does, but for options of QuestionWindows."""
    kind = preprocessor.class_of(QuestionWindows)
    windows = kind(preprocessor.tokenizer, **{**preprocessor.get_config(), **options})
    if windows.report is not None:
        windows.report = preprocessor.report
    return windows


def model_inputs(rows: dict[str, tf.Tensor], columns: tuple[str, ...] = ()) -> dict[str, tf.Tensor]:
    """Returns what of the rows of QuestionWindows a model is called with.

    Args:
        rows: as QuestionWindows returns them.
        columns: those of TOKEN_COLUMNS that it reads.
    """
    others = {*ROW_COLUMNS, *TOKEN_COLUMNS} - {*columns}
    return {name: value for name, value in rows.items() if name not in others}


def answer_positions(
    rows: dict[str, tf.Tensor],
    answer_starts: tf.Tensor,
    answer_ends: tf.Tensor,
    cls_position: int = 0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Where answers stand in the rows of QuestionWindows; traceable.

    An answer stands from the first to the last token that stand for one of its characters.

    Args:
        rows: as QuestionWindows returns them.
        answer_starts, answer_ends: int [batch], characters of each context, the end exclusive; -1
            both for a question without answer.
        cls_position: of the rows' layout.

    Returns:
        int32 [rows] each: the positions of the answer's first and last token; that of [CLS] in a row
        that does not show all of it, and where there is no answer.

    Raises:
        tf.errors.InvalidArgumentError: an answer without characters, or outside of its context.
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

    # Tokens by their numbers in the whole context: a row that shows as much of the answer as all
    # rows of its question together shows all of it.
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
    """The position of each row's first token, int32 [rows]: 0 but where padding stands left."""
    if isinstance(padding_mask, np.ndarray):
        return no_answers_in_rows(padding_mask, 0)
    return tf.argmax(padding_mask, axis=1, output_type=tf.int32)


def no_answer_positions(padding_mask: tf.Tensor, cls_position: int) -> tf.Tensor:
    """The position in each row that stands for no answer, int32 [rows]; that of [CLS] in the layout."""
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
