"""Texts that were tokenized once: rows of ids in memory, to be batched and padded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bert_zoo.data.buckets import without_autotuning
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.numpy_packing import NumpyPacker, Slices
from bert_zoo.text.packing import Packer

# Rows that are tokenized at once: work enough for a thread, little to pad.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Rows, each as long as its tokens."""

    packer: Packer | NumpyPacker  # pads them, as it padded them when they were made
    lengths: np.ndarray  # tokens of each row, int64 [rows]
    # Name -> int32 [rows, (tokens), ...], without `padding_mask`; the rows' starts without TensorFlow.
    tokens: dict[str, Any]
    rows: dict[str, np.ndarray]  # name -> [rows]
    # Name -> what stands after the tokens, where it is not 0.
    padding: Mapping[str, float] = field(default_factory=dict)

    @property
    def padded_lengths(self) -> np.ndarray:
        """Tokens of each row, int64 [rows], in a batch that holds it alone."""
        lengths, kind_of_row = np.unique(self.lengths, return_inverse=True)
        widths = [int(self.packer.width(np.array([length]))) for length in lengths]
        return np.asarray(widths)[kind_of_row]

    def beside(self, columns: Mapping[str, np.ndarray], padding: float) -> "TokenTable":
        """The rows with further numbers of every token, [tokens of all rows] each, and what pads them."""
        tokens = self.tokens | _ragged(dict(columns), self.lengths)
        return replace(
            self, tokens=tokens, padding={**self.padding, **dict.fromkeys(columns, padding)}
        )

    def padded(self, numbers: Any) -> dict[str, Any]:
        """The tokens of rows with their padding mask; traceable.

        Args:
            numbers: of the rows, int64 [batch].

        Returns:
            dict of int32 [batch, width, ...], `padding_mask` among them.
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
    """Tokenizes, on all cores, into rows that stay in memory.

    Args:
        packer: whose rows `prepare` gives.
        columns: tensors with one row for each example; arrays or lists without TensorFlow.
        prepare: (numbers of some examples, their columns) -> tensors [rows, width, ...], the
            `padding_mask` of a model's inputs among them, and [rows]; traceable.
        padding: as of `TokenTable`.
    """
    chunks = _chunks_in_graph(columns, prepare) if has_tensorflow else _chunks(columns, prepare)
    tokens, by_row, lengths = zip(*chunks, strict=True)
    lengths, by_row = np.concatenate(lengths), _joined(by_row)
    return TokenTable(packer, lengths, _ragged(_joined(tokens), lengths), by_row, padding or {})


# Tokens without padding, what rows have one of, and the tokens of each row.
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
            # A pipeline takes longer to set up than these do to tokenize.
            return [tf.nest.map_structure(np.asarray, prepared(*columns))]
        chunks = tf.data.Dataset.from_tensor_slices(columns).batch(CHUNK)
        chunks = chunks.map(prepared, num_parallel_calls=tf.data.AUTOTUNE)
        return list(without_autotuning(chunks).as_numpy_iterator())
