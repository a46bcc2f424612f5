"""Batches in which no text stands twice, so that none is a negative of itself."""

from collections import deque
from collections.abc import Sequence

import numpy as np


def text_numbers(columns: Sequence[Sequence[str | bytes]]) -> np.ndarray:
    """Numbers of texts, equal for equal ones of any column: int64 [rows, columns]."""
    texts = np.concatenate([np.asarray(column, object) for column in columns])
    numbers: dict[str | bytes, int] = {}
    found = [numbers.setdefault(text, len(numbers)) for text in texts]
    return np.reshape(found, (len(columns), -1)).T


def distinct_batches(
    numbers: np.ndarray, batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """All rows in a random order, in batches in which no text stands twice, over all columns.

    A row with a text that its batch has waits for the next one, so that only the last batches are smaller,
    where nothing else is left. Within a row a text may be repeated.

    Args:
        numbers: int [rows, columns], equal for equal texts; see `text_numbers`.
        batch_size: rows of a batch.
        rng: that the order is drawn from.

    Returns:
        The numbers of the rows of each batch, int64 [batch].
    """
    waiting: deque[int] = deque()
    fresh = deque(rng.permutation(len(numbers)).tolist())
    rows = numbers.tolist()
    batches = []
    while waiting or fresh:
        batch: list[int] = []
        seen: set[int] = set()
        later: deque[int] = deque()
        while len(batch) < batch_size and (waiting or fresh):
            row = (waiting or fresh).popleft()
            if seen.isdisjoint(rows[row]):
                batch.append(row)
                seen.update(rows[row])
            else:
                later.append(row)
        later.extend(waiting)
        waiting = later
        batches.append(np.array(batch, np.int64))
    return batches
