"""Precision, recall and F1 of chunks and entities."""

import itertools
from pathlib import Path

import pytest
from helpers import assert_refused, refusals

from bert_zoo.data import tagging
from bert_zoo.metrics.labels import SpanScore, span_report


def spans(tags: list[str]) -> list[tuple[str, int, int]]:
    """(type, first, last), as the expectations have them."""
    return [(span.type or "_", span.start, span.end - 1) for span in tagging.spans(tags)]


CONLL_TEST = Path(__file__).parents[2] / "shared" / "data" / "tagging" / "test.txt"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O B-VP", [("NP", 0, 1), ("VP", 3, 3)]),
        ("B-NP B-NP I-NP", [("NP", 0, 0), ("NP", 1, 2)]),
        ("I-NP I-NP B-NP I-VP", [("NP", 0, 1), ("NP", 2, 2), ("VP", 3, 3)]),
        ("B-NP E-NP S-NP S-NP", [("NP", 0, 1), ("NP", 2, 2), ("NP", 3, 3)]),
        ("B-NP I-NP E-NP E-NP I-NP", [("NP", 0, 2), ("NP", 3, 3), ("NP", 4, 4)]),
        ("B-GPE-LOC I-GPE-LOC I-GPE", [("GPE-LOC", 0, 1), ("GPE", 2, 2)]),
        ("B I O I", [("_", 0, 1), ("_", 3, 3)]),
        ("B-O I-O O", [("O", 0, 1)]),
    ],
)
def test_spans_of_a_sentence(tags, expected):
    assert spans(tags.split()) == expected


def test_every_change_of_tag_is_read_as_seqeval_reads_it():
    # Every ordered pair of the seven tags occurs once. The spans are seqeval 1.2.2's.
    tags = (
        "O I-Y I-Y B-Y I-Y S-X I-Y E-X I-Y I-X I-Y B-X I-Y O B-Y B-Y S-X B-Y E-X B-Y I-X B-Y B-X "
        "B-Y O S-X S-X E-X S-X I-X S-X B-X S-X O E-X E-X I-X E-X B-X E-X O I-X I-X B-X I-X O B-X "
        "B-X O O"
    ).split()
    assert len(set(itertools.pairwise(tags))) == 49
    one_word = {
        "X": [5, 7, 9, 11, 16, 18, 20, 22, 25, 26, 27, 28, 29, 30, 31, 32, 34, 35, 46, 47],
        "Y": [6, 8, 10, 12, 14, 15, 17, 19, 21, 23],
    }
    two_words = {"X": [36, 38, 41, 43], "Y": [1, 3]}
    expected = [(type_, place, place) for type_, places in one_word.items() for place in places]
    expected += [(t, place, place + 1) for t, places in two_words.items() for place in places]
    assert sorted(spans(tags)) == sorted(expected)


REFERENCES = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-MISC", "I-MISC", "I-MISC"]]
PREDICTIONS = [["B-PER", "I-PER", "O", "B-ORG"], ["B-MISC", "I-MISC", "I-MISC", "I-MISC"]]


def test_scores_of_a_small_example_by_hand():
    report = span_report(REFERENCES, PREDICTIONS)
    assert list(report.types) == ["LOC", "MISC", "ORG", "PER"]
    assert report.types["PER"] == SpanScore(correct=1, predicted=1, support=1)
    assert report.types["LOC"] == SpanScore(correct=0, predicted=0, support=1)
    assert report.types["ORG"] == SpanScore(correct=0, predicted=1, support=0)
    micro = report.micro
    assert (micro.precision, micro.recall, micro.f1) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    macro = report.macro
    assert (macro.precision, macro.recall, macro.f1) == pytest.approx((0.25, 0.25, 0.25))
    assert (micro.support, macro.support) == (3, 3)
    assert report.accuracy == 5 / 8


def test_a_report_prints_as_a_table():
    assert str(span_report(REFERENCES, PREDICTIONS)).splitlines() == [
        "               precision  recall      f1  support",
        "LOC               0.0000  0.0000  0.0000        1",
        "MISC              0.0000  0.0000  0.0000        1",
        "ORG               0.0000  0.0000  0.0000        0",
        "PER               1.0000  1.0000  1.0000        1",
        "-------------------------------------------------",
        "micro average     0.3333  0.3333  0.3333        3",
        "macro average     0.2500  0.2500  0.2500        3",
        "Accuracy of tags 0.6250",
    ]


def test_sentences_without_spans_score_zero():
    report = span_report([["O", "O"]], [["O", "O"]])
    assert (report.micro.f1, report.macro.f1, report.accuracy) == (0.0, 0.0, 1.0)
    assert "micro average" in str(report)


def test_a_span_does_not_cross_from_one_sentence_to_the_next():
    together = span_report([["B-NP", "I-NP"]], [["B-NP", "I-NP"]])
    apart = span_report([["B-NP"], ["I-NP"]], [["B-NP"], ["I-NP"]])
    assert (together.micro.support, apart.micro.support) == (1, 2)


def report(references, predictions):
    return lambda: span_report(references, predictions)


@refusals(
    (report([["O"]], []), "references has 1 sentences and predictions 0"),
    (
        report([["O"], ["O"]], [["O"], []]),
        "Sentence 1 has 1 tags in the references and 0 in the pred",
    ),
    (report([["O"]], ["O"]), "A sentence is the string 'O'"),
    (report([["NP"]], [["O"]]), "The tag 'NP' must be 'O', or B, I, E or S"),
    (report([["O"]], [["U-NP"]]), "The tag 'U-NP' must"),
    (report([["O-NP"]], [["O"]]), "The tag 'O-NP' must"),
    (report([], []), "The 0 sentences to score have no words"),
    (report([[]], [[]]), "The 1 sentences to score have no words"),
)
def test_reports_refuse_what_they_cannot_score(call, words):
    assert_refused(call, words)


def test_conll_2000_gives_conllevals_figures():
    if not CONLL_TEST.is_file():
        pytest.skip("CoNLL-2000's test.txt is not at ../shared/data/tagging.")
    sentences = CONLL_TEST.read_text(encoding="utf-8").strip().split("\n\n")
    references = [[line.split()[-1] for line in text.splitlines()] for text in sentences]
    number, predictions = 0, []
    for tags in references:
        predictions.append([])
        for tag in tags:
            number += 1
            changes = ((11, "I-NP"), (17, "O"), (23, "B-VP"))
            wrong = [new for every, new in changes if number % every == 0]
            predictions[-1].append((wrong or [tag])[0])
    report = span_report(references, predictions)
    micro = report.micro
    assert (number, micro.support, micro.predicted, micro.correct) == (47377, 23852, 24828, 18238)
    percent = {
        type_: (score.precision, score.recall, score.f1, score.predicted)
        for type_, score in report.types.items()
    }
    percent["all"] = (micro.precision, micro.recall, micro.f1, micro.predicted)
    shown = {t: (*(f"{100 * v:.2f}" for v in row[:3]), row[3]) for t, row in percent.items()}
    # The lines that conlleval prints for these tags.
    assert shown == {
        "ADJP": ("85.19", "73.52", "78.92", 378),
        "ADVP": ("97.49", "80.83", "88.38", 718),
        "CONJP": ("55.56", "55.56", "55.56", 9),
        "INTJ": ("100.00", "100.00", "100.00", 2),
        "LST": ("100.00", "100.00", "100.00", 5),
        "NP": ("68.77", "73.95", "71.27", 13357),
        "PP": ("99.59", "80.73", "89.17", 3900),
        "PRT": ("100.00", "82.08", "90.16", 87),
        "SBAR": ("99.78", "83.18", "90.72", 446),
        "VP": ("60.78", "77.33", "68.07", 5926),
        "all": ("73.46", "76.46", "74.93", 24828),
    }
    assert f"{100 * report.accuracy:.2f}" == "85.61"
