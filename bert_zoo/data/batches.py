"""Training batches of labelled texts, pairs, rows of several texts, prompts with choices, and tagged words.

Texts are tokenized once; longer ones are cut, with a warning. Each function returns `Batches` of
(inputs, labels) for a model with this preprocessor.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.buckets import Batches, Batching, RowOrder, Rows
from bert_zoo.data.on_disk import (
    SlicesOfParts,
    StoredTexts,
    TokensOfRows,
    tables_in_parts,
)
from bert_zoo.data.tagging import TaggedSplit
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.batches import text_batch
from bert_zoo.text.numpy_packing import NumpyPacker, Slices
from bert_zoo.text.preprocessor import Packer, Preprocessor, pack_words, token_labels, word_batch

# -------------------------------------------------------------------------------------------------
# Functions of texts and ids that are traced into a graph on TensorFlow, and of NumPy arrays.
# -------------------------------------------------------------------------------------------------

if has_tensorflow:
    reshape, shape, split = tf.reshape, tf.shape, tf.split
    repeat, stack, tile = tf.repeat, tf.stack, tf.tile
else:
    reshape, shape, split = np.reshape, np.shape, np.split
    repeat, stack, tile = np.repeat, np.stack, np.tile


def concat(parts: Any, axis: int) -> Any:
    is_numpy = not has_tensorflow or isinstance(parts[0], np.ndarray)
    return (np.concatenate if is_numpy else tf.concat)(parts, axis)


def where(condition: Any, of_true: Any, of_false: Any) -> Any:
    is_numpy = not has_tensorflow or isinstance(condition, np.ndarray)
    return (np.where if is_numpy else tf.where)(condition, of_true, of_false)


# -------------------------------------------------------------------------------------------------
# Texts tokenized once into rows of ids in memory or on disk, to be batched and padded.
# -------------------------------------------------------------------------------------------------

# Rows tokenized together: enough work for a thread, little padding.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class StoredTokens:
    """Rows of token ids without padding."""

    packer: NumpyPacker  # pads the rows
    lengths: np.ndarray  # tokens of each row, int64 [rows]
    # Name -> numbers of each token, [tokens of all rows, ...].
    tokens: dict[str, Slices | SlicesOfParts]
    rows: dict[str, np.ndarray]  # name -> one value per row, [rows]
    padding: Mapping[str, float] = field(default_factory=dict)  # by name, where it is not 0

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

    def with_columns(self, columns: Mapping[str, np.ndarray], padding: float) -> "StoredTokens":
        """Adds columns of one number per token, [tokens of all rows] each, with their padding value."""
        return replace(
            self,
            tokens=self.tokens | _sliced(columns, self.lengths),
            padding={**self.padding, **dict.fromkeys(columns, padding)},
        )

    def padded(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The padded tokens of rows numbered int64 [batch], int32 [batch, width, ...] by name, with `padding_mask`."""
        columns = {name: tokens.of_rows(numbers) for name, tokens in self.tokens.items()}
        return self.packer.pad(columns, self.padding)


def padded_alike(tables: Sequence[StoredTokens], numbers: np.ndarray) -> tuple[dict, ...]:
    """The padded tokens of the same rows of several tables, all of one width."""
    inputs = [table.padded(numbers) for table in tables]
    width = max(ids["padding_mask"].shape[1] for ids in inputs)
    return tuple(t.packer.widened(ids, width, {}) for t, ids in zip(tables, inputs, strict=True))


def token_table(
    packer: Packer | NumpyPacker,
    columns: Sequence[Any],
    prepare: Callable[..., dict[str, Any]],
    padding: Mapping[str, int] | None = None,
    reader: Any = None,
) -> StoredTokens:
    """Tokenizes columns with one row per example on all cores, into rows in memory; of `StoredTexts`, into files.

    `prepare` is traceable: (numbers of some examples, their columns) -> tensors [rows, width, ...], including the
    model input `padding_mask`, and tensors [rows]. `padding` is that of `StoredTokens`, `reader` the preprocessor
    of stored texts.
    """

    def rows(*columns) -> tuple[dict[str, Any]]:
        return (prepare(*columns),)

    if has_tensorflow and num_rows(columns[0]) > CHUNK:
        rows = _in_one_graph(rows, columns)
    (table,) = token_tables(packer, columns, rows, padding, reader)
    return table


def token_tables(
    packer: Packer | NumpyPacker,
    columns: Sequence[Any],
    prepare: Callable[..., Sequence[dict[str, Any]]],
    padding: Mapping[str, float] | None = None,
    reader: Any = None,
) -> list[StoredTokens]:
    """As `token_table`, for several rows of each example; `prepare` is called as it is, by several threads."""

    def read(first: int, end: int) -> list[TokensOfRows]:
        def chunk(start: int) -> list[tuple]:
            stop = min(start + CHUNK, end)
            some = [column[start:stop] for column in columns]
            found = prepare(np.arange(start, stop, dtype=np.int32), *some)
            return [_unpadded(rows) for rows in found]

        chunks = map(chunk, range(first, end, CHUNK))
        # Without TensorFlow, the tokenizer has threads of its own.
        if has_tensorflow and end - first > CHUNK:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                chunks = [*pool.map(chunk, range(first, end, CHUNK))]
        tables = (zip(*of_table, strict=True) for of_table in zip(*chunks, strict=True))
        return [
            TokensOfRows(_joined(tokens), _joined(by_row), np.concatenate(lengths))
            for tokens, by_row, lengths in tables
        ]

    if isinstance(columns[0], StoredTexts):
        made_by = [reader.get_config(), reader.tokenizer.digest()]
        tables = tables_in_parts(columns, made_by, read, CHUNK)
    else:
        tables = [
            table._replace(tokens=_sliced(table.tokens, table.lengths))
            for table in read(0, num_rows(columns[0]))
        ]
    packer, padding = packer.in_numpy(), padding or {}
    return [StoredTokens(packer, t.lengths, t.tokens, t.rows, padding) for t in tables]


def num_rows(column: Any) -> int:
    # Ragged tensors have no len.
    return column.shape[0] if hasattr(column, "shape") else len(column)


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _sliced(flat: Mapping[str, np.ndarray], lengths: np.ndarray) -> dict[str, Slices]:
    starts = np.cumsum(lengths) - lengths
    return {name: Slices(values, starts, lengths) for name, values in flat.items()}


def _unpadded(rows: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Any]:
    """Tokens without padding, values per row, and the number of tokens of each row."""
    rows = {name: np.asarray(value) for name, value in rows.items()}
    is_token = rows.pop("padding_mask") == 1
    tokens = {name: value[is_token] for name, value in rows.items() if value.ndim >= 2}
    by_row = {name: value for name, value in rows.items() if value.ndim == 1}
    return tokens, by_row, np.count_nonzero(is_token, axis=1)


def _in_one_graph(prepare: Callable, columns: Sequence[Any]) -> Callable:
    """The function as a TensorFlow graph, traced once for chunks of these columns, on the CPU."""
    with tf.device("CPU:0"):
        # A dataset's spec leaves the number of rows open.
        first = tf.data.Dataset.from_tensor_slices(tuple(column[:1] for column in columns))
        specs = [tf.TensorSpec([None], tf.int32), *first.batch(1).element_spec]
        graph = tf.function(prepare, input_signature=specs, autograph=False)
        graph.get_concrete_function()

    def run(*columns):
        with tf.device("CPU:0"):
            return graph(*columns)

    return run


Texts = Sequence[str] | tuple[Sequence[str], Sequence[str]]


def text_table(texts: Texts, preprocessor: Preprocessor) -> StoredTokens:
    columns = texts if isinstance(texts, tuple) else (texts,)

    def packed(numbers, *columns):
        return preprocessor(columns if len(columns) > 1 else columns[0])

    columns = [c if isinstance(c, StoredTexts) else text_batch(c) for c in columns]
    return token_table(preprocessor.packer, columns, packed, reader=preprocessor)


def text_batches(
    texts: Texts, labels: Sequence[float], preprocessor: Preprocessor, batching: Batching
) -> Batches:
    """Batches of (inputs, int32 [batch, width] each, labels [batch] or [batch, classes]) of texts [N] or pairs."""
    table, labels = text_table(texts, preprocessor), np.asarray(labels)

    def batch(numbers):
        return table.padded(numbers), labels[numbers]

    return Rows(table.padded_lengths, batch, axes=table.axes).batches(batching)


def text_to_text_batches(
    sources: Sequence[str],
    targets: Sequence[str],
    model: Any,
    batching: Batching,
    order: Callable[[np.ndarray, Batching], RowOrder] = RowOrder,
) -> Batches:
    """Batches of (inputs, int32 [batch, width] each, labels [batch, target width]) for a `TextToText` model.

    `order` makes the order of the pairs from the tokens of each and `batching`.
    """
    source, target = (text_table(texts, model.preprocessor) for texts in (sources, targets))

    def batch(numbers):
        return model.labelled_rows(source.padded(numbers), target.padded(numbers))

    lengths = source.padded_lengths + target.padded_lengths
    rows = Rows(lengths, batch, axes=source.axes, label_axes=target.axes)
    return Batches(rows, order(lengths, batching))


def list_batches(
    queries: Sequence[str],
    documents: Sequence[Sequence[str]],
    labels: Sequence[float] | None,
    preprocessor: Preprocessor,
    batching: Batching,
) -> Batches:
    """Batches of queries [N] paired with each column of documents [N], the right ones first.

    They are a tuple of inputs, int32 [batch, width] each, one for each column of documents; and labels, if any, float32
    [batch].
    """
    count, labels = len(documents), () if labels is None else (np.asarray(labels, np.float32),)
    tables = [text_table((queries, column), preprocessor) for column in documents]
    longest = np.max([table.padded_lengths for table in tables], axis=0)

    def batch(numbers):
        return (padded_alike(tables, numbers), *(column[numbers] for column in labels))

    return Rows(count * longest, batch, axes=tables[0].axes).batches(batching)


def choice_batches(
    prompts: Sequence[str],
    choices: Sequence[Sequence[str]],
    labels: Sequence[int],
    preprocessor: Preprocessor,
    batching: Batching,
) -> Batches:
    """Batches of prompts [N] with choices [N][choices] and the index of the right one [N].

    They are (inputs, int32 [batch, choices, width] each, labels [batch]).

    Raises:
        ValueError: prompts have different numbers of choices.
    """
    counts = sorted({len(some) for some in choices})
    if len(counts) != 1:
        raise ValueError(f"Every prompt needs the same number of choices; there are {counts}.")
    (count,) = counts
    pairs = ([p for p in prompts for _ in range(count)], [c for some in choices for c in some])
    table = text_table(pairs, preprocessor)
    labels = np.asarray(labels)
    longest = table.padded_lengths.reshape(-1, count).max(axis=1)

    def batch(numbers):
        flat = table.padded((numbers[:, None] * count + np.arange(count)).ravel())
        inputs = {n: value.reshape(-1, count, value.shape[1]) for n, value in flat.items()}
        return inputs, labels[numbers]

    return Rows(count * longest, batch, axes=1 if table.axes == 1 else 3).batches(batching)


def tagged_batches(
    split: TaggedSplit,
    preprocessor: Preprocessor,
    batching: Batching,
    targets: np.ndarray | None = None,
) -> Batches:
    """Batches of (inputs, labels), int32 [batch, width] each, to train a `TokenClassifier`.

    A word's first piece has its label, other tokens have -100. Targets [words of all sentences, size] replace the
    labels, float32 [batch, width, size], with zeros for other tokens.

    Raises:
        ValueError: the split has no labels.
    """
    labels = split.labels
    if targets is not None:
        # Words are numbered from 1; row 0 is for other tokens.
        ends = np.cumsum([*map(len, split.words)])
        labels = np.split(np.arange(1, ends[-1] + 1, dtype=np.int32), ends[:-1])
        targets = np.pad(targets, [(1, 0), (0, 0)])
    if labels is None:
        raise ValueError(
            "The split has words without tags. Read the file with its tag column to train."
        )
    if has_tensorflow:
        labels = tf.ragged.constant(labels, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)
    columns = word_batch(split.words), labels

    def packed(numbers, words, labels):
        sentences = pack_words(words, preprocessor)
        return {**sentences.inputs, "labels": token_labels(labels, sentences, words)}

    padding = {"labels": IGNORED_LABEL}
    table = token_table(preprocessor.packer, columns, packed, padding)

    def batch(numbers):
        inputs = table.padded(numbers)
        labels = inputs.pop("labels")
        return inputs, labels if targets is None else targets[np.maximum(labels, 0)]

    return Rows(table.padded_lengths, batch, axes=table.axes, label_axes=table.axes).batches(
        batching
    )
