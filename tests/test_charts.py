"""Charts of probes: where things stand, that nothing is run or lost, and the pages that they stand in."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import assert_refused, refusals

from bert_zoo.charts import (
    STYLE,
    attention_viewer,
    dependency_tree,
    heat_map,
    layer_curves,
    line_chart,
    marked_text,
    scatter,
    score_bars,
    stacked,
)
from bert_zoo.cli.report import Section, write_probing_report

HOSTILE = "</script><script>alert('x')</script> \"quoted\" & <b>"
WORDS = ["She", "saw", "the", "cat"]
HEADS = [2, 0, 4, 2]
CURVES = {"minilm_l6": [[0.1, 0.3, np.nan], [0.3, 0.3, 0.5]], HOSTILE: np.linspace(0, 1, 5)}
CHARTS = {
    "line_chart": line_chart([0.1, 0.4, np.nan], HOSTILE, 2, [0.2, 0.1, 0.3]),
    "layer_curves": layer_curves(CURVES, {HOSTILE: 0.2, "other": [0.1, np.nan, 0.2]}, name=HOSTILE),
    "heat_map": heat_map([[0.5, np.nan], [1.0, 0.0]], [HOSTILE, 1], [0, HOSTILE], name=HOSTILE),
    "dependency_tree": dependency_tree(
        [HOSTILE, *WORDS[1:]],
        HEADS,
        [(0, 1), (2, 3), (2, 1)],
        relations=["nsubj", "root", HOSTILE, "obj"],
        tags=["X", HOSTILE, "Y", "Z"],
    ),
    "scatter": scatter([[0, 0], [1, 2]], [HOSTILE, "b"], ["x", HOSTILE], name=HOSTILE),
    "marked_text": marked_text(HOSTILE, [(0, 3, HOSTILE, 0.5)], title=HOSTILE),
    "score_bars": score_bars(
        [(HOSTILE, 0.5, HOSTILE), ("b", np.nan, (HOSTILE, "b", HOSTILE)), ("c", None, "")],
        title=HOSTILE,
        chosen=[HOSTILE],
    ),
    "stacked": stacked([marked_text(HOSTILE, ()), score_bars([])], title=HOSTILE),
}


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def of_class(chart: str, name: str) -> list[ElementTree.Element]:
    return [each for each in parsed(chart).iter() if name in each.get("class", "").split()]


def titles(chart: str) -> list[str]:
    return [each.text for each in parsed(chart).iter("title")]


@pytest.mark.parametrize("name", CHARTS)
def test_names_are_shown_and_never_run_and_numbers_are_finite(name):
    root = parsed(CHARTS[name])
    assert not {"script", "b"} & {each.tag for each in root.iter()}
    texts = [*root.itertext(), *(each.get("aria-label", "") for each in root.iter())]
    assert any(HOSTILE in text for text in texts)
    drawn = [value for each in root.iter() for key, value in each.items() if key != "aria-label"]
    assert not [value for value in drawn if "nan" in value or "inf" in value]


@pytest.mark.parametrize("name", CHARTS)
def test_every_part_of_a_chart_has_its_style(name):
    classes = (found.get("class", "").split() for found in parsed(CHARTS[name]).iter())
    used = {each for some in classes for each in some}
    # Of text and of marks that are as the style has all of their kind.
    assert used - {"dash0"} <= set(re.findall(r"\.([a-z0-9]+)", STYLE))
    assert str(STYLE) in CHARTS[name]._repr_html_()


def test_colours_exist_in_light_and_dark():
    colours = re.findall(r"--([a-z0-9]+):\d+ \d+ \d+", STYLE)
    assert {colours.count(each) for each in colours} == {2}
    assert set(re.findall(r"rgb\(var\(--([a-z0-9]+)\)", STYLE)) - {"colour"} <= set(colours)


# --- Layer curves ---


def positions(path: str) -> np.ndarray:
    return np.array(re.findall(r"([\d.]+)[ ,]([\d.]+)", path), float)


def test_a_curve_is_the_mean_of_runs_within_a_band_of_their_deviation():
    runs = np.array([[0.0, 0.4], [0.2, 0.8]])
    chart = layer_curves({"a": runs}, {"chance": 0.1, "chain": [0.1, 0.6]})
    line = positions(parsed(chart).find('.//path[@class="line series0"]').get("d"))
    flat, rising = (positions(each.get("d")) for each in of_class(chart, "baseline")[:2])
    # The means are 0.1 and 0.6, as the second baseline.
    np.testing.assert_allclose(line, rising)
    assert flat[0, 1] == flat[1, 1] == line[0, 1]
    unit = (line[0, 1] - line[1, 1]) / 0.5
    band = positions(of_class(chart, "band")[0].get("points"))
    deviations = runs.std(axis=0, ddof=1)
    np.testing.assert_allclose(band[:2, 1], line[:, 1] - unit * deviations, atol=0.11)
    np.testing.assert_allclose(band[:1:-1, 1], line[:, 1] + unit * deviations, atol=0.11)
    assert "a, layer 1: 0.6000 ± 0.2828" in titles(chart)


def test_models_with_different_numbers_of_layers_share_a_chart():
    chart = layer_curves({"six": np.ones(7) / 2, "twelve": np.ones(13)})
    assert [title for title in titles(chart) if ", layer" in title] == [
        *(f"six, layer {i}: 0.5000" for i in range(7)),
        *(f"twelve, layer {i}: 1.0000" for i in range(13)),
    ]
    assert layer_curves({"one layer": [0.5]}) and layer_curves({"none": [np.nan]}) == ""
    assert not of_class(chart, "band")


# --- Heat maps ---


def test_cells_are_as_strong_as_their_values_and_lead_on():
    link = "attention.html#layer={row}&head={column}"
    chart = heat_map([[0.0, 0.5], [1.0, np.nan]], "ab", "xy", link=link)
    cells = list(parsed(chart).iter("a"))
    assert [cell.get("href").split("#")[1] for cell in cells] == [
        f"layer={row}&head={column}" for row in (0, 1) for column in (0, 1)
    ]
    paint = [cell.find("rect").get("fill-opacity") for cell in cells]
    assert float(paint[0]) < float(paint[1]) < float(paint[2]) and paint[3] is None
    assert cells[1].get("aria-label") == "layer a, head y: 0.5000"


def test_values_are_written_where_cells_are_wide():
    values = np.full((2, 3), 0.25)
    assert [each.text for each in of_class(heat_map(values, "ab", "xyz"), "value")] == [".25"] * 6
    assert not of_class(heat_map(np.ones((2, 16)), "ab", range(16)), "value")


# --- Trees ---


def test_predicted_edges_are_told_apart_by_whether_the_gold_tree_has_them():
    edges, relations = [(0, 1), (2, 1), (3, 2)], ["nsubj", "root", "det", "obj"]
    chart = dependency_tree(WORDS, HEADS, edges, relations=relations)
    arcs = [each for each in of_class(chart, "arc") if len(each)]

    def titled(kind: str) -> list[str]:
        return [each.find("title").text for each in arcs if each.get("class") == kind]

    assert titled("arc") == ["She ← saw: nsubj", "the ← cat: det", "cat ← saw: obj"]
    assert [title.split(":")[0] for title in titled("arc right")] == ["She – saw", "the – cat"]
    assert [title.split(":")[0] for title in titled("arc wrong")] == ["saw – the"]
    assert [each.text for each in of_class(chart, "root")] == ["saw"]


def test_arcs_over_the_same_words_have_different_heights():
    heads = [3, 6, 0, 1, 3, 5, 2, 3]
    chart = dependency_tree([f"w{i}" for i in range(8)], heads)
    flat = []
    for arc in of_class(chart, "arc"):
        found = re.match(r"M([\d.]+) .*? ([\d.]+)H.*Q([\d.]+)", arc.get("d"))
        start, height, end = map(float, found.groups())
        flat.append((*sorted((start, end)), height))
    assert len(flat) == 7
    for i, (start, end, height) in enumerate(flat):
        for other_start, other_end, other in flat[:i]:
            assert height != other or end <= other_start + 10 or other_end <= start + 10


# --- Scatter plots ---


def test_points_keep_their_shape_and_far_names_their_room():
    chart = scatter([[0, 0], [4, 0], [0, 1]], ["a", "b", "c"])
    a, b, c = (
        np.array(re.findall(r"[\d.]+", each.get("transform")), float)
        for each in of_class(chart, "mark")
    )
    assert (b - a)[0] == pytest.approx(4 * (a - c)[1], abs=0.3) and a[1] == b[1]
    assert [each.text for each in of_class(chart, "label")] == ["a", "b", "c"]
    crowded = scatter(np.zeros((5, 2)), list("abcde"))
    assert len(of_class(crowded, "label")) < 5 and titles(crowded) == list("abcde")


def test_long_names_are_numbered_in_a_list():
    contexts = ["they went to see a play", "children play outside"]
    chart = scatter([[0, 0], [1, 1]], contexts, ["noun", "verb"])
    assert [each.text for each in of_class(chart, "label")] == ["1", "2"]
    assert [each.text for each in parsed(chart).iter("li")] == contexts
    assert titles(chart)[:2] == ["they went to see a play (noun)", "children play outside (verb)"]


# --- Attention ---


def test_attention_page_holds_every_weight_and_runs_its_script_alone():
    maps = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 3))
    page = attention_viewer([([HOSTILE, "b", "<!-- c"], maps)], title=HOSTILE)
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL)
    (row,) = json.loads(data)
    assert row["words"] == [HOSTILE, "b", "<!-- c"] and (row["layers"], row["heads"]) == (2, 4)
    kept = np.frombuffer(base64.b64decode(row["maps"]), np.uint8).reshape(maps.shape)
    np.testing.assert_allclose(kept / 255, maps, atol=0.5 / 255 + 1e-9)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page and "default-src 'none'" in page
    assert not re.search(r"\bsrc=|url\(|@import|<link", page)
    assert 'sandbox="allow-scripts"' in page._repr_html_()


@refusals(
    (lambda: heat_map(np.ones((2, 3)), "ab", "xy"), "shape (2, 2), not (2, 3)"),
    (lambda: dependency_tree(WORDS, [0]), "There are 4 words, but"),
    (lambda: scatter(np.zeros((2, 2)), "abc"), "3 names need points of shape (3, 2), not (2, 2)"),
    (
        lambda: attention_viewer([(["a", "b"], np.ones((2, 4, 3, 3)))]),
        "between 2 words | shape [2, 4, 3, 3]",
    ),
)
def test_numbers_that_do_not_fit_their_names_are_refused(call, words):
    assert_refused(call, words)


# --- The page ---


def test_page_of_probes_shows_its_sections_and_leads_to_attention(tmp_path):
    rows = [{"layer": 0, "accuracy": 0.91514}, {"layer": 1, "accuracy": 0.5}]
    charts = {HOSTILE: CHARTS["layer_curves"], "none": layer_curves({"a": [np.nan]})}
    tables = {HOSTILE: rows, "empty": []}
    sections = [Section("Words", HOSTILE, charts), Section("Heads", tables=tables)]
    viewer = attention_viewer([(["a"], np.ones((1, 1, 1, 1)))])
    path = tmp_path / "report.html"
    write_probing_report(path, HOSTILE, sections, attention=viewer)
    page = path.read_text(encoding="utf-8")
    assert "<script" not in page and page.count("<figure") == 1 and page.count("<h3>") == 2
    assert "0.9151" in page and "Heads" in page and 'class="bert-zoo"' in page
    assert re.findall(r'href="([^"]+)"', page) == ["attention.html"]
    assert (tmp_path / "attention.html").read_text(encoding="utf-8") == viewer
    write_probing_report(path, "minilm_l6", sections)
    assert "href" not in path.read_text(encoding="utf-8")


def test_charts_and_reports_are_drawn_without_tensorflow_and_keras():
    code = (
        "import sys, bert_zoo.charts, bert_zoo.cli.report, bert_zoo.cli.report\n"
        "assert not {'tensorflow', 'keras', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
