"""Texts tokenized once into rows of ids in memory, to be batched and padded."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.numpy_packing import NumpyPacker, Slices
from bert_zoo.text.packing import Packer

# Rows tokenized together: enough work for a thread, little padding.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Rows of token ids without padding."""

    packer: NumpyPacker  # pads the rows
    lengths: np.ndarray  # tokens of each row, int64 [rows]
    tokens: dict[str, Slices]  # name -> numbers of each token, [tokens of all rows, ...]
    rows: dict[str, np.ndarray]  # name -> one value per row, [rows]
    # Name -> padding value, if it is not 0.
    padding: Mapping[str, float] = field(default_factory=dict)

    @property
    def axes(self) -> int:
        """Number of leading axes of padded rows whose sizes differ between batches."""
        return 1 if self.packer.padding == "fixed" else 2

    @property
    def padded_lengths(self) -> np.ndarray:
        """Width of each row when it is padded on its own, int64 [rows]."""
        lengths, kind_of_row = np.unique(self.lengths, return_inverse=True)
        widths = [int(self.packer.width(np.array([length]))) for length in lengths]
        return np.asarray(widths)[kind_of_row]

    def beside(self, columns: Mapping[str, np.ndarray], padding: float) -> "TokenTable":
        """Adds columns of one number per token, [tokens of all rows] each, with their padding value."""
        return replace(
            self,
            tokens=self.tokens | _sliced(columns, self.lengths),
            padding={**self.padding, **dict.fromkeys(columns, padding)},
        )

    def padded(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The padded tokens of rows, with their padding mask.

        Args:
            numbers: row numbers, int64 [batch].

        Returns:
            dict of int32 [batch, width, ...], including `padding_mask`.
        """
        columns = {name: tokens.of_rows(numbers) for name, tokens in self.tokens.items()}
        return self.packer.pad(columns, self.padding)


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

    def rows(*columns) -> tuple[dict[str, Any]]:
        return (prepare(*columns),)

    if has_tensorflow and num_rows(columns[0]) > CHUNK:
        rows = _in_one_graph(rows, columns)
    (table,) = token_tables(packer, columns, rows, padding)
    return table


def token_tables(
    packer: Packer | NumpyPacker,
    columns: Sequence[Any],
    prepare: Callable[..., Sequence[dict[str, Any]]],
    padding: Mapping[str, float] | None = None,
) -> list[TokenTable]:
    """As `token_table`, for several rows of each example; `prepare` is called as it is, by several threads."""
    chunks = zip(*_chunks(columns, prepare), strict=True)
    packer, padding = packer.in_numpy(), padding or {}
    return [_table(packer, [*of_table], padding) for of_table in chunks]


def num_rows(column: Any) -> int:
    """Rows of a list, an array, or a tensor, ragged or not."""
    return (
        column.shape[0] if hasattr(column, "shape") else len(column)
    )  # ragged tensors have no len


def _table(packer: NumpyPacker, chunks: list[tuple], padding: Mapping[str, float]) -> TokenTable:
    tokens, by_row, lengths = zip(*chunks, strict=True)
    lengths = np.concatenate(lengths)
    return TokenTable(packer, lengths, _sliced(_joined(tokens), lengths), _joined(by_row), padding)


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _sliced(flat: Mapping[str, np.ndarray], lengths: np.ndarray) -> dict[str, Slices]:
    starts = np.cumsum(lengths) - lengths
    return {name: Slices(values, starts, lengths) for name, values in flat.items()}


# Tokens without padding, values per row, and the number of tokens of each row.
_Chunk = tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]


def _chunks(columns: Sequence[Any], prepare: Callable) -> Iterator[list[_Chunk]]:
    """The rows of each chunk, a list for the several rows of an example."""
    number = num_rows(columns[0])

    def chunk(start: int) -> list[_Chunk]:
        some = [column[start : start + CHUNK] for column in columns]
        found = prepare(np.arange(start, min(start + CHUNK, number), dtype=np.int32), *some)
        return [_unpadded(rows) for rows in found]

    # Without TensorFlow, the tokenizer has threads of its own.
    if not has_tensorflow or number <= CHUNK:
        return map(chunk, range(0, number, CHUNK))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return iter([*pool.map(chunk, range(0, number, CHUNK))])


def _unpadded(rows: Mapping[str, Any]) -> _Chunk:
    rows = {name: np.asarray(value) for name, value in rows.items()}
    is_token = rows.pop("padding_mask") == 1
    tokens = {name: value[is_token] for name, value in rows.items() if value.ndim >= 2}
    by_row = {name: value for name, value in rows.items() if value.ndim == 1}
    return tokens, by_row, np.count_nonzero(is_token, axis=1)


def _in_one_graph(prepare: Callable, columns: Sequence[Any]) -> Callable:
    """The function as a TensorFlow graph, traced once for chunks of these columns, on the CPU."""

    def open_spec(column):
        if isinstance(column, tf.RaggedTensor):
            shape = [None, *column.shape[1:]]
            return tf.RaggedTensorSpec(
                shape, column.dtype, column.ragged_rank, column.row_splits.dtype
            )
        column = tf.convert_to_tensor(column[:1])
        return tf.TensorSpec([None, *column.shape[1:]], column.dtype)

    with tf.device("CPU:0"):
        specs = [tf.TensorSpec([None], tf.int32), *map(open_spec, columns)]
        graph = tf.function(prepare, input_signature=specs, autograph=False)
        graph.get_concrete_function()

    def run(*columns):
        with tf.device("CPU:0"):
            return graph(*columns)

    return run
