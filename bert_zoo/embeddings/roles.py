"""Reads a model's settings for vectors: prompts for queries and documents, and the similarity."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Names of prompts; the first one that a model has is used.
QUERY = ("query",)
DOCUMENT = ("document", "passage", "corpus")


def embedded(
    model: Any, texts: Sequence[str], prompt: str | None, role: Sequence[str], batch_size: int
) -> np.ndarray:
    """Vectors of texts, float32 [texts, size].

    Args:
        model: any object with `embed`.
        texts: at least one.
        prompt: prompt for `embed`; by default the model's prompt for the role, if it has one.
        role: `QUERY` or `DOCUMENT`.
        batch_size: texts per step.
    """
    prompt = prompt_of(model, role) if prompt is None else prompt
    return np.asarray(model.embed(texts, batch_size=batch_size, prompt=prompt))


def prompt_of(model: Any, role: Sequence[str]) -> str | None:
    """Name of the model's prompt for a role, or None."""
    prompts = _of_encoder(model, "prompts")
    return next((name for name in role if prompts and name in prompts.texts), None)


def similarity_of(model: Any) -> str:
    """The model's similarity, one of `bert_zoo.config.SIMILARITIES`; cosine if it has no pooling."""
    pooling = _of_encoder(model, "pooling")
    return "cosine" if pooling is None else pooling.similarity


def _of_encoder(model: Any, name: str) -> Any:
    return getattr(getattr(model, "encoder", model), name, None)
