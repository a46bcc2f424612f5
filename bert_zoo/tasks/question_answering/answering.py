"""Answers from texts: runs the model on windows of the context and chooses the best spans."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.data.buckets import Rows
from bert_zoo.data.squad import Answer, answers_of
from bert_zoo.metrics.squad import (
    AnswerSelection,
    Window,
    select_answers,
    squad_v1,
    squad_v2,
)
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.models.losses import weights_of_labels
from bert_zoo.models.sample_weights import checked_sample_weight
from bert_zoo.runtime.answers import SpanAnswer, SpanAnswers, span_answer
from bert_zoo.text.numpy_windows import usual_batch_size

LOGITS = ("start_logits", "end_logits")
# As in google-research/bert, run_squad.py.
N_BEST = 20
MAX_ANSWER_LENGTH = 30


def answer(
    model,
    question: str | Sequence[str],
    context: str | Sequence[str],
    no_answer_threshold: float | None,
    **options,
) -> SpanAnswer | SpanAnswers:
    """See `QuestionAnswerer.answer`."""
    single = isinstance(question, str) and isinstance(context, str)
    questions, contexts = _broadcast(question, context)
    options |= {"allow_no_answer": no_answer_threshold is not None, "allow_no_text": True}
    selections = answer_questions(model, questions, contexts, **options)
    answers = SpanAnswers(
        span_answer(*row, no_answer_threshold)
        for row in zip(questions, contexts, selections, strict=True)
    )
    return answers[0] if single else answers


def _broadcast(question, context) -> tuple[list[str], list[str]]:
    """Returns questions and contexts as lists; repeats a single string for all of the other."""
    from bert_zoo.text.batches import strings

    questions, contexts = strings(question, "question"), strings(context, "context")
    if isinstance(context, str):
        contexts *= len(questions)
    if isinstance(question, str):
        questions *= len(contexts)
    return questions, contexts


def answer_questions(
    model,
    questions: Sequence[str],
    contexts: Sequence[str],
    ids: Sequence[str] | None = None,
    *,
    batch_size: int | None = None,
    n_best: int = N_BEST,
    max_answer_length: int = MAX_ANSWER_LENGTH,
    allow_no_answer: bool = True,
    allow_no_text: bool = False,
    verbose: int = 0,
    **window_options,
) -> list[AnswerSelection]:
    """Returns the best answers to each question, from windows that cover its whole context.

    Args:
        model: a `QuestionAnswerer`.
        questions, contexts: [N] texts; question i is about context i.
        ids: [N] names of the questions in errors; by default their numbers.
        batch_size: windows per step; see `QuestionAnswerer.answer`.
        n_best, max_answer_length, allow_no_answer, allow_no_text: as for
            `bert_zoo.metrics.squad.select_answers`.
        verbose: 1 shows a progress bar.
        **window_options: options of `bert_zoo.text.windows.question_windows`.

    Returns:
        [N] selections, in the order of the questions.

    Raises:
        TypeError, ValueError: as `QuestionAnswerer.answer`.
    """
    from bert_zoo.text.batches import strings
    from bert_zoo.text.windows import question_windows

    if batch_size is None:
        batch_size = usual_batch_size(model.preprocessor.sequence_length)
    check_batch_size(batch_size)
    questions, contexts = strings(questions, "questions"), strings(contexts, "contexts")
    ids = range(len(questions)) if ids is None else ids
    _check_numbers(questions, contexts=contexts, ids=ids)
    for id, context in zip(ids, contexts, strict=True):
        if not context.strip() and not allow_no_text:
            raise ValueError(
                f"The context of question {id!r} is {context!r}, but an answer is part of its context. Leave the "
                "question out, or give it a text with the answer."
            )
    if not questions:
        return []

    windows, example = [], []
    if not verbose:  # a progress bar needs steps
        reading = {
            "preprocessor": model.preprocessor,
            "window_options": tuple(sorted(window_options.items())),
        }
        windows, example = _of_one_batch(model, questions, contexts, batch_size, **reading)
    if not windows:
        read = question_windows(for_this_device(model.preprocessor), **window_options)
        windows, example = _of_table(model, read, questions, contexts, batch_size, verbose)
    of_questions = [[] for _ in questions]
    for number, window in zip(example, windows, strict=True):
        of_questions[number].append(window)
    choice = {"n_best": n_best, "max_answer_length": max_answer_length}
    choice |= {"allow_no_answer": allow_no_answer, "allow_no_text": allow_no_text}
    selections = []
    for id, context, of_question in zip(ids, contexts, of_questions, strict=True):
        try:
            selections.append(select_answers(context, of_question, **choice))
        except ValueError as error:
            raise ValueError(f"Question {id!r}: {error}") from error
    return selections


class AnsweredTexts(NamedTuple):
    """Questions with the answers that are right, none if the context has no answer."""

    questions: list[str]
    contexts: list[str]
    answers: list[tuple[Answer, ...]]


def answered_texts(x, answers) -> AnsweredTexts:
    """Checks questions and their answers, as in `QuestionAnswerer.fit`.

    Args:
        x: (questions, contexts).
        answers: the answers of each question, as for `bert_zoo.data.squad.answers_of`.
    """
    from bert_zoo.text.batches import strings

    if not isinstance(x, tuple) or len(x) != 2:
        raise TypeError(
            f"Answers need x = (questions, contexts), a tuple of two lists of texts; got {type(x).__name__}."
        )
    if isinstance(answers, Mapping | str):
        raise TypeError(
            f"Answers must be a list with one for each question, such as (text, start); got {answers!r:.80}."
        )
    questions, contexts = strings(x[0], "questions"), strings(x[1], "contexts")
    answers = list(answers)
    _check_numbers(questions, contexts=contexts, answers=answers)
    rows = enumerate(zip(answers, contexts, strict=True))
    return AnsweredTexts(
        questions, contexts, [answers_of(*pair, f"answers[{row}]") for row, pair in rows]
    )


def answered_rows(model, asked: AnsweredTexts, sample_weight) -> Rows:
    """Returns training windows for questions with answers, as in `QuestionAnswerer.fit`.

    Args:
        model: a `QuestionAnswerer`.
        asked: the questions.
        sample_weight: the weight of each question, or None.
    """
    from bert_zoo.data.questions import NO_ANSWER, labelled_windows
    from bert_zoo.text.windows import question_windows

    sample_weight = checked_sample_weight(sample_weight)
    _check_numbers(asked.questions, weights=sample_weight)
    spans = [(some[0].start, some[0].end) if some else NO_ANSWER for some in asked.answers]
    windows = question_windows(for_this_device(model.preprocessor))
    table, batch = labelled_windows(windows, *asked[:2], spans, range(len(spans)), model)
    if sample_weight is not None:
        of_questions = weights_of_labels(
            np.asarray(sample_weight, np.float32), np.array(spans)[:, 0]
        )
        of_windows = of_questions[table.rows["example"]]

    def gather(numbers):
        inputs, labels = batch(numbers)
        if sample_weight is None:
            return inputs, labels
        return inputs, labels, dict.fromkeys(labels, of_windows[numbers])

    return Rows(table.padded_lengths, gather, table.axes, source=asked)


def answer_scores(model, asked: AnsweredTexts, batch_size: int | None) -> dict[str, float]:
    """`exact_match` and `f1` of the answers that the model gives, in percent, as SQuAD's programs score them.

    If a question has no answer, the model may also give none, at the threshold 0 of `answer`, and scores are
    those of SQuAD 2.0; otherwise those of 1.1.
    """
    is_v2 = not all(asked.answers)
    references = {i: [a.text for a in answers] for i, answers in enumerate(asked.answers)}
    # Nothing can be found in a context without text.
    found = dict.fromkeys(references, "")
    readable = [i for i, context in enumerate(asked.contexts) if context.strip()]
    questions, contexts = ([column[i] for i in readable] for column in asked[:2])
    selections = answer_questions(
        model, questions, contexts, readable, batch_size=batch_size, allow_no_answer=is_v2
    )
    found |= {i: each.answer() for i, each in zip(readable, selections, strict=True)}
    scores = (squad_v2 if is_v2 else squad_v1)(references, found)
    return {"exact_match": scores["exact" if is_v2 else "exact_match"], "f1": scores["f1"]}


def position_scores(
    labels: Mapping[str, np.ndarray], logits: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """`exact_match` and `f1` of the likeliest positions, in percent: means over rows of tokens.

    Args:
        labels: the right first and last token, int [rows], by the names in `LOGITS`.
        logits: [rows, length], by the same names.
    """
    (start, end), (found_start, found_end) = (
        np.stack([np.ravel(np.asarray(labels[name])) for name in LOGITS]),
        np.stack([np.argmax(logits[name], axis=-1) for name in LOGITS]),
    )
    shared = np.minimum(end, found_end) - np.maximum(start, found_start) + 1
    tokens = end - start + 1 + np.maximum(found_end - found_start + 1, 0)
    f1 = 2 * np.maximum(shared, 0) / tokens
    is_exact = (start == found_start) & (end == found_end)
    return {"exact_match": 100.0 * float(is_exact.mean()), "f1": 100.0 * float(f1.mean())}


def _check_numbers(questions: Sequence[str], **columns: Sequence | None) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != len(questions):
            raise ValueError(
                f"There are {len(questions)} questions, but {len(column)} {name}. Pass the same number of both."
            )


def _of_one_batch(
    model, questions: Sequence[str], contexts: Sequence[str], batch_size: int, **reading
) -> tuple[list[Window], Sequence[int]]:
    """Returns windows and the number of each one's question, if all windows fit into one batch.

    This is a single TensorFlow call, a few milliseconds faster than a table. Returns empty lists if there are
    more windows, and on other backends.
    """
    if keras.backend.backend() != "tensorflow" or len(questions) > batch_size:
        return [], []
    texts = (np.array(column, object) for column in (questions, contexts))
    found = in_graph(model, _window_outputs, *texts, batch_size=batch_size, **reading)
    rows, outputs = keras.tree.map_structure(np.asarray, found)
    is_batch = len(outputs["start_logits"]) > 0
    return (_windows(model, rows, outputs), rows["example"]) if is_batch else ([], [])


def _window_outputs(model, questions, contexts, *, batch_size: int, preprocessor, window_options):
    """Returns windows and the model's float32 outputs for them; no outputs for more than one batch."""
    import tensorflow as tf

    from bert_zoo.text.windows import model_inputs, question_windows

    read = question_windows(for_this_device(preprocessor), **dict(window_options))
    rows = read(questions, contexts)
    is_batch = tf.shape(rows["token_ids"])[0] <= batch_size
    nothing = dict.fromkeys(model.interface.outputs, tf.zeros([0]))
    inputs = model_inputs(rows, model.columns_read)
    return rows, tf.cond(is_batch, lambda: _outputs(model, inputs), lambda: nothing)


def _outputs(model, inputs):
    """Returns the model's outputs as float32."""
    outputs = model(inputs, training=False)
    return {name: ops.cast(outputs[name], "float32") for name in model.interface.outputs}


def _of_table(
    model, windows, questions: Sequence[str], contexts: Sequence[str], batch_size: int, verbose: int
) -> tuple[list[Window], Sequence[int]]:
    """Like `_of_one_batch`, for any number of windows."""
    from bert_zoo.data.questions import window_table
    from bert_zoo.text.windows import model_inputs

    table = window_table(windows, questions, contexts)
    # The longest come first, so that a lack of memory shows at once.
    order = np.argsort(-table.lengths, kind="stable")
    found = [None] * len(order)
    size = min(batch_size, len(order))
    with tqdm(total=len(order), desc="answering", unit=" windows", disable=not verbose) as bar:
        for numbers in np.split(order, range(batch_size, len(order), batch_size)):
            rows = table.padded(numbers)
            outputs = on_rows(model, _outputs, model_inputs(rows, model.columns_read), size)
            outputs = {
                name: ops.convert_to_numpy(value)[: len(numbers)] for name, value in outputs.items()
            }
            rows["first_token"] = table.rows["first_token"][numbers]
            for number, window in zip(numbers, _windows(model, rows, outputs), strict=True):
                found[number] = window
            bar.update(len(numbers))
    return found, table.rows["example"]


def logits_of_tokens(
    model, questions: Sequence[str], contexts: Sequence[str], batch_size: int, **window_options
) -> np.ndarray:
    """Returns start and end logits of all tokens in all windows, in the order of questions, [tokens, 2]."""
    from bert_zoo.text.windows import question_windows

    read = question_windows(for_this_device(model.preprocessor), **window_options)
    windows, _ = _of_table(model, read, questions, contexts, batch_size, verbose=0)
    return np.concatenate([np.stack([w.start_logits, w.end_logits], axis=-1) for w in windows])


def _windows(model, rows: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> list[Window]:
    """Returns rows without padding, in the form of `select_answers`."""
    offsets = np.stack([rows["starts"], rows["ends"]], axis=-1)
    no_answer = model.preprocessor.packer.layout.cls_position
    windows = []
    for row, is_token in enumerate(rows["padding_mask"] == 1):
        logits = (outputs[name][row][is_token] for name in LOGITS)
        columns = (rows["context_mask"][row][is_token], offsets[row][is_token])
        padding = int(np.argmax(is_token))
        more = model.of_window({name: value[row] for name, value in outputs.items()}, padding)
        first_token = int(rows["first_token"][row])
        windows.append(Window(*logits, *columns, first_token, no_answer, **more))
    return windows
