"""Computes a model's outputs for many texts into a file, in constant memory; can be resumed."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.data.array_files import RowFile, open_array
from bert_zoo.models.base import ZooModel
from bert_zoo.models.data_adapters import rows_of
from bert_zoo.training.runs import read_json
from bert_zoo.weights.files import write_json

# Batches whose outputs are written together; texts of similar length share a batch among them.
WRITTEN_BATCHES = 32


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
    """Computes a model's outputs for texts and keeps them in a file.

    An interrupted pass resumes, with the same bytes as its result. A finished file is only opened.

    Args:
        model: a trained model.
        texts: [N], strings, lists of words, or a pair of lists of strings.
        path: a NumPy file, `.npy`. A `.json` with the same name records what they depend on.
        compute: some of the texts -> float [their rows, size].
        batch_size: texts per step.
        counts: [N], rows of each text; one by default.
        about: what else the outputs depend on.
        dtype: dtype of the file.
        title: title of the progress bar.

    Returns:
        A read-only memory map, [rows, size].

    Raises:
        ValueError: the file is damaged, or contains outputs of another model or for other texts, or an output
            is not finite in this dtype.
        DiskFullError: there is no room for the file.
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
    notes, file = path.with_suffix(".json"), RowFile(path, int(starts[-1]), resume=True)
    remedy = f"Choose another directory, or delete {path} and {notes} to compute the outputs again."
    size = None
    if notes.exists() or path.exists():
        written = read_json(notes, remedy) if notes.exists() else {}
        size = written.pop("size", None)
        if written != made_from:
            raise ValueError(
                f"{path} contains outputs of another model or for other texts. {remedy}"
            )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if size is None:
            file.part.unlink(missing_ok=True)
        step = WRITTEN_BATCHES * batch_size
        with file, tqdm(total=number, unit=" texts", desc=title, disable=None) as bar:
            for first in range(0, number, step):
                last = min(first + step, number)
                if not file.done or file.done < starts[last]:
                    found = finite(compute(rows_of(texts, slice(first, last))), dtype, first, last)
                    size = found.shape[1]
                    if not file.done:
                        write_json(notes, made_from | {"size": size})
                    file.append(found)
                bar.update(last - first)
    return open_array(path, (int(starts[-1]), size), dtype, remedy)


def finite(outputs: Any, dtype: str, first: int, last: int) -> np.ndarray:
    """Converts the outputs for the texts from `first` up to `last` to `dtype`.

    Raises:
        ValueError: an output is not finite, or too large for the dtype.
    """
    with np.errstate(over="ignore"):
        found = np.asarray(outputs).astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            f"The model's outputs for the texts {first} to {last - 1} are not all finite in {dtype}. Check that "
            "the model is trained, and for such texts."
        )
    return found


def fingerprint_of(model: ZooModel) -> str:
    """Returns a hash of a model's weights and of its preprocessor's settings."""
    digest = hashlib.sha256(repr(model.preprocessor.get_config()).encode())
    # Without the states of dropout, which differ each time a model is loaded.
    for variable in model.weights:
        digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _hash(columns: Sequence[Sequence[Any]]) -> str:
    """Returns a hash of columns of texts."""
    digest = hashlib.sha256()
    for row in zip(*columns, strict=True):
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
