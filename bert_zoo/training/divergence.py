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
        loss = float(logs["loss"])
        if math.isfinite(loss):
            return
        where = f"after batch {batch + 1} of epoch {self.epoch + 1}"
        raise diverged(self.model, loss, where)


def diverged(model: keras.Model, loss: float, where: str) -> TrainingDiverged:
    """The error of a loss that is infinite or no number."""
    rate = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    return TrainingDiverged(
        f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here. Lower the "
        "learning rate, or lengthen the warmup; if it happens at any rate, look at the data there."
    )
