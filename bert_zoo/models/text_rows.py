"""Texts in memory as rows of ids for `fit` and `evaluate`: read once, kept for all epochs; their weights."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.batches import StoredTokens, reshape, shape, token_tables
from bert_zoo.data.batches import num_rows as rows_in
from bert_zoo.data.buckets import Rows
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.graphs import in_graph
from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.labels import (
    by_output,
    class_weights_of,
    finite_numbers,
    has_labels,
    labels_of_table,
    no_labels,
)
from bert_zoo.models.losses import weights_of_labels
from bert_zoo.text.columns import as_list, column_names
from bert_zoo.text.numpy_packing import FEW_LENGTHS

NAME = "sample_weight"


def checked_sample_weight(sample_weight):
    """The weights for Keras, by output if they are a dict; an error names the first that is not a finite number.

    A single NaN would make every weight of the model NaN.

    They are an array, a list, a column, a table of one column, or a TensorFlow tensor, which is checked when its
    graph runs.
    """

    def numbers(output: str, weights):
        if column_names(weights) is not None:
            weights = labels_of_table(weights, NAME)
        if is_of_tensorflow(weights) and hasattr(weights, "numpy"):
            weights = weights.numpy()
        return finite_numbers(as_list(weights), NAME)

    return None if sample_weight is None else by_output(numbers, sample_weight)


def aligned_weights(labels, sample_weight):
    """Weights by output if labels are, each with the axes of its labels; see `weights_of_labels`."""
    are_by_output = isinstance(labels, Mapping)
    if are_by_output and not isinstance(sample_weight, Mapping):
        sample_weight = dict.fromkeys(labels, sample_weight)
    if isinstance(sample_weight, Mapping) and set(sample_weight) != set(
        labels if are_by_output else ()
    ):
        raise ValueError(
            f"sample_weight is a dict of {sorted(sample_weight)}, but the labels are "
            f"{f'a dict of {sorted(labels)}' if are_by_output else 'one array'}. Pass one number per row."
        )
    return by_output(
        lambda name, weights: weights_of_labels(weights, labels[name] if are_by_output else labels),
        sample_weight,
    )


log = logging.getLogger("bert_zoo")

# Texts with more bytes are read again in each epoch. A token has 4 or 5 bytes, and 8 as an id with its segment.
MAX_BYTES = 2**28
# Prefix of the names of labels and weights of tokens in a table.
OTHERS = "other/"


def for_this_device(preprocessor):
    """The preprocessor; on a CPU, one that pads only to the longest text.

    On a CPU, padding costs time: minilm_l6 takes 7.4 ms for a text of 10 tokens, and 10.3 ms if it is padded
    to 16. GPUs prefer multiples of 8, and JAX compiles for each length.
    """
    if keras.backend.backend() != "tensorflow":
        return with_few_lengths(preprocessor)
    import tensorflow as tf

    on_gpu = tf.config.list_physical_devices("GPU")
    return preprocessor if on_gpu else preprocessor.with_options(bucket=1)


def with_few_lengths(preprocessor):
    """The preprocessor with padding to one of a few lengths, as JAX compiles a program for each."""
    config = preprocessor.get_config()
    is_open = not has_tensorflow and config["padding"] == "longest"
    return preprocessor.with_options(padding=FEW_LENGTHS) if is_open else preprocessor


def tables_of_texts(
    model, read: Callable, columns: Sequence[Any], padding: Mapping[str, float], one_length: bool
) -> list[StoredTokens]:
    """Reads columns of a value per row into tables of ids, in a graph that is traced once per model.

    Args:
        read: (model, columns, *, reader) -> dicts of ids, one for each table; see `in_graph`.
        columns: texts, or a tuple of texts, alone or with labels and weights.
        padding: as for `TokenTable`.
        one_length: whether to pad all batches to the same length.
    """
    reader = model.text_reader
    flat, are_pairs = _flat(columns), [isinstance(column, tuple) for column in columns]
    options = {"reader": reader, "prompts": model.prompts_in_use}

    def prepare(numbers, *flat):
        # (Without TensorFlow, columns are lists, which keras.tree would take apart.)
        parts = iter(flat)
        columns = [(next(parts), next(parts)) if pair else next(parts) for pair in are_pairs]
        return in_graph(model, read, tuple(columns), **options)

    tables = token_tables(for_this_device(reader).packer, flat, prepare, padding, reader)
    if one_length and tables[0].packer.padding != "fixed":
        tables = [replace(t, packer=t.packer.fixed_to(int(t.padded_lengths.max()))) for t in tables]
    return tables


def rows_of_texts(
    model,
    texts,
    labels=None,
    weights=None,
    *,
    class_weights: np.ndarray | None = None,
    one_length: bool = False,
) -> Rows:
    """Rows of the results of a model's `as_text_rows`, `as_text_labels` and `as_text_weights`.

    `class_weights` are as for `class_weights_of`; with `one_length`, all batches are padded to the same length.
    """
    targets = [part for part in (labels, weights) if part is not None]
    num_rows = rows_in(_flat([texts])[0])
    # Labels of words become labels of tokens where texts are read; others stay in memory as they are.
    are_read = model.reads_labels_of_words and has_labels(labels)
    columns = (texts, *targets) if are_read else (texts,)
    kept = [] if are_read else keras.tree.map_structure(np.asarray, targets)
    names = [f"{OTHERS}{place}" for place in range(len(targets) if are_read else 0)]
    padding = dict(zip(names, (IGNORED_LABEL, 0.0), strict=False)) | {"labels": IGNORED_LABEL}
    (table,) = tables_of_texts(model, _inputs_and_labels, columns, padding, one_length)
    each = len(table.lengths) // num_rows

    def gather(numbers):
        of_table = (numbers[:, None] * each + np.arange(each)).ravel()
        inputs = table.padded(of_table)
        if are_read:
            # Of tokens, in the table's inputs; or of rows.
            others = [
                inputs.pop(name) if name in inputs else table.rows[name][of_table] for name in names
            ]
        else:
            others = keras.tree.map_structure(lambda part: part[numbers], kept)
        if model.ids_rank > 2:
            inputs = {n: ids.reshape(-1, each, ids.shape[1]) for n, ids in inputs.items()}
        return with_weights(inputs, *others, class_weights=class_weights)

    lengths = each * table.padded_lengths.reshape(-1, each).max(axis=1)
    axes = table.axes if each == 1 or table.axes == 1 else 3
    return Rows(lengths, gather, axes, table.axes if are_read else 1)


def with_weights(inputs, y=None, weights=None, *, class_weights: np.ndarray | None = None) -> tuple:
    """Data for Keras, of inputs with labels and weights, if any."""
    if class_weights is not None and has_labels(y):
        return inputs, y, class_weights_of(y, class_weights, weights)
    if weights is None:
        return (inputs,) if y is None else (inputs, y)
    y = y if has_labels(y) else no_labels(inputs)
    return inputs, y, aligned_weights(y, weights)


def _inputs_and_labels(model, columns: tuple, *, reader, prompts) -> tuple[dict[str, Any]]:
    """The ids of texts, with labels and weights of tokens if these are given."""
    texts, *targets = columns
    if not targets:
        inputs = dict(model.texts_to_inputs(texts, reader))
        if len(inputs["padding_mask"].shape) > 2:
            # [batch, choices, length] as [batch * choices, length].
            inputs = {name: reshape(ids, [-1, shape(ids)[2]]) for name, ids in inputs.items()}
        return (inputs,)
    inputs, labels = model.labelled_texts_to_inputs(texts, targets[0], reader)
    parts = {**inputs, f"{OTHERS}0": labels}
    for weights in targets[1:]:
        weights = model.weights_of_text_labels(texts, weights, reader)
        if len(weights.shape) == 2 and weights.shape[1] == 1:
            weights = weights[:, 0]
        parts[f"{OTHERS}1"] = weights
    return (parts,)


def keeps_rows(model, columns: tuple) -> bool:
    """Whether texts are read once, into rows in memory; says so if there are too many."""
    if model.reads_windows:
        return False
    size = sum(map(_num_bytes, _flat(columns[:1])))
    if size > MAX_BYTES:
        log.info(
            "The texts have %d MiB. More than %d are not kept as ids, but read again in each epoch, and rows "
            "of similar length do not share batches.",
            *(size >> 20, MAX_BYTES >> 20),
        )
    return size <= MAX_BYTES


def _num_bytes(texts) -> int:
    """The bytes, or without TensorFlow the characters, of texts or lists of words."""
    if isinstance(texts, np.ndarray | list):
        return sum(len(text) if isinstance(text, str) else _num_bytes(text) for text in texts)
    import tensorflow as tf

    return int(tf.reduce_sum(tf.strings.length(getattr(texts, "flat_values", texts))))


def _flat(columns: Sequence[Any]) -> list[Any]:
    """Columns, the parts of pairs one by one."""
    return [
        part for column in columns for part in (column if isinstance(column, tuple) else (column,))
    ]
