"""Training for a fixed time, however fast the machine is."""

import time
from collections.abc import Callable

import keras


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
