"""What notebooks show of answers: spans within each other, long lists and texts, and every class that prints as rows."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import bert_zoo
from bert_zoo.charts import STYLE, marked_text, score_bars, stacked
from bert_zoo.metrics.squad import AnswerCandidate
from bert_zoo.runtime import answers

PACKAGE = Path(bert_zoo.__file__).parent
TEXT = "The University of California, Berkeley hired Ada"
NESTED = [(4, 38, "ORG"), (18, 28, "LOC"), (30, 38, "LOC"), (45, 48, "PER")]
CROSSING = [(0, 28, "A"), (18, 38, "B"), (4, 44, "C"), (18, 38, "B2"), (45, 48, "PER")]


def tagging(text: str, *spans: tuple[int, int, str]) -> answers.Tagging:
    found = (answers.TaggedSpan(text[s:e], kind, 0.9, s, e, 0, 1) for s, e, kind in spans)
    return answers.Tagging(text, (), tuple(found))


def answer(context: str, found: str, *others: str) -> answers.SpanAnswer:
    def candidate(text: str) -> AnswerCandidate:
        start = context.index(text) if text else None
        return AnswerCandidate(text, start, start + len(text) if text else None, 0, 0, 0.5)

    best = candidate(found)
    candidates = (best, *map(candidate, others))
    return answers.SpanAnswer("Who?", context, found, best.start, best.end, 0.5, 0.0, candidates)


LABELS = ["good", "bad", "other"]
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
SINGLE = answers.classifications(["a film", "a play"], PROBABILITIES, LABELS, None)
MULTI = answers.classifications(
    ["a film", "a play"], PROBABILITIES, LABELS, None, thresholds=[0.75] * 3
)
WORD = answers.TaggedWord("Ada", "NOUN", 0.9, 0, 3)
MATCH = answers.TokenMatch("parcel", "parcels", 0.9)


def examples() -> dict[str, object]:
    from bert_zoo.runtime.sparse import SparseTerm, SparseTerms
    from bert_zoo.tasks.generation import GeneratedTexts
    from bert_zoo.tasks.masked_lm import Candidate, FilledMasks
    from bert_zoo.tasks.presets import TextScore, TextScores

    term = SparseTerm("parcel", 1.5, (1.0, 1.5))
    filled = Candidate("her", 7, 0.5, "She saw her face", 8)
    score = TextScore("She saw", ("She", "saw"), np.log([0.5, 0.1]), 4.5, 1.2)
    ranked = answers.Ranked("a document", 3, 0.9)
    all_of_them = [
        *(SINGLE, SINGLE[0], MULTI[1]),
        *(WORD, tagging(TEXT, *NESTED), answers.Taggings([tagging(TEXT, *NESTED)])),
        *(answer(TEXT, "Ada", ""), answers.SpanAnswers([answer(TEXT, "", "Ada")])),
        *(ranked, answers.Ranking([ranked]), MATCH, answers.TokenMatches([MATCH])),
        *(term, SparseTerms([term]), filled, FilledMasks([[filled], [filled]])),
        *(score, TextScores([score]), GeneratedTexts(["one", "two"])),
    ]
    return {type(each).__name__: each for each in all_of_them}


def test_every_class_that_prints_as_rows_has_html():
    for path in PACKAGE.rglob("*.py"):
        if re.search(r"^class \w+\(.*(PrintedRow|Charted)", path.read_text(encoding="utf-8"), re.M):
            importlib.import_module(
                ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            )

    def below(kind: type) -> set[str]:
        return {kind.__name__}.union(*map(below, kind.__subclasses__()))

    shown = examples()
    assert below(answers.Charted) - {"Charted", "PrintedRow", "PrintedRows"} == set(shown)
    for each in shown.values():
        html = each._repr_html_()
        assert html.startswith('<div class="bert-zoo"><style>') and html.endswith("</div>")
        assert ElementTree.fromstring(each.chart()).tag == "figure"


@pytest.mark.parametrize("empty", [answers.Classifications(), answers.Taggings()])
def test_lists_without_answers_have_html(empty):
    assert empty._repr_html_()


@pytest.mark.parametrize("spans", [NESTED, CROSSING, []])
def test_marks_within_and_across_each_other_keep_text_and_labels(spans):
    root = ElementTree.fromstring(tagging(TEXT, *spans).chart())
    labels = [each.text for each in root.iter("strong") if each.get("aria-hidden") is None]
    assert sorted(labels) == sorted(f" {kind}\u00a00.90" for _, _, kind in spans)
    for label in [*root.iter("strong")]:
        label.text = ""
    assert "".join(root.itertext()) == TEXT
    # The marks with a label's colour cover just the characters of its spans.
    marked = "".join(each.text or "" for each in root.iter("mark"))
    assert set(marked) <= set(TEXT)


def test_a_label_has_one_colour_in_all_texts():
    rows = answers.Taggings(
        [tagging("Ada Paris", (0, 3, "A"), (4, 9, "B")), tagging("Rome", (0, 4, "B"))]
    )
    marks = ElementTree.fromstring(rows.chart()).iter("mark")
    assert [each.get("class") for each in marks] == ["series0", "series1", "series1"]


@pytest.mark.parametrize("span", [(3, 3), (2, 9), (-1, 2)])
def test_spans_that_mark_nothing_are_refused(span):
    with pytest.raises(ValueError, match=r"'PER'.*empty or outside"):
        marked_text("Ada met", [(*span, "PER", None)])


def test_halves_of_utf_16_pairs_are_replaced():
    html = tagging("Ada \ud800 left", (0, 5, "\udfff"))._repr_html_()
    assert html.encode("utf-8").count("\ufffd".encode()) == 2


def test_long_lists_and_texts_are_cut_and_say_so():
    bars = score_bars([("a", 0.5, "b" * 5000)] * 250)
    assert bars.count("<li>") == 100 and "… and 150 more rows" in bars and len(bars) < 100_000
    several = stacked([marked_text("a", ())] * 1234)
    assert several.count("passage") == 100 and "… and 1,134 more results" in several
    text = marked_text("word " * 10_000, [(0, 4, "A", None), (40_000, 40_004, "B", None)])
    assert text.count("<mark") == 1 and "Characters 0 to 10,000 of 50,000." in text


def test_an_answer_is_shown_within_a_long_context():
    shown = answer("before " * 500 + "Ada" + " after" * 500, "Ada", "").chart()
    assert "Ada<strong> answer 0.500</strong>" in shown and "no answer" in shown
    assert len(shown) < 2500 and "of 6,503" in shown


def test_no_answer_is_said_and_the_best_guess_marked():
    shown = answer("Ada left", "", "Ada").chart()
    assert "no answer 0.500" in shown and "Ada<strong> best guess 0.500</strong>" in shown
    assert "no answer" in answer("", "").chart()


def test_bars_of_scores_begin_at_zero():
    def drawn(*scores: float) -> list[tuple[str, str]]:
        root = ElementTree.fromstring(score_bars([("a", score, "") for score in scores]))
        return [(bar.get("x"), bar.get("width")) for bar in root.iter("rect")]

    assert drawn(0.25, 1.0) == [("0.0", "25.0"), ("0.0", "100.0")]
    assert drawn(6.0, -2.0, np.nan) == [("25.0", "75.0"), ("0.0", "25.0"), ("25.0", "0.0")]


def test_a_document_without_vectors_leaves_room_for_the_bars_of_others():
    rows = answers.Ranking(answers.Ranked("text", i, score) for i, score in enumerate([3, -1e9]))
    bars = ElementTree.fromstring(rows.chart()).iter("rect")
    assert [bar.get("width") for bar in bars] == ["100.0", "0.0"]


def luminance(colour: np.ndarray) -> float:
    """Source: WCAG 2.2, relative luminance."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_text_in_marks_has_a_contrast_of_at_least_4_5_in_light_and_dark():
    tint = float(re.search(r"rgb\(var\(--colour\)/(\.\d+)\)\) rgb\(var\(--card\)\)", STYLE)[1])
    light, dark = STYLE.split("prefers-color-scheme:dark")
    for scheme in (light, dark):
        found = re.findall(r"--(\w+):(\d+ \d+ \d+)", scheme)
        colours = {name: np.array(value.split(), float) / 255 for name, value in found}
        for name in (name for name in colours if name.startswith("series")):
            ground = tint * colours[name] + (1 - tint) * colours["card"]
            low, high = sorted(map(luminance, (ground, colours["ink"])))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_without_markupsafe_notebooks_show_the_text():
    code = (
        "import sys; sys.modules['markupsafe'] = None\n"
        "from bert_zoo.runtime.answers import Ranked, Ranking\n"
        "row = Ranked('text', 0, 0.5)\n"
        "assert row._repr_html_() is None and Ranking([row])._repr_html_() is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)
