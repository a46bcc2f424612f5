"""Ends a training when its loss is not finite."""

import math

import keras
from keras import ops


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
    """Returns the error for a loss that is infinite or NaN."""
    rate = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    return TrainingDiverged(
        f"The loss is {loss} {where}, at a learning rate of {rate:.3g}. Training stops here. Lower the "
        "learning rate or lengthen the warmup; if that does not help, check the data of that batch."
    )
