"""Divides long texts into rows that a model can read, in NumPy; without TensorFlow and Keras.

`bert_zoo.text.windows` does the same in TensorFlow's graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_zoo.text.numpy_packing import PackingOptions, Slices, ragged_range
from bert_zoo.text.reading import Tokens

WRONG_ANSWERS = (
    "An answer must have at least one character, and lie within its context (-1 and -1 for no answer). "
    "Start, end, and end of the context's last token of wrong answers:"
)


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
    example: np.ndarray  # int64 [rows], index of each row's text
    first_token: np.ndarray  # int64 [rows], tokens of that text before the row


def most_of_question(packer: PackingOptions, max_question_length: int) -> int:
    """The most tokens of a question in a row with a context."""
    room = packer.sequence_length - packer.layout.specials(2)
    return min(max_question_length, room // 2)


def windows_of_questions(
    packer: PackingOptions,
    questions: Tokens,
    contexts: Tokens,
    *,
    stride: int | None,
    max_question_length: int,
) -> Windows:
    """Combines each question with windows over its context; see `bert_zoo.text.windows.QuestionWindows`."""
    stride = stride or usual_stride(packer.sequence_length)
    kept = np.minimum(questions.lengths, most_of_question(packer, max_question_length))
    room = packer.sequence_length - packer.layout.specials(2) - kept
    example, first_token, lengths = _windows(contexts.lengths, room, np.minimum(room, stride))
    asked = questions.beginnings(kept).of_rows(example)
    shown = Slices(contexts.ids, contexts.starts[example] + first_token, lengths)
    return Windows([asked, shown], example, first_token)


def windows_of_texts(packer: PackingOptions, texts: Tokens, stride: int | None) -> Windows:
    """Divides texts into windows; see `bert_zoo.text.windows.DocumentWindows`."""
    room = packer.sequence_length - packer.layout.specials(1)
    rooms = np.full_like(texts.lengths, room)
    step = np.minimum(rooms, stride or max(room * 3 // 4, 1))
    example, first_token, lengths = _windows(texts.lengths, rooms, step)
    shown = Slices(texts.ids, texts.starts[example] + first_token, lengths)
    return Windows([shown], example, first_token)


def answers_in_rows(
    rows: Mapping[str, np.ndarray],
    answer_starts: np.ndarray,
    answer_ends: np.ndarray,
    cls_position: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positions of answers in rows; see `bert_zoo.text.windows.answer_positions`.

    Raises:
        ValueError: an answer without characters, or outside its context.
    """
    example, in_context = rows["example"], rows["context_mask"] == 1
    _check_answers(rows, answer_starts, answer_ends)
    start, end = (np.int32(places)[example][:, None] for places in (answer_starts, answer_ends))
    is_answer = in_context & (rows["ends"] > start) & (rows["starts"] < end)
    begin = np.int32(in_context.argmax(axis=1))
    number = np.arange(is_answer.shape[1]) + (rows["first_token"] - begin)[:, None]
    first = np.where(is_answer, number, np.iinfo(np.int32).max).min(axis=1)
    last = np.where(is_answer, number, -1).max(axis=1)
    firsts = np.full(len(answer_starts), np.iinfo(np.int32).max)
    lasts = np.full(len(answer_starts), -1)
    np.minimum.at(firsts, example, first)
    np.maximum.at(lasts, example, last)
    shows_all = (last >= 0) & (first == firsts[example]) & (last == lasts[example])
    shift = begin - rows["first_token"]
    nowhere = no_answers_in_rows(rows["padding_mask"], cls_position)
    return tuple(np.int32(np.where(shows_all, at + shift, nowhere)) for at in (first, last))


def no_answers_in_rows(padding_mask: np.ndarray, cls_position: int) -> np.ndarray:
    """Returns the position in each row that means no answer, int32 [rows]: the layout's [CLS]."""
    first = np.int32(padding_mask.argmax(axis=1))
    return (
        first + padding_mask.sum(axis=1, dtype=np.int32) + cls_position if cls_position else first
    )


def _check_answers(
    rows: Mapping[str, np.ndarray], answer_starts: np.ndarray, answer_ends: np.ndarray
) -> None:
    context_end = np.zeros(len(answer_starts), np.int32)
    np.maximum.at(context_end, rows["example"], rows["ends"].max(axis=1, initial=0))
    spans = np.stack([answer_starts, answer_ends, context_end], axis=1)
    starts, ends = np.int32(answer_starts), np.int32(answer_ends)
    is_none = (starts == -1) & (ends == -1)
    wrong = ~is_none & ((starts < 0) | (ends <= starts) | (starts >= context_end))
    if wrong.any():
        raise ValueError(f"{WRONG_ANSWERS} {spans[wrong].tolist()}.")


def _windows(
    lengths: np.ndarray, room: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each window's text, first token in the text, and number of tokens, [windows] each.

    Args:
        lengths: tokens of each text, [texts].
        room: the most tokens of a window of each text, [texts].
        step: tokens between the starts of its windows, [texts].
    """
    counts = 1 - (-np.maximum(lengths - room, 0) // step)
    text = np.repeat(np.arange(len(counts)), counts)
    first_token = ragged_range(np.zeros_like(counts), counts) * step[text]
    return text, first_token, np.minimum(room[text], lengths[text] - first_token)
