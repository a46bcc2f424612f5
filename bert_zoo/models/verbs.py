"""Answers in one line, from raw text to something that prints well."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.base import ZooModel
from bert_zoo.models.loading import load

TEXT_WIDTH = 60


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
            return (self.label, f"{self.score:.3f}", _one_line(self.text))
        return (_listed(self.top), _one_line(self.text))

    def __str__(self) -> str:
        return "  ".join(self.cells())


@dataclass(frozen=True)
class MultiLabelClassification:
    """The labels of a text whose probability is above their threshold.

    Attributes:
        text: the text, or the pair of texts.
        labels: names with their probabilities, likeliest first; empty where no label applies.
        scores: every label's probability.
    """

    text: str | tuple[str, str]
    labels: dict[str, float]
    scores: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        """Its row of a table."""
        return (_listed(self.labels) or "(no label)", _one_line(self.text))

    def __str__(self) -> str:
        return "  ".join(self.cells())


class Classifications(list):
    """A list of `Classification` or `MultiLabelClassification` that prints as a table."""

    def __str__(self) -> str:
        rows = [row.cells() for row in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
        return "\n".join(
            "  ".join([*(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True)), text])
            for *cells, text in rows
        )

    __repr__ = __str__


def _listed(labels: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {score:.3f}" for label, score in labels.items())


def _one_line(text: str | tuple[str, str]) -> str:
    """The beginning of a text, or of a pair."""
    line = " ".join((text if isinstance(text, str) else " | ".join(text)).split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


def likeliest(
    model, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None
) -> Classification:
    """What a `Classifier`'s logits [classes] say of a text."""
    scores = dict(zip(model.labels, map(float, softmax(logits)), strict=True))
    top = _highest(scores, top_k or 1)
    label, score = next(iter(top.items()))
    return Classification(text, label, score, scores, top)


def above_thresholds(
    model, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None
) -> MultiLabelClassification:
    """What a `MultiLabelClassifier`'s logits [classes] say of a text."""
    scores = dict(zip(model.labels, map(float, sigmoid(logits)), strict=True))
    thresholds = dict(zip(model.labels, model.thresholds, strict=True))
    above = {label: score for label, score in scores.items() if score > thresholds[label]}
    return MultiLabelClassification(text, _highest(above, top_k), scores)


def _highest(scores: Mapping[str, float], number: int | None) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:number])


def classify(
    model,
    texts,
    batch_size: int,
    top_k: int | None,
    answer: Callable[..., Classification | MultiLabelClassification],
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


def similarity(
    a: Any,
    b: Any,
    model: str | ZooModel = "minilm_l6",
) -> float | np.ndarray:
    """Cosine similarity of the meaning of texts.

    Args:
        a, b: a text each, or several: strings or bytes, in a list, a NumPy array or a string tensor.
        model: the name of a checkpoint for sentence vectors, or a loaded encoder.

    Returns:
        A number from -1 to 1 for two texts; where either is several, float32 [texts of a, of b].

    Raises:
        TypeError, ValueError: something that is no text, or no texts at all.
    """
    import tensorflow as tf

    from bert_zoo.text.batches import text_batch

    encoder = _sentence_encoder(model) if isinstance(model, str) else model
    first, second = text_batch(a, "a"), text_batch(b, "b")
    vectors = encoder.embed(tf.concat([first, second], axis=0))
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    scores = vectors[: len(first)] @ vectors[len(first) :].T
    is_single = isinstance(a, str | bytes) and isinstance(b, str | bytes)
    return float(scores[0, 0]) if is_single else scores


@functools.lru_cache(maxsize=1)
def _sentence_encoder(name: str) -> ZooModel:
    """The encoder of the last call, so that a second one does not load it again."""
    return load(name)
