"""Batches without repeated texts, so that no text is a negative for itself."""

import logging
from collections.abc import Sequence

import numpy as np

log = logging.getLogger("bert_zoo")


def text_numbers(columns: Sequence[Sequence[str | bytes]]) -> np.ndarray:
    """Numbers texts, equal texts of all columns alike: int64 [rows, columns]."""
    texts = np.concatenate([np.asarray(column, object) for column in columns])
    numbers: dict[str | bytes, int] = {}
    found = [numbers.setdefault(text, len(numbers)) for text in texts]
    return np.reshape(found, (len(columns), -1)).T


def distinct_batches(
    numbers: np.ndarray, batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Puts all rows in random order into batches in which no text occurs in two rows, over all columns.

    A row goes to the first batch with room after those that contain its texts. The time is linear in the
    number of rows. Later batches may be smaller. Within a row, a text may be repeated.

    Args:
        numbers: int [rows, columns], equal for equal texts; see `text_numbers`.
        batch_size: rows per batch.
        rng: draws the order.

    Returns:
        Row numbers of each batch, int64 [batch].
    """
    rows = numbers.tolist()
    batches: list[list[int]] = []
    after: dict[int, int] = {}  # text -> the batch after the last one that has it
    with_room: list[int] = []  # batch -> itself, or one after it if it is full

    for row in rng.permutation(len(rows)).tolist():
        batch = _first_with_room(with_room, max(after.get(text, 0) for text in rows[row]))
        if batch == len(batches):
            batches.append([])
            with_room.append(batch)
        batches[batch].append(row)
        if len(batches[batch]) == batch_size:
            with_room[batch] = batch + 1
        after.update(dict.fromkeys(rows[row], batch + 1))
    return [np.array(batch, np.int64) for batch in batches]


def _first_with_room(with_room: list[int], batch: int) -> int:
    """The first batch, from this one on, that is not full; shortens the path for later calls."""
    way = []
    while batch < len(with_room) and with_room[batch] != batch:
        way.append(batch)
        batch = with_room[batch]
    for passed in way:
        with_room[passed] = batch
    return batch


def say_of_frequent_texts(numbers: np.ndarray, batch_size: int) -> None:
    """Warns if a text is so frequent that batches without repeated texts must be small."""
    of_row = np.sort(numbers, axis=1)
    is_repeated = np.pad(of_row[:, 1:] == of_row[:, :-1], ((0, 0), (1, 0)))
    most = np.bincount(of_row[~is_repeated]).max()
    if most > 2 * -(-len(numbers) // batch_size):
        log.warning(
            "The same text occurs in %d of %d rows. As no batch has a text twice, there are at least %d batches, "
            "with %.1f rows on average instead of %d (batch_size). Leave out rows with such a text; if it "
            "marks a missing text, leave its column out.",
            *(most, len(numbers), most, len(numbers) / most, batch_size),
        )
