"""Learning rates that are shaped by a budget of time."""

import keras
import numpy as np
import pytest

from bert_zoo.training import TimeBudget


def trained(budget: TimeBudget, seen: list) -> None:
    """Trains a tiny model and notes the rate of each batch."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
    note = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda *_, **__: seen.append(float(model.optimizer.learning_rate))
    )
    model.fit(np.ones((100, 2)), np.ones(100), batch_size=1, callbacks=[budget, note], verbose=0)


def test_the_rate_falls_to_nothing_at_the_end_of_the_budget_and_goes_on_after_a_stop():
    now = [0.0]

    def clock() -> float:
        now[0] += 0.5  # asked twice a batch
        return now[0]

    through: list[float] = []
    trained(TimeBudget(0.1, 20, warmup_proportion=0.25, clock=clock), through)
    assert max(through) == pytest.approx(0.1, rel=0.1)
    assert through[:2] == sorted(through[:2]) and through[0] < 0.02
    assert through[-1] < 0.1 * 0.1
    assert 15 < len(through) < 25

    parts: list[float] = []
    first = TimeBudget(0.1, 20, warmup_proportion=0.25, until=0.5, clock=clock)
    trained(first, parts)
    stopped, share = len(parts), first.share
    assert 0.5 <= share < 0.6
    trained(TimeBudget(0.1, 20, warmup_proportion=0.25, used=first.used, clock=clock), parts)
    assert parts[stopped] == pytest.approx(0.1 * (1 - share) / 0.75, rel=0.1)
    assert parts[-1] < 0.1 * 0.1


def test_impossible_budgets_are_refused():
    with pytest.raises(ValueError, match="seconds is 0"):
        TimeBudget(0.1, 0)
