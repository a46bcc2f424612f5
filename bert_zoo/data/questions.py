"""Questions on contexts as rows of token ids: kept in memory, batched to train on and to predict.

Source of the labels: google-research/bert, run_squad.py.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_zoo.data.arrays import gather
from bert_zoo.data.buckets import Batches, Batching, RowOrder
from bert_zoo.data.squad import SquadExample, SquadSplit, checked_answer
from bert_zoo.data.token_table import TokenTable, token_table
from bert_zoo.error_text import quoted
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
) -> TokenTable:
    """Tokenizes questions and contexts, on all cores, into rows that stay in memory.

    Args:
        windows: cuts the contexts.
        questions, contexts: [N] texts.
        answers: [N], the characters of the context at which each answer starts and ends, the end
            exclusive; NO_ANSWER where there is none. With them, rows go without the TOKEN_COLUMNS that
            only finding answers needs.
        columns: those of them that are kept all the same.

    Raises:
        ValueError: there are no questions.
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
            # Among a row's tokens, which other batches pad otherwise.
            positions = [place - first_tokens(rows["padding_mask"]) for place in positions]
            left_out = {*TOKEN_COLUMNS} - {*columns}
            rows = {name: value for name, value in rows.items() if name not in left_out}
            rows |= dict(zip(("start_positions", "end_positions"), positions, strict=True))
        rows["example"] = gather(numbers, rows["example"])
        return rows

    return token_table(windows.packer, texts, packed)


def question_batches(
    split: SquadSplit, windows: QuestionWindows, batching: Batching, model=None
) -> Batches:
    """Batches to train a question answerer on, of windows of about equal length.

    Questions are tokenized at once, and the rows kept in memory and shuffled anew in every epoch. A
    question is trained with the first of its answers; windows that do not show all of it, and those
    of questions without answer, are trained to point at [CLS].

    Args:
        split: questions with answers, as of `load_squad` and `read_squad`.
        windows: cuts the contexts; `question_windows(model.preprocessor, ...)`. With
            padding="fixed" and `drop_remainder` all batches have one shape.
        batching: its rows are windows.
        model: the `QuestionAnswerer` to train, for one that is trained on more than positions.

    Returns:
        Batches of (inputs, labels): a model's inputs, int32 [batch, width], and `start_logits` and
        `end_logits`, the positions of the answer's first and last token, int32 [batch]; as the model's
        `as_trained` makes them.

    Raises:
        ValueError: no questions, a question whose answers were not read, or an answer that does not
            stand in its context where it says; names the question.
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
    return Batches.of(RowOrder(table.padded_lengths, batching), batch)


def labelled_windows(
    windows: QuestionWindows,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[tuple[int, int]],
    ids: Sequence[Any],
    model=None,
) -> tuple[TokenTable, Callable[[Any], tuple[dict, dict]]]:
    """Windows with the positions of answers, with a warning where none shows an answer.

    Args:
        windows, questions, contexts, answers: as for `window_table`.
        ids: [N], by which the log calls the questions.
        model: as for `question_batches`.

    Returns:
        The table; and a traceable function of row numbers, int64 [batch], to (inputs, labels) as
        `question_batches` gives them.
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
        chosen = {n: gather(positions, numbers) + first for n, positions in labels.items()}
        if model is None:
            return inputs, chosen
        nowhere = no_answer_positions(mask, windows.packer.layout.cls_position)
        return model.as_trained(inputs, chosen, nowhere)

    return table, batch


def trained_answer(example: SquadExample) -> tuple[int, int]:
    """Where the first answer starts and ends in the context."""
    if example.answers is None:
        raise ValueError(
            f"The answers of question {example.id!r} were not read, and training needs them. Read "
            "the file with read_squad(path)."
        )
    if not example.answers:
        return NO_ANSWER
    answer = checked_answer(f"Question {example.id!r}", example.context, example.answers[0])
    return answer.start, answer.end


def _report_lost_answers(
    table: TokenTable, ids: Sequence[Any], answers: Sequence[tuple[int, int]]
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
            "The answers of %d of the %d questions are in none of their windows as a whole, and are "
            "trained as no answer: they are longer than a window has room for, stand across the "
            "border of two (a smaller stride makes windows overlap more), or have no token. Their "
            "questions: %s.",
            *(len(lost), len(ids), quoted(lost)),
        )
