"""Predicted labels of texts; without TensorFlow and Keras."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bert_zoo.runtime.printed import Row, Rows, one_line


@dataclass(frozen=True)
class Classification(Row):
    """A text's likeliest label.

    Attributes:
        text: the text, or the pair of texts.
        label: the label's name.
        score: the label's probability.
        scores: every label's probability.
        top: the `top_k` likeliest labels with their probabilities, likeliest first.
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


@dataclass(frozen=True)
class MultiLabelClassification(Row):
    """The labels of a text whose probability is above their threshold.

    Attributes:
        text: the text, or the pair of texts.
        labels: names with their probabilities, likeliest first; empty if no label applies.
        scores: every label's probability.
    """

    text: str | tuple[str, str]
    labels: dict[str, float]
    scores: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        return (listed(self.labels) or "(no label)", one_line(self.text))


def classified(
    text: str | tuple[str, str], logits: np.ndarray, labels: Sequence[str], top_k: int | None
) -> Classification:
    """Classifies a text that has exactly one label, from logits [classes]."""
    return best(text, dict(zip(labels, map(float, softmax(logits)), strict=True)), top_k)


def best(
    text: str | tuple[str, str], scores: Mapping[str, float], top_k: int | None
) -> Classification:
    """Returns a text's likeliest label, from every label's probability."""
    top = highest(scores, top_k or 1)
    label, score = next(iter(top.items()))
    return Classification(text, label, score, dict(scores), top)


def multi_label_classified(
    text: str | tuple[str, str],
    logits: np.ndarray,
    labels: Sequence[str],
    thresholds: Sequence[float],
    top_k: int | None,
) -> MultiLabelClassification:
    """Classifies a text that has any number of labels, from logits [classes]."""
    scores = dict(zip(labels, map(float, sigmoid(logits)), strict=True))
    return applying(text, scores, dict(zip(labels, thresholds, strict=True)), top_k)


def applying(
    text: str | tuple[str, str],
    scores: Mapping[str, float],
    thresholds: Mapping[str, float],
    top_k: int | None,
) -> MultiLabelClassification:
    """Returns a text's labels whose probability is above their threshold."""
    above = {label: score for label, score in scores.items() if score > thresholds[label]}
    return MultiLabelClassification(text, highest(above, top_k), dict(scores))


def highest(scores: Mapping[str, float], number: int | None) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:number])


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Turns each logit into a probability."""
    # By tanh, which does not overflow.
    return 0.5 * (1 + np.tanh(0.5 * logits))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turns logits into probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
