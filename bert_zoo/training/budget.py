"""A training that is over after so much time, however fast the machine is."""

import time
from collections.abc import Callable

import keras


class TimeBudget(keras.callbacks.Callback):
    """Lets the learning rate rise and fall with the share of a budget of time that is used, and ends.

    The rate rises from 0 during warmup and falls on the line to 0 at the end of the budget. The clock
    runs from the beginning of `fit` to its end, so that what other callbacks do counts too. After a
    stop, `used` of a checkpoint goes on; seconds after the checkpoint are given again.

    Args:
        peak: the highest learning rate.
        seconds: the budget.
        warmup_proportion: part of it in which the rate rises.
        used: seconds that were used before this `fit`.
        until: the part of the budget at which this `fit` ends.
        clock: seconds, from any beginning.

    Source: Geiping and Goldstein 2022 (arXiv:2212.14034), section 4.3, whose rate is tied to the budget
    in the same way.
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
                f"seconds are {seconds} and warmup_proportion is {warmup_proportion}; there must be "
                "some time, and warmup is a part of it, from 0 to below 1."
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
        """Seconds of the budget that are used."""
        running = 0.0 if self._start is None else self.clock() - self._start
        return self._before + running

    @property
    def share(self) -> float:
        """The part of the budget that is used, at most 1."""
        return min(self.used / self.seconds, 1.0)

    def rate(self) -> float:
        """The present learning rate."""
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
