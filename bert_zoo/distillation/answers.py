"""What a teacher says of many texts, in a file: one pass in constant memory, which goes on after a stop."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.distillation.students import principal_components
from bert_zoo.models.base import ZooModel
from bert_zoo.models.data_adapters import rows_of
from bert_zoo.training.runs import read_json
from bert_zoo.weights.files import write_json

# Batches from one note of how far the pass is to the next; texts of like length share a batch among them.
NOTED_BATCHES = 32
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
    path = Path(path)
    columns = texts if isinstance(texts, tuple) else (texts,)
    number = len(columns[0])
    ends = np.arange(1, number + 1) if counts is None else np.cumsum(counts)
    starts = np.append(0, ends)
    made_from = {
        "teacher": fingerprint_of(teacher),
        "texts": _hash(columns),
        "batch_size": batch_size,
        **(about or {}),
    }
    notes, part = path.with_suffix(".json"), path.with_suffix(".part")
    done = 0
    if notes.exists() or path.exists():
        written = read_json(notes) if notes.exists() else {}
        done = written.pop("texts_done", 0)
        if written != made_from:
            raise ValueError(
                f"{path} holds the answers of another teacher or to other texts. Name another directory "
                f"(--output_dir), or delete {path} and {notes}."
            )
    if answer is None:

        def answer(some):
            return teacher.answers_as_teacher(some, batch_size)

    done = done if part.exists() else 0
    step = NOTED_BATCHES * batch_size
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        file = np.lib.format.open_memmap(part, "r+") if done else None
        with tqdm(total=number, initial=done, unit=" texts", desc="Teacher", disable=None) as bar:
            for first in range(done, number, step):
                last = min(first + step, number)
                found = np.asarray(answer(rows_of(texts, slice(first, last))), np.float32)
                if not np.isfinite(found).all():
                    raise ValueError(
                        f"The teacher's answers to the texts {first} to {last - 1} are not all finite. Is it "
                        "trained, and does it read such texts?"
                    )
                if file is None:
                    shape = (int(starts[-1]), found.shape[1])
                    file = np.lib.format.open_memmap(part, "w+", np.float32, shape)
                file[starts[first] : starts[last]] = found
                file.flush()
                write_json(notes, made_from | {"texts_done": last})
                bar.update(last - first)
        del file
        os.replace(part, path)
    return np.load(path, mmap_mode="r")


def fingerprint_of(model: ZooModel) -> str:
    """A hash of a model's weights and of how it reads text."""
    digest = hashlib.sha256(repr(model.preprocessor.get_config()).encode())
    # Without the states of dropout, which each loading draws anew.
    for variable in model.weights:
        digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _hash(columns: Sequence[Sequence[Any]]) -> str:
    digest = hashlib.sha256()
    for row in zip(*columns, strict=True):
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


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
