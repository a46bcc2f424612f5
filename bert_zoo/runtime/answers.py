"""Answers that are cut from a context; without TensorFlow and Keras."""

import math
from dataclasses import dataclass

from bert_zoo.metrics.squad import AnswerSelection, Candidate
from bert_zoo.runtime.printed import Rows, flat, surroundings


@dataclass(frozen=True)
class SpanAnswer:
    """The answer to a question, cut from its context.

    Attributes:
        question: the question.
        context: the context.
        text: the answer; "" for no answer.
        start: the position of its first character in the context; None for no answer.
        end: the position after its last character; None for no answer.
        score: its probability among the candidates.
        no_answer_score: log-odds of no answer against the best span; None if the caller ruled out "no
            answer".
        candidates: the likeliest answers, best first (`bert_zoo.metrics.squad.Candidate`).
    """

    question: str
    context: str
    text: str
    start: int | None
    end: int | None
    score: float
    no_answer_score: float | None
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        best = next((candidate for candidate in self.candidates if candidate.text), None)
        if best is None:
            return "no answer  (the context has no text)"
        if self.text:
            left, right = surroundings(self.context, best.start, best.end)
            place = flat(f"{left}»{best.text}«{right}")
            return f"{flat(self.text)}  {self.score:.3f}  {place}"
        guess = f"{flat(best.text)}  {best.probability:.3f}"
        return f"no answer  {self.score:.3f}  (best guess: {guess})"


class SpanAnswers(Rows):
    """A list of `SpanAnswer` that prints questions with answers."""

    def __str__(self) -> str:
        return "\n".join(f"{flat(row.question)}\n    {row}" for row in self)


def span_answer(
    question: str, context: str, selection: AnswerSelection, no_answer_threshold: float | None
) -> SpanAnswer:
    """Chooses an answer; without a threshold, always a span. Raises ValueError for NaN."""
    if no_answer_threshold is not None and math.isnan(no_answer_threshold):
        raise ValueError(
            "no_answer_threshold is nan; it must be a number, or None to give an answer always."
        )
    best = selection.best
    if no_answer_threshold is not None and not selection.answer(no_answer_threshold):
        best = next(candidate for candidate in selection.candidates if not candidate.text)
    place = (best.text, best.start, best.end, best.probability)
    return SpanAnswer(question, context, *place, selection.no_answer_score, selection.candidates)
