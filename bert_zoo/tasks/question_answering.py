"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.data.buckets import Rows
from bert_zoo.data.squad import Answer, answers_of
from bert_zoo.fields import check
from bert_zoo.layers.backbones import FIRST_TEXT_IS_GLOBAL
from bert_zoo.metrics.squad import AnswerSelection, Window, select_each, squad_v1, squad_v2
from bert_zoo.models.base import Interface
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import class_loss, weights_of_labels
from bert_zoo.models.task_model import TaskModel, Use
from bert_zoo.models.text_rows import checked_sample_weight
from bert_zoo.runtime.answers import check_numbers, paired, span_answers
from bert_zoo.text.numpy_packing import usual_batch_size

# -------------------------------------------------------------------------------------------------
# Answers from texts: runs the model on windows of the context and chooses the best spans.
# -------------------------------------------------------------------------------------------------

LOGITS = ("start_logits", "end_logits")
# As in google-research/bert, run_squad.py.
N_BEST = 20
MAX_ANSWER_LENGTH = 30


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
    """The best answers [N] to each question, from windows that cover its whole context.

    `ids` name the questions in errors, by default by number; options are those of `QuestionAnswerer.answer`,
    `bert_zoo.metrics.squad.select_answers` and `bert_zoo.text.windows.question_windows`.
    """
    from bert_zoo.text.batches import strings
    from bert_zoo.text.windows import question_windows

    if batch_size is None:
        batch_size = usual_batch_size(model.preprocessor.sequence_length)
    check("batch_size", batch_size, int, least=1)
    questions, contexts = strings(questions, "questions"), strings(contexts, "contexts")
    ids = range(len(questions)) if ids is None else ids
    check_numbers(questions, contexts=contexts, ids=ids)
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
    choice = {"n_best": n_best, "max_answer_length": max_answer_length}
    choice |= {"allow_no_answer": allow_no_answer, "allow_no_text": allow_no_text}
    return select_each(contexts, windows, example, ids, **choice)


class AnsweredTexts(NamedTuple):
    """Questions with the answers that are right, none if the context has no answer."""

    questions: list[str]
    contexts: list[str]
    answers: list[tuple[Answer, ...]]


def answered_texts(x, answers) -> AnsweredTexts:
    """Checks x = (questions, contexts) and their answers, as in `QuestionAnswerer.fit`."""
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
    check_numbers(questions, contexts=contexts, answers=answers)
    rows = enumerate(zip(answers, contexts, strict=True))
    return AnsweredTexts(
        questions, contexts, [answers_of(*pair, f"answers[{row}]") for row, pair in rows]
    )


def answered_rows(model, asked: AnsweredTexts, sample_weight) -> Rows:
    """Training windows for questions with answers and weights [questions], as in `QuestionAnswerer.fit`."""
    from bert_zoo.data.questions import NO_ANSWER, labelled_windows
    from bert_zoo.text.windows import question_windows

    sample_weight = checked_sample_weight(sample_weight)
    check_numbers(asked.questions, weights=sample_weight)
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

    Labels, the right first and last token, are int [rows], and logits [rows, length], by the names in `LOGITS`.
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


def _of_one_batch(
    model, questions: Sequence[str], contexts: Sequence[str], batch_size: int, **reading
) -> tuple[list[Window], Sequence[int]]:
    """Windows and the number of each one's question, if all windows fit into one batch, else empty lists.

    This is a single TensorFlow call, a few milliseconds faster than a table; empty lists on other backends.
    """
    if keras.backend.backend() != "tensorflow" or len(questions) > batch_size:
        return [], []
    texts = (np.array(column, object) for column in (questions, contexts))
    found = in_graph(model, _window_outputs, *texts, batch_size=batch_size, **reading)
    rows, outputs = keras.tree.map_structure(np.asarray, found)
    is_batch = len(outputs["start_logits"]) > 0
    return (_windows(model, rows, outputs), rows["example"]) if is_batch else ([], [])


def _window_outputs(model, questions, contexts, *, batch_size: int, preprocessor, window_options):
    """Windows and the model's float32 outputs for them; no outputs for more than one batch."""
    import tensorflow as tf

    from bert_zoo.text.windows import model_inputs, question_windows

    read = question_windows(for_this_device(preprocessor), **dict(window_options))
    rows = read(questions, contexts)
    is_batch = tf.shape(rows["token_ids"])[0] <= batch_size
    nothing = dict.fromkeys(model.interface.outputs, tf.zeros([0]))
    inputs = model_inputs(rows, model.columns_read)
    return rows, tf.cond(is_batch, lambda: _outputs(model, inputs), lambda: nothing)


def _outputs(model, inputs):
    """The model's outputs as float32."""
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
    """Start and end logits of all tokens in all windows, in the order of questions, [tokens, 2]."""
    from bert_zoo.text.windows import question_windows

    read = question_windows(for_this_device(model.preprocessor), **window_options)
    windows, _ = _of_table(model, read, questions, contexts, batch_size, verbose=0)
    return np.concatenate([np.stack([w.start_logits, w.end_logits], axis=-1) for w in windows])


def _windows(model, rows: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> list[Window]:
    """Rows without padding, in the form of `select_answers`."""
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


# For tokens at which no answer can start or end, in families that know some.
NO_ANSWER_LOGIT = -1e6


@keras.saving.register_keras_serializable("bert_zoo")
class QuestionAnswerer(TaskModel):
    """Finds the part of a context that answers a question.

    Returns a dict of `start_logits` and `end_logits`, each [batch, length].

    `fit` and `evaluate` take x = (questions, contexts) and y = answers, one for each question:

    * a tuple (text, start), where start is a character offset in the context;
    * SQuAD's {"text": ..., "answer_start": ...}, with one answer or lists of several (the first is trained);
    * None if the context has no answer.

    Contexts are read whole, in the windows that `answer` uses by default, and rows of a batch are windows.
    Windows without the whole answer are trained to point at the first token (at the last in XLNet). If y is
    a dict of token positions, each pair is one row, cut if it is too long, as in `predict`. `evaluate` also gives
    exact match and F1.

    Source: google-research/bert run_squad.py, create_model.
    """

    task = "question_answering"
    verbs = ("answer",)
    peft_task = "QUESTION_ANS"
    taught_by = "cross_entropy"
    use = Use(
        "question-answering",
        "finds the answer to a question in a given text",
        'model.answer("A question?", "The text that answers it.")',
        long_texts="It reads long texts in windows of {length} tokens, independently of each other.",
    )
    outputs_per_token = True
    output_activation = "softmax"
    truncation = "only_second"
    global_tokens = FIRST_TEXT_IS_GLOBAL
    # The mean of both, as in run_squad.py.
    default_loss_weights = dict.fromkeys(LOGITS, 0.5)
    # The columns of windows that it reads besides ids, from `bert_zoo.text.windows.TOKEN_COLUMNS`.
    columns_read: tuple[str, ...] = ()
    interface = Interface(LOGITS, texts=(("question", 1), ("context", 1)), pairs=False)

    def add_head(self, config):
        name = "span" if self.stored_head.has("span/dense") else "classifier"
        self.span = self.tuned_head(2, name)

    def head_outputs(self, encoded, inputs, training=None):
        logits = self.span(self.prepared(encoded["sequence_output"]))
        if self.stored_head.no_answer is not None:
            is_none = self.stored_head.no_answer(self.encoder.config, inputs)
            logits = ops.where(ops.expand_dims(is_none, -1), NO_ANSWER_LOGIT, logits)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def default_loss(self):
        return {name: class_loss() for name in LOGITS}

    def served_of_texts(self, texts, run, preprocessor):
        """Answers from contexts of any length, and the outputs for each of their windows."""
        import tensorflow as tf

        from bert_zoo.tasks.answers_in_graph import best_answers
        from bert_zoo.text.windows import model_inputs, question_windows

        # Offsets of answers then agree with the tokenizer's for text that is not UTF-8.
        questions, contexts = (tf.strings.unicode_transcode(t, "UTF-8", "UTF-8") for t in texts)
        rows = question_windows(preprocessor)(questions, contexts)
        rows |= run(model_inputs(rows, self.columns_read))
        choice = {"n_best": N_BEST, "max_answer_length": MAX_ANSWER_LENGTH}
        column = preprocessor.packer.layout.cls_position
        answers = best_answers(contexts, rows, no_answer=column, **choice)
        return rows | answers

    def as_trained(self, inputs, labels, no_answer):
        """Inputs and labels of windows as training uses them, NumPy arrays.

        Labels are positions int32 [batch] by the names in `LOGITS`; those in `no_answer` mean no answer.
        """
        return inputs, labels

    def of_window(self, outputs, padding: int) -> dict:
        """The fields of `bert_zoo.metrics.Window` besides logits, from a row's outputs after so many padding tokens."""
        return {}

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        length = inputs["token_ids"].shape[1] if isinstance(inputs, Mapping) else None
        length = length or self.longest_input
        return dict.fromkeys(LOGITS, LabelRange(length, "the length of the input"))

    def own_rows(self, x, y, sample_weight):
        is_of_positions = isinstance(y, Mapping) and set(y) == set(self.label_ranges(x))
        if y is None or is_of_positions:
            return None
        return answered_rows(self, answered_texts(x, y), sample_weight)

    def evaluate(self, x=None, y=None, batch_size=None, *, return_dict: bool = False, **kwargs):
        """Measures loss and metrics as in Keras, and `exact_match` and `f1` in percent.

        For texts, these score the answers of `answer` as SQuAD's programs do, from which a question without
        an answer makes SQuAD 2.0's. For ids in memory, they compare the likeliest first and last token with the
        labels. For other data they are left out.
        """
        logs = super().evaluate(x, y, batch_size, return_dict=True, **kwargs)
        asked = getattr(x, "source", None)  # when `fit` validates
        are_positions = isinstance(y, Mapping) and set(y) == set(LOGITS)
        if isinstance(x, Mapping) and are_positions:
            logs |= position_scores(y, self.predict(x, batch_size, verbose=0))
        elif asked is not None or (isinstance(x, tuple) and not are_positions):
            logs |= answer_scores(self, asked or answered_texts(x, y), batch_size)
        if return_dict:
            return logs
        # In Keras's order.
        first = [name for name in self.metrics_names if name in logs]
        values = [logs[name] for name in (*first, *sorted(logs.keys() - first))]
        return values if len(values) > 1 else values[0]

    def portable_verb(self):
        return {"verb": "answer"}

    def prediction_rows(
        self, texts, second=None, *, batch_size=32, no_answer_threshold=None, **others
    ):
        if second is None:
            super().prediction_rows(texts)
        for row in self.answer(texts, second, no_answer_threshold, batch_size=batch_size):
            yield {"answer": row.text, "score": row.score, "start": row.start, "end": row.end}

    def printed_predictions(
        self, texts, second=None, *, context=None, no_answer_threshold=None, **others
    ):
        if context is None:
            raise ValueError("Name the file to search for answers with --context.")
        return self.answer(texts, [context] * len(texts), no_answer_threshold)

    def answer(
        self,
        question,
        context,
        no_answer_threshold: float | None = 0.0,
        *,
        n_best: int = 20,
        max_answer_length: int = 30,
        stride: int | None = None,
        max_question_length: int = 64,
        batch_size: int | None = None,
    ):
        """Finds the part of a context that answers a question, or finds that there is no answer.

        A context of any length is read whole, in overlapping windows.

        Args:
            question: a string, or several.
            context: a string, or several. Question i is about context i; a single string goes with
                all of the others.
            no_answer_threshold: there is no answer if its log-odds against the best span are above this;
                higher values give more answers. None always gives an answer, which suits a model that
                was trained without unanswerable questions (SQuAD 1.1). A context without text has no answer,
                with an infinite `no_answer_score`.
            n_best: number of candidates.
            max_answer_length: maximum length of an answer in tokens.
            stride: number of tokens between the starts of two windows; by default 128, but windows of
                more than 512 tokens overlap by 384.
            max_question_length: longer questions are cut to this number of tokens, with a warning.
            batch_size: number of windows per step; by default 32, and fewer if windows have more than
                512 tokens.

        Returns:
            `SpanAnswer(question, context, text, start, end, score, no_answer_score, candidates)`, which
            prints the answer within its context; for several questions or contexts, a list that prints
            as a table.

        Raises:
            TypeError, ValueError: an argument is not text, numbers of questions and contexts differ, or an
                option is outside its range.

        Source: google-research/bert, run_squad.py.
        """
        from bert_zoo.text.batches import strings

        single = isinstance(question, str) and isinstance(context, str)
        questions, contexts = paired(question, context, strings)
        selections = answer_questions(
            self,
            questions,
            contexts,
            batch_size=batch_size,
            n_best=n_best,
            max_answer_length=max_answer_length,
            allow_no_answer=no_answer_threshold is not None,
            allow_no_text=True,
            stride=stride,
            max_question_length=max_question_length,
        )
        answers = span_answers(questions, contexts, selections, no_answer_threshold)
        return answers[0] if single else answers
