"""SQuAD's scores, the choice of answers from logits, and the official files."""

import dataclasses
import json
import logging
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, refusals

from bert_zoo.metrics import squad

SHARED_SQUAD = Path(__file__).parents[2] / "shared" / "data" / "squad" / "squad_v2_sample.json"


# --- Scores ---

# The figures below are those of evaluate-v1.1.py and evaluate-v2.0.py on these answers.
# Answers, prediction, and score of no answer, which three questions share.
QUESTIONS = {
    "wrong": (["France"], "", 4.5),
    "article": (["the Norman conquest", "Norman Conquest"], "A norman  conquest.", -6.0),
    "punctuation": (["St. John's, N.S.W.", "St John"], "st johns nsw in the south", 0.5),
    "none article": ([], "the", 0.5),
    "unicode": (["Café “Zürich” — 北京"], "the CAFÉ Zürich — 北京", -1.25),
    "repeated": (["to be or not to be"], "to be to be to see", 2.0),
    "only article": (["The"], "an ...", -3.0),
    "two": (["10th and 11th centuries", "in the 10th century"], "10th and the century", 0.5),
    "none right": ([], "", 7.0),
    "none wrong": ([], "Normandy", 1.5),
}
REFERENCES, PREDICTIONS, ODDS = (
    {id: row[column] for id, row in QUESTIONS.items()} for column in range(3)
)
FIGURES = (
    "exact f1 total HasAns_exact HasAns_f1 HasAns_total NoAns_exact NoAns_f1 NoAns_total best_exact "
    "best_exact_thresh best_f1 best_f1_thresh"
).split()
WITHOUT_ODDS = [40, 205 / 3, 10, 200 / 7, 1450 / 21, 7, 200 / 3, 200 / 3, 3]
BEST = [50.0, -3.0, 65.0, 0.5]
AT_ONE = [50, 215 / 3, 10, 200 / 7, 1250 / 21, 7, 100, 100, 3, *BEST]
AT_ZERO = [50, 57.5, 10, 200 / 7, 275 / 7, 7, 100, 100, 3, *BEST]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), WITHOUT_ODDS),
        ((None, 0.0), WITHOUT_ODDS),
        # The default threshold is the official script's.
        ((ODDS,), AT_ONE),
        ((ODDS, 1.0), AT_ONE),
        ((ODDS, 0.0), AT_ZERO),
    ],
)
def test_version_2_gives_the_official_figures_by_name_and_order(arguments, expected):
    result = squad.squad_v2(REFERENCES, PREDICTIONS, *arguments)
    assert list(result) == FIGURES[: len(expected)]
    assert list(result.values()) == pytest.approx(expected, abs=1e-12)


def test_questions_of_equal_score_are_tried_in_the_order_of_the_scores():
    result = squad.squad_v2(REFERENCES, PREDICTIONS, dict(reversed(ODDS.items())))
    assert result["best_f1"] == pytest.approx(64.16666666666667, abs=1e-12)
    assert result["best_f1_thresh"] == 0.5


def test_version_1_gives_the_official_figures_and_counts_a_missing_answer_as_zero(caplog):
    references = {id: answers for id, answers in REFERENCES.items() if answers}
    predictions = {id: text for id, text in PREDICTIONS.items() if id in references}
    del predictions["repeated"]
    with caplog.at_level(logging.WARNING):
        result = squad.squad_v1(references, predictions)
    assert list(result) == ["exact_match", "f1"]
    assert result == pytest.approx(
        {"exact_match": 28.571428571428573, "f1": 45.238095238095234}, abs=1e-12
    )
    assert caplog.messages == ["Questions without a prediction score 0: ['repeated']."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Norman\tconquest, of a land!", "norman conquest of land"),
        ("a-b", "ab"),
        ("the-a", "thea"),
        ("“an” apple", "“ ” apple"),
        ("A\u00a0THE\u3000x", "x"),
        ("_a_ b", "b"),
        ("theatre anthem", "theatre anthem"),
        (" . ", ""),
    ],
)
def test_answers_are_normalised_as_the_official_scripts_do(text, expected):
    assert squad.normalize_answer(text) == expected


def test_two_answers_without_a_word_agree_in_version_2_alone():
    references, predictions = {"q": ["The"]}, {"q": "an"}
    assert squad.squad_v1(references, predictions) == {"exact_match": 100.0, "f1": 0.0}
    result = squad.squad_v2(references, predictions)
    assert (result["exact"], result["f1"]) == (100.0, 100.0)


def random_questions(seed: int, number: int = 60):
    rng = random.Random(seed)
    words = "the A an Norse norse, é “war” 10.5 of 北京 state's -".split()

    def draw(least):
        return " ".join(rng.choices(words, k=rng.randint(least, 5)))

    references = {
        str(i): [draw(1) for _ in range(rng.randint(1, 3))] if rng.random() < 0.6 else []
        for i in range(number)
    }
    predictions = {id: rng.choice([*answers, draw(0), ""]) for id, answers in references.items()}
    odds = {id: rng.gauss(0, 3) for id in rng.sample(list(references), number)}
    return references, predictions, odds


@pytest.mark.parametrize("seed", range(8))
def test_the_best_threshold_is_the_best_of_all_thresholds_tried_one_by_one(seed):
    references, predictions, odds = random_questions(seed)
    # A text of articles alone is no answer to the score and an answer to the official search.
    predictions = {
        id: text * bool(squad.normalize_answer(text)) for id, text in predictions.items()
    }
    tried = [squad.squad_v2(references, predictions, odds, t) for t in [-99.0, *odds.values()]]
    best = squad.squad_v2(references, predictions, odds)
    for metric in ("exact", "f1"):
        assert best[f"best_{metric}"] == pytest.approx(max(row[metric] for row in tried))
        threshold = best[f"best_{metric}_thresh"]
        at_best = squad.squad_v2(references, predictions, odds, threshold)
        assert at_best[metric] == pytest.approx(best[f"best_{metric}"])


def test_real_articles_give_the_official_figures():
    if not SHARED_SQUAD.is_file():
        pytest.skip("SQuAD's articles are not at ../shared/data/squad.")
    articles = json.loads(SHARED_SQUAD.read_text(encoding="utf-8"))["data"]
    references = {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    predictions, odds = {}, {}
    for i, (id, answers) in enumerate(references.items()):
        text = answers[i % len(answers)] if answers else ""
        words = text.split()
        turned = "of " + " ".join(reversed(words))
        predictions[id] = (text, " ".join(words[:2]), f"the {text.upper()}!", "", turned)[i % 5]
        odds[id] = ((i * 37) % 101 - 50) / 10 - (4 if answers else 0)
    # Of evaluate-v2.0.py on the same predictions, with --na-prob-thresh 0.
    figures = """
        69.39050701186623 78.04927840028171 3708 46.48460197559558 65.14045572820717 1721
        89.22999496728737 89.22999496728737 1987 64.88673139158576 0.8 74.30910074691553 0.8
    """
    expected = dict(zip(FIGURES, map(float, figures.split()), strict=True))
    result = squad.squad_v2(references, predictions, odds, 0.0)
    assert result == pytest.approx(expected, abs=1e-9)


def test_predictions_that_nobody_asked_for_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        squad.squad_v2({"q": ["x"]}, {"q": "x", "a": "", "b": "", "c": "", "d": ""})
    assert caplog.messages == [
        "Predictions for questions that `references` lacks are ignored: ['a', 'b', 'c', 'd']."
    ]


# --- Answers from logits ---

CONTEXT = "In 1066 the Normans, led by Guillaume, took “Angleterre” by storm."


def words_of(context: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", context)]


def window(first: int, count: int, start=(), end=(), fill=-9.0, question=2, no_answer=(0.0, 0.0)):
    """A window of `count` words of CONTEXT; logits are given by the word's number in CONTEXT."""
    before = question + 2
    length = before + count + 3
    logits = [np.full(length, fill, np.float32) for _ in range(2)]
    for values, at_words, none in zip(logits, (start, end), no_answer, strict=True):
        values[0] = none
        for word, value in dict(at_words).items():
            values[before + word - first] = value
    mask = np.zeros(length, np.int32)
    mask[before : before + count] = 1
    offsets = np.zeros((length, 2), np.int64)
    offsets[before : before + count] = words_of(CONTEXT)[first : first + count]
    return squad.Window(*logits, mask, offsets, first)


def random_windows(seed: int) -> list[squad.Window]:
    rng, number = np.random.default_rng(seed), len(words_of(CONTEXT))
    made = [window(first, min(7, number - first)) for first in range(0, number - 3, 4)]
    return [
        # The question and the padding have the best logits.
        dataclasses.replace(each, start_logits=start, end_logits=end)
        for each in made
        for start, end in [
            rng.normal(0, 2, (2, len(each.start_logits)))
            + 50 * ((each.context_mask == 0) & (np.arange(len(each.context_mask)) > 0))
        ]
    ]


def slow_selection(windows, n_best, longest, allow_no_answer):
    """(text, start logit + end logit) of the candidates, and the score of no answer, by loops."""
    context_of = []
    for each in windows:
        count = int(each.context_mask.sum())
        context_of.append(range(each.first_token, each.first_token + count))

    def owner(token):
        showing = [i for i, tokens in enumerate(context_of) if token in tokens]
        around = {
            i: min(token - context_of[i][0], context_of[i][-1] - token) + 0.01 * len(context_of[i])
            for i in showing
        }
        return max(around, key=lambda i: (around[i], -i))

    spans = []
    for i, each in enumerate(windows):
        before = int(np.flatnonzero(each.context_mask)[0])
        for first in context_of[i]:
            for last in context_of[i]:
                if owner(first) == i and first <= last < first + longest:
                    at = [before + place - each.first_token for place in (first, last)]
                    score = float(each.start_logits[at[0]]) + float(each.end_logits[at[1]])
                    text = CONTEXT[words_of(CONTEXT)[first][0] : words_of(CONTEXT)[last][1]]
                    spans.append((text, score))
    spans.sort(key=lambda span: -span[1])
    unique = [s for i, s in enumerate(spans) if s[0] not in {text for text, _ in spans[:i]}]
    if not allow_no_answer:
        return unique[:n_best], None
    none = min(float(w.start_logits[0]) + float(w.end_logits[0]) for w in windows)
    ranked = sorted([*unique[:n_best], ("", none)], key=lambda span: -span[1])
    kept = ranked[:n_best]
    kept += [span for span in (unique[0], ("", none)) if span not in kept]
    return kept, none - unique[0][1]


@pytest.mark.parametrize("allow_no_answer", [True, False])
@pytest.mark.parametrize(("n_best", "longest"), [(20, 30), (5, 3), (1, 1), (1000, 30)])
@pytest.mark.parametrize("seed", range(4))
def test_selection_equals_an_independent_rendering(seed, n_best, longest, allow_no_answer):
    windows = random_windows(seed)
    expected, odds = slow_selection(windows, n_best, longest, allow_no_answer)
    result = squad.select_answers(
        CONTEXT, windows, n_best=n_best, max_answer_length=longest, allow_no_answer=allow_no_answer
    )
    assert [c.text for c in result.candidates] == [text for text, _ in expected]
    assert [c.score for c in result.candidates] == pytest.approx([score for _, score in expected])
    assert result.no_answer_score == (odds if odds is None else pytest.approx(odds))
    exps = [math.exp(score) for _, score in expected]
    probabilities = [value / sum(exps) for value in exps]
    assert [c.probability for c in result.candidates] == pytest.approx(probabilities)
    assert result.best == next(c for c in result.candidates if c.text)
    for found in result.candidates:
        assert not found.text or CONTEXT[found.start : found.end] == found.text


def test_white_space_is_no_part_of_an_answer_and_never_one():
    context = " Rollo  was "
    made = squad.Window([0, 0, 3, 0], [0, 0, 3, 0], [0, 0, 1, 1], [[0, 0]] * 2 + [[0, 8], [8, 12]])
    best = squad.select_answers(context, [made]).best
    assert (best.text, best.start, best.end) == ("Rollo", 1, 6)
    made = squad.Window([0, 9, 1], [0, 9, 1], [0, 1, 1], [[0, 0], [0, 1], [1, 2]])
    result = squad.select_answers(" x", [made], max_answer_length=1)
    assert [c.text for c in result.candidates] == ["x", ""]


def test_the_threshold_decides_between_the_best_span_and_no_answer():
    made = window(0, 16, start={3: 2}, end={3: 1}, no_answer=(2.0, 1.5))
    result = squad.select_answers(CONTEXT, [made])
    assert result.no_answer_score == 0.5
    assert result.answer() == ""
    assert result.answer(no_answer_threshold=0.5) == "Normans"
    always = squad.select_answers(CONTEXT, [made], allow_no_answer=False)
    assert (always.answer(), always.no_answer_score) == ("Normans", None)
    assert "" not in [c.text for c in always.candidates]


GOOD = window(0, 16)


def select(*windows, **options):
    return lambda: squad.select_answers(CONTEXT, windows, **options)


def changed(made=GOOD, **changes):
    return dataclasses.replace(made, **changes)


@refusals(
    (lambda: squad.squad_v1({}, {}), "There are no questions"),
    (lambda: squad.squad_v1({"q": []}, {"q": ""}), "have no answer, | ['q']. Score | squad_v2"),
    (lambda: squad.squad_v1({"q": "x"}, {"q": "x"}), "answers of question 'q' are the string"),
    (lambda: squad.squad_v1({"q": ["x"]}, {"q": None}), "prediction for question 'q' is None"),
    (lambda: squad.squad_v2({"q": []}, {}), "needs a prediction for | have none: ['q']"),
    (lambda: squad.squad_v2({"q": []}, {"q": ""}, {}), "needs a no-answer score | : ['q']"),
    (lambda: squad.squad_v2({"q": []}, {"q": ""}, {"q": math.nan}), "'q' is nan; it must be a n"),
    (lambda: squad.squad_v2({"q": []}, {"q": ""}, {"q": "1"}), "'q' is '1'; it must be a number"),
    # Windows.
    (
        select(changed(end_logits=[0.0] * 3)),
        "end_logits of window 0 has the shape (3,); it must be (23",
    ),
    (
        select(changed(offsets=[[0, 1]] * 3)),
        "offsets of window 0 has the shape (3, 2); it must be (23,",
    ),
    (select(changed(start_logits=[])), "start_logits of window 0 has the shape (0,)"),
    (select(changed(context_mask=[1] * 23)), "must not include 0, which means no answer"),
    (select(changed(context_mask=[0, 1, 0, 1] + [0] * 19)), "marks the positions [1, 3]"),
    (select(changed(context_mask=[0] * 23)), "None of the 1 windows has a token with text"),
    (select(), "None of the 0 windows"),
    (select(changed(start_logits=[math.nan] * 23)), "Window 0 has logits that are not finite"),
    (
        select(changed(offsets=[[0, 67]] * 23)),
        "position 4 | [0, 67], but | 66 characters | not bytes",
    ),
    (select(changed(offsets=[[5, 4]] * 23)), "position 4 of window 0 are [5, 4]"),
    (select(changed(first_token=-1)), "first_token of window 0 is -1"),
    (
        select(window(0, 10), changed(window(5, 10), first_token=4)),
        "Window 1 starts at token 4 of the context, but its offsets",
    ),
    (select(GOOD, n_best=0), "n_best is 0; it must be a whole number of at least 1"),
    (
        select(GOOD, max_answer_length=0),
        "max_answer_length is 0; it must be a whole number of at least 1",
    ),
)
def test_what_cannot_be_scored_or_selected_is_named(call, words):
    assert_refused(call, words)


# --- Files ---


def test_files_of_version_2_come_back_and_score(tmp_path):
    selections = {
        "é": squad.select_answers(CONTEXT, [window(0, 16, start={11: 5}, end={11: 5})]),
        "none": squad.select_answers(CONTEXT, [window(0, 16, no_answer=(3.0, 3.0))]),
    }
    squad.write_predictions(tmp_path / "new", selections)
    predictions = squad.read_predictions(tmp_path / "new" / "predictions.json")
    odds = squad.read_null_odds(tmp_path / "new" / "null_odds.json")
    assert predictions == {"é": "Angleterre", "none": ""}
    assert odds == {"é": -10.0, "none": 24.0}
    scores = squad.squad_v2({"é": ["angleterre"], "none": []}, predictions, odds)
    assert (scores["exact"], scores["best_f1"], scores["best_f1_thresh"]) == (100.0, 100.0, -10.0)
    n_best = json.loads((tmp_path / "new" / "nbest_predictions.json").read_text("ascii"))
    assert [row["text"] for row in n_best["é"][:1]] == ["Angleterre"]
    assert sum(row["probability"] for row in n_best["é"]) == pytest.approx(1.0)


def test_the_threshold_reaches_the_file_and_version_1_has_no_odds(tmp_path):
    made = window(0, 16, start={3: 2}, end={3: 1}, no_answer=(2, 2))
    for threshold, text in ((0.0, ""), (1.0, "Normans")):
        squad.write_predictions(
            tmp_path / "2", {"q": squad.select_answers(CONTEXT, [made])}, threshold
        )
        assert squad.read_predictions(tmp_path / "2" / "predictions.json") == {"q": text}
    always = squad.select_answers(CONTEXT, [made], allow_no_answer=False)
    squad.write_predictions(tmp_path / "1", {"q": always})
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == ["nbest_predictions.json", "predictions.json"]


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (squad.read_predictions, "[]", " is []; it must be a JSON object"),
        (squad.read_predictions, '{"q": null}', "q is None; it must be a string"),
        (squad.read_null_odds, '{"q": "1"}', "q is '1'; it must be a finite number"),
        (squad.read_null_odds, '{"q": true}', "q is True; it must be a finite number"),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, read, content, words):
    path = tmp_path / "file.json"
    path.write_text(content)
    assert_refused(lambda: read(path), f"{path} | {words}")
