"""Computes a teacher's outputs for many texts and keeps them in a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.distillation.students import principal_components
from bert_zoo.models.base import ZooModel
from bert_zoo.training.kept_outputs import kept_outputs

BATCH_SIZE = 64
# Number of rows from which principal components are computed.
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
    """Computes a teacher's outputs for texts and keeps them in a file.

    Call it again to resume an interrupted pass, with the same result to the byte, or to open a finished file.

    Args:
        teacher: a trained model.
        texts: [N] strings or lists of words, or a pair of lists of strings.
        path: a NumPy file, `.npy`. A `.json` next to it records progress, teacher and texts.
        batch_size: texts per step.
        answer: part of the texts -> float [its rows, size]; by default the teacher's `answers_as_teacher`.
        counts: [N], output rows per text; by default one.
        about: names and values of anything else that the outputs depend on.

    Returns:
        float32 [rows, size], a read-only memory map.

    Raises:
        ValueError: the file belongs to another teacher or other texts, or an output is not finite.
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
    """Projects a teacher's vectors [rows, width] to a student's size, float32 [rows, size].

    The projection onto principal components is rescaled to the vectors' lengths.
    Source: sentence-transformers' model_distillation.py.

    Raises:
        ValueError: the student's vectors are larger.
    """
    width = vectors.shape[1]
    if size > width:
        raise ValueError(
            f"The student's vectors have {size} numbers, and its teacher's {width}. Choose a student with "
            f"at most {width}."
        )
    if size == width:
        return np.asarray(vectors)
    some = vectors[:: max(1, len(vectors) // COMPONENT_ROWS)]
    found = vectors @ principal_components(some, size).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1) / np.maximum(np.linalg.norm(found, axis=1), TINY)
    return found * lengths[:, None]
