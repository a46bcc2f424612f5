"""Ending a training whose loss is no number, with what one needs to find out why."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops


class TrainingDiverged(ValueError):
    """The loss became infinite or no number."""


class StopAtDivergence(keras.callbacks.Callback):
    """Raises `TrainingDiverged` after the first batch whose loss is infinite or no number.

    What is kept of the run stays as it was after its last whole epoch. Keras's TerminateOnNaN ends
    `fit` as if it had come to its end.

    Args:
        path: of the .npz file that the batch is written to.
        batch_at: from the number of an epoch, and of a batch in it, to the batch: (inputs, labels).
    """

    def __init__(self, path: Path, batch_at: Callable[[int, int], Any]):
        super().__init__()
        self.path = path
        self.batch_at = batch_at
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"])
        if math.isfinite(loss):
            return
        where = f"after batch {batch + 1} of epoch {self.epoch + 1}"
        raise diverged(self.model, loss, where, self.batch_at(self.epoch, batch), self.path)


def diverged(
    model: keras.Model, loss: float, where: str, batch: Any, path: Path
) -> TrainingDiverged:
    """The error of a loss that is no number; the batch, (inputs, labels), is written to a .npz file."""
    rate = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    np.savez(path, **_named_arrays(batch))
    return TrainingDiverged(
        f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here; the batch "
        f"is in {path}. Lower the learning rate, or lengthen the warmup; if it happens at any rate, "
        "look at the batch."
    )


def _named_arrays(batch: Any) -> dict[str, np.ndarray]:
    """The arrays of (inputs, labels), or of inputs alone, by their names."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    arrays = {}
    for part in parts:
        named = part if isinstance(part, Mapping) else {"labels": part}
        arrays |= {name: ops.convert_to_numpy(value) for name, value in named.items()}
    return arrays
