"""Mixtures of several tasks' rows: how many of each an epoch has, and which.

Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.5.2.
"""

from collections.abc import Sequence

import numpy as np

from bert_zoo.data.buckets import Batching, RowOrder


def mixed_rows(sizes: Sequence[int], limit: int, temperature: float) -> list[int]:
    """The rows of an epoch that each task has.

    They are in proportion to the tasks' sizes, none of which counts more than the limit, to the power of
    1 / temperature: 1 mixes by size, and the higher it is, the nearer the shares are to equal ones. An epoch
    has as many rows as the tasks together, counted up to the limit; each has one row at least.

    Args:
        sizes: of the tasks' training data, in rows.
        limit: the paper's K.
        temperature: the paper's T.

    Raises:
        ValueError: the limit or the temperature is below 1.
    """
    if limit < 1 or temperature < 1:
        raise ValueError(
            f"mixing_limit is {limit} and mixing_temperature {temperature}; both must be 1 or more."
        )
    counted = np.minimum(sizes, limit)
    rates = counted ** (1 / temperature)
    return np.maximum(1, np.rint(counted.sum() * rates / rates.sum())).astype(int).tolist()


class MixedOrder(RowOrder):
    """Rows of tasks that stand one after the other, of each as many in every epoch.

    Of no task a row comes again before all others have come.

    Args:
        lengths, batching: as of `RowOrder`.
        sizes: rows of each task; their sum is that of the lengths.
        rows: those of each task in an epoch.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batching: Batching,
        *,
        sizes: Sequence[int],
        rows: Sequence[int],
    ):
        super().__init__(lengths, batching)
        self._sizes, self._rows_of_tasks = sizes, rows

    def _rows(self, epoch, rng):
        starts = np.cumsum([0, *self._sizes[:-1]])
        tasks = zip(starts, self._sizes, self._rows_of_tasks, strict=True)
        drawn = [
            start + self._drawn(task, epoch, size, rows)
            for task, (start, size, rows) in enumerate(tasks)
        ]
        return rng.permutation(np.concatenate(drawn))

    def _drawn(self, task: int, epoch: int, size: int, rows: int) -> np.ndarray:
        """The numbers of a task's rows in an epoch: a stretch of one random order of all after another."""
        numbers = np.arange(epoch * rows, (epoch + 1) * rows)
        passes = range(numbers[0] // size, numbers[-1] // size + 1)
        orders = [
            np.random.default_rng([self._seed, task, each]).permutation(size) for each in passes
        ]
        return np.concatenate(orders)[numbers - passes[0] * size]
