"""SQuAD: official scores of versions 1.1 and 2.0, answers from logits, and the official files.

Sources: Rajpurkar et al. 2016 (arXiv:1606.05250) and 2018 (arXiv:1806.03822) with their programs
evaluate-v1.1.py and evaluate-v2.0.py; google-research/bert, run_squad.py.

Nothing here imports TensorFlow or Keras.
"""

import functools
import json
import logging
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.data.files import read_json
from bert_zoo.error_text import quoted
from bert_zoo.fields import check
from bert_zoo.json_files import as_object

log = logging.getLogger("bert_zoo")

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"

_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
# (prediction, answer) -> their agreement, from 0 to 1.
_Score = Callable[[str, str], float]


# --- Scores ---


def normalize_answer(text: str) -> str:
    """Normalises an answer for comparison: lower case, no ASCII punctuation, no articles, single spaces.

    Punctuation is removed before articles, so "a-b" becomes "ab" and keeps its a.
    """
    bare = text.lower().translate(_DROP_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def exact_match(prediction: str, answer: str) -> bool:
    """Whether two normalised answers are equal."""
    return normalize_answer(prediction) == normalize_answer(answer)


def token_f1(prediction: str, answer: str) -> float:
    """F1 of the normalised words of two answers, counting repetitions; 0 if they share none."""
    predicted, expected = (Counter(normalize_answer(t).split()) for t in (prediction, answer))
    shared = (predicted & expected).total()
    return 2 * shared / (predicted.total() + expected.total()) if shared else 0.0


def squad_v1(
    references: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores answers as evaluate-v1.1.py does for SQuAD 1.1.

    Args:
        references: question id -> its right answers, at least one.
        predictions: question id -> predicted text. A missing one scores 0 and is logged.

    Returns:
        `exact_match` and `f1` in percent: means over questions of the score against the best-matching answer.

    Raises:
        ValueError: there are no questions, a question has no answer, or a prediction is not a string.
    """
    _check_questions(references, predictions)
    if unanswerable := [id for id, answers in references.items() if not answers]:
        raise ValueError(
            f"These questions have no answer, as every question of SQuAD 1.1 must: {quoted(unanswerable)}. "
            "Score SQuAD 2.0 with squad_v2."
        )
    if missing := [id for id in references if id not in predictions]:
        log.warning("Questions without a prediction score 0: %s.", quoted(missing))

    def mean(score: _Score) -> float:
        total = sum(
            max(score(predictions[id], answer) for answer in answers)
            for id, answers in references.items()
            if id in predictions
        )
        return 100.0 * total / len(references)

    return {"exact_match": mean(exact_match), "f1": mean(token_f1)}


def squad_v2(
    references: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer_scores: Mapping[str, float] | None = None,
    no_answer_threshold: float = 1.0,
) -> dict[str, float]:
    """Scores answers as evaluate-v2.0.py does for SQuAD 2.0, with its names and order of metrics.

    To search for a threshold, pass the best span of every question (`AnswerSelection.best.text`). The search
    cannot restore spans that a threshold has already replaced by "".

    Args:
        references: question id -> its right answers; an empty list if it has no answer.
        predictions: question id -> predicted text, "" for no answer.
        no_answer_scores: question id -> probability or log-odds that it has no answer. If given, the best
            thresholds are searched.
        no_answer_threshold: questions with a higher score are predicted to have no answer. The script's
            default of 1 never applies to probabilities; choose another one for log-odds.

    Returns:
        `exact` and `f1` in percent, and the number of questions, `total`; the same with the prefixes `HasAns_`
        and `NoAns_` over questions with and without an answer, if there are any. With `no_answer_scores` also
        `best_exact`, `best_exact_thresh`, `best_f1` and `best_f1_thresh`. Like the script, the search adds
        questions of equal score one by one, in the order of `no_answer_scores`; applying the best
        threshold may then score slightly less.

    Raises:
        ValueError: there are no questions, one has no prediction or no score, a prediction is not a string,
            or a score is not a number.
    """
    _check_questions(references, predictions)
    _check_complete(references, predictions, "prediction")
    # The script uses 0 if it is given no scores.
    none_scores = dict.fromkeys(references, 0.0) if no_answer_scores is None else no_answer_scores
    _check_complete(references, none_scores, "no-answer score")
    for id, score in none_scores.items():
        if not isinstance(score, int | float | np.number) or math.isnan(score):
            raise ValueError(
                f"The no-answer score of question {id!r} is {score!r}; it must be a number."
            )

    # The search takes questions in the order of their scores.
    ids = [id for id in none_scores if id in references]
    odds = np.array([none_scores[id] for id in ids], np.float64)
    has_answer = np.array([bool(references[id]) for id in ids])
    has_text = np.array([bool(predictions[id]) for id in ids])
    by_metric = {
        name: np.array([_best_v2(score, predictions[id], references[id]) for id in ids])
        for name, score in (("exact", exact_match), ("f1", token_f1))
    }
    result: dict[str, float] = {}
    for prefix, chosen in (
        ("", has_answer | True),
        ("HasAns_", has_answer),
        ("NoAns_", ~has_answer),
    ):
        if not chosen.any():
            continue
        for metric, scores in by_metric.items():
            final = np.where(odds > no_answer_threshold, ~has_answer, scores)
            result[prefix + metric] = 100.0 * float(final[chosen].mean())
        result[prefix + "total"] = int(chosen.sum())
    if no_answer_scores is not None:
        # Start from a threshold below all scores, which predicts no answer to every question, and add the
        # predictions one by one.
        order = np.argsort(odds, kind="stable")
        for metric, scores in by_metric.items():
            gains = np.where(has_answer, scores, np.where(has_text, -1.0, 0.0))[order]
            totals = np.cumsum([np.sum(~has_answer), *gains])
            best = int(totals.argmax())
            result[f"best_{metric}"] = 100.0 * float(totals[best]) / len(ids)
            # 0, as in the script, if it is best to answer no question.
            result[f"best_{metric}_thresh"] = float(odds[order[best - 1]]) if best else 0.0
    return result


def _best_v2(score: _Score, prediction: str, answers: Sequence[str]) -> float:
    """A question's score in version 2.0, where no answer can be right."""
    known = [answer for answer in answers if normalize_answer(answer)]
    if not known:
        return float(exact_match(prediction, ""))
    return max(float(score(prediction, answer)) for answer in known)


def _check_questions(
    references: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> None:
    if not references:
        raise ValueError("There are no questions to score; references is empty.")
    for id, answers in references.items():
        if isinstance(answers, str):
            raise ValueError(
                f"The answers of question {id!r} are the string {answers!r}; pass a list of strings."
            )
    for id, text in predictions.items():
        check(f"The prediction for question {id!r}", text, str, note='"" for no answer')
    if unknown := [id for id in predictions if id not in references]:
        log.warning(
            "Predictions for questions that `references` lacks are ignored: %s.", quoted(unknown)
        )


def _check_complete(references: Iterable[str], values: Mapping[str, Any], what: str) -> None:
    if missing := [id for id in references if id not in values]:
        raise ValueError(
            f"SQuAD 2.0 needs a {what} for every question. These have none: {quoted(missing)}."
        )


# --- Answers from logits ---


@dataclass(frozen=True, eq=False)
class Window:
    """A model's outputs for one window of a question's context.

    Attributes:
        start_logits: [length].
        end_logits: [length], or [length, starts] with one column for each of `starts`.
        context_mask: [length], 1 for tokens of the context, which must be adjacent.
        offsets: [length, 2], start and end of each token in the context, in characters; read for tokens of
            the context only.
        first_token: number of context tokens before this window, such as the window's number * stride.
        no_answer: position that means no answer: 0, before the question, or -1, the last one.
        starts: [starts], the only positions where answers may start; None for the whole context.
        no_answer_odds: log-odds of no answer, if the model predicts them separately.
    """

    start_logits: np.ndarray
    end_logits: np.ndarray
    context_mask: np.ndarray
    offsets: np.ndarray
    first_token: int = 0
    no_answer: int = 0
    starts: np.ndarray | None = None
    no_answer_odds: float | None = None


@dataclass(frozen=True)
class AnswerCandidate:
    """An answer cut from the context, or no answer."""

    text: str  # the answer, "" for no answer
    # Its first character in the context and the one after its last; None for no answer.
    start: int | None
    end: int | None
    # Logits of its first and last token. For no answer, the logits at its position or, with
    # `Window.no_answer_odds`, the best span's, with the odds added to `start_logit`.
    start_logit: float
    end_logit: float
    probability: float = 0.0  # softmax of the score over the candidates of the question

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclass(frozen=True)
class AnswerSelection:
    """The answers to one question.

    Attributes:
        candidates: the best answers, best first, including no answer if it is allowed.
        best: the best answer that is a span of the context.
        no_answer_score: score of no answer minus the score of `best`, the log-odds of the official file
            null_odds.json. None with `allow_no_answer=False`.
    """

    candidates: tuple[AnswerCandidate, ...]
    best: AnswerCandidate
    no_answer_score: float | None

    def answer(self, no_answer_threshold: float = 0.0) -> str:
        """The best span's text, or "" if `no_answer_score` is above the threshold."""
        if self.no_answer_score is not None and self.no_answer_score > no_answer_threshold:
            return ""
        return self.best.text


def select_answers(
    context: str,
    windows: Sequence[Window],
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
    allow_no_answer: bool = True,
    allow_no_text: bool = False,
) -> AnswerSelection:
    """Selects the best answers to one question from the logits of all its windows.

    As in google-research/bert, run_squad.py (write_predictions), a span's score is the sum of its start and
    end logit, and its first token is read in the window with most context around it. The score of no answer
    is the sum of the logits at its position, the lowest over the windows. Equal texts count once. If the model
    predicts log-odds of no answer, its score is the best span's plus the lowest log-odds.

    It differs from that program in two points: it cuts the text from the context by offsets and strips white
    space, instead of recovering it from word pieces; and it considers all spans, not only those of each
    window's `n_best` starts and ends.

    Args:
        context: the text that the offsets refer to.
        windows: one or more, in the order of the context.
        n_best: number of candidates; the best span and no answer are added if they are not among them.
        max_answer_length: in tokens.
        allow_no_answer: whether there may be no answer, as in SQuAD 2.0.
        allow_no_text: whether the context may have no text to answer from. "" is then the only candidate, also
            as the best span, with an infinite score of no answer.

    Returns:
        The candidates with their probabilities, the best span and the score of no answer.

    Raises:
        ValueError: a window's arrays do not match each other or the context, logits are not finite, or no
            span can be chosen.
    """
    for name, value in (("n_best", n_best), ("max_answer_length", max_answer_length)):
        check(name, value, int, least=1)
    shown = [_shown(window, context, number) for number, window in enumerate(windows)]
    candidates = _best_spans(context, shown, n_best, max_answer_length)
    if not candidates and allow_no_text:
        nothing = AnswerCandidate("", None, None, 0.0, 0.0, probability=1.0)
        return AnswerSelection((nothing,), nothing, math.inf if allow_no_answer else None)
    if not candidates:
        raise ValueError(
            f"None of the {len(windows)} windows has a token with text of the context "
            f"({len(context)} characters). Check context_mask and offsets."
        )
    best, no_answer_score = candidates[0], None
    if allow_no_answer:
        none = _no_answer(windows, best)
        no_answer_score = none.score - best.score
        ranked = sorted([*candidates, none], key=lambda candidate: -candidate.score)
        candidates = ranked[:n_best] + [c for c in (best, none) if c not in ranked[:n_best]]
    scores = np.array([candidate.score for candidate in candidates])
    weights = np.exp(scores - scores.max())
    candidates = [
        replace(candidate, probability=float(probability))
        for candidate, probability in zip(candidates, weights / weights.sum(), strict=True)
    ]
    best = next(candidate for candidate in candidates if candidate.text)
    return AnswerSelection(tuple(candidates), best, no_answer_score)


def select_each(
    contexts: Sequence[str],
    windows: Iterable[Window],
    example: Iterable[int],
    ids: Iterable[Any],
    **options: Any,
) -> list[AnswerSelection]:
    """`select_answers` for many questions: `example` has each window's question, and `ids` name questions in errors."""
    of_questions: list[list[Window]] = [[] for _ in contexts]
    for number, window in zip(example, windows, strict=True):
        of_questions[number].append(window)
    found = []
    for id, context, of_question in zip(ids, contexts, of_questions, strict=True):
        try:
            found.append(select_answers(context, of_question, **options))
        except ValueError as error:
            raise ValueError(f"Question {id!r}: {error}") from error
    return found


def _no_answer(windows: Sequence[Window], best: AnswerCandidate) -> AnswerCandidate:
    """No answer as a candidate, scored by the window where it is least likely, which may hold an answer."""
    if windows[0].no_answer_odds is not None:
        odds = float(min(window.no_answer_odds for window in windows))
        return AnswerCandidate("", None, None, best.start_logit + odds, best.end_logit)
    logits = (
        (float(w.start_logits[w.no_answer]), float(np.max(w.end_logits[w.no_answer])))
        for w in windows
    )
    return AnswerCandidate("", None, None, *min(logits, key=sum))


class _Shown(NamedTuple):
    """The tokens of the context in a window."""

    start_logits: np.ndarray  # [tokens]
    end_logits: np.ndarray  # [starts, tokens], or [1, tokens] for all starts
    starts: np.ndarray  # [starts], indices of tokens
    offsets: np.ndarray  # [tokens, 2]
    first_token: int


def _shown(window: Window, context: str, number: int) -> _Shown:
    """Returns a window's part of the context; raises ValueError if its arrays do not match."""
    start_logits = np.asarray(window.start_logits, np.float64)
    end_logits = np.asarray(window.end_logits, np.float64)
    mask = np.asarray(window.context_mask).astype(bool)
    offsets = np.asarray(window.offsets)
    starts = None if window.starts is None else np.asarray(window.starts, int)
    length = max(start_logits.size, 1)
    for name, array, shape in (
        ("start_logits", start_logits, (length,)),
        ("end_logits", end_logits, (length,) if starts is None else (length, len(starts))),
        ("context_mask", mask, (length,)),
        ("offsets", offsets, (length, 2)),
    ):
        if array.shape != shape:
            raise ValueError(
                f"{name} of window {number} has the shape {array.shape}; it must be {shape}."
            )
    if window.first_token < 0:  # it may also be an array without axes
        raise ValueError(
            f"first_token of window {number} is {window.first_token}; it must be at least 0."
        )
    positions = np.flatnonzero(mask)
    if mask[window.no_answer] or (np.diff(positions) != 1).any():
        raise ValueError(
            f"context_mask of window {number} marks the positions {positions.tolist()}. They must "
            f"be adjacent and must not include {window.no_answer}, which means no answer."
        )
    read = np.append(window.no_answer, positions)
    if not (np.isfinite(start_logits[read]).all() and np.isfinite(end_logits[read]).all()):
        raise ValueError(
            f"Window {number} has logits that are not finite. Check the model's outputs."
        )
    begins, ends = offsets[positions].T
    wrong = positions[(begins < 0) | (begins > ends) | (ends > len(context))]
    if wrong.size:
        raise ValueError(
            f"The offsets at position {wrong[0]} of window {number} are {offsets[wrong[0]].tolist()}, but "
            f"the context has {len(context)} characters. Offsets must count characters, not bytes."
        )
    end_logits = np.atleast_2d(end_logits[positions].T)
    if starts is None:
        starts = np.arange(len(positions))
    else:
        is_shown = np.isin(starts, positions)
        starts, end_logits = starts[is_shown] - positions[:1], end_logits[is_shown]
    return _Shown(
        start_logits[positions], end_logits, starts, offsets[positions], window.first_token
    )


def _best_spans(
    context: str, windows: Sequence[_Shown], n_best: int, max_answer_length: int
) -> list[AnswerCandidate]:
    """The `n_best` best spans with different texts, best first."""
    columns, tokens, ends = [], 0, 0
    for number, window in enumerate(windows):
        place = np.arange(len(window.offsets))
        row = np.arange(len(window.starts)) % len(window.end_logits)
        columns.append(
            (
                np.full_like(place, number),
                window.first_token + place,
                place,
                place[::-1],
                window.starts + tokens,
                # Added to a token's index, it gives the index of its end logit for this start.
                ends + row * len(place) - tokens,
                window.start_logits,
                window.end_logits.ravel(),
                window.offsets,
            )
        )
        tokens, ends = tokens + len(place), ends + window.end_logits.size
    if not windows:
        return []
    window_of, number, before, after, starts, shifts, start_logits, end_logits, offsets = map(
        np.concatenate, zip(*columns, strict=True)
    )
    order = np.argsort(number, kind="stable")
    earlier, later = order[:-1], order[1:]
    differs = (number[earlier] == number[later]) & (offsets[earlier] != offsets[later]).any(-1)
    if differs.any():
        wrong = window_of[later[differs]].min()
        raise ValueError(
            f"Window {wrong} starts at token {windows[wrong].first_token} of the context, but its offsets "
            "differ there from an earlier window's. Check first_token."
        )
    chosen, first, last = answer_spans(number, before, after, starts, max_answer_length)
    at_start, at_end = start_logits[first], end_logits[last + shifts[chosen]]
    spans: dict[str, AnswerCandidate] = {}
    for index in np.argsort(-(at_start + at_end), kind="stable"):
        start = int(offsets[first[index], 0])
        text = context[start : offsets[last[index], 1]]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        # A text of white space only would mean no answer.
        if text and text not in spans:
            logits = float(at_start[index]), float(at_end[index])
            spans[text] = AnswerCandidate(text, start, start + len(text), *logits)
        if len(spans) == n_best:
            break
    return list(spans.values())


def answer_spans(
    number: Any, before: Any, after: Any, starts: Any, max_answer_length: int, xp: ModuleType = np
) -> tuple[Any, Any, Any]:
    """Finds the spans of the context that may be answers, in the order of windows, starts and lengths.

    An answer starts in the window that shows its first token with the most context, which is the smaller number of
    tokens on either side; ties go to the longer, then the earlier window. If no such token is among the starts, it
    starts at any of them.

    Args:
        number: int64 [tokens], the numbers in the context of the tokens in all windows, one window after another.
        before, after: [tokens], in TensorFlow float64: how many tokens of the context the window shows before and
            after the token; `after` is negative for tokens outside the context.
        starts: int64 [starts], the indices of tokens at which answers may start.
        max_answer_length: in tokens.
        xp: NumPy, or TensorFlow's module with functions of the same names.

    Returns:
        The index of each span's start in `starts`, and the indices of its first and last token, int64 [spans].
    """
    take, argsort = xp.take, functools.partial(xp.argsort, kind="stable")
    by_context = argsort(-(xp.minimum(before, after) + 0.01 * (before + after + 1)))
    order = take(by_context, argsort(take(number, by_context)))
    ordered = take(number, order)
    is_first = xp.concatenate([[True], ordered[1:] != ordered[:-1]])
    in_context = take(after >= 0, starts)
    can_start = take(is_first, take(argsort(order), starts)) & in_context
    (chosen,) = xp.nonzero(xp.where(xp.any(can_start), can_start, in_context))
    longest = take(after, take(starts, chosen))[:, None]
    place, length = xp.nonzero(xp.arange(max_answer_length, dtype=np.float64) <= longest)
    chosen = take(chosen, place)
    first = take(starts, chosen)
    return chosen, first, first + length


# --- Files ---


def write_predictions(
    directory: str | Path,
    selections: Mapping[str, AnswerSelection],
    no_answer_threshold: float = 0.0,
) -> None:
    """Writes predictions.json and nbest_predictions.json; for SQuAD 2.0 also null_odds.json.

    google-research/bert's run_squad.py writes the same files. The official scripts and the leaderboard read
    predictions.json (question id -> text) and null_odds.json (question id -> score of no answer).

    Args:
        directory: where to write; created if missing.
        selections: question id -> its answers.
        no_answer_threshold: as in `AnswerSelection.answer`.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    texts = {id: selection.answer(no_answer_threshold) for id, selection in selections.items()}
    n_best = {id: list(map(asdict, s.candidates)) for id, s in selections.items()}
    scores = {id: s.no_answer_score for id, s in selections.items()}
    odds = {id: score for id, score in scores.items() if score is not None}
    for name, values in ((PREDICTIONS_FILE, texts), (N_BEST_FILE, n_best), (NULL_ODDS_FILE, odds)):
        if values or name != NULL_ODDS_FILE:
            # ASCII, since the official scripts open files in the machine's encoding.
            (directory / name).write_text(json.dumps(values, indent=4) + "\n", encoding="ascii")


def read_predictions(path: str | Path) -> dict[str, str]:
    """Reads a file like predictions.json: question id -> text.

    Raises:
        ValueError: the file is not JSON of this form; names file and question.
        FileNotFoundError: the file does not exist.
    """
    return as_object(read_json(Path(path)), path).values_of(str)


def read_null_odds(path: str | Path) -> dict[str, float]:
    """Reads a file like null_odds.json: question id -> score of no answer, usually log-odds.

    Raises:
        ValueError: the file is not JSON of this form; names file and question.
        FileNotFoundError: the file does not exist.
    """
    return as_object(read_json(Path(path)), path).values_of(float)
