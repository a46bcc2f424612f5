"""Tasks about whole texts: one label, any number of labels, a number, or a choice among texts."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.layers.backbones import SECOND_TEXT_IS_GLOBAL
from bert_zoo.models.base import Interface
from bert_zoo.models.compiling import ACCURACY
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.inputs import check_rank
from bert_zoo.models.labels import (
    DEFAULT_THRESHOLD,
    HeadChoice,
    LabelRange,
    LabelScores,
    LabelSets,
    Thresholds,
    label_thresholds,
)
from bert_zoo.models.long_texts import warning_of_cut_texts
from bert_zoo.models.losses import BinaryCrossentropy, SquaredError, class_loss
from bert_zoo.models.metrics import LabelF1
from bert_zoo.models.task_model import LabelledModel, ScoringModel, SentenceModel, Use
from bert_zoo.private import metrics_given
from bert_zoo.runtime.answers import classifications, sigmoid, softmax
from bert_zoo.tasks.zero_shot import (
    HYPOTHESIS,
    classified_by_name,
    entailment_scores,
    inference_classes,
)
from bert_zoo.text.columns import as_list, column_names

log = logging.getLogger("bert_zoo")


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(SentenceModel, LabelledModel):
    """Gives a text, or a pair of texts, one of several labels.

    Returns logits [batch, classes]. `labels` or `num_classes` of `bert_zoo.load` set the classes; `fit`
    takes labels as class numbers or names.

    Args:
        encoder, num_classes, labels: as in `LabelledModel`.
    """

    task = "classification"
    verbs = ("classify", "zero_shot")
    peft_task = "SEQ_CLS"
    taught_by = "cross_entropy"
    use = Use(
        "text-classification",
        "assigns one of its labels to a text",
        "model.classify({texts})",
        limits=("It always answers with one of its labels, even if none fits.",),
    )
    problem_type = "single_label_classification"
    least_logits = 2
    thresholds: tuple[float, ...] = ()  # of labels that apply independently of each other

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        if head.num_logits is not None and head.num_logits < cls.least_logits:
            raise ValueError(
                f"The head of {head.checkpoint} has one logit, and a classifier with a single class would give every "
                "text the probability 1. If the logit is a number to predict, load with task='regression', as "
                "transformers does. If the model is a cross-encoder, load with task='reranking', which ranks "
                "documents by its sigmoid. To train a classifier of your own, pass init=('classifier',)."
            )
        return super().head_arguments(head)

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def default_loss(self):
        return class_loss()

    def portable_verb(self):
        return {"verb": "classify", "labels": list(self.labels)}

    def classify(
        self,
        texts,
        batch_size: int = 32,
        top_k: int | None = None,
        *,
        labels: Sequence[str] | str | None = None,
        template: str = HYPOTHESIS,
        multi_label: bool = False,
    ):
        """Finds the likeliest label of each text, with its probability, or in multi-label models all that apply.

        A model for natural language inference, such as one fine-tuned on MNLI, also finds classes that it was not
        trained for: with `labels`, the text is the premise and each label is put into a hypothesis ("This example is
        politics."), whose probability of entailment is the label's score, as in transformers'
        ZeroShotClassificationPipeline. A sentence encoder does it by similarity (`SentenceEmbedder.classify`).

        Args:
            texts: strings, or a pair of string batches.
            batch_size: number of texts per step, or with `labels` of pairs of a text and a label.
            top_k: how many of the likeliest labels to list for each text; by default one, or all that apply.
            labels: names of other classes than the model's own: a list, or a string with commas as in transformers.
                A text that is too long is cut; the hypothesis is not.
            template: a sentence with {} in place of the label. It works best in the texts' language and about
                their subject.
            multi_label: whether any number of `labels` may apply. Each label then has its own probability, and
                those above 0.5 are returned. Otherwise all probabilities add up to 1, or a single label has its own.

        Returns:
            A list of `Classification(text, label, score, scores, top)`, or in multi-label models and with
            `multi_label` of `MultiLabelClassification(text, labels, scores)`, with the labels whose probability is
            above their threshold. It prints as a table.

        Raises:
            ValueError: an argument is invalid, or with `labels` the model has no class "entailment".

        Source: Yin et al., "Benchmarking Zero-shot Text Classification", arXiv:1909.00161.
        """
        if labels is not None:
            options = {"multi_label": multi_label, "top_k": top_k, "batch_size": batch_size}
            return classified_by_name(self, texts, labels, template, **options)
        if multi_label:
            raise ValueError(
                "multi_label=True needs labels=. A model of its own labels with several for a text has the task "
                "'multi_label_classification'."
            )
        from bert_zoo.text.batches import strings

        check("top_k", top_k, int | None, least=1)
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits = self.predict(texts, batch_size=batch_size, verbose=0)
        probabilities = map(sigmoid if self.thresholds else softmax, logits)
        return classifications(texts, probabilities, self.labels, top_k, self.thresholds)

    def prediction_rows(self, texts, second=None, *, batch_size=32, all_scores=False, **others):
        for row in self.classify(texts if second is None else (texts, second), batch_size):
            scores = {f"score_{label}": score for label, score in row.scores.items()}
            yield self.prediction_row(row) | (scores if all_scores else {})

    def prediction_row(self, found) -> dict[str, Any]:
        return {"label": found.label, "score": found.score}

    def printed_predictions(self, texts, second=None, **others):
        return self.classify(texts if second is None else (texts, second))

    def zero_shot(self, texts, labels, *, hypothesis: str = HYPOTHESIS, **options):
        """Calls `classify(texts, labels=labels, template=hypothesis)`; other arguments as there."""
        return self.classify(texts, labels=labels, template=hypothesis, **options)

    def scores_by_name(self, texts, sentences, multi_label: bool, batch_size: int = 32):
        """Probabilities [texts, sentences] that each text entails each sentence."""
        classes = inference_classes(self.labels)
        pairs = ([text for text in texts for _ in sentences], [*sentences] * len(texts))
        # Never truncate the hypothesis.
        reader = self.preprocessor.cutting_first
        with warning_of_cut_texts(self, pairs):
            logits = outputs_of_texts(self, _logits, pairs, batch_size, reader=reader)
        logits = logits.reshape(len(texts), len(sentences), -1)
        scores = entailment_scores(logits, classes)
        return ops.convert_to_numpy(scores["label_scores" if multi_label else "scores"])

    def served_by_name(self, texts, sentences, run):
        import tensorflow as tf

        classes = inference_classes(self.labels)
        sizes = tf.shape(texts)[0], tf.shape(sentences)[0]
        pairs = tf.repeat(texts, sizes[1]), tf.tile(sentences, sizes[:1])
        logits = run(*pairs, truncation="only_first")["logits"]
        return entailment_scores(tf.reshape(logits, (*sizes, self.num_outputs)), classes)


def _logits(model, inputs):
    return model(inputs, training=False)


@keras.saving.register_keras_serializable("bert_zoo")
class NextSentenceClassifier(Classifier):
    """Predicts whether the second text of a pair follows the first, with a head from pretraining.

    Returns logits [batch, 2] of the classes "is_next" and "not_next".

    Source: Devlin et al. 2018 (arXiv:1810.04805), section 3.1; google-research/bert run_pretraining.py,
    get_next_sentence_output.
    """

    task = "next_sentence_prediction"
    use = None  # only used in pretraining
    problem_type = None
    fixed_labels = ("is_next", "not_next")

    def add_head(self, config):
        self.classifier = self.tuned_head(self.num_outputs, "next_sentence")


@keras.saving.register_keras_serializable("bert_zoo")
class MultiLabelClassifier(Classifier):
    """Gives a text any number of labels, or none.

    Returns logits [batch, classes]; a class's probability is the sigmoid of its logit. `fit` takes labels
    as rows of 0 and 1, [batch, classes], or as a list or set of names for each text; in tf.data as strings
    [batch, names], ragged or padded with "". `classify` returns the labels whose probability is above their
    threshold.

    Args:
        encoder, num_classes, labels: as in `LabelledModel`.
        thresholds: a label counts if its probability is above this: one number for all labels, one number
            per label, or a dict by name. The model's attribute of that name can be set, too.
    """

    task = "multi_label_classification"
    verbs = ("classify", "zero_shot")
    peft_task = "SEQ_CLS"
    taught_by = "binary"
    use = Use(
        "text-classification",
        "assigns to a text all of its labels that apply, or none",
        "model.classify({texts})",
    )
    problem_type = "multi_label_classification"
    replaces = Classifier.task
    least_logits = 1
    takes_one_class = True
    output_activation = "sigmoid"

    def __init__(
        self,
        encoder,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        thresholds: Thresholds = DEFAULT_THRESHOLD,
        **kwargs,
    ):
        super().__init__(encoder, num_classes, labels, **kwargs)
        self.thresholds = thresholds

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        arguments = super().head_arguments(replace(head, thresholds=None))
        thresholds = head.stored_thresholds or None if head.thresholds is None else head.thresholds
        return arguments if thresholds is None else {**arguments, "thresholds": thresholds}

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold of each label, a probability."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, value: Thresholds) -> None:
        self._thresholds = label_thresholds(value, self.labels)
        # Compiled metrics use them too; the functions are traced again.
        for metric in self._metrics_given():
            if isinstance(metric, LabelF1):
                metric.thresholds = self._thresholds
        self.train_function = self.test_function = None

    def portable_verb(self):
        labels = list(self.labels)
        return {"verb": "classify_many", "labels": labels, "thresholds": list(self.thresholds)}

    def prediction_row(self, found):
        return {"labels": [*found.labels]}

    def _metrics_given(self) -> list[Any]:
        """The metrics given to `compile`, which may still be names."""
        return keras.tree.flatten(metrics_given(self))

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if any(isinstance(metric, str) and metric in ACCURACY for metric in self._metrics_given()):
            log.warning(
                "Keras's accuracy compares only the likeliest label of each text, but a multi-label model "
                "may find any number of labels. Use micro and macro F1 instead, which "
                "bert_zoo.training.compile_for_task(model, optimizer) compiles with."
            )

    def fit(self, *args, class_weight=None, **kwargs):
        if class_weight is not None:
            raise ValueError(
                "class_weight weighs a row by its one class, but rows of a multi-label model have any number "
                "of classes. Pass sample_weight, one number per row, or compile with a loss that weighs labels."
            )
        return super().fit(*args, **kwargs)

    def default_loss(self):
        return BinaryCrossentropy(from_logits=True)

    def default_metrics(self):
        return [LabelF1(self.thresholds, average) for average in ("micro", "macro")]

    def served_answers(self, outputs):
        import tensorflow as tf

        probabilities = tf.nn.sigmoid(outputs["logits"])
        # Signatures have no ragged outputs, so each name is at the place of its probability.
        names = tf.where(probabilities > tf.constant(self.thresholds), tf.constant(self.labels), "")
        return {"probabilities": probabilities, "labels": names}

    def label_ranges(self, inputs) -> dict[str, LabelSets]:
        return {"": LabelSets(self.labels)}

    def get_config(self):
        return {**super().get_config(), "thresholds": list(self.thresholds)}


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(ScoringModel, SentenceModel):
    """Predicts a number for a text or a pair of texts.

    Returns numbers [batch, 1]; `fit` takes floats [batch].

    Args:
        encoder: as in `TaskModel`.
        score_name: name of the number, such as "similarity"; optional.
    """

    task = "regression"
    peft_task = "SEQ_CLS"
    taught_by = "score"
    use = Use("text-classification", "predicts a score for a text", "model.predict({texts})")
    problem_type = "regression"
    num_outputs = 1

    def __init__(self, encoder, score_name: str | None = None, **kwargs):
        self.score_name = score_name
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        if head.sizes <= {1}:  # the one number may have a name
            labels = head.labels or head.stored_labels
            head = replace(head, num_classes=None, labels=None)
            name = labels[0] if len(labels) == 1 else None
            return {**super().head_arguments(head), "score_name": name}
        return super().head_arguments(head)

    @property
    def labels_to_save(self) -> tuple[str, ...] | None:
        return None if self.score_name is None else (self.score_name,)

    def default_loss(self):
        return SquaredError()

    def row_scores(self, texts, second=None, batch_size: int = 32):
        texts = texts if second is None else (texts, second)
        return self.predict(texts, batch_size=batch_size, verbose=0)[:, 0]

    def label_ranges(self, inputs) -> dict[str, LabelScores]:
        return {"": LabelScores()}

    def served_answers(self, outputs):
        return {"value": outputs["logits"][:, 0]}

    def get_config(self):
        return {**super().get_config(), "score_name": self.score_name}


@keras.saving.register_keras_serializable("bert_zoo")
class MultipleChoice(SentenceModel):
    """Chooses which of several texts goes best with a prompt.

    Takes a pair of prompts, strings [batch], and choices, strings [batch, choices]; or ids
    [batch, choices, length]. Returns logits [batch, choices]. Labels are the numbers of the right choices.

    Source: Hugging Face BertForMultipleChoice (Google's repository has no such program).
    """

    task = "multiple_choice"
    use = Use(
        "multiple-choice",
        "chooses the text that best fits another",
        'model.predict((["A prompt."], [["One choice.", "Another."]]))',
    )
    ids_rank = 3
    output_activation = "softmax"
    num_outputs = 1
    pools_windows = False
    global_tokens = SECOND_TEXT_IS_GLOBAL
    interface = Interface(texts=(("text", 1), ("choices", 2)), pairs=False)

    def default_loss(self):
        return class_loss()

    def default_metrics(self):
        return ["accuracy"]

    def served_answers(self, outputs):
        import tensorflow as tf

        logits = outputs["logits"]
        choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {"probabilities": tf.nn.softmax(logits), "choice": choice}

    def encoder_inputs(self, inputs):
        token_ids = ops.convert_to_tensor(inputs["token_ids"])
        check_rank(token_ids, 3, "[batch, choices, length]")
        shape = ops.shape(token_ids)
        return {name: ops.reshape(value, (-1, shape[2])) for name, value in inputs.items()}

    def head_outputs(self, encoded, inputs, training=None):
        logits = super().head_outputs(encoded, inputs, training)
        return ops.reshape(logits, (-1, ops.shape(inputs["token_ids"])[1]))

    def printed_predictions(self, texts, second=None, **others):
        """The likeliest of the choices that follow a prompt."""
        prompt, *choices = texts
        if len(choices) < 2:
            raise ValueError("Give a prompt and at least two choices.")
        return choices[self.predict(([prompt], [choices]), verbose=0)[0].argmax()]

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        choices = inputs["token_ids"] if isinstance(inputs, Mapping) else inputs[1]
        number = choices.shape[1]
        return {} if number is None else {"": LabelRange(number, "the number of choices")}

    def as_text_rows(self, x):
        from bert_zoo.data.batches import stack
        from bert_zoo.text.batches import text_batch

        if not isinstance(x, tuple) or len(x) != 2:
            raise TypeError(
                "Multiple choice takes a pair (prompts, choices): strings [batch], and the same number of "
                "choices for each, strings [batch, choices]."
            )
        choices = x[1]
        if (columns := column_names(choices)) is not None:  # looping over tables yields names
            choices = zip(*(as_list(choices[name]) for name in columns), strict=True)
        choices = [text_batch(row, "choices") for row in choices]
        if len({len(row) for row in choices}) != 1:
            raise ValueError("Every prompt needs the same number of choices.")
        return text_batch(x[0], "prompts"), stack(choices)

    def texts_to_inputs(self, texts, preprocessor):
        from bert_zoo.data.batches import repeat, reshape, shape

        prompts, choices = texts
        number = shape(choices)[1]
        flat = preprocessor((repeat(prompts, number), reshape(choices, [-1])))
        return {name: reshape(ids, [-1, number, shape(ids)[1]]) for name, ids in flat.items()}
