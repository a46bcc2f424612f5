"""Error analysis: confusions, metrics by label, and the examples with the highest loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

NUM_HARDEST = 20
# Lower bound of probabilities in a loss.
TINY = 1e-12


@dataclass(frozen=True)
class HardExample:
    """An example with a high loss."""

    text: str  # the input text; for tagging, words separated by spaces
    truth: str  # the true label, score or answer; for tagging, tags separated by spaces
    prediction: str  # the predicted one
    loss: float  # the highest in a run is the worst
    by_word: bool = False  # whether truth and prediction hold a tag for each word of the text

    @property
    def tags(self) -> list[tuple[str, str, str]]:
        """Words with true and predicted tags; empty if there is not one tag per word."""
        rows = [field.split() for field in (self.text, self.truth, self.prediction)]
        fits = self.by_word and len({len(row) for row in rows}) == 1
        return list(zip(*rows, strict=True)) if fits else []

    @property
    def wrong(self) -> int:
        return sum(truth != prediction for _, truth, prediction in self.tags)


class Confusion(NamedTuple):
    """A label predicted instead of another: the count, and its fraction of the examples with the true label."""

    truth: str
    prediction: str
    count: int
    share: float


def used_labels(counts: np.ndarray, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The labels that occur or are predicted, and their counts [truth, prediction]."""
    counts = np.asarray(counts, dtype=np.int64)
    used = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
    return [str(names[i]) for i in used], counts[np.ix_(used, used)]


def confusion_matrix(
    labels: Sequence[int], predictions: Sequence[int], num_labels: int
) -> np.ndarray:
    """Counts [truth, prediction] of class ids [N]."""
    pairs = np.asarray(labels, np.int64) * num_labels + np.asarray(predictions, np.int64)
    return np.bincount(pairs, minlength=num_labels**2).reshape(num_labels, num_labels)


def per_label_table(confusion: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each label: `label`, `precision`, `recall`, `f1` and `support` (number of examples).

    As in scikit-learn's `classification_report`, a label that is never predicted has precision 0, and one
    that never occurs has recall 0. `confusion` has counts [truth, prediction].
    """
    return _scores(labels, confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0))


def label_set_table(
    present: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Like `per_label_table`, for true and predicted sets of labels, bool [N, labels]."""
    right = (present & predicted).sum(axis=0)
    return _scores(labels, right, present.sum(axis=0), predicted.sum(axis=0))


def _scores(
    labels: Sequence[str], right: np.ndarray, support: np.ndarray, predicted: np.ndarray
) -> list[dict[str, Any]]:
    """Rows of a table by label, from counts of right predictions, true labels and predictions."""
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
    """The k most frequent confusions, or fewer if there are fewer."""
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
    truths: Sequence[str],
    predictions: Sequence[str],
    losses: Sequence[float],
    *,
    by_word: bool = False,
) -> list[HardExample]:
    """The examples with the highest loss, worst first. NaN counts as the worst."""
    order = np.argsort(-np.nan_to_num(losses, nan=np.inf), kind="stable")[:NUM_HARDEST]
    return [
        HardExample(texts[i], truths[i], predictions[i], float(losses[i]), by_word) for i in order
    ]


def named_set(present: Sequence[bool], label_names: Sequence[str]) -> str:
    names = [name for name, is_present in zip(label_names, present, strict=True) if is_present]
    return ", ".join(names) or "(no label)"


def binary_cross_entropies(present: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The mean loss over each example's labels, in nats [N]; `present` and `logits` are [N, labels]."""
    logits = np.asarray(logits, np.float64)
    return (np.logaddexp(0, logits) - present * logits).mean(axis=1)


def cross_entropies(labels: Sequence[int], logits: np.ndarray) -> np.ndarray:
    """Cross-entropies in nats [N], for class ids [N] and logits [N, classes]."""
    logits = np.asarray(logits, np.float64)
    # Subtract the highest, so that no exponential overflows.
    highest = logits.max(axis=1)
    log_sums = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return log_sums - logits[np.arange(len(logits)), np.asarray(labels)]
