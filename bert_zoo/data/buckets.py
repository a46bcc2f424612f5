"""Which rows stand in a batch: of similar length, without repeated texts, from several tasks.

Only functions that make a dataset import TensorFlow, as recipes also use `Batching` on Keras's JAX backend.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_zoo.fields import check

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


# -------------------------------------------------------------------------------------------------
# Batches without repeated texts, so that no text is a negative for itself.
# -------------------------------------------------------------------------------------------------

log = logging.getLogger("bert_zoo")


def text_numbers(columns: Sequence[Sequence[str | bytes]]) -> np.ndarray:
    """Numbers texts, equal texts of all columns alike: int64 [rows, columns].

    Texts are equal if their hashes of 64 bits are: two of ten million differ in spite of that with a chance of 3e-6, and
    then never share a batch.
    """
    texts = (text if isinstance(text, bytes) else text.encode() for text in chain(*columns))
    hashes = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    found = np.frombuffer(b"".join(hashes), np.uint64)
    return np.unique(found, return_inverse=True)[1].reshape(len(columns), -1).T


def distinct_batches(
    numbers: np.ndarray, batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Puts all rows in random order into batches [batch] in which no text occurs in two rows, over all columns.

    A row goes to the first batch with room after those that contain its texts. The time is linear in the
    number of rows. Later batches may be smaller. Within a row, a text may be repeated. `numbers`, int [rows,
    columns], are those of `text_numbers`.
    """
    batches: list[array] = []
    # Of each text, the batch after the last one that has it.
    after = array("q", bytes(8 * (1 + int(numbers.max(initial=0)))))
    with_room: list[int] = []  # batch -> itself, or one after it if it is full

    for row in rng.permutation(len(numbers)).tolist():
        texts = numbers[row].tolist()
        batch = _first_with_room(with_room, max(after[text] for text in texts))
        if batch == len(batches):
            batches.append(array("q"))
            with_room.append(batch)
        batches[batch].append(row)
        if len(batches[batch]) == batch_size:
            with_room[batch] = batch + 1
        for text in texts:
            after[text] = batch + 1
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


# Batches that are sorted together: enough for even lengths, few enough to stay random. Small data sets have
# at least MIN_WINDOWS windows, or the same rows would share a batch in every epoch. In RTE, 78 batches of 32,
# padding is 5 % of the tokens with 2 windows, 10 % with 4, and 62 % in a random order.
WINDOW = 50
MIN_WINDOWS = 2


@dataclass(frozen=True)
class Batching:
    """Settings for putting rows into batches."""

    batch_size: int = 32  # largest number of rows per batch; an epoch's last batch may be smaller
    # Largest number of padded tokens per batch, so that batches of long rows have fewer rows; None for no limit.
    tokens: int | None = None
    group_by_length: bool = True  # whether rows of similar length share a batch
    # Whether to leave out rows that do not fill a batch, other rows in each epoch.
    drop_remainder: bool = False
    # Whether rows are in a new order in each epoch. If not, they are in their own order, or with `group_by_length`
    # sorted by length.
    shuffle: bool = True
    seed: int | None = None  # seed of the order; None draws one from NumPy

    def __post_init__(self):
        check("batch_size", self.batch_size, int, least=1)
        check("tokens", self.tokens, int | None, least=1)
        if self.tokens is not None and self.drop_remainder:
            raise ValueError(
                "drop_remainder needs batches of one size, but a limit of tokens makes batches of "
                "different sizes. Leave one of them out."
            )


class RowOrder:
    """The rows of every batch, epoch by epoch. An epoch depends only on its number and the seed.

    With `group_by_length`, rows are shuffled and sorted by length within windows of up to 50 batches, and the
    batches are shuffled, as `group_by_length` in Hugging Face's Trainer.

    `lengths`, [N], are the tokens of each row, padded on its own. `texts`, int [N, columns], are equal for equal
    texts; with them, no batch has a text twice, and rows are not grouped by length.

    Raises:
        ValueError: a row has more tokens than a batch may have, or `texts` and a limit of tokens are both set.
    """

    def __init__(self, lengths: Sequence[int], batching: Batching, texts: np.ndarray | None = None):
        self.lengths = np.asarray(lengths)
        self.batching = batching
        self.texts = texts
        # The epoch that `dataset` yields next. It increases by itself; a resumed training sets it.
        self.epoch = 0
        self._seed = np.random.randint(2**31) if batching.seed is None else batching.seed
        longest = int(self.lengths.max(initial=0))
        if batching.tokens is not None and longest > batching.tokens:
            raise ValueError(
                f"A row has {longest} tokens, but a batch at most {batching.tokens}. Allow more "
                "tokens, or shorten rows with max_length."
            )
        if texts is not None and batching.tokens is not None:
            raise ValueError(
                "Texts are compared with the other rows of their batch, so batches need one size. "
                "Leave tokens (tokens_per_batch) out; mini_batch_size saves memory."
            )

        # An epoch, the number of its first batch, and its batches.
        self._planned = (-1, 0, [])

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Row numbers of each batch of an epoch, int64 [batch]."""
        rng = np.random.default_rng([self._seed, epoch])
        if self.texts is not None:
            found = distinct_batches(self.texts, self.batching.batch_size, rng)
        else:
            found = list(self._cut(self._rows(epoch, rng)))
            if self.batching.group_by_length and self.batching.shuffle:
                found = [found[i] for i in rng.permutation(len(found))]
        if self.batching.drop_remainder:
            found = [batch for batch in found if len(batch) == self.batching.batch_size]
        return found

    def _rows(self, epoch: int, rng: np.random.Generator) -> np.ndarray:
        if self.batching.shuffle:
            return rng.permutation(len(self.lengths))
        if self.batching.group_by_length:
            return np.argsort(self.lengths, kind="stable")
        return np.arange(len(self.lengths))

    def _cut(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        size, windows = self.batching.batch_size, [rows]
        if self.batching.group_by_length and self.batching.shuffle:
            # Each window but the last has whole batches.
            width = min(WINDOW, -(-len(rows) // (MIN_WINDOWS * size))) * size
            windows = (rows[start : start + width] for start in range(0, len(rows), width))
            windows = (w[np.argsort(self.lengths[w], kind="stable")] for w in windows)
        for window in windows:
            if self.batching.tokens is None:
                yield from (window[start : start + size] for start in range(0, len(window), size))
            else:
                yield from self._cut_by_tokens(window)

    def _cut_by_tokens(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        start = longest = 0
        for end, row in enumerate(rows):
            longest = max(longest, self.lengths[row])
            number = end + 1 - start
            if number * longest > self.batching.tokens or number > self.batching.batch_size:
                yield rows[start:end]
                start, longest = end, self.lengths[row]
        yield rows[start:]

    def dataset(self) -> tf.data.Dataset:
        """Dataset of row numbers, int64 [batch]; each pass is an epoch."""
        import tensorflow as tf

        def next_epoch() -> Iterator[np.ndarray]:
            epoch, self.epoch = self.epoch, self.epoch + 1
            yield from self.batches(epoch)

        size = self.batching.batch_size if self.batching.drop_remainder else None
        spec = tf.TensorSpec([size], tf.int64)
        dataset = tf.data.Dataset.from_generator(next_epoch, output_signature=spec)
        if self.batching.tokens is None and self.texts is None:
            # Otherwise epochs may differ in their number of batches.
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(self.per_epoch))
        return dataset

    def at(self, number: int) -> np.ndarray:
        """Row numbers, int64 [batch], of a batch counted from the start of `epoch`; epochs follow each other."""
        number += self.epoch * self.per_epoch
        epoch, start, found = self._planned
        if self.batching.tokens is None and self.texts is None:
            # All epochs have the same number.
            if number // self.per_epoch != epoch:
                epoch = number // self.per_epoch
                start, found = epoch * self.per_epoch, self.batches(epoch)
        elif number < start:
            epoch, start, found = 0, 0, self.batches(0)
        while number >= start + len(found):
            start, epoch = start + len(found), epoch + 1
            found = self.batches(epoch)
        self._planned = (epoch, start, found)
        return found[number - start]

    @cached_property
    def per_epoch(self) -> int:
        """Batches in the first epoch. Other epochs may differ with a limit of tokens or with `texts`."""
        return len(self.batches(0))


class Rows(NamedTuple):
    """Rows in memory, of which any can be put together in a batch."""

    lengths: np.ndarray  # tokens of each row, padded on its own, int64 [N]
    # Row numbers, int64 [batch] -> inputs, alone or with labels and weights, of NumPy arrays.
    gather: Callable[[np.ndarray], tuple[Any, ...]]
    # Number of leading axes, of inputs and of labels and weights, whose sizes differ between batches.
    axes: int = 2
    label_axes: int = 1
    source: Any = None  # what `evaluate` reads besides the rows, if anything

    def batches(self, batching: Batching, texts: np.ndarray | None = None) -> Batches:
        return Batches(self, RowOrder(self.lengths, batching, texts))


class Batches:
    """Batches of rows, by their number: all that training, measuring and programs read in memory.

    Pass it to `fit`, which reads endlessly and divides the batches into epochs.
    """

    def __init__(self, rows: Rows, order: RowOrder):
        self.rows, self.order = rows, order
        # The batch that `endless` and `epoch` yield first, which a resumed training sets.
        self.first = 0

    def at(self, number: int) -> tuple[Any, ...]:
        """A batch, counted from `first`."""
        return self.rows.gather(self.order.at(self.first + number))

    def specs(self) -> Any:
        """The structure of a batch in `tf.TensorSpec`s."""
        import tensorflow as tf

        size = self.order.batching.batch_size if self.order.batching.drop_remainder else None

        def spec(array: Any, axes: int) -> tf.TensorSpec:
            array = np.asarray(array)
            free = [None] * (min(axes, array.ndim) - 1)
            return tf.TensorSpec([size, *free, *array.shape[axes:]], array.dtype)

        inputs, *others = self.rows.gather(np.arange(1))
        inputs = tf.nest.map_structure(lambda array: spec(array, self.rows.axes), inputs)
        others = tf.nest.map_structure(lambda array: spec(array, self.rows.label_axes), others)
        return (inputs, *others)

    @property
    def per_epoch(self) -> int:
        """Number of batches that `fit` calls an epoch."""
        return self.order.per_epoch

    def endless(self) -> Any:
        """All epochs, one after the other, for `fit` with `steps_per_epoch=per_epoch`."""
        from bert_zoo.data.by_number import numbered

        return numbered(self.at, None, self.specs, logs_shapes=True)

    def epoch(self) -> Any:
        """`per_epoch` batches from `first`, for `evaluate`."""
        from bert_zoo.data.by_number import numbered

        batches = numbered(self.at, self.per_epoch, self.specs, logs_shapes=True)
        batches.source = self.rows.source
        return batches

    @property
    def dataset(self) -> tf.data.Dataset | keras.utils.PyDataset:
        """Yields an epoch in each pass, starting with `order.epoch`; without TensorFlow, an endless sequence."""
        from bert_zoo.data.by_number import on_numpy, without_autotuning
        from bert_zoo.graph import has_tensorflow

        if not has_tensorflow:
            return self.endless()
        gather = on_numpy(self.rows.gather, self.specs())
        return without_autotuning(self.order.dataset().map(gather).prefetch(2))


# -------------------------------------------------------------------------------------------------
# Mixtures of several tasks: how many rows of each an epoch has, and which.
#
# Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.5.2.
# -------------------------------------------------------------------------------------------------


def mixed_rows(sizes: Sequence[int], limit: int, temperature: float) -> list[int]:
    """Number of rows of each task in an epoch, from the rows of the tasks' training data.

    A task's share is proportional to min(size, limit) ** (1 / temperature), K and T in the paper. A temperature of
    1 mixes by size; higher ones make shares more equal. An epoch has the sum of min(size, limit) rows, and each
    task at least one.
    """
    check("mixing_limit", limit, int, least=1)
    check("mixing_temperature", temperature, float, least=1)
    counted = np.minimum(sizes, limit)
    rates = counted ** (1 / temperature)
    return np.maximum(1, np.rint(counted.sum() * rates / rates.sum())).astype(int).tolist()


class MixedOrder(RowOrder):
    """Order of the rows of several tasks, with a fixed number of `rows` of each task in every epoch.

    Rows are ordered by task, of `sizes` rows each. No row of a task repeats before all others of it were used.
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
