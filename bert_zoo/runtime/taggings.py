"""Predicted labels of words, and the spans that they mark; without TensorFlow and Keras."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from bert_zoo.data.tagging import OUTSIDE, spans
from bert_zoo.runtime.printed import Row, Rows, table
from bert_zoo.text.splitting import word_spans


@dataclass(frozen=True)
class TaggedWord(Row):
    """A word's likeliest label.

    Attributes:
        text: the word.
        label: the label's name.
        score: the label's probability.
        start, end: the word's range of characters in `Tagging.text`, without `end`.
    """

    text: str
    label: str
    score: float
    start: int
    end: int

    def cells(self) -> tuple[str, ...]:
        return (self.text, self.label, f"{self.score:.2f}")


@dataclass(frozen=True)
class TaggedSpan:
    """Words that belong together, such as a name.

    Attributes:
        text: the span as in `Tagging.text`.
        type: the span's type, such as "LOC" for the labels "B-LOC" and "I-LOC".
        score: the mean of its words' scores.
        start, end: its range of characters in `Tagging.text`, without `end`.
        first_word, end_word: its range of words, without `end_word`.
    """

    text: str
    type: str
    score: float
    start: int
    end: int
    first_word: int
    end_word: int

    def __str__(self) -> str:
        return f"[{self.text}]{self.type} {self.score:.2f}"


@dataclass(frozen=True)
class Tagging:
    """A text with its words' labels; prints the text with its spans marked, or a table of words.

    Attributes:
        text: the text; a list of words is joined by spaces.
        words: the words with their labels.
        spans: the spans that the labels mark; None with `aggregate=False`, or if the labels do not mark
            spans (see `bert_zoo.data.tagging`), for example parts of speech.
    """

    text: str
    words: tuple[TaggedWord, ...]
    spans: tuple[TaggedSpan, ...] | None

    @property
    def labels(self) -> list[str]:
        """The words' labels, for `bert_zoo.metrics.span_report`."""
        return [word.label for word in self.words]

    def __str__(self) -> str:
        if self.spans is None:
            return table(word.cells() for word in self.words)
        parts, at = [], 0
        for span in self.spans:
            parts += [self.text[at : span.start], str(span)]
            at = span.end
        return "".join([*parts, self.text[at:]])


class Taggings(Rows):
    """A list of `Tagging` that prints all of them."""

    def __str__(self) -> str:
        # Tables of words need a line between them.
        between = "\n\n" if any(row.spans is None for row in self) else "\n"
        return between.join(map(str, self))


def marks_spans(labels: Sequence[str]) -> bool:
    """Whether labels mark spans: "O", and others that begin with B, I, E or S."""
    prefixes = {label.partition("-")[0] for label in labels}
    return OUTSIDE in prefixes and prefixes <= {OUTSIDE, *"BIES"} and len(prefixes) > 1


# Hugging Face's names for how pieces' probabilities become those of the word.
FIRST_PIECE, AVERAGE, MAX = STRATEGIES = ("first", "average", "max")


def check_strategy(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise ValueError(
            f"aggregation_strategy is {strategy!r}; choose one of {list(STRATEGIES)}, which give one label per "
            "word. For words without spans, pass aggregate=False."
        )


def word_probabilities(pieces: np.ndarray, starts: np.ndarray, strategy: str) -> np.ndarray:
    """Returns words' probabilities [words, labels], from their pieces' [pieces, labels].

    Args:
        pieces: the probabilities of all words' pieces.
        starts: index of each word's first piece.
        strategy: one of `STRATEGIES`: "first" takes the first piece's probabilities, "average" the mean
            of all pieces, and "max" those of the piece with the highest single probability.
    """
    if strategy == FIRST_PIECE:
        return pieces[starts]
    ends = np.append(starts[1:], len(pieces))[: len(starts)]
    if strategy == AVERAGE:
        return np.add.reduceat(pieces, starts, axis=0) / (ends - starts)[:, None]
    surest = pieces.max(axis=1)
    chosen = [start + surest[start:end].argmax() for start, end in zip(starts, ends, strict=True)]
    return pieces[np.array(chosen, int)]


class Sentence(NamedTuple):
    text: str
    words: tuple[str, ...]
    spans: list[tuple[int, int]]


def sentence_of(text) -> Sentence:
    """Splits a raw text, or joins a list of words: returns the words and their ranges of characters."""
    if isinstance(text, str):
        spans = word_spans(text)
        return Sentence(text, tuple(text[start:end] for start, end in spans), spans)
    is_list = isinstance(text, Sequence | np.ndarray)
    if not is_list or not all(isinstance(word, str | bytes) for word in text):
        raise TypeError(
            f"A text to tag must be a string or a list of strings, its words; got {text!r} "
            f"({type(text).__name__})."
        )
    words = tuple(w.decode("utf-8", "replace") if isinstance(w, bytes) else str(w) for w in text)
    ends = np.cumsum([len(word) + 1 for word in words], dtype=int) - 1
    spans = [(int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True)]
    return Sentence(" ".join(words), words, spans)


def tagging(
    sentence: Sentence, probabilities: np.ndarray, labels: Sequence[str], aggregate: bool
) -> Tagging:
    words = tuple(
        TaggedWord(word, labels[int(row.argmax())], float(row.max()), *span)
        for word, span, row in zip(sentence.words, sentence.spans, probabilities, strict=True)
    )
    if not aggregate:
        return Tagging(sentence.text, words, None)
    marked = []
    for span in spans([word.label for word in words]):
        inside = words[span.start : span.end]
        start, end = inside[0].start, inside[-1].end
        score = fmean(word.score for word in inside)
        text = sentence.text[start:end]
        marked.append(TaggedSpan(text, span.type, score, start, end, span.start, span.end))
    return Tagging(sentence.text, words, tuple(marked))
