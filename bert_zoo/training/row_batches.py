"""Rows of a text for language models that remember nothing from one to the next."""

import functools

import numpy as np
import tensorflow as tf

from bert_zoo.training.hidden_tokens import run_numpy


class RowBatches:
    """Rows of a stream by number, all as long, in another order each pass, so that a training goes on
    anywhere.

    Tokens of the stream's end that fill no row, and the rows of a pass that fill no batch, are left out;
    each pass leaves out other rows.

    Args:
        token_ids: integers [tokens].
        batch_size: rows.
        row_length: tokens of a row, each of which but a row's first is a label; and the one behind it.
        seed: of the orders.

    Attributes:
        per_pass, tokens: as of `StreamBatches`.

    Raises:
        ValueError: the stream has fewer rows than a batch.
    """

    starts = ()

    def __init__(self, token_ids: np.ndarray, batch_size: int, row_length: int, seed: int):
        self.token_ids, self.batch_size, self.row_length = token_ids, batch_size, row_length
        self.num_rows, self.seed = (len(token_ids) - 1) // row_length, seed
        self.per_pass = self.num_rows // batch_size
        self.tokens = float(batch_size * row_length)
        if not self.per_pass:
            raise ValueError(
                f"The text has {self.num_rows:,} rows of {row_length} tokens, and a batch has "
                f"{batch_size}. Choose shorter rows or a smaller batch_size, or bring more text."
            )
        self._order = functools.lru_cache(maxsize=2)(self._order_of)

    def _order_of(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.num_rows)

    def at(self, number: int) -> dict[str, np.ndarray]:
        """A batch: `token_ids` and `labels` int32 [batch_size, row_length]."""
        epoch, step = divmod(int(number), self.per_pass)
        rows = self._order(epoch)[step * self.batch_size : (step + 1) * self.batch_size]
        places = rows[:, None] * self.row_length + np.arange(self.row_length + 1)
        tokens = self.token_ids[places].astype(np.int32)
        return {"token_ids": tokens[:, :-1], "labels": tokens[:, 1:]}

    def dataset(self, first: int, end: int) -> tf.data.Dataset:
        """The batches from `first` to before `end`, of static shapes."""
        spec = tf.TensorSpec([self.batch_size, self.row_length], tf.int32)
        specs = {"token_ids": spec, "labels": spec}

        def batch(number):
            return run_numpy(self.at, [number], specs)

        return tf.data.Dataset.range(first, end).map(batch).prefetch(tf.data.AUTOTUNE)
