"""Trainings that write a run directory, resume there with identical results, and can last a fixed time.

Outputs of a model for many texts are kept in files in the same way.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

import bert_zoo
from bert_zoo.data.files import RowFile, open_array
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.json_files import parse_json, utf8_text
from bert_zoo.loading.locating import RUN_CONFIG, RUN_METRICS
from bert_zoo.models.base import ZooModel
from bert_zoo.models.data_adapters import rows_of
from bert_zoo.models.replicas import is_chief
from bert_zoo.training.distribution import present_strategy
from bert_zoo.weights.files import WeightsError, remove_leftovers, sha256_of, write_json
from bert_zoo.weights.safetensors_io import SafetensorsSource, write_safetensors

# The directory with the state of an unfinished training, and the note in it about its progress.
CHECKPOINT, PROGRESS = "checkpoint", "progress"
RUN_AGAIN = "Restore a copy of the file, or delete its directory and run the same command again."


class TrainingDiverged(ValueError):
    """The loss became infinite or NaN."""


class Run(keras.callbacks.Callback):
    """A training in a run directory, where it resumes after a stop; a callback of `fit` in a subclass for each kind.

    The directory holds the settings (`config.json`), the state of an unfinished training (`checkpoint`) and the
    results of a finished one (`metrics.json`, written last). Of several workers only the chief writes.

    Args:
        progress: a dataclass of what a checkpoint notes besides the model's state. `step` is its number.
        strategy: as of `bert_zoo.training.strategy`; by default that of the current scope.
        checkpoint_seconds: minimum time between checkpoints.
    """

    def __init__(
        self, directory: Path, progress: Any, strategy: Any = None, checkpoint_seconds: float = 60.0
    ):
        super().__init__()
        self.directory, self.progress = directory, progress
        self.strategy = strategy or present_strategy()
        self.writes = is_chief(self.strategy)
        self.checkpoint_seconds = checkpoint_seconds
        self.resumes = False
        self.saved_at = time.monotonic()
        if self.writes:
            directory.mkdir(parents=True, exist_ok=True)
            remove_leftovers(directory)

    def begin(self, config: Mapping[str, Any], about: Mapping[str, Any]) -> Any | None:
        """The results of a finished run, or None; then `progress` is that of a stopped training, if there is one.

        A new run writes its settings, `config`, and what may change between calls, `about`. ValueError if the
        directory holds a run with other settings or data.
        """
        self.config, checkpoint = {**config, **about}, self.directory / CHECKPOINT
        if (self.directory / RUN_METRICS).is_file():
            advice = "Choose another directory (--output_dir), or delete it."
            check_same_run(self.directory, config, "a finished run", advice)
            print(f"The run in {self.directory} is finished; nothing is trained again.")
            return read_json(self.directory / RUN_METRICS)
        if notes := notes_of(checkpoint):
            advice = f"Use the same settings, choose another directory, or delete {checkpoint}."
            check_same_run(self.directory, config, "an interrupted training", advice)
            self.progress, self.resumes = type(self.progress)(**json.loads(notes[PROGRESS])), True
        elif self.writes:
            write_json(self.directory / RUN_CONFIG, self.config)
        return None

    def on_train_begin(self, logs=None):
        self.saved_at = time.monotonic()

    def diverged(self, loss: float, where: str) -> TrainingDiverged:
        """The error for a loss that is not finite. Keras's TerminateOnNaN would end `fit` as if it were complete."""
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        return TrainingDiverged(
            f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here. Lower the "
            "learning rate or lengthen the warmup; if that does not help, check the data of that batch."
        )

    def save_if_due(self) -> None:
        if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Writes a checkpoint."""
        if self.writes:
            notes = {PROGRESS: json.dumps(asdict(self.progress))}
            write_checkpoint(self.model, self.directory / CHECKPOINT, self.progress.step, notes)
        self.saved_at = time.monotonic()

    def finish(self, results: Mapping[str, Any]) -> None:
        """Writes the results, which mark a finished run, and deletes the checkpoint."""
        write_json(self.directory / RUN_METRICS, results)
        if (self.directory / CHECKPOINT).is_dir():
            shutil.rmtree(self.directory / CHECKPOINT)


def check_same_run(directory: Path, config: Mapping[str, Any], what: str, advice: str) -> None:
    """Raises ValueError if `what` in the directory was started with other settings or data."""

    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        # Without the path of the data: `examples` identifies them.
        return {k: v for k, v in config.items() if k not in ("recipe", "data")} | config["recipe"]

    began = settings(read_json(directory / RUN_CONFIG))
    # As after reading them from a file.
    now = settings(json.loads(json.dumps(dict(config))))
    changes = [
        f"{key} was {began.get(key)!r} and is {new!r}"
        for key, new in now.items()
        # A setting that the run's version lacked counts as equal if it is off.
        if began.get(key) != new and (key in began or new) and key != "examples"
    ]
    if began.get("examples") != now["examples"]:
        changes.append("the examples or their splits are different")
    if changes:
        raise ValueError(
            f"{directory} contains {what} with other settings: {'; '.join(changes)}. {advice}"
        )


def updates_of(model: keras.Model) -> int:
    """The number of updates that the optimizer has made."""
    # int() does not work for a variable on several devices.
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


def versions() -> dict[str, str]:
    """The versions of the packages that a run depends on."""
    of_keras = ("keras", "jax") if keras.backend.backend() == "jax" else ("keras",)
    of_text = ("tensorflow", "tensorflow-text") if has_tensorflow else ("tokenizers",)
    found = {name: version(name) for name in (*of_keras, *of_text)}
    return {"bert_zoo": bert_zoo.__version__} | found


def read_json(path: Path, remedy: str = RUN_AGAIN) -> Any:
    """Reads a file of `write_json`; ValueError, which ends with the next step, if it is damaged."""
    return parse_json(utf8_text(path.read_bytes(), path), path, remedy=remedy)


def keras_verbosity() -> int:
    """Keras's `verbose`: a progress bar in a terminal, else one line per epoch."""
    return 1 if sys.stdout.isatty() else 2


class TimeBudget(keras.callbacks.Callback):
    """Callback that ends `fit` when its time is used up, and sets the learning rate by the time used.

    The rate rises linearly from 0 during warmup, then falls linearly to 0 at the end of the budget.
    The clock runs from the start of `fit` to its end, including other callbacks. To resume, pass the
    property `used` as it was when the checkpoint was written; lost seconds are then available again.

    Args:
        peak: the maximum learning rate.
        seconds: the budget of time.
        warmup_proportion: fraction of the budget in which the rate rises.
        used: seconds used before this `fit`.
        until: fraction of the budget at which this `fit` ends.
        clock: returns seconds from any starting point.

    Raises:
        ValueError: `seconds` is not positive, or `warmup_proportion` is outside [0, 1).

    Source: Geiping and Goldstein 2022 (arXiv:2212.14034), section 4.3, which ties the rate to the
    budget in the same way.
    """

    def __init__(
        self,
        peak: float,
        seconds: float,
        *,
        warmup_proportion: float = 0.1,
        used: float = 0.0,
        until: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__()
        check("seconds", seconds, float, above=0)
        check("warmup_proportion", warmup_proportion, float, least=0, below=1)
        self.peak = peak
        self.seconds = seconds
        self.warmup_proportion = warmup_proportion
        self.until = until
        self.clock = clock
        self._before = used
        self._start: float | None = None

    @property
    def used(self) -> float:
        """Seconds used so far."""
        running = 0.0 if self._start is None else self.clock() - self._start
        return self._before + running

    @property
    def share(self) -> float:
        """Fraction of the budget used so far, at most 1."""
        return min(self.used / self.seconds, 1.0)

    def rate(self) -> float:
        """Returns the current learning rate."""
        share, warmup = self.share, self.warmup_proportion
        if share < warmup:
            return self.peak * share / warmup
        return self.peak * (1 - share) / (1 - warmup)

    def on_train_begin(self, logs=None):
        self._start = self.clock()

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = self.rate()

    def on_train_batch_end(self, batch, logs=None):
        if self.share >= self.until:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self._before, self._start = self.used, None


# --- Checkpoints ---

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
        check("every", every, int, least=1)
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
