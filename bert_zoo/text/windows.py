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

from bert_zoo.graph import tf
from bert_zoo.text.batches import strings
from bert_zoo.text.numpy_packing import (
    FEW_LENGTHS,
    NumpyPacker,
    Positions,
    Reader,
    Slices,
    Tokens,
    checked,
    most_of_question,
    ops_of,
    rust_tokenizer,
    windows_of_questions,
    windows_of_texts,
)
from bert_zoo.text.preprocessor import (
    LanguageModelPreprocessor,
    Preprocessor,
    TextPreprocessor,
    with_batch_size,
)
from bert_zoo.text.tokenizer import Tokenizer

MAX_QUESTION_LENGTH = 64
WRONG_ANSWERS = (
    "An answer must have at least one character, and lie within its context (-1 and -1 for no answer). "
    "Start, end, and end of the context's last token of wrong answers:"
)
# Above every token's number.
_NEVER = 2**31 - 1

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
        if self.sequence_length < specials + 2:
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
        names = ("questions", "contexts")
        questions, contexts = self.read_pair(questions, contexts, names)
        (question,) = self.packer.checked([self.tokens_of(questions)])
        context, starts, ends = self.tokens_with_offsets(contexts)
        limit = most_of_question(self.packer, self._max_question_length)
        if self.report is not None:
            kept = ops_of(question.lengths).minimum(question.lengths, limit)
            self.report.watch_cuts(question.lengths, kept, limit, QUESTIONS_CUT)
        self.watch_unknown(question, context)
        windows = windows_of_questions(
            self.packer, question, context, stride=self._stride, max_question_length=limit
        )
        packed, (_, positions) = self.packer.lay_out(windows.segments)
        cast, int32 = (getattr(ops_of(starts), name) for name in ("cast", "int32"))
        return {
            **packed,
            "example": cast(windows.example, int32),
            "first_token": cast(windows.first_token, int32),
            "context_mask": cast(positions.inside, int32),
            "starts": positions.gather(starts),
            "ends": positions.gather(ends),
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
        texts = self.read(texts)
        rows, example = self.rows(texts)
        ops = ops_of(example)
        number = len(texts) if isinstance(texts, list) else ops.size(texts, ops.int64)
        starts = ops.searchsorted(example, ops.range(number), side="left", out_type=ops.int64)
        ends = ops.searchsorted(example, ops.range(number), side="right", out_type=ops.int64)
        counts = ends - starts
        most = ops.maximum(ops.reduce_max(counts), 0)
        if self.packer.padding == FEW_LENGTHS and most:
            most = 1 << (int(most) - 1).bit_length()
        window = ops.range(most)[None, :]
        positions = Positions(window < counts[:, None], starts[:, None] + window)
        padding = self.packer.padding_values
        return with_batch_size(
            {name: positions.gather(ids, padding.get(name, 0)) for name, ids in rows.items()}, texts
        )

    def rows(self, texts: Any) -> tuple[dict[str, Any], Any]:
        """Returns the windows of texts as rows of a model's inputs, and the index of each window's text."""
        (tokens,) = self.packer.checked([self.tokens_of(texts)])
        self.watch_unknown(tokens)
        windows = windows_of_texts(self.packer, tokens, self._stride)
        return self.packer.lay_out(windows.segments)[0], windows.example


def document_windows(preprocessor: Preprocessor, stride: int | None) -> DocumentWindows:
    """Makes windows that read text like a model's preprocessor, and share its report."""
    return preprocessor.made_as(DocumentWindows, stride=stride)


def question_windows(preprocessor: Preprocessor, **options: Any) -> QuestionWindows:
    """Makes windows that read text like a model's preprocessor, with options of `QuestionWindows`."""
    return preprocessor.made_as(QuestionWindows, **options)


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
    ops, example, in_context = ops_of(rows["ends"]), rows["example"], rows["context_mask"] == 1
    starts, ends = (ops.cast(places, ops.int32) for places in (answer_starts, answer_ends))
    number = ops.size(starts)
    row_ends = ops.reduce_max(rows["ends"], axis=1)
    context_ends = ops.math.unsorted_segment_max(row_ends, example, number)
    is_none = (starts == -1) & (ends == -1)
    wrong = ~is_none & ((starts < 0) | (ends <= starts) | (starts >= context_ends))
    spans = ops.boolean_mask(ops.stack([starts, ends, context_ends], axis=1), wrong)
    starts, ends = checked([starts, ends], ~ops.reduce_any(wrong), WRONG_ANSWERS, spans)
    start, end = (ops.gather(places, example)[:, None] for places in (starts, ends))
    is_answer = in_context & (rows["ends"] > start) & (rows["starts"] < end)

    # Tokens are numbered in the whole context. A row has the whole answer if it has as much of it as all
    # rows of its question together.
    begin = first_tokens(in_context)
    shift = begin - rows["first_token"]
    place = ops.range(ops.shape(is_answer)[1]) - shift[:, None]
    first = ops.reduce_min(ops.where(is_answer, place, np.int32(_NEVER)), axis=1)
    last = ops.reduce_max(ops.where(is_answer, place, np.int32(-1)), axis=1)
    shows_all = (
        (last >= 0)
        & (first == ops.gather(ops.math.unsorted_segment_min(first, example, number), example))
        & (last == ops.gather(ops.math.unsorted_segment_max(last, example, number), example))
    )
    nowhere = no_answer_positions(rows["padding_mask"], cls_position)
    return tuple(
        ops.cast(ops.where(shows_all, place + shift, nowhere), ops.int32) for place in (first, last)
    )


def first_tokens(padding_mask: Any) -> Any:
    """The position of each row's first token, int32 [rows]: 0 unless padding is on the left."""
    ops = ops_of(padding_mask)
    return ops.argmax(padding_mask, axis=1, output_type=ops.int32)


def no_answer_positions(padding_mask: Any, cls_position: int) -> Any:
    """The position in each row that means no answer, int32 [rows]: the layout's [CLS]."""
    first, total = first_tokens(padding_mask), ops_of(padding_mask).reduce_sum(padding_mask, axis=1)
    return first + total + cls_position if cls_position else first


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
    """Reads texts in NumPy, without TensorFlow. Mixed into a preprocessor, this gives its results as arrays."""

    packer_class = NumpyPacker

    @property
    def reader(self) -> Reader:
        """The reader of texts; raises as `reader_of`."""
        return reader_of(self.tokenizer)

    def made_as(self, kind: type[TextPreprocessor], **options: Any) -> Any:
        return super().made_as(_NUMPY_CLASSES.get(kind, kind), **options)

    def read(self, texts: Any, name: str = "texts") -> list[str]:
        return strings(texts, name)

    def tokenize(self, texts: Any) -> list[list[int]]:
        """Returns the ids of each text, without special tokens."""
        return self.reader.tokenized(strings(texts)).rows()

    def tokens_of(self, texts: Sequence[str]) -> Tokens:
        return self.reader.tokenized(texts)

    def tokens_with_offsets(self, texts: Sequence[str]) -> tuple[Slices, np.ndarray, np.ndarray]:
        tokens = self.reader.tokenized(texts, with_spans=True)
        return *self.packer.checked([tokens]), *tokens.spans.T

    def _after(self, tokens: Slices, token_id: int) -> Slices:
        ids = np.int32(np.insert(tokens.values, tokens.starts, token_id))
        return Slices(ids, tokens.starts + np.arange(len(tokens.starts)), tokens.lengths + 1)


class NumpyPreprocessor(NumpyReading, Preprocessor):
    """`bert_zoo.text.Preprocessor` in NumPy; a call raises the errors of `reader_of`."""


class NumpyLanguageModelPreprocessor(NumpyReading, LanguageModelPreprocessor):
    """`bert_zoo.text.LanguageModelPreprocessor` in NumPy."""


class NumpyQuestionWindows(NumpyReading, QuestionWindows):
    """`QuestionWindows` in NumPy."""


class NumpyDocumentWindows(NumpyReading, DocumentWindows):
    """`DocumentWindows` in NumPy."""


_NUMPY_CLASSES: dict[type[TextPreprocessor], type[NumpyReading]] = {
    DocumentWindows: NumpyDocumentWindows,
    QuestionWindows: NumpyQuestionWindows,
}
