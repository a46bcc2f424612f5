"""Texts tokenized once into rows of ids in memory, to be batched and padded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bert_zoo.data.buckets import without_autotuning
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.numpy_packing import NumpyPacker, Slices
from bert_zoo.text.packing import Packer

# Rows tokenized together: enough work for a thread, little padding.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Rows of token ids without padding."""

    packer: Packer | NumpyPacker  # pads the rows, and padded them when they were made
    lengths: np.ndarray  # tokens of each row, int64 [rows]
    # Name -> int32 [rows, (tokens), ...], without `padding_mask`; `Slices` without TensorFlow.
    tokens: dict[str, Any]
    rows: dict[str, np.ndarray]  # name -> one value per row, [rows]
    # Name -> padding value, if it is not 0.
    padding: Mapping[str, float] = field(default_factory=dict)

    @property
    def padded_lengths(self) -> np.ndarray:
        """Width of each row when it is padded on its own, int64 [rows]."""
        lengths, kind_of_row = np.unique(self.lengths, return_inverse=True)
        widths = [int(self.packer.width(np.array([length]))) for length in lengths]
        return np.asarray(widths)[kind_of_row]

    def beside(self, columns: Mapping[str, np.ndarray], padding: float) -> "TokenTable":
        """Adds columns of one number per token, [tokens of all rows] each, with their padding value."""
        tokens = self.tokens | _ragged(dict(columns), self.lengths)
        return replace(
            self, tokens=tokens, padding={**self.padding, **dict.fromkeys(columns, padding)}
        )

    def padded(self, numbers: Any) -> dict[str, Any]:
        """The padded tokens of rows, with their padding mask; traceable.

        Args:
            numbers: row numbers, int64 [batch].

        Returns:
            dict of int32 [batch, width, ...], including `padding_mask`.
        """
        if not has_tensorflow:
            columns = {name: tokens.of_rows(numbers) for name, tokens in self.tokens.items()}
            return self.packer.pad(columns, self.padding)
        columns = {name: tf.gather(tokens, numbers) for name, tokens in self.tokens.items()}
        padded = self.packer.pad(columns, self.padding)
        static_width = self.packer.sequence_length if self.packer.padding == "fixed" else None
        for value in padded.values():
            value.set_shape([numbers.shape[0], static_width, *value.shape[2:]])
        return padded


def token_table(
    packer: Packer | NumpyPacker,
    columns: Sequence[Any],
    prepare: Callable[..., dict[str, Any]],
    padding: Mapping[str, int] | None = None,
) -> TokenTable:
    """Tokenizes on all cores, into rows in memory.

    Args:
        packer: packer of the rows that `prepare` returns.
        columns: tensors with one row per example; arrays or lists without TensorFlow.
        prepare: (numbers of some examples, their columns) -> tensors [rows, width, ...], including the
            model input `padding_mask`, and tensors [rows]; traceable.
        padding: as for `TokenTable`.
    """
    chunks = _chunks_in_graph(columns, prepare) if has_tensorflow else _chunks(columns, prepare)
    tokens, by_row, lengths = zip(*chunks, strict=True)
    lengths, by_row = np.concatenate(lengths), _joined(by_row)
    return TokenTable(packer, lengths, _ragged(_joined(tokens), lengths), by_row, padding or {})


# Tokens without padding, values per row, and the number of tokens of each row.
_Chunk = tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _ragged(flat: dict[str, np.ndarray], lengths: np.ndarray) -> dict[str, Any]:
    if not has_tensorflow:
        starts = np.cumsum(lengths) - lengths
        return {name: Slices(values, starts, lengths) for name, values in flat.items()}
    with tf.device("CPU:0"):
        return {
            name: tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
            for name, values in flat.items()
        }


def _chunks(columns: Sequence[Any], prepare: Callable) -> Iterator[_Chunk]:
    for start in range(0, len(columns[0]), CHUNK):
        some = [column[start : start + CHUNK] for column in columns]
        rows = prepare(np.arange(start, start + len(some[0])), *some)
        is_token = rows.pop("padding_mask") == 1
        tokens = {name: value[is_token] for name, value in rows.items() if value.ndim >= 2}
        by_row = {name: value for name, value in rows.items() if value.ndim == 1}
        yield tokens, by_row, np.count_nonzero(is_token, axis=1)


def _chunks_in_graph(columns: Sequence[Any], prepare: Callable) -> Iterable[_Chunk]:
    number = len(columns[0]) if not isinstance(columns[0], tf.RaggedTensor) else columns[0].nrows()

    @tf.autograph.experimental.do_not_convert
    def prepared(numbers, *columns):
        rows = dict(prepare(numbers, *columns))
        is_token = rows.pop("padding_mask") == 1
        tokens = {
            name: tf.boolean_mask(value, is_token)
            for name, value in rows.items()
            if value.shape.rank >= 2
        }
        by_row = {name: value for name, value in rows.items() if value.shape.rank == 1}
        return tokens, by_row, tf.math.count_nonzero(is_token, axis=1)

    with tf.device("CPU:0"):
        columns = (tf.range(int(number)), *columns)
        if number <= CHUNK:
            # Setting up a pipeline takes longer than tokenizing these.
            return [tf.nest.map_structure(np.asarray, prepared(*columns))]
        chunks = tf.data.Dataset.from_tensor_slices(columns).batch(CHUNK)
        chunks = chunks.map(prepared, num_parallel_calls=tf.data.AUTOTUNE)
        return list(without_autotuning(chunks).as_numpy_iterator())
