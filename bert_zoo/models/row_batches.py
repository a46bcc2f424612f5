"""Batches of rows in memory that are read with NumPy, for texts without TensorFlow (and so tf.data)."""

import logging
from collections.abc import Callable, Sequence

import keras
import numpy as np

from bert_zoo.data.distinct import distinct_batches
from bert_zoo.graph import has_tensorflow
from bert_zoo.text.numpy_packing import FEW_LENGTHS

log = logging.getLogger("bert_zoo")


class RowBatches(keras.utils.PyDataset):
    """Reads each batch when it is needed; JAX meanwhile continues with its steps, without a thread.

    Keras must not shuffle: batches 0, 1, ... are one pass over the rows, already in their order.

    Args:
        read: function from the numbers of a batch's rows, int64 [batch], to a tuple of NumPy arrays for
            Keras.
        passes: function that returns the batches of the next pass over all rows.
    """

    def __init__(
        self,
        read: Callable[[np.ndarray], tuple],
        passes: Callable[[], Sequence[np.ndarray]],
    ):
        super().__init__()
        self._read, self._passes = read, passes
        self._waiting = list(passes())
        self._number = len(self._waiting)
        self._last_read: int | None = None
        self._first: tuple | None = None
        self._shapes: set[tuple[int, ...]] = set()
        self._said = 0

    @property
    def num_batches(self) -> int:
        return self._number

    def __getitem__(self, index: int) -> tuple:
        is_again = index == 0 == self._last_read
        if is_again and self._first is not None:
            # Keras read it to build the model, and now starts with it.
            batch, self._first = self._first, None
            return batch
        if index == 0 and self._last_read is not None:
            # If passes have different numbers of batches, Keras's epochs continue in the next pass.
            del self._waiting[: self._number]
            while len(self._waiting) < self._number:
                self._waiting += self._passes()
        batch = self._read(self._waiting[index])
        self._first = batch if self._last_read is None else None
        self._last_read = index
        self._shapes.add(max((part.shape for part in keras.tree.flatten(batch[0])), key=len))
        return batch

    def on_epoch_end(self) -> None:
        """Logs the number of shapes if there are new ones, except for the batch that Keras reads first."""
        is_begun = self._last_read or self._number == 1
        if is_begun and len(self._shapes) > self._said:
            self._said = len(self._shapes)
            log.info(
                "A program is compiled for each shape of batches, %d so far: %s.",
                *(self._said, ", ".join("x".join(map(str, s)) for s in sorted(self._shapes))),
            )


def passes_over(
    rows: int, batch_size: int, *, shuffle: bool, texts: np.ndarray | None = None
) -> Callable[[], list[np.ndarray]]:
    """A function that returns the batches of the next pass over all rows, in a new order if shuffled.

    Args:
        texts: int [rows, columns], equal for equal texts; rows are then shuffled into batches without
            duplicate texts.
    """
    rng = np.random.default_rng(np.random.randint(2**31))

    def batches() -> list[np.ndarray]:
        if texts is not None:
            return distinct_batches(texts, batch_size, rng)
        order = rng.permutation(rows) if shuffle else np.arange(rows)
        return np.split(order, range(batch_size, rows, batch_size))

    return batches


def with_few_lengths(preprocessor):
    """The preprocessor with padding to one of a few lengths, as JAX compiles a program for each."""
    is_open = not has_tensorflow and preprocessor.get_config()["padding"] == "longest"
    return preprocessor.with_options(padding=FEW_LENGTHS) if is_open else preprocessor
