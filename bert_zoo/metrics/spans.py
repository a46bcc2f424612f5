"""Precision, recall and F1 of chunks and entities in tagged sentences, as conlleval and seqeval.

A span counts as found when its first word, last word and type are right. Tags are read the lenient
way of CoNLL's program conlleval and of seqeval without `mode="strict"`, so that a model's
impossible sequences count too: an I that nothing began begins a span.

Sources: Tjong Kim Sang and Buchholz, "Introduction to the CoNLL-2000 Shared Task: Chunking", with
conlleval (version of 2004-01-26); seqeval 1.2.2. The scores are both programs' for IOB tags (IOB1,
IOB2) and seqeval's for IOBES, where conlleval does not know S and joins E to the B after it.

Nothing here imports TensorFlow or Keras. seqeval is not a dependency: its last release, of 2020, is
source that needs scikit-learn, and it takes unknown tags for spans with no more than a warning.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from bert_zoo.data.tagging import is_span_tag, spans

# seqeval's name for the type of a tag that is a prefix alone.
_UNTYPED = "_"


@dataclass(frozen=True)
class SpanScore:
    """Counts of spans and the scores that follow from them, from 0 to 1; 0 where not defined."""

    correct: int  # spans of the predictions that are spans of the references
    predicted: int  # spans of the predictions
    support: int  # spans of the references

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
    """Means of the scores over the types, each type alike; `support` is the sum."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class SpanReport:
    """Scores of spans, overall and of each type; prints as a table."""

    # Type -> its scores, in alphabetical order; all types of references and predictions.
    types: Mapping[str, SpanScore]
    micro: SpanScore  # the scores of all spans together: those of the CoNLL tasks
    accuracy: float  # share of the words whose tags are equal

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
        references: for each sentence, the tags of its words.
        predictions: the same, as predicted.

    Raises:
        ValueError: the numbers of sentences or of a sentence's words differ, there are no words, or
            a tag is neither `O` nor a B, I, E or S with a type.
    """
    if len(references) != len(predictions):
        raise ValueError(
            f"There are {len(references)} sentences of references and {len(predictions)} of "
            "predictions; pass the same sentences."
        )
    correct, predicted, support = Counter(), Counter(), Counter()
    equal_tags = words = 0
    for number, (reference, prediction) in enumerate(zip(references, predictions, strict=True)):
        if len(reference) != len(prediction):
            raise ValueError(
                f"Sentence {number} has {len(reference)} tags in the references and "
                f"{len(prediction)} in the predictions; pass one prediction for each word."
            )
        expected, found = _typed_spans(reference), _typed_spans(prediction)
        support.update(type_ for type_, _, _ in expected)
        predicted.update(type_ for type_, _, _ in found)
        correct.update(type_ for type_, _, _ in expected & found)
        equal_tags += sum(a == b for a, b in zip(reference, prediction, strict=True))
        words += len(reference)
    if not words:
        raise ValueError(f"There are no words in the {len(references)} sentences to score.")
    return SpanReport(
        types={
            type_: SpanScore(correct[type_], predicted[type_], support[type_])
            for type_ in sorted(support.keys() | predicted.keys())
        },
        micro=SpanScore(correct.total(), predicted.total(), support.total()),
        accuracy=equal_tags / words,
    )


def _typed_spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, start, end) of each span."""
    if isinstance(tags, str):
        raise ValueError(f"A sentence is the string {tags!r}, expected a list of tags.")
    for tag in tags:
        if not is_span_tag(tag):
            raise ValueError(
                f"The tag is {tag!r}, expected 'O' or one of B, I, E, S with a type, as 'B-NP'. "
                "Write the tags of other schemes in one of IOB1, IOB2, IOBES."
            )
    return {(span.type or _UNTYPED, span.start, span.end) for span in spans(tags)}
