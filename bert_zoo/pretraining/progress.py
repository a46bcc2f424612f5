"""The progress of a pretraining: counters, measurements and checkpoints."""

import importlib.util
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
from keras import ops

from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.pretraining.batches import NumberedBatches
from bert_zoo.training.divergence import diverged
from bert_zoo.training.optimizers import AveragedSGD
from bert_zoo.training.resume import write_checkpoint
from bert_zoo.training.runs import CHECKPOINT, PROGRESS, updates_of


@dataclass
class Progress:
    """The progress of a training, saved in its checkpoints.

    Attributes:
        phase: index of the current phase.
        batches: batches trained on in the current phase.
        all_batches: batches trained on in all phases.
        seconds: training time over all calls of the program, including measuring and writing.
        busy: the seconds of these spent in training steps, without the first step of each call.
        busy_tokens: tokens of the steps that `busy` counts.
        tokens: tokens trained on, including special tokens but not padding.
        loss, losses: sum and number of the batch losses since the last measurement.
        starts: `PretrainingBatches.starts` of the current phase.
        measured_at: completed share of the training at the last measurement.
        rows: the measurements so far, one row each.
        before: losses and example predictions before the first batch.
    """

    phase: int = 0
    batches: int = 0
    all_batches: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    busy_tokens: float = 0.0
    tokens: float = 0.0
    loss: float = 0.0
    losses: int = 0
    starts: list[int] = field(default_factory=list)
    measured_at: float = 0.0
    rows: list[dict[str, float]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)


class Keeper(keras.callbacks.Callback):
    """Counts, measures, writes checkpoints, and stops a training whose loss is not finite.

    This happens after every execution of the backend: one batch, or several with `steps_per_execution`.

    Args:
        progress: the progress to update.
        directory: the run directory.
        batches: the batches of the current phase.
        end: index of the last batch of this `fit`, plus one.
        share: returns the completed share of the whole training.
        measure: returns measurements by name, for all texts or only for the held-out text.
        measurements: number of measurements on the held-out text.
        every: seconds between checkpoints.
        writes: whether to write files. Only one of several workers does.
    """

    def __init__(
        self,
        progress: Progress,
        directory: Path,
        batches: NumberedBatches,
        end: int,
        share: Callable[[], float],
        measure: Callable[[bool], dict[str, float]],
        *,
        measurements: int,
        every: float,
        writes: bool,
    ):
        super().__init__()
        self.progress, self.directory, self.batches = progress, directory, batches
        self.end, self.share, self.measure = end, share, measure
        self.measurements, self.every, self.writes = measurements, every, writes
        self._now = self._saved = time.monotonic()
        self._step_start: float | None = None
        self.board = None
        if writes and has_tensorflow and importlib.util.find_spec("tensorboard") is not None:
            self.board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def on_train_begin(self, logs=None):
        self._now = self._saved = time.monotonic()

    def on_train_batch_begin(self, batch, logs=None):
        # `fit` then logs the loss of one execution, not the mean since its start.
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        progress, loss = self.progress, float(logs["loss"])
        # The last execution may have fewer batches.
        trained = min(self.model.steps_per_execution, self.end - progress.batches)
        progress.batches += trained
        progress.all_batches += trained
        tokens = trained * self.batches.tokens
        progress.tokens += tokens
        now = time.monotonic()
        progress.seconds += now - self._now
        if self._step_start is not None:
            progress.busy += now - self._step_start
            progress.busy_tokens += tokens
        self._now = now
        if not math.isfinite(loss):
            where = f"at step {updates_of(self.model):,}, batch {progress.all_batches:,}"
            if trained > 1:
                where += f" or one of the {trained - 1} before"
            raise diverged(self.model, loss, where)
        progress.loss += loss * trained
        progress.losses += trained
        share, number = self.share(), self.measurements
        if share < 1 and int(share * number) > int(progress.measured_at * number):
            self.write_row()
            # Measuring uses part of a time budget, too.
            progress.measured_at = self.share()
        if now - self._saved >= self.every:
            self.save()
        self._step_start = time.monotonic()

    def write_row(self, at_end: bool = False) -> None:
        """Measures, and records the result with the mean training loss since the last measurement."""
        progress = self.progress
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        row = {"step": updates_of(self.model), "seconds": progress.seconds, "rate": rate}
        if progress.losses:
            row["loss"] = progress.loss / progress.losses
        measured = self.measure(at_end)
        row |= measured
        progress.loss, progress.losses = 0.0, 0
        progress.rows.append(row)
        # In float16 the optimizer is wrapped in another.
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if measured and isinstance(optimizer, AveragedSGD):
            name = next(iter(measured))
            optimizer.average_if_stalled([each[name] for each in progress.rows])
        if self.writes:
            losses = {name: value for name, value in row.items() if name.endswith("loss")}
            print_losses(f"Step {row['step']:,}", losses)
        if self.board:
            with self.board.as_default(step=row["step"]):
                for name, value in row.items():
                    if name != "step":
                        tf.summary.scalar(name, value)
            self.board.flush()

    def save(self) -> None:
        """Writes a checkpoint."""
        self.progress.starts = [*self.batches.starts]
        if self.writes:
            write_checkpoint(
                self.model,
                self.directory / CHECKPOINT,
                self.progress.all_batches,
                {PROGRESS: json.dumps(asdict(self.progress))},
            )
        self._saved = time.monotonic()


def print_losses(when: str, losses: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{n} {v:.4f}" for n, v in losses.items() if isinstance(v, float))
    if shown:
        print(f"{when}: {shown}")
