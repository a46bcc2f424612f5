"""Ending a training whose loss is no number."""

import math

import keras
from keras import ops


class TrainingDiverged(ValueError):
    """The loss became infinite or no number."""


class StopAtDivergence(keras.callbacks.Callback):
    """Raises `TrainingDiverged` after the first batch whose loss is infinite or no number.

    What is kept of the run stays as it was after its last whole epoch. Keras's TerminateOnNaN ends
    `fit` as if it had come to its end.
    """

    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        where = f"after batch {batch + 1} of epoch {self.epoch + 1}"
        check_finite(self.model, float(logs["loss"]), where)


def check_finite(model: keras.Model, loss: float, where: str) -> None:
    """Raises `TrainingDiverged` for a loss that is infinite or no number."""
    if math.isfinite(loss):
        return
    rate = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    raise TrainingDiverged(
        f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here. Lower the "
        "learning rate, or lengthen the warmup; if it happens at any rate, look at the data there."
    )
