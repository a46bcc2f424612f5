"""Results of exported models as people read them: answers, labels, rankings, tags; without TensorFlow and Keras."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.data.tagging import OUTSIDE, Span, spans
from bert_zoo.error_text import shown
from bert_zoo.fields import check, is_integer
from bert_zoo.metrics.squad import AnswerCandidate, AnswerSelection
from bert_zoo.printing import flat, one_line, surroundings, table
from bert_zoo.text.numpy_packing import word_spans

# Characters of the context that a chart shows on each side of an answer.
PASSAGE = 400
# Candidates or labels of one text that a chart shows.
MOST_BARS = 10


class Charted:
    """A result that notebooks show as a chart; elsewhere it is plain text."""

    def chart(self) -> str:
        """The result as a `bert_zoo.charts.Chart`, HTML without its style; needs markupsafe."""
        from bert_zoo import charts

        return self.draw(charts)

    def draw(self, charts: ModuleType) -> str:
        """The result drawn by functions of the module `bert_zoo.charts`."""
        raise NotImplementedError

    def _repr_html_(self) -> str | None:
        try:
            return self.chart()._repr_html_()
        except ModuleNotFoundError as error:
            # It is not needed to run exports. Then notebooks show the text.
            if error.name != "markupsafe":
                raise
            return None


class PrintedRow(Charted):
    """A result that prints as one row of a table, made of its `cells`."""

    def cells(self) -> tuple[str, ...]:
        raise NotImplementedError

    def bar(self) -> tuple:
        """Its row of `bert_zoo.charts.score_bars`: name, score or None, and text."""
        name, *others = self.cells()
        return name, None, "  ".join(others)

    def draw(self, charts: ModuleType) -> str:
        return charts.score_bars([self.bar()])

    def __str__(self) -> str:
        return "  ".join(self.cells())


class PrintedRows(Charted, list):
    """A list of results that prints as a table."""

    def draw(self, charts: ModuleType) -> str:
        return charts.score_bars([row.bar() for row in self])

    def __str__(self) -> str:
        return table(row.cells() for row in self)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class SpanAnswer(Charted):
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
        candidates: the likeliest answers, best first (`bert_zoo.metrics.squad.AnswerCandidate`).
    """

    question: str
    context: str
    text: str
    start: int | None
    end: int | None
    score: float
    no_answer_score: float | None
    candidates: tuple[AnswerCandidate, ...]

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

    def draw(self, charts: ModuleType) -> str:
        best = next((candidate for candidate in self.candidates if candidate.text), None)
        kind, title = "answer", self.question
        if not self.text:
            kind, title = "best guess", f"{title} · no answer {self.score:.3f}"
        spans, window = [], (0, PASSAGE)
        if best is not None:
            spans = [(best.start, best.end, f"{kind} {best.probability:.3f}", None)]
            window = (max(0, best.start - PASSAGE), best.end + PASSAGE)
        passage = charts.marked_text(self.context, spans, title=title, window=window)
        rows = [(each.text or "no answer", each.probability, "") for each in self.candidates]
        bars = charts.score_bars(rows, most=MOST_BARS)
        return charts.stacked([passage, charts.folded("Candidates", bars)])


# The score of a document without vectors, below all others, as in sentence-transformers.
EMPTY_DOCUMENT = -1e9


@dataclass(frozen=True)
class TokenMatch(PrintedRow):
    """A token of a query, the token of the document that it meets, and their score."""

    token: str
    match: str
    score: float

    def cells(self) -> tuple[str, ...]:
        return self.token, f"{self.score:.3f}", self.match

    def bar(self) -> tuple:
        return f"{self.token} → {self.match}", self.score, ""


class TokenMatches(PrintedRows):
    """A list of `TokenMatch`, one for each vector of a query; empty if the document has no vectors."""


@dataclass(frozen=True)
class HybridVectors:
    """Three kinds of vectors of the same texts. Slices have those of some texts.

    Attributes:
        dense: float32 [texts, size], of length 1.
        sparse: SciPy's CSR array float32 [texts, vocabulary].
        tokens: for each text float32 [tokens, size].
    """

    dense: np.ndarray
    sparse: Any
    tokens: Sequence[np.ndarray]

    @property
    def kinds(self) -> tuple[Any, Any, Any]:
        return self.dense, self.sparse, self.tokens

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, rows: slice) -> "HybridVectors":
        return HybridVectors(*(vectors[rows] for vectors in self.kinds))

    def weighted(
        self, dense: float = 1.0, sparse: float = 1.0, tokens: float = 1.0
    ) -> "HybridVectors":
        """These vectors of queries, scaled so that their score with a document is the mean of the three scores with
        these weights.

        Raises:
            ValueError: a weight is negative, or all are 0.
        """
        weights = {"dense": dense, "sparse": sparse, "tokens": tokens}
        for name, weight in weights.items():
            check(name, weight, float, least=0)
        if not any(weights.values()):
            raise ValueError(
                "dense, sparse and tokens are all 0; give at least one of them a weight."
            )
        d, s, t = np.float32([*weights.values()]) * 3 / np.float32(sum(weights.values()))
        return HybridVectors(
            self.dense * d, self.sparse * s, [matrix * t for matrix in self.tokens]
        )


def maxsim(
    query: np.ndarray,
    vectors: np.ndarray,
    lengths: Sequence[int],
    product: Callable[..., np.ndarray] = np.matmul,
) -> np.ndarray:
    """The scores float32 [documents] for a query [tokens, size]: the sum of its tokens' largest products.

    The `vectors` [number, size] of documents follow one another, and `lengths` are how many each has; `product` is
    that of two matrices. Source: Khattab and Zaharia 2020 (arXiv:2004.12832), equation 3.
    """
    lengths = np.asarray(lengths)
    scores, some = np.full(len(lengths), EMPTY_DOCUMENT, np.float32), lengths > 0
    if some.any():
        starts = (np.cumsum(lengths) - lengths)[some]
        best = np.maximum.reduceat(product(query, vectors.T), starts, axis=1)
        scores[some] = best.sum(axis=0)
    return scores


def token_matches(
    query: tuple[np.ndarray, Sequence[str]], document: tuple[np.ndarray, Sequence[str]]
) -> TokenMatches:
    """Which token of a document each token of a query meets, from the vectors and the tokens of both."""
    if not document[1]:
        return TokenMatches()
    products = query[0] @ document[0].T
    places, scores = products.argmax(axis=1).tolist(), products.max(axis=1).tolist()
    return TokenMatches(
        TokenMatch(token, document[1][place], score)
        for token, place, score in zip(query[1], places, scores, strict=True)
    )


class SpanAnswers(PrintedRows):
    """A list of `SpanAnswer` that prints questions with answers."""

    def __str__(self) -> str:
        return "\n".join(f"{flat(row.question)}\n    {row}" for row in self)

    def draw(self, charts: ModuleType) -> str:
        return charts.stacked([row.draw(charts) for row in self])


def check_numbers(questions: Sequence[str], **columns: Sequence | None) -> None:
    """Raises ValueError for columns that do not have a value for each question."""
    for name, column in columns.items():
        if column is not None and len(column) != len(questions):
            raise ValueError(
                f"There are {len(questions)} questions, but {len(column)} {name}. Pass the same number of both."
            )


def paired(
    question: Any, context: Any, strings: Callable[[Any, str], list[str]]
) -> tuple[list[str], list[str]]:
    """Questions and contexts as lists; a single string is repeated for all of the other."""
    questions, contexts = strings(question, "question"), strings(context, "context")
    contexts *= len(questions) if isinstance(context, str) else 1
    questions *= len(contexts) if isinstance(question, str) else 1
    check_numbers(questions, contexts=contexts)
    return questions, contexts


def span_answers(
    questions: Sequence[str],
    contexts: Sequence[str],
    selections: Sequence[AnswerSelection],
    no_answer_threshold: float | None,
) -> SpanAnswers:
    """Chooses an answer to each question; without a threshold, always a span. Raises ValueError for NaN."""
    if no_answer_threshold is not None and math.isnan(no_answer_threshold):
        raise ValueError(
            "no_answer_threshold is nan; it must be a number, or None to give an answer always."
        )
    found = SpanAnswers()
    for question, context, selection in zip(questions, contexts, selections, strict=True):
        best = selection.best
        if no_answer_threshold is not None and not selection.answer(no_answer_threshold):
            best = next(candidate for candidate in selection.candidates if not candidate.text)
        place = (best.text, best.start, best.end, best.probability)
        more = (selection.no_answer_score, selection.candidates)
        found.append(SpanAnswer(question, context, *place, *more))
    return found


# -------------------------------------------------------------------------------------------------
# Predicted labels of texts.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Classification(PrintedRow):
    """A text's likeliest label.

    Attributes:
        text: the text, or the pair of texts.
        label: the label's name.
        score: the label's probability.
        scores: every label's probability.
        top: the `top_k` likeliest labels with their probabilities, likeliest first.
    """

    text: str | tuple[str, str]
    label: str
    score: float
    scores: dict[str, float]
    top: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        if len(self.top) == 1:
            return (self.label, f"{self.score:.3f}", one_line(self.text))
        return (listed(self.top), one_line(self.text))

    def draw(self, charts: ModuleType) -> str:
        return label_bars(charts, self, [self.label])


class Classifications(PrintedRows):
    """A list of `Classification` or `MultiLabelClassification` that prints as a table."""

    def draw(self, charts: ModuleType) -> str:
        if len(self) == 1:
            return self[0].draw(charts)
        found = []
        for row in self:
            labels = row.top if isinstance(row, Classification) else row.labels
            found.append(([*(labels or {"(no label)": None}).items()], one_line(row.text)))
        if all(len(labels) == 1 for labels, _ in found):
            return charts.score_bars([(*labels[0], text) for labels, text in found])
        bars = [([(*each, "") for each in labels], text) for labels, text in found]
        return charts.stacked([charts.score_bars(rows, title=text) for rows, text in bars])


def label_bars(
    charts: ModuleType, row: "Classification | MultiLabelClassification", chosen: Iterable[str]
) -> str:
    """Bars of the likeliest labels of one text."""
    text = row.text if isinstance(row.text, str) else " | ".join(row.text)
    rows = [(*item, "") for item in sorted(row.scores.items(), key=lambda item: -item[1])]
    return charts.score_bars(rows, title=text, chosen=chosen, most=MOST_BARS)


def listed(labels: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {score:.3f}" for label, score in labels.items())


@dataclass(frozen=True)
class MultiLabelClassification(PrintedRow):
    """The labels of a text whose probability is above their threshold.

    Attributes:
        text: the text, or the pair of texts.
        labels: names with their probabilities, likeliest first; empty if no label applies.
        scores: every label's probability.
    """

    text: str | tuple[str, str]
    labels: dict[str, float]
    scores: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        return (listed(self.labels) or "(no label)", one_line(self.text))

    def draw(self, charts: ModuleType) -> str:
        return label_bars(charts, self, self.labels)


def classifications(
    texts: Sequence[str] | tuple[Sequence[str], Sequence[str]],
    probabilities: Iterable[np.ndarray],
    labels: Sequence[str],
    top_k: int | None,
    thresholds: Sequence[float] = (),
) -> Classifications:
    """The likeliest label of each text or pair or, with `thresholds`, the labels whose probability is above theirs.

    Probabilities are [classes] for each text.
    """
    found = Classifications()
    rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
    for text, row in zip(rows, probabilities, strict=True):
        scores = dict(zip(labels, map(float, row), strict=True))
        ranked = sorted(scores.items(), key=lambda item: -item[1])
        if not thresholds:
            top = dict(ranked[: top_k or 1])
            found.append(Classification(text, *ranked[0], scores, top))
        else:
            least = dict(zip(labels, thresholds, strict=True))
            above = [(label, score) for label, score in ranked if score > least[label]]
            found.append(MultiLabelClassification(text, dict(above[:top_k]), scores))
    return found


def sigmoid(logits: np.ndarray) -> np.ndarray:
    # By tanh, which does not overflow.
    return 0.5 * (1 + np.tanh(0.5 * logits))


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


# -------------------------------------------------------------------------------------------------
# Documents ranked by how well they answer a query.
# -------------------------------------------------------------------------------------------------

# Functions from logits to scores.
SCORE_ACTIVATIONS = {"sigmoid": sigmoid, "linear": np.asarray}


@dataclass(frozen=True)
class Ranked(PrintedRow):
    """A document with its score.

    Attributes:
        document: the text.
        index: its position in the given documents, from 0.
        score: higher if it answers the query better.
    """

    document: str
    index: int
    score: float

    def cells(self) -> tuple[str, ...]:
        return (f"{self.score:.3f}", str(self.index), one_line(self.document))

    def bar(self) -> tuple:
        return f"document {self.index}", self.score, self.document


class Ranking(PrintedRows):
    """A list of `Ranked`, best first, that prints as a table."""

    def draw(self, charts: ModuleType) -> str:
        scores = [row.score for row in self if row.score > EMPTY_DOCUMENT]
        limits = (min([*scores, 0]), max([*scores, 1]))
        return charts.score_bars([row.bar() for row in self], limits=limits)


def ranking(
    documents: Sequence[str], logits: np.ndarray, activation: str, top_k: int | None
) -> Ranking:
    """The `top_k` documents (None: all) of highest scores, best first, of float logits [documents]; ties keep order."""
    scores = SCORE_ACTIVATIONS[activation](np.asarray(logits, np.float32))
    # Sort by logits, because sigmoids may round to 1.
    best = np.argsort(-np.asarray(logits), kind="stable")[:top_k]
    return Ranking(Ranked(documents[i], int(i), float(scores[i])) for i in best)


def check_asked(query: str, top_k: int | None) -> None:
    """Raises ValueError unless `query` is one text, and `top_k` a positive integer or None."""
    if np.ndim(query):
        raise ValueError(
            f"query is {shown(query)}, but rank() takes one query, a text. Call it once for each query."
        )
    if top_k is not None and (not is_integer(top_k) or top_k < 1):
        raise ValueError(
            f"top_k is {top_k!r}; it must be a number of documents, at least 1, or None for all."
        )


# -------------------------------------------------------------------------------------------------
# Predicted labels of words, and the spans that they mark.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaggedWord(PrintedRow):
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
        score: the mean of its words' scores, or the span's own.
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
class Tagging(Charted):
    """A text with its words' labels; prints the text with its spans marked, or a table of words.

    Attributes:
        text: the text; a list of words is joined by spaces.
        words: the words with their labels; none if types are found for spans alone.
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
        outer_first = sorted(self.spans, key=lambda span: (span.start, -span.end))
        return _marked(self.text, 0, len(self.text), outer_first)

    def marks(self) -> list[tuple[int, int, str, float]]:
        """Start, end, label and score of its spans, or of its words where it has none."""
        if self.spans is None:
            return [(word.start, word.end, word.label, word.score) for word in self.words]
        return [(span.start, span.end, span.type, span.score) for span in self.spans]

    def draw(self, charts: ModuleType, labels: Sequence[str] = ()) -> str:
        return charts.marked_text(self.text, self.marks(), labels=labels)


def _marked(text: str, start: int, end: int, spans: Sequence[TaggedSpan]) -> str:
    """A part of a text with its spans marked; spans within another one come after it."""
    parts = []
    while spans:
        span, *others = spans
        inside = [other for other in others if other.end <= span.end]
        spans = [other for other in others if other.end > span.end]
        inner = _marked(text, span.start, span.end, inside)
        parts += [text[start : span.start], f"[{inner}]{span.type} {span.score:.2f}"]
        start = span.end
    return "".join([*parts, text[start:end]])


class Taggings(PrintedRows):
    """A list of `Tagging` that prints all of them."""

    def __str__(self) -> str:
        # Tables of words need a line between them.
        between = "\n\n" if any(row.spans is None for row in self) else "\n"
        return between.join(map(str, self))

    def draw(self, charts: ModuleType) -> str:
        # A label has the same colour in all texts.
        labels = [*dict.fromkeys(mark[2] for row in self for mark in row.marks())]
        return charts.stacked([row.draw(charts, labels) for row in self])


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
    """Words' probabilities [words, labels], from their pieces' [pieces, labels] and each word's first piece. Of
    `STRATEGIES`, "first" takes the first piece's, "average" the mean, and "max" those of the piece with the highest
    single probability.
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


def as_str(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def sentence_of(text) -> Sentence:
    """Splits a raw text, or joins a list of words: returns the words and their ranges of characters."""
    if isinstance(text, str | bytes):
        text = as_str(text)
        spans = word_spans(text)
        return Sentence(text, tuple(text[start:end] for start, end in spans), spans)
    is_list = isinstance(text, Sequence | np.ndarray)
    if not is_list or not all(isinstance(word, str | bytes) for word in text):
        raise TypeError(
            f"A text to tag must be a string or a list of strings, its words; got {text!r} "
            f"({type(text).__name__})."
        )
    words = tuple(map(as_str, text))
    ends = np.cumsum([len(word) + 1 for word in words], dtype=int) - 1
    spans = [(int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True)]
    return Sentence(" ".join(words), words, spans)


def taggings(
    sentences: Sequence[Sentence],
    probabilities: Iterable[np.ndarray],
    labels: Sequence[str],
    aggregate: bool,
) -> Taggings:
    """Labels the words of sentences, from the probabilities [words, labels] of each, and reads spans if labels mark them."""
    found, aggregate = Taggings(), aggregate and marks_spans(labels)
    for sentence, of_words in zip(sentences, probabilities, strict=True):
        words = tuple(
            TaggedWord(word, labels[int(row.argmax())], float(row.max()), *span)
            for word, span, row in zip(sentence.words, sentence.spans, of_words, strict=True)
        )
        marked = spans([word.label for word in words]) if aggregate else ()
        tagged = tuple(_tagged_span(sentence.text, words, span) for span in marked)
        found.append(Tagging(sentence.text, words, tagged if aggregate else None))
    return found


def _tagged_span(text: str, words: Sequence[TaggedWord], span: Span) -> TaggedSpan:
    inside = words[span.start : span.end]
    start, end = inside[0].start, inside[-1].end
    score = fmean(word.score for word in inside)
    return TaggedSpan(text[start:end], span.type, score, start, end, span.start, span.end)
