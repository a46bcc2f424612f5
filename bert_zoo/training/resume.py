"""Interrupting a training and resuming it with identical results; outputs kept in files."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.data.array_files import RowFile, open_array
from bert_zoo.models.base import ZooModel
from bert_zoo.models.data_adapters import rows_of
from bert_zoo.models.replicas import is_chief
from bert_zoo.training.runs import read_json
from bert_zoo.weights.files import WeightsError, remove_leftovers, sha256_of, write_json
from bert_zoo.weights.safetensors_io import SafetensorsSource, write_safetensors

# -------------------------------------------------------------------------------------------------
# Computes a model's outputs for many texts into a file, in constant memory; can be resumed.
# -------------------------------------------------------------------------------------------------

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
    """A model's outputs for texts [N], kept in a `.npy` file: a read-only memory map [rows, size].

    An interrupted pass resumes, with the same bytes as its result. A finished file is only opened, and refused with
    ValueError if it is damaged or of another model or other texts. A `.json` with the same name records what the
    outputs depend on.

    Args:
        texts: strings, lists of words, or a pair of lists of strings.
        compute: some of the texts -> float [their rows, size].
        counts: [N], rows of each text; one by default.
        about: what else the outputs depend on.
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
    """The outputs for the texts from `first` up to `last` as `dtype`; ValueError if one is not finite in it."""
    with np.errstate(over="ignore"):
        found = np.asarray(outputs).astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            f"The model's outputs for the texts {first} to {last - 1} are not all finite in {dtype}. Check that "
            "the model is trained, and for such texts."
        )
    return found


def fingerprint_of(model: ZooModel) -> str:
    """A hash of a model's weights and of its preprocessor's settings."""
    digest = hashlib.sha256(repr(model.preprocessor.get_config()).encode())
    # Without the states of dropout, which differ each time a model is loaded.
    for variable in model.weights:
        digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _hash(columns: Sequence[Sequence[Any]]) -> str:
    """A hash of columns of texts."""
    digest = hashlib.sha256()
    for row in zip(*columns, strict=True):
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


# The name contains step and SHA-256, so that a single rename makes a checkpoint valid.
NAME = "step-{:09d}-{}.safetensors"
PATTERN = re.compile(r"step-(\d{9})-([0-9a-f]{64})\.safetensors")


class TrainingCheckpoint(keras.callbacks.Callback):
    """Callback that saves what the next step depends on, so that `restore` can resume the training exactly.

    These are weights, optimizer, memory and dropout states. The weight files of Keras 3.15 itself lack the
    states of random generators: after resuming from them, dropout restarts and losses differ from an
    uninterrupted training. With several workers, only the chief writes.

    Args:
        directory: where to write; only the newest checkpoint is kept.
        every: steps (batches) between two checkpoints; there is always one at the end of `fit`.
        first_step: steps trained before this `fit`, as `restore` returns them.

    Raises:
        ValueError: `every` is below 1.
    """

    def __init__(self, directory: str | os.PathLike, every: int, first_step: int = 0):
        super().__init__()
        if every < 1:
            raise ValueError(f"every is {every}; it must be a positive number of steps.")
        self.directory = Path(directory)
        self.every = every
        self.step = first_step

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % self.every == 0:
            self.save()

    def on_train_end(self, logs=None):
        if self.step % self.every:
            self.save()

    def save(self) -> None:
        """Writes a checkpoint of the current step."""
        if is_chief(getattr(self.model, "distribute_strategy", None)):
            write_checkpoint(self.model, self.directory, self.step)


def write_checkpoint(
    model: keras.Model, directory: Path, step: int, notes: Mapping[str, str] | None = None
) -> None:
    """Writes a checkpoint with `step` for `restore` and notes for `notes_of`, and then deletes the previous one."""
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    unnamed = directory / "unnamed.safetensors"
    write_safetensors(unnamed, dict(_state(model)), {"format": "bert_zoo", **(notes or {})})
    path = directory / NAME.format(step, sha256_of(unnamed))
    unnamed.rename(path)
    for other in directory.iterdir():
        if PATTERN.fullmatch(other.name) and other != path:
            other.unlink()


def notes_of(directory: str | os.PathLike) -> dict[str, str]:
    """The notes of the newest checkpoint, or {} without one."""
    _, source = _newest(Path(directory))
    return {} if source is None else source.metadata


def _newest(directory: Path) -> tuple[int, SafetensorsSource | None]:
    """Step and tensors of the newest checkpoint; 0 and None without one."""
    found = {
        int(match[1]): (path, match[2])
        for path in (directory.iterdir() if directory.is_dir() else ())
        if (match := PATTERN.fullmatch(path.name))
    }
    if not found:
        return 0, None
    step = max(found)
    path, sha256 = found[step]
    if sha256_of(path) != sha256:
        raise WeightsError(
            f"The checkpoint {path} has changed since it was written: its SHA-256 is no longer the "
            "one in its name. Restore a copy of it, or delete it to train from the start."
        )
    return step, SafetensorsSource(path)


def restore(model: keras.Model, directory: str | os.PathLike) -> int:
    """Restores a compiled model to the state of the newest checkpoint.

    Args:
        model: the same model, compiled with the same optimizer, as when the checkpoint was written.
        directory: the directory of a `TrainingCheckpoint`.

    Returns:
        The number of steps trained. Without a checkpoint, 0, and the model does not change.

    Raises:
        WeightsError: the checkpoint belongs to another model or optimizer, or the file has changed.
    """
    step, source = _newest(Path(directory))
    if source is None:
        return 0
    # The optimizer's variables do not exist before the first step.
    model.optimizer.build(model.trainable_variables)
    # Names of an optimizer's variables begin with the model's, whose number differs between processes.
    stored = {_without_model(name): name for name in source}
    state = {_without_model(name): variable for name, variable in _state(model)}
    wrong = sorted(set(state) ^ set(stored)) or [
        name for name in state if source.shape(stored[name]) != tuple(state[name].shape)
    ]
    if wrong:
        raise WeightsError(
            f"{source.location} belongs to another model or optimizer: they differ in {wrong[:5]}. Resume "
            "with the settings that the training started with, or choose another directory."
        )
    for name, variable in state.items():
        variable.assign(source[stored[name]])
    return step


def _state(model: keras.Model) -> Iterator[tuple[str, Any]]:
    """Yields each variable once, with a name that identifies it in error messages."""
    seen = set()
    for variable in (*model.variables, *model.optimizer.variables):
        if id(variable) not in seen:
            seen.add(id(variable))
            yield f"{len(seen):05d} {variable.name}", variable


def _without_model(name: str) -> str:
    """The number and last word of a name from `_state`: "00042 momentum"."""
    number, _, variable = name.partition(" ")
    return f"{number} {variable.rpartition('_')[2]}"
