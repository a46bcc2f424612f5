"""Questions on contexts as rows of token ids, kept in memory and batched for training and prediction.

Source of the labels: google-research/bert, run_squad.py.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_zoo.data.batches import StoredTokens, token_table
from bert_zoo.data.buckets import Batches, Batching, Rows
from bert_zoo.data.squad import SquadExample, SquadSplit, checked_answer
from bert_zoo.error_text import quoted
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.batches import text_batch
from bert_zoo.text.windows import (
    TOKEN_COLUMNS,
    QuestionWindows,
    answer_positions,
    first_tokens,
    model_inputs,
    no_answer_positions,
)

log = logging.getLogger("bert_zoo")

NO_ANSWER = (-1, -1)


def window_table(
    windows: QuestionWindows,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[tuple[int, int]] | None = None,
    columns: Sequence[str] = (),
) -> StoredTokens:
    """Tokenizes questions and contexts [N] on all cores, into rows in memory.

    `answers`, [N], are start and end (exclusive) of each answer in the context, in characters; NO_ANSWER for no
    answer. With them, rows lack the TOKEN_COLUMNS that are only needed to find answers, except for `columns`.
    """
    if not len(questions):
        raise ValueError("There are no questions.")

    texts = [text_batch(questions), text_batch(contexts)]
    if answers is not None:
        texts += [np.array(places, np.int32) for places in zip(*answers, strict=True)]

    def packed(numbers, questions, contexts, *answers):
        rows = windows(questions, contexts)
        if answers:
            positions = answer_positions(rows, *answers, windows.packer.layout.cls_position)
            # Relative to the row's first token, as padding differs between batches.
            positions = [place - first_tokens(rows["padding_mask"]) for place in positions]
            left_out = {*TOKEN_COLUMNS} - {*columns}
            rows = {name: value for name, value in rows.items() if name not in left_out}
            rows |= dict(zip(("start_positions", "end_positions"), positions, strict=True))
        rows["example"] = (tf.gather if has_tensorflow else np.take)(numbers, rows["example"])
        return rows

    return token_table(windows.packer, texts, packed)


def question_batches(
    split: SquadSplit, windows: QuestionWindows, batching: Batching, model=None
) -> Batches:
    """Makes batches of windows of similar length to train a question answerer.

    Questions are tokenized once; the rows stay in memory and are shuffled in every epoch. Training uses the
    first answer of a question. Windows that do not show all of it, and windows of questions without an
    answer, have the position of [CLS] as label.

    Args:
        split: questions with answers, from `load_squad`, `read_squad` or `read_mrqa`.
        windows: cuts the contexts; `question_windows(model.preprocessor, ...)`. With
            padding="fixed" and `drop_remainder`, all batches have the same shape.
        batching: a `bert_zoo.data.buckets.Batching`; its rows are windows.
        model: the model to train; pass it for task "beam_question_answering", which trains on more than
            positions.

    Returns:
        An object whose `dataset` yields (inputs, labels): the model's inputs, int32 [batch, width], and
        `start_logits` and `end_logits`, positions of the answer's first and last token, int32 [batch];
        with `model`, also what else it is trained on. `order` holds the order of the rows.

    Raises:
        ValueError: there are no questions, answers of a question were not read, or an answer differs from
            its context. Names the question.
    """
    examples = split.examples
    table, batch = labelled_windows(
        windows,
        [example.question for example in examples],
        [example.context for example in examples],
        [trained_answer(example) for example in examples],
        [example.id for example in examples],
        model,
    )
    return Rows(table.padded_lengths, batch, axes=table.axes).batches(batching)


def labelled_windows(
    windows: QuestionWindows,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[tuple[int, int]],
    ids: Sequence[Any],
    model=None,
) -> tuple[StoredTokens, Callable[[Any], tuple[dict, dict]]]:
    """Windows with the positions of answers; warns about answers that no window shows, by their `ids` [N].

    Returns the table, and a function from row numbers, int64 [batch], to (inputs, labels) as in
    `question_batches`, which also has `model`.
    """
    columns = () if model is None else model.columns_read
    table = window_table(windows, questions, contexts, answers, columns)
    _report_lost_answers(table, ids, answers)
    labels = {
        "start_logits": table.rows["start_positions"],
        "end_logits": table.rows["end_positions"],
    }

    def batch(numbers):
        inputs = model_inputs(table.padded(numbers), columns)
        mask = inputs["padding_mask"]
        first = first_tokens(mask)
        chosen = {n: positions[numbers] + first for n, positions in labels.items()}
        if model is None:
            return inputs, chosen
        nowhere = no_answer_positions(mask, windows.packer.layout.cls_position)
        return model.as_trained(inputs, chosen, nowhere)

    return table, batch


def trained_answer(example: SquadExample) -> tuple[int, int]:
    """Start and end of the first answer in the context, or `NO_ANSWER`."""
    if example.answers is None:
        raise ValueError(
            f"The answers of question {example.id!r} were not read, but training needs them. Read "
            "the file with read_squad(path)."
        )
    if not example.answers:
        return NO_ANSWER
    answer = checked_answer(f"Question {example.id!r}", example.context, example.answers[0])
    return answer.start, answer.end


def _report_lost_answers(
    table: StoredTokens, ids: Sequence[Any], answers: Sequence[tuple[int, int]]
) -> None:
    nowhere = table.packer.layout.cls_position % table.lengths
    shown_whole = set(table.rows["example"][table.rows["start_positions"] != nowhere].tolist())
    lost = [
        id
        for number, (id, answer) in enumerate(zip(ids, answers, strict=True))
        if answer != NO_ANSWER and number not in shown_whole
    ]
    if lost:
        log.warning(
            "For %d of %d questions, no window shows the whole answer, so they are trained as having no "
            "answer. The answer is longer than a window, crosses the border of two (a smaller stride "
            "makes windows overlap more), or has no token. The questions: %s.",
            *(len(lost), len(ids), quoted(lost)),
        )
