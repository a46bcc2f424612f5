"""Data for `fit` and `evaluate` whose rows have several texts that the model reads separately.

Each column becomes an input dict, and the model is called with a tuple of these.
"""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_zoo.data.batches import padded_alike
from bert_zoo.data.buckets import (
    Batches,
    Batching,
    Rows,
    say_of_frequent_texts,
    text_numbers,
)
from bert_zoo.data.by_number import without_autotuning
from bert_zoo.data.on_disk import StoredTexts
from bert_zoo.models import data_adapters
from bert_zoo.models.graphs import mapped
from bert_zoo.models.labels import checked_labels, has_labels, label_arrays, no_labels
from bert_zoo.models.text_rows import (
    checked_sample_weight,
    tables_of_texts,
    with_weights,
)

log = logging.getLogger("bert_zoo")


def split_element(x, y=None, sample_weight=None) -> tuple[Any, Any, Any]:
    """x, labels and weights: of data in memory, of a dataset's element spec, or of a PyDataset's first batch.

    Elements of a dataset may be columns, such as (anchors, positives).
    """
    if isinstance(x, Batches | keras.utils.PyDataset):
        spec = data_adapters.first_batch(x)
    elif data_adapters.is_tf_dataset(x):
        spec = x.element_spec
    else:
        return x, y, sample_weight
    if not isinstance(spec, tuple) or are_columns(spec):
        return spec, None, None
    spec, *others = spec
    others = [None if data_adapters.is_none(part) else part for part in others]
    return (spec, *others, *[None] * (2 - len(others)))


def are_columns(x) -> bool:
    """Whether data, or a dataset's spec, are columns of texts or of ids."""
    if not isinstance(x, tuple) or len(x) < 2:
        return False
    return all(isinstance(part, Mapping) or data_adapters.holds_strings(part) for part in x)


def column_arguments(
    model,
    x,
    y=None,
    sample_weight=None,
    *,
    batch_size: int | None = None,
    shuffle: bool | None = False,
    distinct: bool = False,
    class_weights=None,
) -> dict[str, Any]:
    """As `bert_zoo.models.data_adapters.keras_arguments`, for rows of several texts; y may be left out.

    Args:
        model: a model with `columns_to_inputs`, which turns columns of texts into input dicts.
        x: a tuple of columns: strings, or dicts of id arrays; or a tf.data.Dataset of batches of such
            tuples, alone or with labels (and weights), or a PyDataset of such batches of ids.
        distinct: whether no text may stand twice in a batch of shuffled texts in memory.
        class_weights: refused; classes of pairs have none.
    """
    if class_weights is not None:
        raise ValueError("class_weight is for rows of one text. Pass sample_weight.")
    if isinstance(x, Batches):
        return {"x": x}
    if data_adapters.is_tf_dataset(x):
        return {"x": _mapped(model, x)}
    if isinstance(x, keras.utils.PyDataset):
        return {"x": mapped(lambda batch: _checked_ids(model, *batch), x)}
    if all(isinstance(column, Mapping) for column in x):
        columns = tuple(data_adapters.checked_arrays(model, column) for column in x)
        _check_rows(columns, y, sample_weight)
        y, weights = label_arrays(model, columns, y), checked_sample_weight(sample_weight)
        x, y, weights = (*with_weights(columns, y, weights), None, None)[:3]
        return {"x": x, "y": y, "sample_weight": weights, "batch_size": batch_size}
    columns = _texts(x)
    _check_rows(columns, y, sample_weight)
    warn_of_odd_rows(columns, are_equal_odd=y is None)
    y, weights = label_arrays(model, columns, y), checked_sample_weight(sample_weight)
    if y is None and weights is not None:
        y = no_labels(weights)
    others = [np.asarray(part) for part in (y, weights) if part is not None]
    size = batch_size or data_adapters.DEFAULT_BATCH_SIZE
    groups = model.groups_rows and shuffle is not False
    batching = Batching(size, group_by_length=groups, shuffle=bool(shuffle))
    distinct = distinct and bool(shuffle)
    return {"x": column_batches(model, columns, *others, batching=batching, distinct=distinct)}


def column_batches(
    model, columns: tuple, *others: np.ndarray, batching: Batching, distinct: bool
) -> Batches:
    """Batches of columns of texts in memory, which are read once, with labels and weights, if any.

    With `distinct`, no text stands twice in a batch.
    """
    numbers = _numbers_of_repeated(columns, batching.batch_size) if distinct else None
    return _rows(model, columns, *others).batches(batching, numbers)


def _checked_ids(model, columns: tuple, y=None, sample_weight=None) -> tuple:
    """A batch of columns of ids with its labels and weights, if any, checked."""
    columns = tuple(data_adapters.checked_arrays(model, column) for column in columns)
    y = label_arrays(model, columns, y) if has_labels(y) else None
    return with_weights(columns, y, checked_sample_weight(sample_weight))


def _texts(columns: tuple) -> tuple:
    from bert_zoo.text.batches import text_batch

    return tuple(text_batch(texts, f"column {i}") for i, texts in enumerate(columns))


def _check_rows(columns: tuple, y, sample_weight) -> None:
    rows = [data_adapters.num_rows(column) for column in columns]
    if len(set(rows)) > 1 or rows[0] == 0:
        raise ValueError(
            f"All columns must have the same number of rows, at least one; they have {rows} rows."
        )
    data_adapters.check_rows(columns[0], y, sample_weight)


def warn_of_odd_rows(columns: tuple, *, are_equal_odd: bool) -> None:
    """Warns about rows with empty texts or, if asked, the same text twice, from which nothing is learned."""
    texts = np.stack([np.asarray(column) for column in columns], axis=1)
    blank = [[not text.strip() for text in row] for row in texts]
    _warn_of_rows(np.any(blank, axis=1), "have an empty text")
    if are_equal_odd:
        equal = [len(set(row)) < len(row) for row in texts]
        _warn_of_rows(np.array(equal), "have the same text in two columns")


def _warn_of_rows(rows: np.ndarray, what: str) -> None:
    if rows.any():
        log.warning(
            "%d of %d rows %s, the first is row %d.", rows.sum(), len(rows), what, rows.argmax()
        )


def _numbers_of_repeated(columns: tuple, size: int) -> np.ndarray | None:
    """A number for each text, int [rows, columns], if any text occurs more than once; else None."""
    numbers = text_numbers([c if isinstance(c, StoredTexts) else np.asarray(c) for c in columns])
    if len(np.unique(numbers)) == numbers.size:
        return None
    say_of_frequent_texts(numbers, size)
    return numbers


def _rows(model, columns: tuple, *others: np.ndarray) -> Rows:
    """Columns of texts with labels and weights, if any, as rows that are read once."""
    tables = tables_of_texts(model, _ids_of_columns, (*columns,), {}, one_length=False)

    def gather(numbers):
        if model.shared_columns:  # all columns have one length
            inputs = padded_alike(tables, numbers)
        else:
            inputs = tuple(table.padded(numbers) for table in tables)
        return with_weights(inputs, *(part[numbers] for part in others))

    lengths = np.sum([table.padded_lengths for table in tables], axis=0)
    return Rows(lengths, gather, tables[0].axes)


def _ids_of_columns(model, columns: tuple, *, reader, prompts) -> tuple[dict[str, Any], ...]:
    return model.columns_to_inputs(columns, reader)


def _mapped(model, dataset):
    """Adds tokenization, or checks on ids, to a dataset of batches."""
    import tensorflow as tf

    data_adapters.check_ranks(dataset)
    x, *_ = split_element(dataset)
    is_bare = are_columns(dataset.element_spec)
    reader = None
    if not isinstance(x[0], Mapping):
        data_adapters.check_text_spec(x)
        reader = model.text_reader

    # AutoGraph would needlessly rewrite all code that a batch runs through.
    @tf.autograph.experimental.do_not_convert
    def prepare(*element):
        return _prepared(model, reader, *((element,) if is_bare else element))

    dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return without_autotuning(dataset)


def _prepared(model, reader, columns: tuple, y=None, sample_weight=None) -> tuple:
    """A batch of columns, alone or with labels and weights, for Keras; traceable."""
    if isinstance(columns[0], Mapping):
        inputs = tuple(map(model.check_in_graph, columns))
    else:
        inputs = model.columns_to_inputs(columns, reader)
    y = checked_labels(model, columns, y) if has_labels(y) else None
    return with_weights(inputs, y, checked_sample_weight(sample_weight))
