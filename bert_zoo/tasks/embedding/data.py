"""Chooses losses for data, and checks labels."""

import logging
from typing import Any

import keras
import numpy as np

from bert_zoo.models.data_adapters import DEFAULT_BATCH_SIZE, first_batch, num_rows, yields_batches
from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.labels import LabelRange, LabelScores
from bert_zoo.tasks.embedding.losses import (
    CoSENT,
    EmbeddingLoss,
    MultipleNegativesRanking,
    PairSoftmax,
    SupervisedContrastive,
)
from bert_zoo.text.columns import as_list

log = logging.getLogger("bert_zoo")


def loss_of_data(columns: int, labels) -> EmbeddingLoss:
    """Returns the default loss for data.

    Args:
        columns: texts per row.
        labels: an array, a list, or a dataset's spec; None for none. Floats are scores, integers and names
            are classes.

    Raises:
        ValueError: no loss fits.
    """
    if labels is None:
        if columns > 1:
            return MultipleNegativesRanking()
        raise ValueError(
            "Single texts without labels cannot train vectors. Pass pairs of texts that belong together, "
            "fit((anchors, positives)); pairs with scores or classes as y; or texts with classes as y."
        )
    are_scores = kind_of(labels) == "f"
    if columns == 2:
        return CoSENT() if are_scores else PairSoftmax()
    if columns == 1 and not are_scores:
        return SupervisedContrastive()
    raise ValueError(
        f"No loss fits rows of {columns} texts with {'scores' if are_scores else 'classes'} as labels. "
        "Use scores or classes with pairs (a, b), classes with single texts, and no labels with rows of anchor, "
        "positive and negatives. For other data, compile with your own loss."
    )


def check_data(loss, columns: int, labels) -> None:
    """Raises ValueError if a loss does not fit the number of columns or the labels (None for none)."""
    if not isinstance(loss, EmbeddingLoss):
        return
    name = type(loss).__name__
    if columns != (loss.columns or max(columns, 2)):
        wanted = {None: "two texts or more", 1: "a single text", 2: "two texts"}[loss.columns]
        raise ValueError(f"{name} needs {wanted} per row, but there are {columns}.")
    if loss.in_batch_negatives and labels is not None:
        raise ValueError(
            f"{name} takes no labels: row i of the other columns belongs to row i of the first. Leave y out, or "
            "compile with a loss that takes them, such as bert_zoo.embeddings.CoSENT()."
        )
    if not loss.in_batch_negatives and labels is None:
        raise ValueError(f"{name} needs labels, but there are none. Pass them as y.")


def check_batches_of_one(loss, columns: int, x, batch_size: int | None) -> None:
    """Refuses batches of one row for a loss that compares rows, and warns of a last one.

    Args:
        loss: the loss in use.
        columns: texts per row.
        x, batch_size: as in `fit`. Of a dataset, the first batch is read.
    """
    if not isinstance(loss, EmbeddingLoss) or loss.learns_from_one_row(columns):
        return
    name = type(loss).__name__
    if yields_batches(x):
        first = first_batch(x)
        rows = size = 0 if first is None else num_rows(keras.tree.flatten(first)[0])
    else:
        rows, size = num_rows(x), batch_size or DEFAULT_BATCH_SIZE
    if min(rows, size) == 1:
        raise ValueError(
            f"{name} compares the rows of a batch, and learns nothing from batches of one row (rows: {rows}, "
            f"batch_size: {size}). Pass more rows, and a batch_size of at least 2; more are better."
        )
    if rows > size and rows % size == 1:
        log.warning(
            "%s compares the rows of a batch, and learns nothing from the last batch, as it has one row (rows: %d, "
            "batch_size: %d). Another batch_size, or one row more or less, avoids that.",
            *(name, rows, size),
        )


def kind_of(labels) -> str:
    """Returns NumPy's abbreviation for the kind of labels, such as "f" for floats."""
    of_tensorflow = getattr(getattr(labels, "dtype", None), "as_numpy_dtype", None)
    dtype = of_tensorflow or np.asarray(as_list(labels)).dtype
    return np.dtype(dtype).kind


def class_names(labels) -> tuple[str, ...]:
    """Returns the sorted names among labels in memory; empty if labels are not names."""
    if is_of_tensorflow(labels) or kind_of(labels) not in "USOT":
        return ()
    return tuple(map(str, np.unique(np.asarray(as_list(labels)).astype(str))))


def class_numbers(labels):
    """Replaces class names in memory by their numbers; returns other labels unchanged."""
    names = () if labels is None else class_names(labels)
    return np.searchsorted(names, np.asarray(as_list(labels)).astype(str)) if names else labels


class RowNumbers(LabelScores):
    """Allows labels of any kind with one number per row."""

    def is_read_by(self, loss) -> bool:
        return True

    def numbers(self, labels: Any, title: str):
        shape = getattr(labels, "shape", np.shape(labels))
        if getattr(shape, "rank", 0) is not None and tuple(shape[1:]) not in ((), (1,)):
            raise ValueError(
                f"Pass one {title} per row, of shape [batch]; got the shape {tuple(shape)}."
            )
        return super().numbers(labels, title)


class Cosines(RowNumbers):
    """Allows one number per row, from -1 to 1."""

    def numbers(self, labels: Any, title: str):
        labels = super().numbers(labels, title)
        advice = (
            "CosineRegression needs scores from -1 to 1, as cosines are. Scale them, for example scores / 5 for "
            "STS-B, or use CoSENT, which takes any scale."
        )
        if not is_of_tensorflow(labels):
            if np.any(np.abs(labels) > 1):
                raise ValueError(f"A score is {labels[np.abs(labels).argmax()]:g}, but {advice}")
            return labels
        import tensorflow as tf

        largest = tf.reduce_max(tf.abs(labels))
        with tf.control_dependencies([tf.debugging.Assert(largest <= 1, [advice, largest])]):
            return tf.identity(labels)


class PairClasses(LabelRange):
    """Allows labels of pairs that are ids or names of the pair classifier's classes."""

    def is_read_by(self, loss) -> bool:
        return True
