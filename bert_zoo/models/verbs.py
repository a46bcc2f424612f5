"""Answers in one line, from raw text to something that prints well."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    """

    text: str | tuple[str, str]
    label: str
    score: float
    scores: dict[str, float]

    def __str__(self) -> str:
        text = self.text if isinstance(self.text, str) else " | ".join(self.text)
        if len(text) > TEXT_WIDTH:
            text = text[: TEXT_WIDTH - 1] + "…"
        return f"{self.label}  {self.score:.3f}  {text}"


class Classifications(list):
    """A list of `Classification` that prints as a table."""

    def __str__(self) -> str:
        width = max((len(row.label) for row in self), default=0)
        return "\n".join(f"{row.label:<{width}}{str(row)[len(row.label) :]}" for row in self)

    __repr__ = __str__


def classify(model, texts, batch_size: int) -> Classifications:
    """See `Classifier.classify`."""
    if isinstance(texts, str):
        texts = [texts]
    logits = model.predict(texts, batch_size=batch_size, verbose=0)
    rows = list(zip(*texts, strict=True)) if isinstance(texts, tuple) else texts
    return Classifications(
        Classification(
            text if isinstance(texts, tuple) else str(text),
            model.labels[int(row.argmax())],
            float(row.max()),
            dict(zip(model.labels, map(float, row), strict=True)),
        )
        for text, row in zip(rows, softmax(logits), strict=True)
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def similarity(
    a: str | Sequence[str],
    b: str | Sequence[str],
    model: str | ZooModel = "minilm_l6",
) -> float | np.ndarray:
    """Cosine similarity of the meaning of texts.

    Args:
        a, b: a text each, or a sequence of texts each.
        model: the name of a checkpoint for sentence vectors, or a loaded encoder.

    Returns:
        A number from -1 to 1 for two texts; for sequences, float32 [len(a), len(b)].
    """
    encoder = _sentence_encoder(model) if isinstance(model, str) else model
    single = isinstance(a, str) and isinstance(b, str)
    first, second = ([x] if isinstance(x, str) else list(x) for x in (a, b))
    vectors = encoder.embed([*first, *second])
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    scores = vectors[: len(first)] @ vectors[len(first) :].T
    return float(scores[0, 0]) if single else scores


@functools.lru_cache(maxsize=1)
def _sentence_encoder(name: str) -> ZooModel:
    """The encoder of the last call, so that a second one does not load it again."""
    return load(name)
