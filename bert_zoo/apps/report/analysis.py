"""Where a model goes wrong: confusions, metrics by label, and the examples with the highest loss."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.apps.report.record import HardExample
from bert_zoo.apps.report.wording import number


class Confusion(NamedTuple):
    """One label that is taken for another.

    Attributes:
        truth, prediction: the labels.
        count: how often that happened.
        share: of all examples with that truth.
    """

    truth: str
    prediction: str
    count: int
    share: float


def confusion_matrix(
    labels: Sequence[int], predictions: Sequence[int], num_labels: int
) -> np.ndarray:
    """Counts how often each label was predicted for each, [truth, prediction].

    Args:
        labels, predictions: class ids [N], from 0; positions that do not count (-100) left out.
        num_labels: number of classes.
    """
    pairs = np.asarray(labels, np.int64) * num_labels + np.asarray(predictions, np.int64)
    return np.bincount(pairs, minlength=num_labels**2).reshape(num_labels, num_labels)


def per_label_table(confusion: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each label.

    A label that is never predicted has the precision 0, one that never occurs the recall 0, as
    scikit-learn's `classification_report` prints them.

    Args:
        confusion: counts [truth, prediction].
        labels: names of the classes.

    Returns:
        A row for each label: `label`, `precision`, `recall`, `f1`, and `support`, the number of its
        examples.
    """
    return _scores(labels, confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0))


def label_set_table(
    present: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """As `per_label_table`, where an example may have any number of labels.

    Args:
        present, predicted: whether an example has a label and is given it, bool [N, labels].
        labels: their names.
    """
    right = (present & predicted).sum(axis=0)
    return _scores(labels, right, present.sum(axis=0), predicted.sum(axis=0))


def _scores(
    labels: Sequence[str], right: np.ndarray, support: np.ndarray, predicted: np.ndarray
) -> list[dict[str, Any]]:
    """Rows of a table by label, from the numbers of examples rightly predicted, true, predicted."""
    return [
        {
            "label": label,
            "precision": _share(right[i], predicted[i]),
            "recall": _share(right[i], support[i]),
            "f1": _share(2 * right[i], support[i] + predicted[i]),
            "support": int(support[i]),
        }
        for i, label in enumerate(labels)
    ]


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def most_confused(confusion: np.ndarray, labels: Sequence[str], k: int) -> list[Confusion]:
    """The k pairs of labels that are confused most often; fewer where no more are."""
    wrong = np.array(confusion)
    np.fill_diagonal(wrong, 0)
    support = np.sum(confusion, axis=1)
    order = np.argsort(-wrong, axis=None, kind="stable")[:k]
    return [
        Confusion(labels[i], labels[j], int(wrong[i, j]), _share(wrong[i, j], support[i]))
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[i, j]
    ]


def hardest_examples(
    texts: Sequence[str],
    labels: Sequence[float],
    logits: np.ndarray,
    label_names: Sequence[str],
    k: int = 20,
) -> list[HardExample]:
    """The examples with the highest loss; one whose loss is not a number comes before all others.

    Args:
        texts: what the model read, [N].
        labels: class ids or scores, [N].
        logits: [N, classes], or scores [N] or [N, 1].
        label_names: of the classes; empty for scores.
        k: how many examples; all where there are fewer.

    Returns:
        Highest loss first: of classes the cross-entropy in nats, of scores the squared error.
    """
    outputs = np.asarray(logits, np.float64)
    if label_names:
        losses, answers = cross_entropies(labels, outputs), outputs.argmax(axis=1)
        return _highest(
            texts, [label_names[i] for i in labels], [label_names[i] for i in answers], losses, k
        )
    truths, answers = np.asarray(labels, np.float64), outputs.reshape(-1)
    losses = (truths - answers) ** 2
    return _highest(texts, list(map(number, truths)), list(map(number, answers)), losses, k)


def hardest_label_sets(
    texts: Sequence[str],
    present: np.ndarray,
    predicted: np.ndarray,
    losses: np.ndarray,
    label_names: Sequence[str],
    k: int = 20,
) -> list[HardExample]:
    """As `hardest_examples`, where an example may have any number of labels.

    Args:
        texts: what the model read, [N].
        present, predicted: whether an example has a label and is given it, bool [N, labels].
        losses: of the examples, [N].
        label_names: of the labels.
        k: how many examples; all where there are fewer.
    """
    truths, answers = (
        [named_set(row, label_names) for row in rows] for rows in (present, predicted)
    )
    return _highest(texts, truths, answers, losses, k)


def _highest(
    texts: Sequence[str],
    truths: Sequence[str],
    answers: Sequence[str],
    losses: np.ndarray,
    k: int,
) -> list[HardExample]:
    order = np.argsort(-np.nan_to_num(losses, nan=np.inf), kind="stable")[:k]
    return [HardExample(texts[i], truths[i], answers[i], float(losses[i])) for i in order]


def named_set(present: Sequence[bool], label_names: Sequence[str]) -> str:
    """An example's labels for people."""
    names = [name for name, is_present in zip(label_names, present, strict=True) if is_present]
    return ", ".join(names) or "(no label)"


def binary_cross_entropies(present: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The mean binary cross-entropy of each example's labels in nats, [N].

    Args:
        present: whether an example has a label, [N, labels].
        logits: [N, labels].
    """
    logits = np.asarray(logits, np.float64)
    return (np.logaddexp(0, logits) - present * logits).mean(axis=1)


def cross_entropies(labels: Sequence[int], logits: np.ndarray) -> np.ndarray:
    """The cross-entropy of each example in nats, [N].

    Args:
        labels: class ids [N].
        logits: [N, classes].
    """
    logits = np.asarray(logits, np.float64)
    # Less the highest, so that no exponential overflows.
    highest = logits.max(axis=1)
    log_sums = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return log_sums - logits[np.arange(len(logits)), np.asarray(labels)]
