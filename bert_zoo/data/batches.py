"""Training batches of labelled texts, pairs, rows of several texts, prompts with choices, and tagged words.

Texts are tokenized once; longer ones are cut, with a warning. Each function returns `Batches` of
(inputs, labels) for a model with this preprocessor.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.buckets import Batches, Batching, RowOrder, Rows
from bert_zoo.data.distinct import text_numbers
from bert_zoo.data.tagging import TaggedSplit
from bert_zoo.data.token_table import TokenTable, token_table
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.batches import text_batch
from bert_zoo.text.preprocessor import Preprocessor
from bert_zoo.text.words import pack_words, token_labels, word_batch

Texts = Sequence[str] | tuple[Sequence[str], Sequence[str]]


def text_table(texts: Texts, preprocessor: Preprocessor) -> TokenTable:
    """Tokenizes texts or pairs as model inputs; see `TokenTable`."""
    columns = texts if isinstance(texts, tuple) else (texts,)

    def packed(numbers, *columns):
        return preprocessor(columns if len(columns) > 1 else columns[0])

    return token_table(preprocessor.packer, [*map(text_batch, columns)], packed)


def text_batches(
    texts: Texts, labels: Sequence[float], preprocessor: Preprocessor, batching: Batching
) -> Batches:
    """Batches to train a classification or regression model.

    Args:
        texts: strings [N], or a pair of lists of strings.
        labels: numbers [N], or [N, classes].
        preprocessor: of the model.
        batching: its rows are texts or pairs.

    Returns:
        Batches of (inputs, int32 [batch, width] each, labels [batch] or [batch, classes]).
    """
    table, labels = text_table(texts, preprocessor), np.asarray(labels)

    def batch(numbers):
        return table.padded(numbers), labels[numbers]

    rows = Rows(table.padded_lengths, batch, axes=table.axes)
    return Batches(rows, RowOrder(rows.lengths, batching))


def text_to_text_batches(
    sources: Sequence[str],
    targets: Sequence[str],
    model: Any,
    batching: Batching,
    order: Callable[[np.ndarray, Batching], RowOrder] = RowOrder,
) -> Batches:
    """Batches to train a `TextToText` model.

    Args:
        sources, targets: strings, [N] each.
        model: the model to train, whose preprocessor reads both.
        batching: its rows are pairs.
        order: (tokens of each pair, batching) -> order of the pairs.

    Returns:
        Batches of (inputs, int32 [batch, width] each, labels [batch, target width]).
    """
    source, target = (text_table(texts, model.preprocessor) for texts in (sources, targets))

    def batch(numbers):
        return model.labelled_rows(source.padded(numbers), target.padded(numbers))

    lengths = source.padded_lengths + target.padded_lengths
    rows = Rows(lengths, batch, axes=source.axes, label_axes=target.axes)
    return Batches(rows, order(lengths, batching))


def column_batches(
    columns: Sequence[Sequence[str]],
    labels: Sequence[float] | None,
    preprocessor: Preprocessor,
    batching: Batching,
    *,
    distinct: bool,
) -> Batches:
    """Batches of rows of several texts that a model reads separately.

    Args:
        columns: strings, [N] each.
        labels: numbers [N], or None.
        preprocessor: of the model.
        batching: its rows are rows of the columns.
        distinct: whether each text may occur only once in a batch.

    Returns:
        Batches of a tuple of inputs, int32 [batch, width] each, one for each column; and labels, if any,
        float32 [batch].
    """
    tables = [text_table(column, preprocessor) for column in columns]
    lengths = np.sum([table.padded_lengths for table in tables], axis=0)
    labels = () if labels is None else (np.asarray(labels, np.float32),)

    def batch(numbers):
        inputs = tuple(table.padded(numbers) for table in tables)
        return (inputs, *(column[numbers] for column in labels))

    texts = text_numbers(columns) if distinct else None
    rows = Rows(lengths, batch, axes=tables[0].axes)
    return Batches(rows, RowOrder(lengths, batching, texts))


def list_batches(
    queries: Sequence[str],
    documents: Sequence[Sequence[str]],
    labels: Sequence[float] | None,
    preprocessor: Preprocessor,
    batching: Batching,
) -> Batches:
    """Batches of queries with several documents, to train a reranker.

    Args:
        queries: strings [N].
        documents: columns of strings [N], the right documents first.
        labels, preprocessor, batching: as for `column_batches`.

    Returns:
        As `column_batches`: inputs of the same width for each column of documents, paired with the queries.
    """
    count, labels = len(documents), () if labels is None else (np.asarray(labels, np.float32),)
    table = text_table(([*queries] * count, [*chain.from_iterable(documents)]), preprocessor)
    longest = table.padded_lengths.reshape(count, -1).max(axis=0)

    def batch(numbers):
        of_columns = np.concatenate([numbers + i * len(queries) for i in range(count)])
        divided = {n: np.split(value, count) for n, value in table.padded(of_columns).items()}
        inputs = tuple({name: parts[i] for name, parts in divided.items()} for i in range(count))
        return (inputs, *(column[numbers] for column in labels))

    rows = Rows(count * longest, batch, axes=table.axes)
    return Batches(rows, RowOrder(rows.lengths, batching))


def choice_batches(
    prompts: Sequence[str],
    choices: Sequence[Sequence[str]],
    labels: Sequence[int],
    preprocessor: Preprocessor,
    batching: Batching,
) -> Batches:
    """Batches to train a multiple-choice model.

    Args:
        prompts: strings [N].
        choices: strings [N][choices], the same number for each prompt.
        labels: index of the right choice [N].
        preprocessor, batching: as for `text_batches`; rows are prompts with all their choices.

    Returns:
        Batches of (inputs, int32 [batch, choices, width] each, labels [batch]).

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

    rows = Rows(count * longest, batch, axes=1 if table.axes == 1 else 3)
    return Batches(rows, RowOrder(rows.lengths, batching))


def tagged_batches(
    split: TaggedSplit,
    preprocessor: Preprocessor,
    batching: Batching,
    targets: np.ndarray | None = None,
) -> Batches:
    """Batches to train a `TokenClassifier`.

    Args:
        split: sentences with labels.
        preprocessor, batching: as for `text_batches`; rows are sentences.
        targets: [words of all sentences, size], used instead of labels.

    Returns:
        Batches of (inputs, labels), int32 [batch, width] each: a word's first piece has its label, other
        tokens have -100. Targets replace the labels, float32 [batch, width, size], with zeros for other
        tokens.

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

    rows = Rows(table.padded_lengths, batch, axes=table.axes, label_axes=table.axes)
    return Batches(rows, RowOrder(rows.lengths, batching))
