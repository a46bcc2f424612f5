"""`bert_zoo.report`, and how far scores can be trusted."""

import re

import numpy as np
import pytest
from test_report import HOSTILE, Page

import bert_zoo
from bert_zoo.charts.confidence import coverage_curve, reliability_diagram
from bert_zoo.cli.benchmarks.texts import TextBenchmark
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.metrics.confidence import Confidence
from bert_zoo.presets import Recipe

TEXTS = ["A wonderful film.", "A waste of time.", "Dull and long.", f"Moving, and funny. {HOSTILE}"]
WORDS = [["Ada", "Lovelace", "wrote"], ["London", HOSTILE.replace(" ", "")]]
CONTEXT = "Ada Lovelace wrote a program in London."


@pytest.fixture(scope="module")
def classifier():
    return bert_zoo.load("minilm_nano.sst2", task="classification")


def page_of(report) -> Page:
    page = Page(report.path.read_text(encoding="utf-8"))
    assert not page.tags("script") and not page.tags("img")
    return page


# --- Confidence ---


@pytest.fixture
def scores():
    return np.random.default_rng(0).choice(np.linspace(0.3, 1, 29), 200)


@pytest.fixture
def right(scores):
    return np.random.default_rng(1).random(200) < scores


def test_calibration_error_equals_that_of_the_paper(scores, right):
    error = 0.0
    for m in range(1, 16):  # equation 3, over bins ((m - 1) / 15, m / 15]
        of_bin = (scores > (m - 1) / 15) & (scores <= m / 15)
        if of_bin.any():
            error += of_bin.mean() * abs(right[of_bin].mean() - scores[of_bin].mean())
    confidence = Confidence(scores, right)
    assert confidence.ece == pytest.approx(error)
    assert sum(row["texts"] for row in confidence.bins) == 200
    edges = Confidence(np.array([0.0, 1 / 15, 0.2, 1.0]), np.ones(4, bool)).bins
    assert [round(15 * row["to"]) for row in edges] == [1, 3, 15]


def test_accuracy_is_that_of_the_answers_above_each_threshold(scores, right):
    confidence = Confidence(scores, right)
    assert len(confidence.curve) == len(np.unique(scores))
    for row in confidence.curve:
        kept = scores >= row["threshold"]
        assert (row["answered"], row["right"]) == (kept.mean(), right[kept].mean())
    shares = [row["answered"] for row in confidence.choices]
    assert shares[0] == 1 and all(
        row["right"] == right[scores >= row["threshold"]].mean() for row in confidence.choices
    )
    assert all(any(share >= wanted for share in shares) for wanted in (0.95, 0.9, 0.8, 0.7, 0.5))


def test_charts_of_confidence_have_a_bar_for_each_bin_and_a_dot_for_each_choice(scores, right):
    confidence = Confidence(scores, right)
    assert len(re.findall("<rect.*?<title>", reliability_diagram(confidence))) == len(
        confidence.bins
    )
    assert coverage_curve(confidence).count("<circle") == len(confidence.choices)
    one = Confidence(np.array([0.7]), np.array([False]))
    assert "nan" not in reliability_diagram(one) + coverage_curve(one)


# --- Reports by task ---


def test_a_classifiers_report_has_what_evaluate_and_the_programs_measure(classifier, tmp_path):
    labels = ["positive", "negative", 0, "negative"]
    found = bert_zoo.report(
        classifier, TEXTS, labels, tmp_path / "a" / "report.html", title=HOSTILE
    )
    evaluated = classifier.evaluate(TEXTS, labels, return_dict=True, verbose=0)
    assert {name: found.metrics[name] for name in evaluated} == pytest.approx(evaluated)
    data = LabelledTexts(TEXTS, [1, 0, 0, 0], classifier.labels)
    program = TextBenchmark("own", lambda split: data)
    measured = program.measure(data, program.predict(classifier, data, Recipe()))
    np.testing.assert_array_equal(found.confusion, measured.confusion)
    assert found.table == measured.table and found.hardest == measured.hardest
    assert found.confidence.ece == pytest.approx(measured.confidence.ece)
    page = page_of(found)
    assert HOSTILE in page.text
    assert all(
        f"<h2>{name}</h2>" in found.path.read_text()
        for name in ("Confusions", "By label", "Confidence")
    )
    assert str(found).startswith("accuracy") and str(found.path) in str(found)


def test_labels_named_by_users_are_escaped(tmp_path):
    model = bert_zoo.load("minilm_nano", task="classification", labels=[HOSTILE, "other"])
    page = page_of(bert_zoo.report(model, TEXTS, [HOSTILE, "other"] * 2, tmp_path / "report.html"))
    assert page.text.count(HOSTILE) >= 4


@pytest.mark.parametrize(
    ("task", "options", "texts", "labels", "metric", "heading"),
    [
        ("multi_label_classification", {"labels": ["a", "b"]}, TEXTS, [{"a"}, set(), {"a", "b"}, {"b"}],
         "micro_f1", "By label"),
        ("regression", {}, TEXTS, [0.5, 1.0, 2.0, 3.0], "pearson", "The 4 hardest examples"),
        ("classification", {"num_classes": 3}, (TEXTS, TEXTS[::-1]), [0, 1, 2, 0], "macro_f1", "Confidence"),
        ("token_classification", {"labels": ["O", "B-PER", "I-PER"]}, WORDS,
         [["B-PER", "I-PER", "O"], [-100, "O"]], "f1", "By type"),
        ("token_classification", {"labels": ["NAME", "VERB"]}, ["Ada wrote"], ["NAME VERB"], "accuracy", "Confusions"),
        ("question_answering", {}, (["Who?", "Why?", "Where?"], [CONTEXT, CONTEXT, " "]),
         [[("Ada Lovelace", 0)], [], []], "exact_match", "By question"),
        ("question_answering", {}, (["Who?"], [CONTEXT]), [("Ada Lovelace", 0)], "f1", "hardest"),
    ],
)  # fmt: skip
def test_every_task_has_its_sections(task, options, texts, labels, metric, heading, tmp_path):
    model = bert_zoo.load("minilm_nano", task=task, **options)
    found = bert_zoo.report(model, texts, labels, tmp_path / "report.html", batch_size=2)
    evaluated = model.evaluate(texts, labels, 2, return_dict=True, verbose=0)
    assert {name: found.metrics[name] for name in evaluated} == pytest.approx(evaluated)
    assert next(iter(found.metrics)) == metric or metric in found.metrics
    assert heading in page_of(found).text


@pytest.mark.parametrize(
    ("texts", "labels", "metric"),
    [
        (TEXTS, list("aabb"), "loss"),
        ((TEXTS, TEXTS[::-1]), None, "ndcg@10"),
        ((TEXTS, TEXTS[::-1]), [0.1, 0.5, 0.2, 1.0], "spearman"),
    ],
)
def test_an_embedding_models_report_has_a_map_in_a_frame_that_may_run_only_its_script(
    texts, labels, metric, tmp_path
):
    model = bert_zoo.load("minilm_nano", task="embedding")
    found = bert_zoo.report(model, texts, labels, tmp_path / "report.html")
    assert metric in found.metrics
    page = page_of(found)
    (frame,) = page.tags("iframe")
    assert frame["sandbox"] == "allow-scripts" and frame["srcdoc"] == found.map
    assert page.tags("meta")[1]["content"].endswith(f"script-src '{found.map.digest}'")


# --- Errors ---


def test_wrong_data_have_the_errors_of_evaluate_and_write_nothing(classifier, tmp_path):
    for texts, labels in (
        (TEXTS, ["positive", "bad", 0, 1]),
        (TEXTS, [0, 1]),
        (TEXTS, None),
        ([3], [0]),
    ):
        with pytest.raises((ValueError, TypeError)) as wanted:
            classifier.evaluate(texts, labels, verbose=0)
        with pytest.raises(wanted.type, match=re.escape(str(wanted.value))):
            bert_zoo.report(classifier, texts, labels, tmp_path / "report.html")
    with pytest.raises(TypeError, match="texts is dict, but a report shows texts"):
        bert_zoo.report(classifier, {"token_ids": [[1]]}, [0], tmp_path / "report.html")
    with pytest.raises(ValueError, match=r"is a folder.*report\.html"):
        bert_zoo.report(classifier, TEXTS, [0] * 4, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_task_without_a_report_is_refused_by_name(tmp_path):
    model = bert_zoo.load("bert_nano", task="masked_lm")
    with pytest.raises(
        ValueError, match=r"'masked_lm' have no report.*classification.*question_answering"
    ):
        bert_zoo.report(model, TEXTS, None, tmp_path / "report.html")
