"""Classification: one label for a text."""

from typing import Any

import keras
import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.head_arguments import Asked, Told
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.runtime.classifications import Classifications, classified
from bert_zoo.tasks.zero_shot import HYPOTHESIS, zero_shot


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(SentenceModel, LabelledModel):
    """Logits [batch, classes] over the first token."""

    task = "classification"
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
    def head_arguments(cls, asked: Asked, told: Told) -> dict[str, Any]:
        if told.num_logits is not None and told.num_logits < cls.least_logits:
            raise ValueError(
                f"The head of {told.name} has one logit, and a classifier of a single class would give it the "
                "probability 1 whatever the text. transformers takes such a head for regression: "
                "task='regression' gives the number. Of a cross-encoder, sentence-transformers takes the "
                "sigmoid: task='reranking' ranks documents by it. To train a classifier of your own, "
                "pass init=('classifier',)."
            )
        return super().head_arguments(asked, told)

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def default_loss(self):
        return class_loss()

    def portable_verb(self):
        return {"verb": "classify", "labels": list(self.labels)}

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """The likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.
            top_k: how many of the likeliest labels are given; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.
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
        """Sorts texts into classes that the model was not trained for; of a model fine-tuned on MNLI.

        Args:
            texts: a text or several; where one is too long, it is cut and the hypothesis is not.
            labels: names of the classes, a list or, as transformers takes them, a string with commas.
            hypothesis: a sentence with {} in the place of a label. One in the texts' language, and of their
                subject, works best.
            multi_label: whether any number of labels may apply: each has a probability of its own then,
                and those above 0.5 are given. Otherwise probabilities of all add up to 1.
            top_k: how many of the likeliest labels are given; one by default, or all that apply.
            batch_size: pairs of a text with a label a step.

        Returns:
            A list of `Classification`, or of `MultiLabelClassification`, that prints as a table.

        Raises:
            ValueError: the model has no class "entailment", or the arguments do not fit.
        """
        _check_top_k(top_k)
        return zero_shot(self, texts, labels, hypothesis, multi_label, top_k, batch_size)

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        """What logits [classes] say of a text."""
        return classified(text, logits, self.labels, top_k)


def _check_top_k(top_k: int | None) -> None:
    if top_k is not None and (not is_integer(top_k) or top_k < 1):
        raise ValueError(f"top_k is {top_k!r}; it is how many labels are wanted, at least 1.")
