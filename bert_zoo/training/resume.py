"""Stopping a training and going on later as if nothing had happened."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from bert_zoo.models.replicas import is_chief
from bert_zoo.weights.files import WeightsError, remove_leftovers, sha256_of
from bert_zoo.weights.safetensors_io import SafetensorsSource, write_safetensors

# Step and SHA-256 are parts of the name, so that one rename makes a checkpoint valid, all together.
NAME = "step-{:09d}-{}.safetensors"
PATTERN = re.compile(r"step-(\d{9})-([0-9a-f]{64})\.safetensors")


class TrainingCheckpoint(keras.callbacks.Callback):
    """Writes all that the next step depends on: weights, optimizer, memory, states of dropout.

    Keras 3.15's own files of weights leave the states of random generators out, so that dropout
    starts anew and losses differ from those of a training that was not stopped. Of several workers
    one, the chief, writes.

    Args:
        directory: where to write; the newest checkpoint alone is kept.
        every: steps between two checkpoints.
        first_step: steps that were trained before this `fit`.
    """

    def __init__(self, directory: str | os.PathLike, every: int, first_step: int = 0):
        super().__init__()
        if every < 1:
            raise ValueError(f"every is {every}; it is a positive number of steps.")
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
        """Writes a checkpoint of the present step."""
        if is_chief(getattr(self.model, "distribute_strategy", None)):
            write_checkpoint(self.model, self.directory, self.step)


def write_checkpoint(
    model: keras.Model, directory: Path, step: int, notes: Mapping[str, str] | None = None
) -> None:
    """Writes all that the next step depends on, in place of the checkpoint before.

    The older checkpoint goes when the new one is whole.

    Args:
        model: compiled, with an optimizer that has been built.
        directory: made if it does not exist.
        step: what `restore` returns.
        notes: what `notes_of` returns.
    """
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    state = {name: ops.convert_to_numpy(v) for name, v in _state(model)}
    unnamed = directory / "unnamed.safetensors"
    write_safetensors(unnamed, state, {"format": "bert_zoo", **(notes or {})})
    path = directory / NAME.format(step, sha256_of(unnamed))
    unnamed.rename(path)
    for other in directory.iterdir():
        if PATTERN.fullmatch(other.name) and other != path:
            other.unlink()


def notes_of(directory: str | os.PathLike) -> dict[str, str]:
    """The notes of the newest checkpoint; none where there is none."""
    _, source = _newest(Path(directory))
    return {} if source is None else source.metadata


def _newest(directory: Path) -> tuple[int, SafetensorsSource | None]:
    """Step and tensors of the newest checkpoint; 0 and None where there is none.

    Raises:
        WeightsError: its bytes are not those that were written.
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
            "one in its name. Bring back a copy of it, or delete it to train from the start."
        )
    return step, SafetensorsSource(path)


def restore(model: keras.Model, directory: str | os.PathLike) -> int:
    """Puts a compiled model into the state of the newest checkpoint.

    Args:
        model: as it was when the checkpoint was written, compiled with the same optimizer.
        directory: of a `TrainingCheckpoint`.

    Returns:
        The steps that were trained; 0 where there is no checkpoint, and the model stays as it is.

    Raises:
        WeightsError: the checkpoint is of another model or optimizer, or its bytes have changed.
    """
    step, source = _newest(Path(directory))
    if source is None:
        return 0
    # Its variables do not exist before the first step.
    model.optimizer.build(model.trainable_variables)
    # Names of an optimizer's variables begin with the model's, which has another number in each process.
    stored = {_without_model(name): name for name in source}
    state = {_without_model(name): variable for name, variable in _state(model)}
    wrong = sorted(set(state) ^ set(stored)) or [
        name for name in state if source.shape(stored[name]) != tuple(state[name].shape)
    ]
    if wrong:
        raise WeightsError(
            f"{source.location} is not of this model and optimizer: they differ in {wrong[:5]}. Go "
            "on with the settings that the training began with, or name another directory."
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
    """The number and the last word of a name of `_state`: "00042 momentum"."""
    number, _, variable = name.partition(" ")
    return f"{number} {variable.rpartition('_')[2]}"
