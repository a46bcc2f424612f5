"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Mapping

import keras
from keras import ops

from bert_zoo.layers.backbones import FIRST_TEXT_IS_GLOBAL
from bert_zoo.models.base import Interface
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import TaskModel, Use
from bert_zoo.tasks.question_answering.answering import (
    LOGITS,
    MAX_ANSWER_LENGTH,
    N_BEST,
    answer,
    answer_scores,
    answered_rows,
    answered_texts,
    position_scores,
)

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

        from bert_zoo.tasks.question_answering.in_graph import best_answers
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

        Args:
            inputs: the model's inputs, with `columns_read`.
            labels: dict of positions int32 [batch], by the names in `LOGITS`.
            no_answer: int32 [batch], the positions that mean no answer.
        """
        return inputs, labels

    def of_window(self, outputs, padding: int) -> dict:
        """The fields of `bert_zoo.metrics.Window` besides logits, from the outputs for one row.

        Args:
            outputs: NumPy arrays by name.
            padding: number of padding tokens before the row.
        """
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
        choice = {"n_best": n_best, "max_answer_length": max_answer_length}
        windows = {"stride": stride, "max_question_length": max_question_length}
        return answer(
            self, question, context, no_answer_threshold, batch_size=batch_size, **choice, **windows
        )
