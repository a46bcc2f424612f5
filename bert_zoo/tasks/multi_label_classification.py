"""Multi-label classification: any number of labels per text."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from bert_zoo.models.compiling import ACCURACY
from bert_zoo.models.labels import (
    DEFAULT_THRESHOLD,
    HeadChoice,
    LabelSets,
    Thresholds,
    label_thresholds,
)
from bert_zoo.models.losses import BinaryCrossentropy
from bert_zoo.models.metrics import LabelF1
from bert_zoo.models.task_model import Use
from bert_zoo.private import metrics_given
from bert_zoo.runtime.answers import multi_label_classified
from bert_zoo.tasks.classification import Classifier

log = logging.getLogger("bert_zoo")


@keras.saving.register_keras_serializable("bert_zoo")
class MultiLabelClassifier(Classifier):
    """Gives a text any number of labels, or none.

    Returns logits [batch, classes]; a class's probability is the sigmoid of its logit. `fit` takes labels
    as rows of 0 and 1, [batch, classes], or as a list or set of names for each text; in tf.data as strings
    [batch, names], ragged or padded with "".

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

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """Finds the labels of each text whose probability is above their threshold.

        Args:
            texts, batch_size: as in `Classifier.classify`.
            top_k: maximum number of labels for each text; no limit by default.

        Returns:
            A list of `MultiLabelClassification(text, labels, scores)` that prints as a table.
        """
        return super().classify(texts, batch_size, top_k)

    def prediction_row(self, found):
        return {"labels": [*found.labels]}

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        return multi_label_classified(text, logits, self.labels, self.thresholds, top_k)

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
