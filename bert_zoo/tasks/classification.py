"""Classification: one label for a text."""

from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.tasks.printed import Row, Rows, one_line


@dataclass(frozen=True)
class Classification(Row):
    """A text's likeliest label.

    Attributes:
        text: the text, or the pair of texts.
        label: its name.
        score: its probability.
        scores: every label's probability.
        top: the likeliest labels, as many as were asked for, with their probabilities, likeliest first.
    """

    text: str | tuple[str, str]
    label: str
    score: float
    scores: dict[str, float]
    top: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        if len(self.top) == 1:
            return (self.label, f"{self.score:.3f}", one_line(self.text))
        return (listed(self.top), one_line(self.text))


class Classifications(Rows):
    """A list of `Classification` or `MultiLabelClassification` that prints as a table."""


def listed(labels: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {score:.3f}" for label, score in labels.items())


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(SentenceModel, LabelledModel):
    """Logits [batch, classes] over the first token."""

    task = "classification"
    use = Use(
        "text-classification",
        "gives a text one of its labels",
        "model.classify({texts})",
        limits=("It always answers with one of its labels, also where none of them fits.",),
    )
    problem_type = "single_label_classification"

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def default_loss(self):
        return class_loss()

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

        if top_k is not None and (not is_integer(top_k) or top_k < 1):
            raise ValueError(f"top_k is {top_k!r}; it is how many labels are wanted, at least 1.")
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits = self.predict(texts, batch_size=batch_size, verbose=0)
        rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
        return Classifications(
            self.classified(text, row, top_k) for text, row in zip(rows, logits, strict=True)
        )

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        """What logits [classes] say of a text."""
        scores = dict(zip(self.labels, map(float, softmax(logits)), strict=True))
        top = highest(scores, top_k or 1)
        label, score = next(iter(top.items()))
        return Classification(text, label, score, scores, top)


def highest(scores: Mapping[str, float], number: int | None) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:number])


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities, each by itself."""
    # By tanh, which does not overflow.
    return 0.5 * (1 + np.tanh(0.5 * logits))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
