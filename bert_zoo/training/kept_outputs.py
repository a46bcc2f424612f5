"""What a model gives for many texts, in a file: one pass in constant memory, which goes on after a stop."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.models.base import ZooModel
from bert_zoo.models.data_adapters import rows_of
from bert_zoo.training.runs import read_json
from bert_zoo.weights.files import write_json

# Batches from one note of how far the pass is to the next; texts of like length share a batch among them.
NOTED_BATCHES = 32


def kept_outputs(
    model: ZooModel,
    texts: Any,
    path: Path,
    compute: Callable[[Any], np.ndarray],
    *,
    batch_size: int,
    counts: Sequence[int] | None = None,
    about: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    title: str,
) -> np.ndarray:
    """A model's outputs for texts, kept in a file.

    A pass that was stopped goes on where it was, to the same bytes; the outputs of a finished one are opened.

    Args:
        model: a trained model.
        texts: [N], strings, lists of words, or a pair of lists of strings.
        path: a NumPy file, `.npy`; beside it lies a `.json` that says how far it is and what it is made of.
        compute: some of the texts -> float [their rows, size].
        batch_size: texts a step.
        counts: [N], rows of each text; one by default.
        about: what the outputs depend on beside model and texts.
        dtype: of the file.
        title: of the progress bar.

    Returns:
        [rows, size] of `dtype`, mapped into memory and read-only.

    Raises:
        ValueError: the file holds the outputs of another model or for other texts, or an output is not
            finite in this type.
    """
    columns = texts if isinstance(texts, tuple) else (texts,)
    number = len(columns[0])
    ends = np.arange(1, number + 1) if counts is None else np.cumsum(counts)
    starts = np.append(0, ends)
    made_from = {
        "model": fingerprint_of(model),
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
                f"{path} holds the outputs of another model or for other texts. Name another directory, or "
                f"delete {path} and {notes}."
            )
    done = done if part.exists() else 0
    step = NOTED_BATCHES * batch_size
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        file = np.lib.format.open_memmap(part, "r+") if done else None
        with tqdm(total=number, initial=done, unit=" texts", desc=title, disable=None) as bar:
            for first in range(done, number, step):
                last = min(first + step, number)
                found = finite(compute(rows_of(texts, slice(first, last))), dtype, first, last)
                if file is None:
                    shape = (int(starts[-1]), found.shape[1])
                    file = np.lib.format.open_memmap(part, "w+", np.dtype(dtype), shape)
                file[starts[first] : starts[last]] = found
                file.flush()
                write_json(notes, made_from | {"texts_done": last})
                bar.update(last - first)
        del file
        os.replace(part, path)
    return np.load(path, mmap_mode="r")


def finite(outputs: Any, dtype: str, first: int, last: int) -> np.ndarray:
    """The outputs for the texts from `first` up to `last` as `dtype`.

    Raises:
        ValueError: one is not a number, or is too large for the type.
    """
    with np.errstate(over="ignore"):
        found = np.asarray(outputs).astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            f"The model's outputs for the texts {first} to {last - 1} are not all finite in {dtype}. Is it "
            "trained, and does it read such texts?"
        )
    return found


def fingerprint_of(model: ZooModel) -> str:
    """A hash of a model's weights and of how it reads text."""
    digest = hashlib.sha256(repr(model.preprocessor.get_config()).encode())
    # Without the states of dropout, which each loading draws anew.
    for variable in model.weights:
        digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _hash(columns: Sequence[Sequence[Any]]) -> str:
    """A hash of columns of texts."""
    digest = hashlib.sha256()
    for row in zip(*columns, strict=True):
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
