"""Scores of labels, numbers and tagged spans, equal to scikit-learn's, SciPy's and seqeval's; 0 where they are undefined."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bert_zoo.data.tagging import is_span_tag, spans


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
    """The mean over runs, and the sample standard deviation (0 for a single run), of [layers] or [runs, layers]:
    float64 [layers] each."""
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


# -------------------------------------------------------------------------------------------------
# Precision, recall and F1 of chunks and entities in tagged sentences, as conlleval and seqeval.
#
# A span is correct if its first word, last word and type are right. Tags are read leniently, as in CoNLL's
# program conlleval and in seqeval without `mode="strict"`: an I tag without a B before it starts a span.
#
# Sources: Tjong Kim Sang and Buchholz, "Introduction to the CoNLL-2000 Shared Task: Chunking", with
# conlleval (version of 2004-01-26); seqeval 1.2.2. Scores of IOB1 and IOB2 tags equal both programs'. Scores
# of IOBES tags equal seqeval's; conlleval does not know S and joins E to the B after it.
#
# Nothing here imports TensorFlow or Keras. seqeval is not a dependency: its last release (2020) needs
# scikit-learn, and it only warns about unknown tags and reads them as spans.
# -------------------------------------------------------------------------------------------------

# seqeval's type for a tag that is only a prefix, such as "B".
_UNTYPED = "_"


@dataclass(frozen=True)
class SpanScore:
    """Counts of spans, and scores from 0 to 1 (0 where undefined)."""

    correct: int  # predicted spans that are also in the references
    predicted: int  # spans in the predictions
    support: int  # spans in the references

    @property
    def precision(self) -> float:
        return self.correct / max(1, self.predicted)

    @property
    def recall(self) -> float:
        return self.correct / max(1, self.support)

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(1, self.predicted + self.support)


class MacroScore(NamedTuple):
    """Unweighted means of the scores over the types; `support` is the sum."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class SpanReport:
    """Scores of spans, overall and per type; prints as a table.

    Attributes:
        types: each type in references or predictions -> its scores, in alphabetical order.
        micro: scores over all spans, as the CoNLL tasks report them.
        accuracy: share of words whose tags are equal.
    """

    types: Mapping[str, SpanScore]
    micro: SpanScore
    accuracy: float

    @property
    def macro(self) -> MacroScore:
        rows = list(self.types.values()) or [SpanScore(0, 0, 0)]
        means = (fmean(getattr(row, name) for row in rows) for name in MacroScore._fields[:3])
        return MacroScore(*means, self.micro.support)

    def __str__(self) -> str:
        rows = {**self.types, "micro average": self.micro, "macro average": self.macro}
        width = max(map(len, rows))
        header = f"{'':<{width}}  precision  recall      f1  support"
        body = [
            f"{name:<{width}}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  "
            f"{row.support:7d}"
            for name, row in rows.items()
        ]
        body.insert(-2, "-" * len(header))
        return "\n".join([header, *body, f"Accuracy of tags {self.accuracy:.4f}"])


def span_report(
    references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> SpanReport:
    """Scores predicted tags by the spans that they mark.

    Args:
        references: tags of the words of each sentence.
        predictions: the predicted tags, in the same form.

    Returns:
        Precision, recall and F1, overall and per type, and the accuracy of tags, all from 0 to 1.

    Raises:
        ValueError: the numbers of sentences or of a sentence's words differ, there are no words, or
            a tag is neither `O` nor a B, I, E or S with a type.
    """
    if len(references) != len(predictions):
        raise ValueError(
            f"references has {len(references)} sentences and predictions {len(predictions)}; pass tags "
            "of the same sentences."
        )
    equal_tags = words = 0
    expected, found = [], []
    for number, (reference, prediction) in enumerate(zip(references, predictions, strict=True)):
        if len(reference) != len(prediction):
            raise ValueError(
                f"Sentence {number} has {len(reference)} tags in the references and "
                f"{len(prediction)} in the predictions; pass one prediction for each word."
            )
        expected.append(_typed_spans(reference))
        found.append(_typed_spans(prediction))
        equal_tags += sum(a == b for a, b in zip(reference, prediction, strict=True))
        words += len(reference)
    if not words:
        raise ValueError(f"The {len(references)} sentences to score have no words.")
    return SpanReport(*span_scores(expected, found), accuracy=equal_tags / words)


def span_scores(
    references: Iterable[set[tuple[str, int, int]]],
    predictions: Iterable[set[tuple[str, int, int]]],
) -> tuple[dict[str, SpanScore], SpanScore]:
    """The scores of each type and of all, of the (type, start, end) of each text's spans."""
    correct, predicted, support = Counter(), Counter(), Counter()
    for expected, found in zip(references, predictions, strict=True):
        support.update(type_ for type_, _, _ in expected)
        predicted.update(type_ for type_, _, _ in found)
        correct.update(type_ for type_, _, _ in expected & found)
    types = {
        type_: SpanScore(correct[type_], predicted[type_], support[type_])
        for type_ in sorted(support.keys() | predicted.keys())
    }
    return types, SpanScore(correct.total(), predicted.total(), support.total())


def _typed_spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, start, end) of each span."""
    if isinstance(tags, str):
        raise ValueError(f"A sentence is the string {tags!r}; it must be a list of tags.")
    for tag in tags:
        if not is_span_tag(tag):
            raise ValueError(
                f"The tag {tag!r} must be 'O', or B, I, E or S with a type, such as 'B-NP'. "
                "Convert other schemes to IOB1, IOB2 or IOBES."
            )
    return {(span.type or _UNTYPED, span.start, span.end) for span in spans(tags)}
