"""Counts the classes of labels in memory: for balanced weights, and for classes that are never trained."""

import logging

import numpy as np

from bert_zoo.error_text import quoted
from bert_zoo.models.data_adapters import yields_batches

log = logging.getLogger("bert_zoo")

BALANCED = "balanced"


def class_counts(model, x, y) -> np.ndarray:
    """The number of labels of each class, int64 [classes].

    Args:
        model: a `ZooModel` with `labels`.
        x, y: texts or ids with labels, in memory, as in `fit`. With several labels per row or per token, each
            counts; -100 does not.
    """
    labels = model.labels_in_memory(x, y)
    if labels is None:
        return np.zeros(len(model.labels), np.int64)
    labels = np.asarray(getattr(labels, "flat_values", labels))
    if labels.dtype == object:  # an array for each row of words
        labels = np.concatenate(labels)
    if labels.ndim == 2 and not model.outputs_per_token:  # a number for each class
        return np.count_nonzero(labels > 0.5, axis=0)
    numbers = labels[labels >= 0].astype(np.int64)
    return np.bincount(numbers, minlength=len(model.labels))


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Weights that give every class with labels the same total weight, as in scikit-learn; 1 for others.

    Args:
        counts: the number of labels of each class, int [classes].

    Returns:
        float64 [classes], n / (k * count) for n labels of k classes.
    """
    share = counts.sum() / max(np.count_nonzero(counts), 1)
    return np.where(counts, share / np.maximum(counts, 1), 1.0)


def balanced_class_weight(model, x, y) -> dict[str, float]:
    """`class_weight="balanced"` of `fit` as a dict by class.

    Raises:
        ValueError: data are not in memory, or the model has no classes.
    """
    if yields_batches(x):
        raise ValueError(
            f"class_weight={BALANCED!r} counts the labels, but x is a {type(x).__name__}, which is read batch by "
            "batch. Count them yourself and pass a dict of weights by class, such as "
            f"{{{model.labels[0]!r}: 2.0}}."
        )
    weights = balanced_weights(class_counts(model, x, y)).tolist()
    return dict(zip(model.labels, weights, strict=True))


def warn_of_untrained_classes(model, training: tuple, validation: tuple) -> None:
    """Warns if the rows of `validation_split` have classes that the training rows lack.

    Args:
        training, validation: x and y of both parts.
    """
    trained, measured = class_counts(model, *training), class_counts(model, *validation)
    missing = [
        name for name, n, m in zip(model.labels, trained, measured, strict=True) if m > n == 0
    ]
    if missing:
        log.warning(
            "validation_split takes the last rows, and the rows before them have no label of the classes %s, which "
            "the model therefore cannot learn. Shuffle rows that are sorted by label, or pass validation_data.",
            quoted(missing),
        )
