"""What a teacher says of many texts."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.distillation.students import principal_components
from bert_zoo.models.base import ZooModel
from bert_zoo.training.kept_outputs import kept_outputs

BATCH_SIZE = 64
# Of which the principal components are taken.
COMPONENT_ROWS = 20_000
TINY = 1e-12


def teacher_answers(
    teacher: ZooModel,
    texts: Any,
    path: str | os.PathLike,
    *,
    batch_size: int = BATCH_SIZE,
    answer: Callable[[Any], np.ndarray] | None = None,
    counts: Sequence[int] | None = None,
    about: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """A teacher's outputs for texts, kept in a file.

    A pass that was stopped goes on where it was, to the same bytes; the answers of a finished one are opened.

    Args:
        teacher: a trained model.
        texts: [N], strings, lists of words, or a pair of lists of strings.
        path: a NumPy file, `.npy`; beside it lies a `.json` that says how far it is and what it is made of.
        batch_size: texts a step.
        answer: some of the texts -> float [their rows, size]; by default the teacher's `answers_as_teacher`.
        counts: [N], rows of each text; one by default.
        about: what the answers depend on beside teacher and texts.

    Returns:
        float32 [rows, size], mapped into memory and read-only.

    Raises:
        ValueError: the file holds the answers of another teacher or to other texts, or an answer is not finite.
    """
    if answer is None:

        def answer(some):
            return teacher.answers_as_teacher(some, batch_size)

    return kept_outputs(
        teacher,
        texts,
        Path(path),
        answer,
        batch_size=batch_size,
        counts=counts,
        about=about,
        title="Teacher",
    )


def vectors_of_size(vectors: np.ndarray, size: int) -> np.ndarray:
    """A teacher's vectors [rows, width] for a student of smaller ones, float32 [rows, size].

    They are projected onto their principal components, and keep their lengths.
    Source: sentence-transformers' model_distillation.py.

    Raises:
        ValueError: the student's are larger.
    """
    width = vectors.shape[1]
    if size > width:
        raise ValueError(
            f"The student's vectors have {size} numbers, and its teacher's {width}. Choose a student of no wider "
            "vectors."
        )
    if size == width:
        return np.asarray(vectors)
    some = vectors[:: max(1, len(vectors) // COMPONENT_ROWS)]
    found = vectors @ principal_components(some, size).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1) / np.maximum(np.linalg.norm(found, axis=1), TINY)
    return found * lengths[:, None]
