"""Puts rows of similar length into a batch, to save padding.

Only functions that make a dataset import TensorFlow, as recipes also use `Batching` on Keras's JAX backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_zoo.data.distinct import distinct_batches

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Batches that are sorted together: enough for even lengths, few enough to stay random. Small data sets have
# at least MIN_WINDOWS windows, or the same rows would share a batch in every epoch.
WINDOW = 50
MIN_WINDOWS = 4


@dataclass(frozen=True)
class Batching:
    """Settings for putting rows into batches.

    Attributes:
        batch_size: largest number of rows per batch; an epoch's last batch may be smaller.
        tokens: largest number of padded tokens per batch, so that batches of long rows have fewer rows; None
            for no limit.
        group_by_length: whether rows of similar length share a batch.
        drop_remainder: whether to leave out rows that do not fill a batch, other rows in each epoch.
        seed: seed of the order; None draws one from NumPy.

    Raises:
        ValueError: an option is outside its range, or options exclude each other.
    """

    batch_size: int = 32
    tokens: int | None = None
    group_by_length: bool = True
    drop_remainder: bool = False
    seed: int | None = None

    def __post_init__(self):
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1.")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}; it must be at least 1.")
        if self.tokens is not None and self.drop_remainder:
            raise ValueError(
                "drop_remainder needs batches of one size, but a limit of tokens makes batches of "
                "different sizes. Leave one of them out."
            )


class RowOrder:
    """The rows of every batch, epoch by epoch. An epoch depends only on its number and the seed.

    With `group_by_length`, rows are shuffled and sorted by length within windows of up to 50 batches, and the
    batches are shuffled, as `group_by_length` in Hugging Face's Trainer.

    Args:
        lengths: [N], tokens of each row, padded on its own.
        batching: settings for batches.
        texts: int [N, columns], equal for equal texts. If given, no batch has a text twice, and rows are not
            grouped by length. See `bert_zoo.data.distinct`.

    Attributes:
        epoch: number of the epoch that `dataset` yields next. It increases by itself; a resumed training
            sets it.

    Raises:
        ValueError: a row has more tokens than a batch may have, or `texts` and a limit of tokens are both set.
    """

    def __init__(self, lengths: Sequence[int], batching: Batching, texts: np.ndarray | None = None):
        self.lengths = np.asarray(lengths)
        self.batching = batching
        self.texts = texts
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

        self._planned = (0, 0, [])

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Row numbers of each batch of an epoch, int64 [batch]."""
        rng = np.random.default_rng([self._seed, epoch])
        if self.texts is not None:
            found = distinct_batches(self.texts, self.batching.batch_size, rng)
        else:
            found = list(self._cut(self._rows(epoch, rng)))
            if self.batching.group_by_length:
                found = [found[i] for i in rng.permutation(len(found))]
        if self.batching.drop_remainder:
            found = [batch for batch in found if len(batch) == self.batching.batch_size]
        return found

    def _rows(self, epoch: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of an epoch in a random order."""
        return rng.permutation(len(self.lengths))

    def _cut(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        for window in self._windows(rows):
            if self.batching.tokens is None:
                size = self.batching.batch_size
                yield from (window[start : start + size] for start in range(0, len(window), size))
            else:
                yield from self._cut_by_tokens(window)

    def _windows(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        if not self.batching.group_by_length:
            yield rows
            return
        size = self.batching.batch_size
        # Each window but the last has whole batches.
        width = max(1, min(WINDOW, len(rows) // (MIN_WINDOWS * size))) * size
        for start in range(0, len(rows), width):
            window = rows[start : start + width]
            yield window[np.argsort(self.lengths[window], kind="stable")]

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
        """Row numbers of a batch, int64 [batch]; epochs follow each other.

        Args:
            number: number of the batch, counted from the start of `epoch`.
        """
        number += self.epoch * self.per_epoch
        epoch, start, found = self._planned
        if number < start:
            epoch, start, found = 0, 0, []
        while number >= start + len(found):
            start += len(found)
            found, epoch = self.batches(epoch), epoch + 1
        self._planned = (epoch, start, found)
        return found[number - start]

    @cached_property
    def per_epoch(self) -> int:
        """Batches in the first epoch. Other epochs may differ with a limit of tokens or with `texts`."""
        return len(self.batches(0))


class Batches(NamedTuple):
    """Training data and the order of its rows.

    Attributes:
        dataset: yields (inputs, labels) or (inputs,), in a new order in every pass; without TensorFlow, an
            endless sequence of epochs.
        order: order of the rows.
    """

    dataset: tf.data.Dataset | keras.utils.PyDataset
    order: RowOrder

    @property
    def steps_per_epoch(self) -> int | None:
        """Argument of `fit` for endless data; None if a pass is an epoch."""
        return self.order.per_epoch if hasattr(self.dataset, "num_batches") else None

    @classmethod
    def of(cls, order: RowOrder, gather: Callable[[Any], tuple[Any, ...]]) -> Batches:
        """Makes batches with a traceable function from row numbers, int64 [batch], to inputs and labels."""
        from bert_zoo.graph import has_tensorflow, tf

        if not has_tensorflow:
            from bert_zoo.data.by_number import BatchesByNumber

            # A finite PyDataset has the same number of batches in every epoch; ours may differ.
            return cls(BatchesByNumber(lambda number: gather(order.at(number))), order)
        gather = tf.autograph.experimental.do_not_convert(gather)
        dataset = order.dataset().map(gather, num_parallel_calls=tf.data.AUTOTUNE)
        return cls(dataset.prefetch(tf.data.AUTOTUNE), order)


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turns autotuning off: as fast, and a pass ends as soon as its last element is read.

    tf.data's tuner is a thread that wakes 0.01, 0.03, 0.07, ... 10.2, 20.5 s after the start of a pass, and
    later every minute. At the end of a pass it usually misses its cancellation, as the notification comes
    before the flag is set that it checks (TensorFlow 2.21, CancellationManager::StartCancel against
    Model::OptimizeLoop in core/framework/model.cc). The pass then ends only when the thread wakes again: one
    of 7 s takes 10, one of 11 s takes 20. Without the tuner, AUTOTUNE means as many parallel calls as
    threads, and buffers grow as needed.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
