"""Scores of labels and numbers, equal to scikit-learn's and SciPy's; 0 where they are undefined."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def accuracy(labels: Sequence[float], answers: Sequence[float]) -> float:
    """The share of answers [N] that equal the labels [N]."""
    return float(np.mean(np.asarray(labels) == np.asarray(answers)))


def f1(expected: np.ndarray, answers: np.ndarray, axis: int | None = None) -> np.ndarray:
    """F1 of boolean arrays, 2 TP / (2 TP + FP + FN), over all values or along an axis."""
    found = 2 * np.sum(expected & answers, axis)
    return found / np.maximum(1, np.sum(expected, axis) + np.sum(answers, axis))


def binary_f1(labels: np.ndarray, answers: np.ndarray) -> float:
    """F1 of class 1."""
    return float(f1(labels == 1, answers == 1))


def macro_f1(labels: Sequence[int], answers: np.ndarray) -> float:
    """The mean F1 of the classes that occur in labels [N] or answers [N]."""
    labels = np.asarray(labels)
    return float(np.mean([f1(labels == i, answers == i) for i in np.union1d(labels, answers)]))


def pearson(labels: np.ndarray, answers: np.ndarray) -> float:
    """Pearson's correlation; for two binary variables this is Matthews' correlation."""
    if np.ptp(labels) == 0 or np.ptp(answers) == 0:
        return 0.0
    return float(np.corrcoef(labels, answers)[0, 1])


def spearman(labels: np.ndarray, answers: np.ndarray) -> float:
    """Spearman's correlation: Pearson's correlation of the ranks."""
    return pearson(ranks(labels), ranks(answers))


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value [N], from 1; equal values all get their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def mean_and_deviation(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs, and the sample standard deviation; the deviation of a single run is 0.

    Args:
        values: [layers], or [runs, layers].

    Returns:
        Two arrays, float64 [layers].
    """
    runs = np.atleast_2d(np.asarray(values, np.float64))
    mean = runs.mean(axis=0)
    return mean, runs.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros_like(mean)


def class_metrics(labels: Sequence[int], answers: np.ndarray) -> dict[str, float]:
    """Accuracy and macro F1 of class ids [N]."""
    return {"accuracy": accuracy(labels, answers), "macro_f1": macro_f1(labels, answers)}


def label_set_metrics(present: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Micro and macro F1 of label sets, bool [N, classes]."""
    of_labels = f1(present, answers, axis=0)
    return {"micro_f1": float(f1(present, answers)), "macro_f1": float(np.mean(of_labels))}
