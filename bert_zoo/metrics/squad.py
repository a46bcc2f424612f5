"""SQuAD: the official scores of versions 1.1 and 2.0, answers from logits, the official files.

Sources: Rajpurkar et al. 2016 (arXiv:1606.05250) and 2018 (arXiv:1806.03822) with their programs
evaluate-v1.1.py and evaluate-v2.0.py; google-research/bert, run_squad.py.

Nothing here imports TensorFlow or Keras.
"""

import json
import logging
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.data.files import read_json
from bert_zoo.error_text import quoted
from bert_zoo.json_files import as_object

log = logging.getLogger("bert_zoo")

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"

_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
# (prediction, answer) -> how well they agree, from 0 to 1.
_Score = Callable[[str, str], float]


# --- Scores ---


def normalize_answer(text: str) -> str:
    """What two answers are compared by: lower case, no ASCII punctuation, no article, single spaces.

    Punctuation goes before the articles, so that "a-b" is "ab" and keeps its a.
    """
    bare = text.lower().translate(_DROP_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def exact_match(prediction: str, answer: str) -> bool:
    """Whether two answers are equal once normalised."""
    return normalize_answer(prediction) == normalize_answer(answer)


def token_f1(prediction: str, answer: str) -> float:
    """F1 of the normalised words of two answers, with repetitions; 0 if they share none."""
    predicted, expected = (Counter(normalize_answer(t).split()) for t in (prediction, answer))
    shared = (predicted & expected).total()
    return 2 * shared / (predicted.total() + expected.total()) if shared else 0.0


def squad_v1(
    references: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Exact match and F1 in per cent, as evaluate-v1.1.py: for a question, that of its best answer.

    Args:
        references: question id -> its answers, at least one.
        predictions: question id -> text. A question without one counts 0, with a warning.

    Raises:
        ValueError: there are no questions, a question has no answer, or a prediction is no text.
    """
    _check_questions(references, predictions)
    if unanswerable := [id for id, answers in references.items() if not answers]:
        raise ValueError(
            "Every question of SQuAD 1.1 has an answer, and these have none: "
            f"{quoted(unanswerable)}. Score SQuAD 2.0 with squad_v2."
        )
    if missing := [id for id in references if id not in predictions]:
        log.warning("Questions without a prediction count 0: %s.", quoted(missing))

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
    """The scores of evaluate-v2.0.py, by its names and in its order, in per cent.

    To choose a threshold, pass the best span of every question (`AnswerSelection.best.text`) and
    not predictions in which a threshold has put "" already: a search cannot take those back.

    Args:
        references: question id -> its answers; none where the question has no answer.
        predictions: question id -> text, "" for no answer.
        no_answer_scores: question id -> probability or log-odds that it has no answer; with it the
            best thresholds are searched.
        no_answer_threshold: a question with a higher score counts as predicted to have no answer. The
            default is the script's: "never" for probabilities; for log-odds choose another.

    Returns:
        `exact`, `f1`, `total`; the same with `HasAns_` and `NoAns_` before the name, over questions
        with and without an answer, where there are such; with `no_answer_scores` also `best_exact`,
        `best_exact_thresh`, `best_f1`, `best_f1_thresh`. The search takes questions of equal score
        one by one, in the order of `no_answer_scores`, as the script does; a best value in the
        midst of such a group is not quite reached by applying its threshold.

    Raises:
        ValueError: there are no questions, one has no prediction or no score, a prediction is no
            text or a score is not a number.
    """
    _check_questions(references, predictions)
    _check_complete(references, predictions, "prediction")
    # The script takes 0 where it is given none.
    none_scores = dict.fromkeys(references, 0.0) if no_answer_scores is None else no_answer_scores
    _check_complete(references, none_scores, "no-answer score")
    for id, score in none_scores.items():
        if not isinstance(score, int | float | np.number) or math.isnan(score):
            raise ValueError(
                f"The no-answer score of question {id!r} is {score!r}, expected a number."
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
        # From a threshold below all scores, where every question is said to have no answer, questions
        # are given their predictions one by one.
        order = np.argsort(odds, kind="stable")
        for metric, scores in by_metric.items():
            gains = np.where(has_answer, scores, np.where(has_text, -1.0, 0.0))[order]
            totals = np.cumsum([np.sum(~has_answer), *gains])
            best = int(totals.argmax())
            result[f"best_{metric}"] = 100.0 * float(totals[best]) / len(ids)
            # 0, as in the script, where it is best to answer no question at all.
            result[f"best_{metric}_thresh"] = float(odds[order[best - 1]]) if best else 0.0
    return result


def _best_v2(score: _Score, prediction: str, answers: Sequence[str]) -> float:
    """A question's score in version 2.0, where an answer of nothing can be right."""
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
                f"The answers of question {id!r} are the string {answers!r}, expected a list of "
                "strings."
            )
    for id, text in predictions.items():
        if not isinstance(text, str):
            raise ValueError(
                f"The prediction for question {id!r} is {text!r}, expected a string; "
                'no answer is "".'
            )
    if unknown := [id for id in predictions if id not in references]:
        log.warning(
            "Predictions for questions that are not asked do not count: %s.", quoted(unknown)
        )


def _check_complete(references: Iterable[str], values: Mapping[str, Any], what: str) -> None:
    if missing := [id for id in references if id not in values]:
        raise ValueError(
            f"SQuAD 2.0 needs a {what} for every question, and these have none: {quoted(missing)}."
        )


# --- Answers from logits ---


@dataclass(frozen=True, eq=False)
class Window:
    """What a model says about one window of a question's context."""

    # [length]; position `no_answer` stands for none.
    start_logits: np.ndarray
    end_logits: np.ndarray  # [length]; or [length, starts], given each of `starts`
    # [length], 1 for tokens of the context, which stand next to each other.
    context_mask: np.ndarray
    # [length, 2], the first character of the context of each token, and the one after its last;
    # read for tokens of the context alone.
    offsets: np.ndarray
    # The number of the context's tokens before this window: with a stride, the number of the
    # window times the stride.
    first_token: int = 0
    # The position that stands for no answer: 0, the token before the question, or -1, the last one.
    no_answer: int = 0
    # [starts], the only positions at which answers may start; None for all of the context.
    starts: np.ndarray | None = None
    # The log-odds of no answer, from a model that says so by itself.
    no_answer_odds: float | None = None


@dataclass(frozen=True)
class Candidate:
    """An answer, cut from the context."""

    text: str  # the answer; "" for no answer
    start: int | None  # position of its first character in the context; None for no answer
    end: int | None  # the position after its last character; None for no answer
    start_logit: float  # of its first token, or of the position that stands for no answer
    end_logit: float  # of its last token, or of that position
    probability: float = 0.0  # the softmax of the score over the candidates of the question

    @property
    def score(self) -> float:
        """Sum of the two logits."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True)
class AnswerSelection:
    """The answers to one question."""

    # The likeliest answers, best first; no answer is one of them where it is allowed.
    candidates: tuple[Candidate, ...]
    best: Candidate  # the best answer that is a span of the context
    # Score of no answer, less that of `best`: the log-odds of the official file null_odds.json.
    # None where a question always has an answer.
    no_answer_score: float | None

    def answer(self, no_answer_threshold: float = 0.0) -> str:
        """The best span's text, or "" where the score of no answer is above the threshold."""
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
) -> AnswerSelection:
    """The best answers to one question from the logits of all its windows.

    As google-research/bert, run_squad.py (write_predictions): a span scores the sum of its two
    logits and begins at a token in the window that shows most of its surroundings; no answer scores
    the sum of the logits at position 0, the least over the windows; equal texts count once. Where the
    model gives log-odds of no answer, that scores them, the least over the windows, above the best span.

    It differs from that program in two points. The text is cut from the context by the tokens'
    offsets, less white space at its ends, and not found again from word pieces. And all spans are
    weighed, not only those of each window's `n_best` best starts and ends.

    Args:
        context: the text that the offsets count in.
        windows: one or more, in the order of the context.
        n_best: number of candidates; the best span and no answer are added if they are not in it.
        max_answer_length: in tokens.
        allow_no_answer: whether there may be no answer, as in SQuAD 2.0.

    Returns:
        The candidates with their probabilities, the best span and the score of no answer.

    Raises:
        ValueError: a window's arrays do not fit each other or the context, logits are not finite,
            or there is no span to choose.
    """
    for name, value in (("n_best", n_best), ("max_answer_length", max_answer_length)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1.")
    shown = [_shown(window, context, number) for number, window in enumerate(windows)]
    candidates = _best_spans(context, shown, n_best, max_answer_length)
    if not candidates:
        raise ValueError(
            f"None of the {len(windows)} windows has a token with text of the context, which has "
            f"{len(context)} characters. Check context_mask and offsets."
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


def _no_answer(windows: Sequence[Window], best: Candidate) -> Candidate:
    """No answer as a candidate. The window that is least sure of it speaks for all, since one of the
    others may hold an answer."""
    if windows[0].no_answer_odds is not None:
        odds = float(min(window.no_answer_odds for window in windows))
        return Candidate("", None, None, best.start_logit + odds, best.end_logit)
    logits = (
        (float(w.start_logits[w.no_answer]), float(np.max(w.end_logits[w.no_answer])))
        for w in windows
    )
    return Candidate("", None, None, *min(logits, key=sum))


class _Shown(NamedTuple):
    """The tokens of the context in a window."""

    start_logits: np.ndarray  # [tokens]
    end_logits: np.ndarray  # [tokens, starts]
    starts: np.ndarray  # [starts], numbers of these tokens
    offsets: np.ndarray  # [tokens, 2]
    first_token: int


def _shown(window: Window, context: str, number: int) -> _Shown:
    """What a window shows of the context; raises ValueError where its arrays do not fit."""
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
                f"{name} of window {number} have the shape {array.shape}, expected {shape}."
            )
    if window.first_token < 0:
        raise ValueError(f"first_token of window {number} is {window.first_token}, below 0.")
    positions = np.flatnonzero(mask)
    if mask[window.no_answer] or (np.diff(positions) != 1).any():
        raise ValueError(
            f"context_mask of window {number} marks the positions {positions.tolist()}. They must "
            f"stand next to each other, and position {window.no_answer} stands for no answer."
        )
    read = np.append(window.no_answer, positions)
    if not (np.isfinite(start_logits[read]).all() and np.isfinite(end_logits[read]).all()):
        raise ValueError(f"Window {number} has logits that are not finite.")
    begins, ends = offsets[positions].T
    wrong = positions[(begins < 0) | (begins > ends) | (ends > len(context))]
    if wrong.size:
        raise ValueError(
            f"The offsets at position {wrong[0]} of window {number} are {offsets[wrong[0]].tolist()}; "
            f"the context has {len(context)} characters. Offsets count characters, not bytes."
        )
    end_logits = end_logits[positions]
    if starts is None:
        starts = np.arange(len(positions))
        end_logits = np.broadcast_to(end_logits[:, None], (len(starts), len(starts)))
    else:
        is_shown = np.isin(starts, positions)
        starts, end_logits = starts[is_shown] - positions[:1], end_logits[:, is_shown]
    return _Shown(
        start_logits[positions], end_logits, starts, offsets[positions], window.first_token
    )


def _best_spans(
    context: str, windows: Sequence[_Shown], n_best: int, max_answer_length: int
) -> list[Candidate]:
    """The `n_best` best spans with different texts, best first."""
    can_start = [can[w.starts] for w, can in zip(windows, _can_start(windows), strict=True)]
    if not any(can.any() for can in can_start):  # of those that a model has chosen
        can_start = [np.ones_like(can) for can in can_start]
    # Characters of the context and logits of each span, [spans, 2] of each window.
    places, logits = [], []
    for window, can in zip(windows, can_start, strict=True):
        column = np.flatnonzero(can)[:, None]
        last = window.starts[column] + np.arange(min(max_answer_length, len(window.offsets)))
        is_span = last < len(window.offsets)
        column, last = np.broadcast_to(column, last.shape)[is_span], last[is_span]
        first = window.starts[column]
        places.append(np.stack([window.offsets[first, 0], window.offsets[last, 1]], -1))
        ends = window.end_logits[last, column]
        logits.append(np.stack([window.start_logits[first], ends], -1))
    if not places:
        return []
    places, logits = np.concatenate(places), np.concatenate(logits)
    spans: dict[str, Candidate] = {}
    for index in np.argsort(-logits.sum(-1), kind="stable"):
        start, end = places[index].tolist()
        text = context[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        # A text of white space alone would read as no answer.
        if text and text not in spans:
            spans[text] = Candidate(text, start, start + len(text), *logits[index].tolist())
        if len(spans) == n_best:
            break
    return list(spans.values())


def _can_start(windows: Sequence[_Shown]) -> list[np.ndarray]:
    """For each window [tokens], which ones it shows with more context than all other windows.

    Context is the lesser of the numbers of tokens to the left and to the right; a longer window and
    then an earlier one wins a draw.
    """
    slices = [slice(w.first_token, w.first_token + len(w.offsets)) for w in windows]
    total = max((tokens.stop for tokens in slices), default=0)
    most, owner, offsets = np.full(total, -np.inf), np.full(total, -1), np.zeros((total, 2), int)
    for number, (window, tokens) in enumerate(zip(windows, slices, strict=True)):
        known = owner[tokens] >= 0
        if (offsets[tokens][known] != window.offsets[known]).any():
            raise ValueError(
                f"Window {number} says that token {window.first_token} of the context is its first, "
                "and its offsets differ there from those of an earlier window. Check first_token."
            )
        offsets[tokens] = window.offsets
        left = np.arange(len(known))
        around = np.minimum(left, left[::-1]) + 0.01 * len(known)
        owner[tokens] = np.where(around > most[tokens], number, owner[tokens])
        most[tokens] = np.maximum(around, most[tokens])
    return [owner[tokens] == number for number, tokens in enumerate(slices)]


# --- Files ---


def write_predictions(
    directory: str | Path,
    selections: Mapping[str, AnswerSelection],
    no_answer_threshold: float = 0.0,
) -> None:
    """Writes predictions.json and nbest_predictions.json; for SQuAD 2.0 also null_odds.json.

    These are the files of google-research/bert, run_squad.py; the official scripts and the
    leaderboard read predictions.json (question id -> text) and null_odds.json (question id ->
    score of no answer).

    Args:
        directory: where to; made if it is not there.
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
            # In ASCII: the official scripts open files in the encoding of the machine.
            (directory / name).write_text(json.dumps(values, indent=4) + "\n", encoding="ascii")


def read_predictions(path: str | Path) -> dict[str, str]:
    """Reads a file in the form of predictions.json: question id -> text.

    Raises ValueError, with file and question, for anything else.
    """
    return as_object(read_json(Path(path)), path).values_of(str)


def read_null_odds(path: str | Path) -> dict[str, float]:
    """Reads a file in the form of null_odds.json: question id -> score of no answer.

    Raises ValueError, with file and question, for anything else.
    """
    return as_object(read_json(Path(path)), path).values_of(float)
