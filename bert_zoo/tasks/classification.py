"""Classification: one label for a text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.tasks.printed import one_line, table


@dataclass(frozen=True)
class Classification:
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
        """Its row of a table."""
        if len(self.top) == 1:
            return (self.label, f"{self.score:.3f}", one_line(self.text))
        return (listed(self.top), one_line(self.text))

    def __str__(self) -> str:
        return "  ".join(self.cells())


class Classifications(list):
    """A list of `Classification` or `MultiLabelClassification` that prints as a table."""

    def __str__(self) -> str:
        return table(row.cells() for row in self)

    __repr__ = __str__


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

    def default_metrics(self):
        return ["accuracy"]

    def served_answers(self, outputs):
        return class_answers(self.labels, outputs["logits"])

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """The likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.
            top_k: how many of the likeliest labels are given; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.
        """
        return classify(self, texts, batch_size, top_k, likeliest)


def class_answers(labels: Sequence[str], logits) -> dict[str, Any]:
    """Probabilities and names of classes from logits [..., classes]; on TensorFlow."""
    import tensorflow as tf

    return {
        "probabilities": tf.nn.softmax(logits),
        "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=-1)),
    }


def likeliest(
    model, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None
) -> Classification:
    """What a `Classifier`'s logits [classes] say of a text."""
    scores = dict(zip(model.labels, map(float, softmax(logits)), strict=True))
    top = highest(scores, top_k or 1)
    label, score = next(iter(top.items()))
    return Classification(text, label, score, scores, top)


def highest(scores: Mapping[str, float], number: int | None) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:number])


def classify(
    model,
    texts,
    batch_size: int,
    top_k: int | None,
    answer: Callable,
) -> Classifications:
    """See `Classifier.classify`; `answer` is `likeliest` or `above_thresholds`."""
    if top_k is not None and (not is_integer(top_k) or top_k < 1):
        raise ValueError(f"top_k is {top_k!r}; it is how many labels are wanted, at least 1.")
    from bert_zoo.text.batches import strings

    texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
    logits = model.predict(texts, batch_size=batch_size, verbose=0)
    rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
    return Classifications(
        answer(model, text, row, top_k) for text, row in zip(rows, logits, strict=True)
    )


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities, each by itself."""
    # By tanh, which does not overflow.
    return 0.5 * (1 + np.tanh(0.5 * logits))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
