"""Classification: one label per text."""

from typing import Any

import keras
import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.labels import HeadChoice
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.runtime.answers import Classifications, classified
from bert_zoo.tasks.zero_shot import HYPOTHESIS, zero_shot


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

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """Finds the likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: number of texts per step.
            top_k: how many of the likeliest labels to list for each text; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.

        Raises:
            ValueError: `top_k` is not a positive integer.
        """
        from bert_zoo.text.batches import strings

        _check_top_k(top_k)
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits = self.predict(texts, batch_size=batch_size, verbose=0)
        rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
        return Classifications(
            self.classified(text, row, top_k) for text, row in zip(rows, logits, strict=True)
        )

    def zero_shot(
        self,
        texts,
        labels,
        *,
        hypothesis: str = HYPOTHESIS,
        multi_label: bool = False,
        top_k: int | None = None,
        batch_size: int = 32,
    ):
        """Sorts texts into classes that the model was not trained for. Needs a model fine-tuned on MNLI.

        Args:
            texts: a text or several. A text that is too long is cut; the hypothesis is not.
            labels: names of the classes: a list, or a string with commas as in transformers.
            hypothesis: a sentence with {} in place of the label. It works best in the texts' language
                and about their subject.
            multi_label: whether any number of labels may apply. Each label then has its own probability,
                and those above 0.5 are returned. Otherwise all probabilities add up to 1.
            top_k: how many of the likeliest labels to list; by default one, or all that apply.
            batch_size: number of pairs of a text and a label per step.

        Returns:
            A list of `Classification`, or of `MultiLabelClassification` with `multi_label`, which prints as a
            table.

        Raises:
            ValueError: the model has no class "entailment", or an argument is invalid.
        """
        _check_top_k(top_k)
        return zero_shot(self, texts, labels, hypothesis, multi_label, top_k, batch_size)

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        """The result for one text, from its logits [classes]."""
        return classified(text, logits, self.labels, top_k)


def _check_top_k(top_k: int | None) -> None:
    if top_k is not None and (not is_integer(top_k) or top_k < 1):
        raise ValueError(f"top_k is {top_k!r}; it must be an integer of at least 1, or None.")
