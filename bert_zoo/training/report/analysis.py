"""Where a model goes wrong: confusions, figures by label, and the examples with the highest loss."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.training.report.record import HardExample, check_confusion
from bert_zoo.training.report.wording import figure


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
    """Counts how often each label was predicted for each.

    Args:
        labels, predictions: class ids [N], from 0; positions that do not count (-100) left out.
        num_labels: number of classes.

    Returns:
        Counts [truth, prediction].

    Raises:
        ValueError: the two differ in length, or a value is no class id.
    """
    truths = _class_ids(labels, "labels", num_labels)
    answers = _class_ids(predictions, "predictions", num_labels)
    if len(truths) != len(answers):
        raise ValueError(
            f"There are {len(truths)} labels and {len(answers)} predictions; pass one prediction for "
            "each label."
        )
    counts = np.bincount(truths * num_labels + answers, minlength=num_labels * num_labels)
    return counts.reshape(num_labels, num_labels)


def _class_ids(values: Sequence[int], name: str, num_labels: int) -> np.ndarray:
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise ValueError(f"{name} has the shape {ids.shape}; pass class ids in one row, [N].")
    if ids.size and not np.issubdtype(ids.dtype, np.number):
        raise ValueError(f"{name} holds {ids[0]!r}; pass class ids from 0 to {num_labels - 1}.")
    wrong = np.flatnonzero(~((ids >= 0) & (ids < num_labels) & (ids % 1 == 0)))
    if wrong.size:
        raise ValueError(
            f"{name}[{wrong[0]}] is {ids[wrong[0]]}; class ids go from 0 to {num_labels - 1}. Leave "
            "out positions that do not count, such as those with -100."
        )
    return ids.astype(np.int64)


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

    Raises:
        ValueError: the shape does not fit the labels, or a value is no count.
    """
    check_confusion(confusion, labels)
    counts = np.asarray(confusion)
    return _scores(labels, counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0))


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
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)]
    return [
        Confusion(labels[i], labels[j], int(wrong[i, j]), _share(wrong[i, j], support[i]))
        for i, j in pairs
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

    Raises:
        ValueError: the parts differ in length, a label is no class id, or k is not positive.
    """
    outputs = np.asarray(logits, dtype=np.float64)
    if k < 1:
        raise ValueError(f"k is {k}; it says how many examples are wanted, at least 1.")
    if not len(texts) == len(labels) == len(outputs):
        raise ValueError(
            f"There are {len(texts)} texts, {len(labels)} labels and {len(outputs)} rows of logits; "
            "pass one of each for every example."
        )
    if label_names:
        truths, answers, losses = _named_answers(labels, outputs, label_names)
    else:
        truths, answers, losses = _scored_answers(labels, outputs)
    order = np.argsort(-np.nan_to_num(losses, nan=np.inf), kind="stable")[:k]
    return [HardExample(texts[i], truths[i], answers[i], float(losses[i])) for i in order]


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
    order = np.argsort(-np.nan_to_num(losses, nan=np.inf), kind="stable")[:k]
    return [
        HardExample(
            texts[i],
            named_set(present[i], label_names),
            named_set(predicted[i], label_names),
            float(losses[i]),
        )
        for i in order
    ]


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
    logits = np.asarray(logits, dtype=np.float64)
    return (np.logaddexp(0, logits) - present * logits).mean(axis=1)


def _named_answers(
    labels: Sequence[int], logits: np.ndarray, names: Sequence[str]
) -> tuple[list[str], list[str], np.ndarray]:
    """Names of the true and the predicted classes, and the cross-entropy, [N] each."""
    if logits.shape[1:] != (len(names),):
        raise ValueError(
            f"logits has the shape {logits.shape} and there are {len(names)} label names; it needs "
            f"{(len(labels), len(names))}."
        )
    ids = _class_ids(labels, "labels", len(names))
    losses = cross_entropies(ids, logits)
    return [names[i] for i in ids], [names[i] for i in logits.argmax(axis=1)], losses


def cross_entropies(labels: Sequence[int], logits: np.ndarray) -> np.ndarray:
    """The cross-entropy of each example in nats, [N].

    Args:
        labels: class ids [N].
        logits: [N, classes].
    """
    logits = np.asarray(logits, dtype=np.float64)
    highest = logits.max(axis=1)
    # Less the highest, so that no exponential overflows.
    log_sums = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return log_sums - logits[np.arange(len(logits)), np.asarray(labels)]


def _scored_answers(
    labels: Sequence[float], scores: np.ndarray
) -> tuple[list[str], list[str], np.ndarray]:
    """The true and the predicted scores as text, and the squared error, [N] each."""
    if scores.size != len(labels):
        raise ValueError(
            f"logits has the shape {scores.shape}, and without label names it is one score for each "
            f"of the {len(labels)} examples. Pass label_names if these are classes."
        )
    truths, answers = np.asarray(labels, dtype=np.float64), scores.reshape(-1)
    return [figure(t) for t in truths], [figure(a) for a in answers], (truths - answers) ** 2
