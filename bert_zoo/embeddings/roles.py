"""Vectors of queries and of documents, after the prompts that a model has for each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Names of prompts, the first that a model has being taken.
QUERY = ("query",)
DOCUMENT = ("document", "passage", "corpus")


def embedded(
    model: Any, texts: Sequence[str], prompt: str | None, role: Sequence[str], batch_size: int
) -> np.ndarray:
    """Vectors of texts, float32 [texts, size].

    Args:
        model: has `embed`.
        texts: at least one.
        prompt: as `embed` takes it; by default the model's prompt for the role, if it has one.
        role: `QUERY` or `DOCUMENT`.
        batch_size: texts a step.
    """
    if prompt is None:
        prompts = getattr(getattr(model, "encoder", model), "prompts", None)
        prompt = next((name for name in role if prompts and name in prompts.texts), None)
    return np.asarray(model.embed(texts, batch_size=batch_size, prompt=prompt))
