"""Mixtures of several tasks: how many rows of each an epoch has, and which.

Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.5.2.
"""

from collections.abc import Sequence

import numpy as np

from bert_zoo.data.buckets import Batching, RowOrder


def mixed_rows(sizes: Sequence[int], limit: int, temperature: float) -> list[int]:
    """Number of rows of each task in an epoch.

    A task's share is proportional to min(size, limit) ** (1 / temperature). A temperature of 1 mixes by size;
    higher ones make shares more equal. An epoch has the sum of min(size, limit) rows, and each task
    at least one.

    Args:
        sizes: rows of the tasks' training data.
        limit: K in the paper.
        temperature: T in the paper.

    Raises:
        ValueError: the limit or the temperature is below 1.
    """
    if limit < 1 or temperature < 1:
        raise ValueError(
            f"mixing_limit is {limit} and mixing_temperature {temperature}; both must be at least 1."
        )
    counted = np.minimum(sizes, limit)
    rates = counted ** (1 / temperature)
    return np.maximum(1, np.rint(counted.sum() * rates / rates.sum())).astype(int).tolist()


class MixedOrder(RowOrder):
    """Order of the rows of several tasks, with a fixed number of rows of each task in every epoch.

    No row of a task repeats before all others of the task were used.

    Args:
        lengths, batching: as for `RowOrder`; rows are ordered by task.
        sizes: number of rows of each task.
        rows: rows of each task in an epoch.
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
        """Indices of a task's rows in an epoch: the next part of a sequence of random permutations."""
        numbers = np.arange(epoch * rows, (epoch + 1) * rows)
        passes = range(numbers[0] // size, numbers[-1] // size + 1)
        orders = [
            np.random.default_rng([self._seed, task, each]).permutation(size) for each in passes
        ]
        return np.concatenate(orders)[numbers - passes[0] * size]
