"""The map of texts: points, clusters and their words, and the page in a browser."""

import base64
import importlib.util
import json
import re

import numpy as np
import pytest
from helpers import assert_refused, refusals
from scipy.sparse import csr_array

from bert_zoo.charts import text_map
from bert_zoo.charts.clusters import k_means, principal_components, telling_words

HOSTILE = "</script><script>document.title = 'run'</script><!-- & <b>"
TOPICS = ["cats purr softly", "rockets orbit moons", "soup needs pepper"]
TEXTS = [f"the {TOPICS[i % 3]} in text {i}" for i in range(90)]
LABELS = [i % 3 for i in range(90)]
VECTORS = 9 * np.eye(3, 8)[LABELS] + np.random.default_rng(0).normal(size=(90, 8))


def data_of(page: str) -> dict:
    data, _ = re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL)
    return json.loads(data)


def decoded(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint16)


def points_of(page: str) -> np.ndarray:
    return decoded(data_of(page)["points"]).reshape(-1, 2).astype(float)


@pytest.mark.parametrize("shape", [(90, 8), (5, 40)])
def test_principal_components_are_those_of_the_singular_value_decomposition(shape):
    x = np.random.default_rng(1).normal(size=shape) * np.linspace(3, 1, shape[1])
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    points, explained = principal_components(x, 2)
    np.testing.assert_allclose(np.abs(points), np.abs(left * values)[:, :2], atol=1e-9)
    np.testing.assert_allclose(explained, values[:2] ** 2 / np.sum(values**2))
    assert (points.max(axis=0) >= -points.min(axis=0)).all()


def test_points_keep_the_proportions_of_the_components():
    points, components = (
        points_of(text_map(TEXTS, VECTORS, method="pca")),
        principal_components(VECTORS)[0],
    )
    span = np.ptp(components, axis=0).max()
    moved = (components - components.mean(axis=0)) / span * 65535
    np.testing.assert_allclose(points - points.mean(axis=0), moved, atol=2)
    assert (points.min(), points.max()) == (0, 65535)


def test_vectors_of_two_dimensions_are_the_points():
    page = text_map(["a", "b", "c"], [[0, 0], [4, 1], [2, 2]])
    np.testing.assert_allclose(
        points_of(page) / 65535, [[0, 0.25], [1, 0.5], [0.5, 0.75]], atol=1e-4
    )


def test_equal_vectors_make_one_point_and_one_cluster():
    page = text_map(TEXTS, np.ones((90, 8)), method="pca")
    assert len(np.unique(points_of(page), axis=0)) == 1
    assert data_of(page)["groupings"][0]["counts"] == [90]


def test_clusters_are_found_and_named_by_the_words_that_tell_them_apart():
    assert len(set(zip(k_means(VECTORS, 3).tolist(), LABELS, strict=True))) == 3
    (clusters,) = data_of(text_map(TEXTS, VECTORS, method="pca", num_clusters=3))["groupings"]
    assert {frozenset(name.split(" · ")) for name in clusters["names"]} == {
        frozenset(topic.split()) for topic in TOPICS
    }
    assert clusters["counts"] == [30, 30, 30]


def test_words_as_frequent_everywhere_name_no_group():
    words = telling_words(
        ["the sun the sun", "the moon", "the moon, THE tide"], np.array([0, 1, 1])
    )
    assert words == [["sun"], ["moon", "tide"]]
    assert telling_words(["a be", "be see"], np.array([0, 0])) == [["be", "see"]]


def test_labels_come_before_clusters_and_the_most_frequent_first():
    labels = np.array(["rare"] * 10 + ["common"] * 80)
    by_label, by_cluster = data_of(text_map(TEXTS, VECTORS, labels))["groupings"]
    assert (by_label["names"], by_label["counts"]) == (["common", "rare"], [80, 10])
    assert decoded(by_label["groups"]).tolist() == [1] * 10 + [0] * 80
    assert by_cluster["kind"] == "cluster"


def test_sparse_vectors_make_the_map_of_the_same_dense_ones():
    assert text_map(TEXTS, csr_array(VECTORS), method="pca") == text_map(
        TEXTS, VECTORS, method="pca"
    )


def test_vectors_over_a_vocabulary_keep_their_clusters():
    wide = np.zeros((90, 30000))
    wide[:, :24] = np.repeat(VECTORS, 3, axis=1)
    clusters = data_of(text_map(TEXTS, csr_array(wide), num_clusters=3))["groupings"][0]
    assert clusters["counts"] == [30, 30, 30]


def test_the_same_seed_makes_the_same_page():
    assert text_map(TEXTS, VECTORS, seed=3) == text_map(iter(TEXTS), VECTORS.tolist(), seed=3)


def test_long_texts_are_shortened_and_said():
    data = data_of(text_map(["a" * 301, "b" * 300, "c"], np.eye(3)))
    assert data["texts"] == ["a" * 299 + "…", "b" * 300, "c"]
    assert "Texts end after 300" in data["note"]
    assert "Texts end" not in data_of(text_map(["b" * 300, "c", "d"], np.eye(3)))["note"]


def test_rare_labels_beyond_the_most_frequent_are_one_group():
    labels = [*range(250), *range(210)]
    grouping = data_of(text_map(["text"] * 460, np.eye(460), labels))["groupings"][0]
    assert grouping["names"][199:] == ["199", "50 other labels"]
    assert grouping["counts"] == [2] * 200 + [60]
    assert decoded(grouping["groups"])[[199, 200, 249, 250]].tolist() == [199, 200, 200, 0]


def test_texts_are_data_and_never_part_of_the_page():
    page = text_map([HOSTILE, "b", "c"], np.eye(3), [HOSTILE, "x", "y"], title=HOSTILE)
    data = data_of(page)
    assert data["texts"][0] == HOSTILE and HOSTILE in data["groupings"][0]["names"]
    assert HOSTILE not in page and "default-src 'none'" in page
    assert (
        'sandbox="allow-scripts"' in page._repr_html_()
        and 'title="Map of texts"' in page._repr_html_()
    )


@refusals(
    (lambda: text_map(["a", "b"], np.eye(2)), "at least 3 texts, but there are 2"),
    (lambda: text_map("abc", np.eye(3)), "at least 3 texts"),
    (lambda: text_map(["a", 7, "c"], np.eye(3)), "texts[1] is 7"),
    (lambda: text_map(TEXTS, VECTORS[:80]), "90 texts need vectors | shape [80, 8]"),
    (lambda: text_map(TEXTS, np.zeros(90)), "shape [90]"),
    (lambda: text_map(TEXTS, np.full((90, 8), np.nan)), "must be finite"),
    (lambda: text_map(TEXTS, VECTORS * 1e300), "of type float64 | must be finite"),
    (lambda: text_map(TEXTS, VECTORS.astype(str)), "of type <U32 | must be finite"),
    (lambda: text_map(TEXTS, csr_array(VECTORS * np.inf)), "must be finite"),
    (lambda: text_map(TEXTS, VECTORS, LABELS[1:]), "90 texts, but 89 labels"),
    (lambda: text_map(TEXTS, VECTORS, method="tsne"), "'tsne' | 'pca', 'umap'"),
    (lambda: text_map(TEXTS[:15], VECTORS[:15], method="umap"), "more than 15 texts"),
    (lambda: text_map(TEXTS, VECTORS, num_clusters=0), "num_clusters is 0 | from 1 to 90"),
)
def test_what_makes_no_map_is_refused(call, words):
    assert_refused(call, words)


def test_umap_is_used_where_it_is_installed_and_said():
    if importlib.util.find_spec("umap") is None:
        assert "PCA" in data_of(text_map(TEXTS, VECTORS))["note"]
        with pytest.raises(ImportError, match="pip install umap-learn"):
            text_map(TEXTS, VECTORS, method="umap")
    else:
        page = text_map(TEXTS, VECTORS)
        assert "UMAP" in data_of(page)["note"] and page == text_map(TEXTS, VECTORS, method="umap")
        assert "PCA" in data_of(text_map(TEXTS[:15], VECTORS[:15]))["note"]


# --- In a browser ---


@pytest.fixture
def shown(browser, tmp_path):
    """A function that opens a page with a map, and asserts at the end that nothing went wrong in it."""
    errors = []

    def open_map(*args, width: int = 1280, **options):
        path = tmp_path / "map.html"
        path.write_text(text_map(*args, **options), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(path.as_uri())
        page.wait_for_function("sprites.length > 0")
        return page

    yield open_map
    assert not errors


def middle_of(page, i: int) -> tuple[float, float]:
    box = page.locator("main canvas").first.bounding_box()
    return box["x"] + page.evaluate(f"x({i})"), box["y"] + page.evaluate(f"y({i})")


def test_a_point_shows_its_text_under_the_pointer_and_by_the_keyboard(shown):
    page = shown(TEXTS, VECTORS, LABELS)
    far = int(points_of(text_map(TEXTS, VECTORS, LABELS))[:, 0].argmax())
    page.mouse.move(*middle_of(page, far))
    assert TEXTS[far] in page.inner_text(".tip") and f"label: {LABELS[far]}" in page.inner_text(
        ".tip"
    )
    page.focus(".map canvas")
    page.keyboard.press("ArrowLeft")
    other = page.evaluate("current")
    assert other != far and TEXTS[other] in page.inner_text(".tip")
    page.keyboard.press("Escape")
    assert page.inner_text(".tip") == ""


def test_texts_are_found_by_words_and_by_the_legend(shown):
    page = shown(TEXTS, VECTORS, LABELS)
    page.fill("input", "ROCKETS 4")
    matching = [text for text in TEXTS if "rockets" in text and "4" in text]
    assert page.locator(".found li").all_inner_texts() == matching
    page.locator(".found button").first.click()
    assert matching[0] in page.inner_text(".tip")
    page.fill("input", "")
    page.locator(".panes li button", has_text="2 (30)").click()
    assert page.evaluate("numVisible") == 30
    page.select_option("select", "cluster")
    assert page.evaluate("numVisible") == 90


def test_the_map_zooms_to_the_pointer_and_moves(shown):
    page = shown(TEXTS, VECTORS)
    place = middle_of(page, 5)
    page.mouse.move(*place)
    page.mouse.wheel(0, -600)
    page.wait_for_function("view.zoom > 2")
    np.testing.assert_allclose(middle_of(page, 5), place, atol=1)
    page.mouse.down()
    page.mouse.move(place[0] + 50, place[1] - 20)
    page.mouse.up()
    np.testing.assert_allclose(middle_of(page, 5), (place[0] + 50, place[1] - 20), atol=1)
    page.get_by_label("Show all").click()
    assert page.evaluate("view.zoom") == 1


def test_hostile_texts_are_shown_and_never_run_on_a_phone(shown):
    page = shown([HOSTILE, "b", "c"], np.eye(3), [HOSTILE * 9, "x", "y"], width=390, title="Map")
    assert HOSTILE in page.inner_text(".found") and page.title() == "Map"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert HOSTILE[:20] in page.locator(".map canvas").get_attribute("aria-label")


def test_many_labels_are_grey_until_one_is_chosen(shown):
    page = shown(TEXTS, VECTORS, range(90))
    assert page.evaluate("[styleOf(23), styleOf(24)]") == [23, -1]
    page.locator(".panes li button", has_text="89 (1)").click()
    assert page.evaluate("styleOf(89)") == 89 % 24


def test_two_fingers_zoom_around_their_places(browser, tmp_path):
    path = tmp_path / "map.html"
    path.write_text(text_map(TEXTS, VECTORS, method="pca"), encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 800}, has_touch=True)
    page.goto(path.as_uri())
    box = page.locator(".map canvas").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *distances: float) -> None:
        fingers = [{"x": middle[0] + d, "y": middle[1], "id": i} for i, d in enumerate(distances)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    before = middle_of(page, 5)
    touch("touchStart", -40, 40)
    touch("touchMove", -80, 80)
    touch("touchEnd")
    assert page.evaluate("view.zoom") == pytest.approx(2, rel=0.01)
    after = middle_of(page, 5)
    np.testing.assert_allclose(np.subtract(after, middle), 2 * np.subtract(before, middle), atol=2)


def test_a_notebook_runs_the_page_in_its_frame(browser):
    page = browser.new_page()
    page.set_content(text_map(TEXTS, VECTORS, method="pca")._repr_html_())
    page.frame_locator("iframe").get_by_text("90 of 90 texts (the first 50)").wait_for(
        timeout=10_000
    )
