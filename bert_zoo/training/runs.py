"""Trainings that write a run directory, last a fixed time, or end when the loss is not finite."""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
from keras import ops

import bert_zoo
from bert_zoo.graph import has_tensorflow
from bert_zoo.json_files import parse_json, utf8_text
from bert_zoo.loading.locating import RUN_CONFIG as CONFIG
from bert_zoo.loading.locating import RUN_METRICS as METRICS


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
        if seconds <= 0 or not 0 <= warmup_proportion < 1:
            raise ValueError(
                f"seconds is {seconds} and warmup_proportion is {warmup_proportion}; seconds must be above 0, "
                "and warmup_proportion at least 0 and below 1."
            )
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


class TrainingDiverged(ValueError):
    """The loss became infinite or NaN."""


class StopAtDivergence(keras.callbacks.Callback):
    """Raises `TrainingDiverged` after the first batch whose loss is infinite or NaN.

    The run's files stay as they were after the last complete epoch. Keras's TerminateOnNaN, in
    contrast, ends `fit` as if it were complete.
    """

    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"])
        if math.isfinite(loss):
            return
        where = f"after batch {batch + 1} of epoch {self.epoch + 1}"
        raise diverged(self.model, loss, where)


def diverged(model: keras.Model, loss: float, where: str) -> TrainingDiverged:
    rate = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    return TrainingDiverged(
        f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here. Lower the "
        "learning rate or lengthen the warmup; if that does not help, check the data of that batch."
    )


# The directory with the state of an unfinished training, and the note in it about its progress.
CHECKPOINT, PROGRESS = "checkpoint", "progress"
RUN_AGAIN = "Restore a copy of the file, or delete its directory and run the same command again."


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


def finished_run(directory: Path, config: Mapping[str, Any]) -> Any | None:
    """The content of a finished run's `metrics.json`, or None; ValueError if it has other settings or data."""
    if not (directory / METRICS).is_file():
        return None
    advice = "Choose another directory (--output_dir), or delete it."
    _check_same_run(directory, config, "a finished run", advice)
    print(f"The run in {directory} is finished; nothing is trained again.")
    return read_json(directory / METRICS)


def check_goes_on(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises ValueError if an interrupted training was started with other settings or data."""
    checkpoint = directory / CHECKPOINT
    advice = f"Use the same settings, choose another directory, or delete {checkpoint}."
    _check_same_run(directory, config, "an interrupted training", advice)


def _check_same_run(directory: Path, config: Mapping[str, Any], what: str, advice: str) -> None:
    """Raises ValueError if `what` in the directory was started with other settings or data."""

    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        # Without the path of the data: `examples` identifies them.
        return {k: v for k, v in config.items() if k not in ("recipe", "data")} | config["recipe"]

    began = settings(read_json(directory / CONFIG))
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
