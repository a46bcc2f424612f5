"""Which loss fits which data, and what labels may be."""

from typing import Any

import numpy as np

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


def loss_of_data(columns: int, labels) -> EmbeddingLoss:
    """The loss for rows of so many texts with such labels.

    Args:
        columns: texts of a row.
        labels: an array, a list, or a dataset's spec of them; None for none. Floats are scores; integers
            and names are classes.

    Raises:
        ValueError: no loss fits.
    """
    if labels is None:
        if columns > 1:
            return MultipleNegativesRanking()
        raise ValueError(
            "Single texts without labels say nothing about vectors. Pass pairs of texts that belong together, "
            "fit((anchors, positives)); pairs with scores or classes; or texts with classes, as y."
        )
    are_scores = kind_of(labels) == "f"
    if columns == 2:
        return CoSENT() if are_scores else PairSoftmax()
    if columns == 1 and not are_scores:
        return SupervisedContrastive()
    raise ValueError(
        f"No loss fits rows of {columns} texts with {'scores' if are_scores else 'classes'} as labels. "
        "Scores and classes are of pairs, (a, b), classes of single texts too; rows of anchor, positive and "
        "negatives have no labels. Compile with a loss of your own for others."
    )


def check_data(loss, columns: int, labels) -> None:
    """Raises ValueError where a loss does not read rows of so many texts with such labels, or without (None)."""
    if not isinstance(loss, EmbeddingLoss):
        return
    name = type(loss).__name__
    if columns != (loss.columns or max(columns, 2)):
        wanted = {None: "two texts or more", 1: "a single text", 2: "two texts"}[loss.columns]
        raise ValueError(f"{name} reads {wanted} a row; there are {columns}.")
    if loss.in_batch_negatives and labels is not None:
        raise ValueError(
            f"{name} reads no labels: row i of the other columns belongs to row i of the first. Leave y out, or "
            "compile with a loss that reads them, such as bert_zoo.embeddings.CoSENT()."
        )
    if not loss.in_batch_negatives and labels is None:
        raise ValueError(f"{name} reads labels, and there are none. Pass them as y.")


def kind_of(labels) -> str:
    """The kind of labels' dtype, as NumPy abbreviates it: "f" for floats."""
    of_tensorflow = getattr(getattr(labels, "dtype", None), "as_numpy_dtype", None)
    dtype = of_tensorflow or np.asarray(as_list(labels)).dtype
    return np.dtype(dtype).kind


def class_names(labels) -> tuple[str, ...]:
    """The names that labels in memory are, sorted; empty where they are none."""
    if is_of_tensorflow(labels) or kind_of(labels) not in "USOT":
        return ()
    return tuple(map(str, np.unique(np.asarray(as_list(labels)).astype(str))))


def class_numbers(labels):
    """Names of classes in memory as their numbers among all names; other labels as they are."""
    names = () if labels is None else class_names(labels)
    return np.searchsorted(names, np.asarray(as_list(labels)).astype(str)) if names else labels


class RowNumbers(LabelScores):
    """What labels may be that are one number a row, of any kind."""

    def is_read_by(self, loss) -> bool:
        return True

    def numbers(self, labels: Any, title: str):
        shape = getattr(labels, "shape", np.shape(labels))
        if getattr(shape, "rank", 0) is not None and tuple(shape[1:]) not in ((), (1,)):
            raise ValueError(f"A row has one {title}, [batch]; got the shape {tuple(shape)}.")
        return super().numbers(labels, title)


class Cosines(RowNumbers):
    """The same, from -1 to 1."""

    def numbers(self, labels: Any, title: str):
        labels = super().numbers(labels, title)
        advice = (
            "CosineRegression compares scores with cosines, from -1 to 1. Scale them, such as scores / 5 for "
            "those of STS-B; CoSENT takes scores of any scale."
        )
        if not is_of_tensorflow(labels):
            if np.any(np.abs(labels) > 1):
                raise ValueError(f"A score is {labels[np.abs(labels).argmax()]:g}, and {advice}")
            return labels
        import tensorflow as tf

        largest = tf.reduce_max(tf.abs(labels))
        with tf.control_dependencies([tf.debugging.Assert(largest <= 1, [advice, largest])]):
            return tf.identity(labels)


class PairClasses(LabelRange):
    """What labels of pairs may be: numbers or names of the classes that the model has a classifier for."""

    def is_read_by(self, loss) -> bool:
        return True
