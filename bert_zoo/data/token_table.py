"""Texts that were tokenized once: rows of ids in memory, to be batched and padded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from bert_zoo.data.buckets import without_autotuning
from bert_zoo.text.packing import Packer

# Rows that are tokenized at once: work enough for a thread, little to pad.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Rows, each as long as its tokens."""

    packer: Packer  # pads them, as it padded them when they were made
    tokens: dict[str, tf.RaggedTensor]  # name -> int32 [rows, (tokens)], without `padding_mask`
    rows: dict[str, np.ndarray]  # name -> [rows]
    # Name -> what stands after the tokens, where it is not 0.
    padding: Mapping[str, int] = field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int64 [rows]."""
        return np.diff(self.tokens["token_ids"].row_splits.numpy())

    @property
    def padded_lengths(self) -> np.ndarray:
        """Tokens of each row, int64 [rows], in a batch that holds it alone."""
        lengths, kind_of_row = np.unique(self.lengths, return_inverse=True)
        return np.asarray([int(self.packer.width([length])) for length in lengths])[kind_of_row]

    def padded(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        """The tokens of rows with their padding mask; traceable.

        Args:
            numbers: of the rows, int64 [batch].

        Returns:
            dict of int32 [batch, width], `padding_mask` among them.
        """
        columns = {name: tf.gather(tokens, numbers) for name, tokens in self.tokens.items()}
        padded = self.packer.pad(columns, self.padding)
        static_width = self.packer.sequence_length if self.packer.padding == "fixed" else None
        for value in padded.values():
            value.set_shape([numbers.shape[0], static_width])
        return padded


def token_table(
    packer: Packer,
    columns: Sequence[Any],
    prepare: Callable[..., dict[str, tf.Tensor]],
    padding: Mapping[str, int] | None = None,
) -> TokenTable:
    """Tokenizes, on all cores, into rows that stay in memory.

    Args:
        packer: whose rows `prepare` gives.
        columns: tensors with one row for each example.
        prepare: (numbers of some examples, their columns) -> tensors [rows, width], the
            `padding_mask` of a model's inputs among them, and [rows]; traceable.
        padding: as of `TokenTable`.
    """
    number = len(columns[0]) if not isinstance(columns[0], tf.RaggedTensor) else columns[0].nrows()

    @tf.autograph.experimental.do_not_convert
    def prepared(numbers, *columns):
        """Tokens without padding, what rows have one of, and the tokens of each row."""
        rows = dict(prepare(numbers, *columns))
        is_token = rows.pop("padding_mask") == 1
        tokens = {
            name: tf.boolean_mask(value, is_token)
            for name, value in rows.items()
            if value.shape.rank == 2
        }
        by_row = {name: value for name, value in rows.items() if value.shape.rank == 1}
        return tokens, by_row, tf.math.count_nonzero(is_token, axis=1)

    with tf.device("CPU:0"):
        columns = (tf.range(int(number)), *columns)
        if number <= CHUNK:
            # A pipeline takes longer to set up than these do to tokenize.
            chunks = [tf.nest.map_structure(np.asarray, prepared(*columns))]
        else:
            chunks = tf.data.Dataset.from_tensor_slices(columns).batch(CHUNK)
            chunks = chunks.map(prepared, num_parallel_calls=tf.data.AUTOTUNE)
            chunks = without_autotuning(chunks).as_numpy_iterator()
        flat, by_row, lengths = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *chunks)
        tokens = {
            name: tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
            for name, values in flat.items()
        }
    return TokenTable(packer, tokens, by_row, padding or {})
