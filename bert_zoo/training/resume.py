"""Interrupting a training, and resuming it with identical results."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras

from bert_zoo.models.replicas import is_chief
from bert_zoo.weights.files import WeightsError, remove_leftovers, sha256_of
from bert_zoo.weights.safetensors_io import SafetensorsSource, write_safetensors

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
    """Writes a checkpoint, and deletes the previous one once the new one is complete.

    Args:
        model: a compiled model whose optimizer is built.
        directory: created if it does not exist.
        step: what `restore` should return.
        notes: what `notes_of` should return.
    """
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
    """Returns the notes of the newest checkpoint, or {} without one."""
    _, source = _newest(Path(directory))
    return {} if source is None else source.metadata


def _newest(directory: Path) -> tuple[int, SafetensorsSource | None]:
    """Returns step and tensors of the newest checkpoint; 0 and None without one.

    Raises:
        WeightsError: the file has changed since it was written.
    """
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
    """Returns the number and last word of a name from `_state`: "00042 momentum"."""
    number, _, variable = name.partition(" ")
    return f"{number} {variable.rpartition('_')[2]}"
