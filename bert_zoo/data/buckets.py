"""Which rows share a batch: rows of similar length, so that padding costs little.

TensorFlow is imported by what makes a dataset alone: recipes say how rows are put into batches on
Keras's JAX backend too.
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

# Batches that are sorted together: enough for even lengths, few enough to stay random. A small data
# set has at least this many windows, or the same rows would meet in every epoch.
WINDOW = 50
MIN_WINDOWS = 4


@dataclass(frozen=True)
class Batching:
    """How rows are put into batches.

    Raises:
        ValueError: an option outside its range, or options that exclude each other.
    """

    batch_size: int = 32  # rows a batch, at most; the last one of an epoch may be smaller
    # Padded tokens a batch, at most, so that batches of long rows have fewer; None for any
    # number.
    tokens: int | None = None
    group_by_length: bool = True  # whether rows of similar length share a batch
    # Whether the rows that fill no batch are left out, others in each epoch.
    drop_remainder: bool = False
    seed: int | None = None  # of the orders; None draws one from NumPy's

    def __post_init__(self):
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; a batch has at least one row.")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}; a batch has at least one token.")
        if self.tokens is not None and self.drop_remainder:
            raise ValueError(
                "drop_remainder is for batches of one size, and a number of tokens makes batches of "
                "different sizes. Leave one of them out."
            )


class RowOrder:
    """The rows of every batch, epoch by epoch; what an epoch holds depends on its number alone.

    Grouped rows are shuffled, sorted by length within windows of up to 50 batches, and the batches
    shuffled; as `group_by_length` of Hugging Face's Trainer.

    Args:
        lengths: [N], tokens of the rows, as padded alone.
        batching: how rows are put into batches.
        texts: int [N, columns], equal for equal texts, of rows of which no batch may hold a text twice; such
            rows are not grouped by length. See `bert_zoo.data.distinct`.

    Attributes:
        epoch: the number of the epoch that `dataset` gives next. It counts on by itself; a training
            that goes on after a stop sets it.

    Raises:
        ValueError: a row is longer than a batch may be.
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
                f"A row has {longest} tokens, more than the {batching.tokens} of a batch. Allow more "
                "tokens, or shorten rows with max_length."
            )
        if texts is not None and batching.tokens is not None:
            raise ValueError(
                "The other rows of a batch are what a text is compared with, so that batches need one size. "
                "Leave tokens (tokens_per_batch) out; mini_batch_size saves memory."
            )

        self._planned = (0, 0, [])

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The row numbers of each batch of an epoch, int64 [batch]."""
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
        """Row numbers, int64 [batch]; every pass over it is an epoch."""
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
        """The row numbers of a batch, int64 [batch]: one epoch goes on where the one before ends.

        Args:
            number: of the batch; 0 is `per_epoch` batches for each epoch before `epoch` on from the first.
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
        """Batches of the first epoch; of others too, unless batches are made by tokens or of different texts."""
        return len(self.batches(0))


class Batches(NamedTuple):
    """Training data, and the order that it comes in."""

    # Of (inputs, labels), or (inputs,): a dataset in a new order in every pass; without TensorFlow one
    # epoch after another, without end.
    dataset: tf.data.Dataset | keras.utils.PyDataset
    order: RowOrder  # of its rows

    @property
    def steps_per_epoch(self) -> int | None:
        """What `fit` has to be told of data without end; None where a pass is an epoch."""
        return self.order.per_epoch if hasattr(self.dataset, "num_batches") else None

    @classmethod
    def of(cls, order: RowOrder, gather: Callable[[Any], tuple[Any, ...]]) -> Batches:
        """Batches from a traceable function of row numbers, int64 [batch], to inputs and labels."""
        from bert_zoo.graph import has_tensorflow, tf

        if not has_tensorflow:
            from bert_zoo.data.by_number import BatchesByNumber

            # Epochs of a PyDataset with an end have as many batches each as the first, and ours may differ.
            return cls(BatchesByNumber(lambda number: gather(order.at(number))), order)
        gather = tf.autograph.experimental.do_not_convert(gather)
        dataset = order.dataset().map(gather, num_parallel_calls=tf.data.AUTOTUNE)
        return cls(dataset.prefetch(tf.data.AUTOTUNE), order)


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset without autotuning: as fast, and a pass ends when its last element is read.

    Where tf.data tunes itself, a thread wakes 0.01, 0.03, 0.07, ... 10.2, 20.5 s after a pass began, and
    at last every minute. When the pass ends, more often than not, that thread misses that it was
    cancelled: the notice comes before the flag that it looks at is set (TensorFlow 2.21,
    CancellationManager::StartCancel against Model::OptimizeLoop in core/framework/model.cc). So the
    end waits for the next time it wakes: a pass of 7 s takes 10, one of 11 s takes 20. Without the
    tuner, AUTOTUNE means as many calls at once as there are threads, and buffers grow by need.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
