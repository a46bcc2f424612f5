"""Answers from texts: windows over the context, the model on each, the best spans of all."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.metrics.squad import AnswerSelection, Candidate, Window, select_answers
from bert_zoo.models.direct import for_this_device
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.tasks.question_answering import MAX_ANSWER_LENGTH, N_BEST

BATCH_SIZE = 32

# Characters of the context that are shown on each side of an answer.
SURROUNDINGS = 30


@dataclass(frozen=True)
class SpanAnswer:
    """What a context answers to a question.

    Attributes:
        question: the question.
        context: the context.
        text: the answer, cut from the context; "" for no answer.
        start: the place of its first character in the context; None for no answer.
        end: the place after its last character; None for no answer.
        score: its probability among the candidates.
        no_answer_score: log-odds of no answer against the best span; None where the question was
            said to have an answer.
        candidates: the likeliest answers, best first, as of `bert_zoo.metrics.squad`.
    """

    question: str
    context: str
    text: str
    start: int | None
    end: int | None
    score: float
    no_answer_score: float | None
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        best = next(candidate for candidate in self.candidates if candidate.text)
        if self.text:
            return f"{_one_line(self.text)}  {self.score:.3f}  {_in_context(self.context, best)}"
        guess = f"{_one_line(best.text)}  {best.probability:.3f}"
        return f"no answer  {self.score:.3f}  (best guess: {guess})"


class SpanAnswers(list):
    """A list of `SpanAnswer` that prints questions with answers."""

    def __str__(self) -> str:
        return "\n".join(f"{_one_line(row.question)}\n    {row}" for row in self)

    __repr__ = __str__


def _in_context(context: str, answer: Candidate) -> str:
    """The answer between marks, with the words around it."""
    before, after = context[: answer.start], context[answer.end :]
    left = before if len(before) <= SURROUNDINGS else f"…{before[-SURROUNDINGS:]}"
    right = after if len(after) <= SURROUNDINGS else f"{after[:SURROUNDINGS]}…"
    return _one_line(f"{left}»{answer.text}«{right}")


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


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
    selections = answer_questions(
        model, questions, contexts, allow_no_answer=no_answer_threshold is not None, **options
    )
    answers = SpanAnswers(
        _span_answer(*row, no_answer_threshold)
        for row in zip(questions, contexts, selections, strict=True)
    )
    return answers[0] if single else answers


def _broadcast(question, context) -> tuple[list[str], list[str]]:
    """Questions and contexts as lists of the same length; one context serves all questions."""
    from bert_zoo.text.batches import strings

    questions, contexts = strings(question, "question"), strings(context, "context")
    if isinstance(context, str):
        contexts *= len(questions)
    if isinstance(question, str):
        questions *= len(contexts)
    if len(questions) != len(contexts):
        raise ValueError(
            f"There are {len(questions)} questions and {len(contexts)} contexts. Pass as many of "
            "one as of the other, or a single string that goes with all of them."
        )
    return questions, contexts


def _span_answer(
    question: str, context: str, selection: AnswerSelection, no_answer_threshold: float | None
) -> SpanAnswer:
    chosen = selection.best
    if no_answer_threshold is not None and not selection.answer(no_answer_threshold):
        chosen = next(candidate for candidate in selection.candidates if not candidate.text)
    return SpanAnswer(
        question,
        context,
        chosen.text,
        chosen.start,
        chosen.end,
        chosen.probability,
        selection.no_answer_score,
        selection.candidates,
    )


def answer_questions(
    model,
    questions: Sequence[str],
    contexts: Sequence[str],
    ids: Sequence[str] | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    n_best: int = N_BEST,
    max_answer_length: int = MAX_ANSWER_LENGTH,
    allow_no_answer: bool = True,
    verbose: int = 0,
    **window_options,
) -> list[AnswerSelection]:
    """The best answers to each question, from windows that together show all of its context.

    Args:
        model: a `QuestionAnswerer`.
        questions, contexts: [N] texts; question i is about context i.
        ids: [N], by which errors call the questions; their numbers by default.
        batch_size: windows a step.
        n_best, max_answer_length, allow_no_answer: as for `bert_zoo.metrics.squad.select_answers`.
        verbose: 1 shows a progress bar.
        **window_options: `stride`, `max_question_length`, `sequence_length`, `padding`, `bucket` and
            `report_truncation` of `bert_zoo.text.windows.QuestionWindows`; the model's
            preprocessor's by default.

    Returns:
        [N] selections, in the order of the questions.

    Raises:
        TypeError, ValueError: something that is no text, different numbers of questions and
            contexts, a context without text, or an option outside its range.
    """
    from bert_zoo.text.batches import strings

    check_batch_size(batch_size)
    questions, contexts = strings(questions, "questions"), strings(contexts, "contexts")
    ids = range(len(questions)) if ids is None else ids
    _check_questions(questions, contexts, ids)
    if not questions:
        return []

    reading = {
        "preprocessor": model.preprocessor,
        "window_options": tuple(sorted(window_options.items())),
    }
    windows, example = [], []
    if not verbose:  # a bar needs steps
        windows, example = _few_windows(model, questions, contexts, reading, batch_size)
    if not windows:
        table = _window_table(model, questions, contexts, reading)
        windows = list(_windows(table, *_logits(model, table, reading, batch_size, verbose)))
        example = table.rows["example"]
    counts = np.bincount(example, minlength=len(questions))
    of_questions = np.split(np.arange(len(windows)), np.cumsum(counts)[:-1])
    selections = []
    for id, context, numbers in zip(ids, contexts, of_questions, strict=True):
        try:
            selection = select_answers(
                context,
                [windows[number] for number in numbers],
                n_best=n_best,
                max_answer_length=max_answer_length,
                allow_no_answer=allow_no_answer,
            )
        except ValueError as error:
            raise ValueError(f"Question {id!r}: {error}") from error
        selections.append(selection)
    return selections


def answered_batches(model, x, answers, sample_weight, *, batch_size: int, shuffle: bool):
    """Questions with answers as a tf.data of (inputs, labels) to train and evaluate on.

    Args:
        model: a `QuestionAnswerer`.
        x: (questions, contexts).
        answers: for each question, as `bert_zoo.data.squad.answers_of` takes them.
        sample_weight: for each question, or None.
        batch_size: windows a batch.
        shuffle: whether windows come in a new order in every epoch.

    Raises:
        TypeError, ValueError: other data, or an answer that does not stand in its context.
    """
    import tensorflow as tf

    from bert_zoo.data.buckets import without_autotuning
    from bert_zoo.data.questions import NO_ANSWER, labelled_windows
    from bert_zoo.data.squad import answers_of
    from bert_zoo.text.batches import strings
    from bert_zoo.text.windows import question_windows

    if not isinstance(x, tuple) or len(x) != 2:
        raise TypeError(
            f"Answers belong to x = (questions, contexts), a tuple of two batches of texts; got "
            f"{type(x).__name__}."
        )
    if isinstance(answers, Mapping | str):
        raise TypeError(
            f"Answers are a list with one for each question, such as (text, start); got {answers!r:.80}."
        )
    questions, contexts = strings(x[0], "questions"), strings(x[1], "contexts")
    answers = list(answers)
    for name, column in (("contexts", contexts), ("answers", answers), ("weights", sample_weight)):
        if column is not None and len(column) != len(questions):
            raise ValueError(
                f"There are {len(questions)} questions and {len(column)} {name}; there must be as "
                "many of each."
            )
    spans = []
    for row, (answer, context) in enumerate(zip(answers, contexts, strict=True)):
        found = answers_of(answer, context, f"answers[{row}]")
        spans.append((found[0].start, found[0].end) if found else NO_ANSWER)
    windows = question_windows(model.preprocessor)
    table, batch = labelled_windows(windows, questions, contexts, spans, range(len(spans)))

    def weighted(numbers):
        if sample_weight is None:
            return batch(numbers)
        of_questions = tf.constant(np.asarray(sample_weight, np.float32))
        weights = tf.gather(of_questions, tf.gather(table.rows["example"], numbers))
        inputs, labels = batch(numbers)
        return inputs, labels, dict.fromkeys(labels, weights)

    numbers = tf.data.Dataset.range(len(table.lengths))
    if shuffle:
        numbers = numbers.shuffle(len(table.lengths))
    batches = numbers.batch(batch_size).map(
        tf.autograph.experimental.do_not_convert(weighted), num_parallel_calls=tf.data.AUTOTUNE
    )
    return without_autotuning(batches.prefetch(tf.data.AUTOTUNE))


def _check_questions(questions: Sequence[str], contexts: Sequence[str], ids: Sequence) -> None:
    if not len(questions) == len(contexts) == len(ids):
        raise ValueError(
            f"There are {len(questions)} questions, {len(contexts)} contexts and {len(ids)} ids; "
            "there must be as many of each."
        )
    for id, context in zip(ids, contexts, strict=True):
        if not context.strip():
            raise ValueError(
                f"The context of question {id!r} is {context!r}, and an answer is a part of its "
                "context. Leave the question out, or give it a text to be answered from."
            )


def _few_windows(
    model, questions: Sequence[str], contexts: Sequence[str], reading: dict, batch_size: int
) -> tuple[list[Window], Sequence[int]]:
    """The windows of questions and the number of each one's question, if they are a single batch.

    One call of TensorFlow, which saves a few milliseconds beside a table. Empty where there are more
    windows, and on other backends.
    """
    if keras.backend.backend() != "tensorflow" or len(questions) > batch_size:
        return [], []
    texts = (np.array(column, object) for column in (questions, contexts))
    found = in_graph(model, _window_outputs, *texts, batch_size=batch_size, **reading)
    rows, logits = keras.tree.map_structure(np.asarray, found)
    if not len(logits[0]):
        return [], []
    offsets = np.stack([rows["starts"], rows["ends"]], axis=-1)
    lengths = rows["padding_mask"].sum(axis=1)
    by_token = zip(*logits, rows["context_mask"], offsets, strict=True)
    windows = [
        Window(*(part[:length] for part in parts), first_token)
        for parts, length, first_token in zip(
            by_token, lengths, rows["first_token"].tolist(), strict=True
        )
    ]
    return windows, rows["example"]


def _window_outputs(model, questions, contexts, *, batch_size: int, **reading):
    """Windows, and their start and end logits [windows, width]; [0, 0] for more than a batch."""
    import tensorflow as tf

    from bert_zoo.text.windows import model_inputs

    rows = _windows_of(**reading)(questions, contexts)

    def logits():
        outputs = model(model_inputs(rows), training=False)
        return tuple(ops.cast(outputs[name], "float32") for name in ("start_logits", "end_logits"))

    is_batch = tf.shape(rows["token_ids"])[0] <= batch_size
    return rows, tf.cond(is_batch, logits, lambda: (tf.zeros([0, 0]), tf.zeros([0, 0])))


def _window_table(model, questions: Sequence[str], contexts: Sequence[str], reading: dict):
    """`bert_zoo.data.questions.window_table`, from graphs that are traced once, on all cores."""
    from bert_zoo.data.token_table import CHUNK, table_of_chunks

    packer = _windows_of(**reading).packer

    def chunk(start: int):
        end = min(start + CHUNK, len(questions))
        texts = (np.array(column[start:end], object) for column in (questions, contexts))
        rows = in_graph(
            model, _window_rows, np.arange(start, end, dtype="int32"), *texts, **reading
        )
        return keras.tree.map_structure(np.asarray, rows)

    starts = range(0, len(questions), CHUNK)
    if len(starts) == 1:
        return table_of_chunks(packer, [chunk(0)])
    with ThreadPoolExecutor() as pool:
        return table_of_chunks(packer, pool.map(chunk, starts))


def _windows_of(*, preprocessor, window_options: tuple):
    from bert_zoo.text.windows import question_windows

    return question_windows(for_this_device(preprocessor), **dict(window_options))


def _window_rows(model, numbers, questions, contexts, **reading):
    import tensorflow as tf

    from bert_zoo.data.token_table import without_padding

    rows = _windows_of(**reading)(questions, contexts)
    rows["example"] = tf.gather(numbers, rows["example"])
    return without_padding(rows)


def _span_logits(model, tokens, numbers, **reading):
    """The model's outputs for some rows of a table with such tokens."""
    from bert_zoo.data.questions import window_inputs
    from bert_zoo.data.token_table import TokenTable

    table = TokenTable(_windows_of(**reading).packer, tokens, {})
    return model(window_inputs(table, numbers), training=False)


def _logits(
    model, table, reading: dict, batch_size: int, verbose: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Start and end logits of each row of the table, without padding."""
    lengths = table.lengths
    starts, ends = [[None] * len(lengths) for _ in range(2)]
    # The longest come first: if memory does not do, it shows at once.
    order = np.argsort(-lengths, kind="stable")
    with tqdm(total=len(order), desc="answering", unit=" windows", disable=not verbose) as bar:
        for first in range(0, len(order), batch_size):
            numbers = order[first : first + batch_size]
            outputs = on_model(model, _span_logits, table.tokens, numbers, **reading)
            for all_logits, name in ((starts, "start_logits"), (ends, "end_logits")):
                logits = ops.convert_to_numpy(ops.cast(outputs[name], "float32"))
                for number, row in zip(numbers, logits, strict=True):
                    all_logits[number] = row[: lengths[number]]
            bar.update(len(numbers))
    return starts, ends


def _windows(table, starts: Iterable[np.ndarray], ends: Iterable[np.ndarray]) -> Iterator[Window]:
    """The rows of the table as `select_answers` takes them."""
    splits = np.cumsum(table.lengths)[:-1]
    flat = {name: table.tokens[name].values.numpy() for name in ("context_mask", "starts", "ends")}
    masks = np.split(flat["context_mask"], splits)
    offsets = np.split(np.stack([flat["starts"], flat["ends"]], axis=1), splits)
    rows = zip(starts, ends, masks, offsets, table.rows["first_token"].tolist(), strict=True)
    return (Window(*row) for row in rows)
