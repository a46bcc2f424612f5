"""The page and the card of a fine-tuning run, and what they are computed from."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

import bert_zoo
from bert_zoo.cards import Card
from bert_zoo.cli.report import HardExample, RunRecord, write_model_card, write_report
from bert_zoo.cli.report.analysis import (
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    most_confused,
    per_label_table,
)
from bert_zoo.cli.report.curves import line_chart, position_ticks, round_ticks
from bert_zoo.cli.report.model_card import HUB_LICENCES
from bert_zoo.cli.report.page import MOST_SHADE, STYLES
from bert_zoo.cli.report.record import forbids_commerce
from bert_zoo.cli.report.wording import duration, number, setting
from bert_zoo.tasks import TASKS, Classifier, QuestionAnswerer

PACKAGE = Path(bert_zoo.__file__).parent
LABELS = ("negative", "positive")
CONFUSION = np.array([[383, 45], [29, 415]])
HOSTILE = "<script>alert('x')</script> \"quoted\" & <img src=https://example.org/a.png> | `code`"

RECORD = RunRecord(
    model="minilm_l6",
    task="sst2",
    kind="classification",
    use=Classifier.use,
    data="Phrases of film reviews.",
    num_train=67349,
    num_measured=872,
    measured_on="validation",
    seed=3,
    recipe={"learning_rate": 5e-5, "max_length": 128, "lora_rank": None, "betas": (0.9, 0.999)},
    versions={"bert_zoo": "0.1.0", "keras": "3.15.0"},
    epochs=[{"accuracy": 0.89224}, {"accuracy": 0.91514}, {"accuracy": 0.90482}],
    losses=[0.4567, 0.2345, 0.1234],
    kept_epoch=2,
    steps=6315,
    seconds=2817.3,
    labels=LABELS,
    confusion=CONFUSION,
    table=per_label_table(CONFUSION, LABELS),
    hardest=[HardExample("a charming journey", "positive", "negative", 5.4321)],
    parameters=22_713_986,
    trainable_parameters=1_234_567,
    checkpoint=bert_zoo.describe("minilm_l6"),
)
ANSWERS = replace(
    RECORD,
    task="squad_v2",
    kind="question_answering",
    use=QuestionAnswerer.use,
    epochs=[{"best_f1": 61.1, "NoAns_f1": 70.2}, {"best_f1": 63.257, "NoAns_f1": 69.0}],
    losses=[2.0, 1.0],
    labels=(),
    confusion=None,
    table=(),
    hardest=(),
)


class Page(HTMLParser):
    """A page's elements and its text, and whether every element is closed."""

    VOID = ("meta", "link", "img", "br", "path", "circle", "line")

    def __init__(self, markup: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(markup)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def tags(self, name: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def markup_of(record: RunRecord, tmp_path: Path) -> str:
    write_report(record, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def page_of(record: RunRecord, tmp_path: Path) -> Page:
    page = Page(markup_of(record, tmp_path))
    assert page.open == []
    return page


def card_of(record: RunRecord, tmp_path: Path) -> str:
    write_model_card(record, tmp_path / "README.md")
    return (tmp_path / "README.md").read_text(encoding="utf-8")


def front_matter(card: str) -> dict:
    return yaml.safe_load(card.removeprefix("---\n").split("\n---\n\n")[0])


# --- The page ---


def test_page_says_what_came_out(tmp_path):
    text = page_of(RECORD, tmp_path).text
    for part in (
        "minilm_l6 on sst2",
        "872 examples",
        "after epoch 2 of 3",
        "0.9151",
        "46 min 57 s",
    ):
        assert part in text
    for part in ("0.8922", "0.9048", "0.4567", "0.2345", "0.1234", "2 kept"):
        assert part in text
    for part in ("383", "45", "29", "415", "798 of 872 predictions are right (91.5%)"):
        assert part in text
    for part in ("truth positive prediction negative loss 5.4321 a charming journey",):
        assert part in text
    for part in ("Phrases of film reviews.", "5e-05", "0.9, 0.999", "none", "seed 3", "3.15.0"):
        assert part in text
    for part in ("22,713,986", "1,234,567", "Apache-2.0", "arXiv:2002.10957"):
        assert part in text


def test_the_kept_epoch_alone_is_marked(tmp_path):
    page = page_of(RECORD, tmp_path)
    assert [row.get("class") for row in page.tags("tr")].count("kept") == 1
    kept = [dot for dot in page.tags("circle") if dot["class"] == "dot kept"]
    assert len(kept) == len(page.tags("svg")) == 2


def test_every_figure_of_every_epoch_stands_in_the_table(tmp_path):
    epochs = [{f"figure_{n}": 0.1 * epoch + 0.001 * n for n in range(9)} for epoch in (1, 2)]
    record = replace(ANSWERS, epochs=epochs)
    text = page_of(record, tmp_path).text
    for figures in epochs:
        assert all(number(value) in text for value in figures.values())


@pytest.mark.parametrize("field", ["text", "truth", "prediction"])
@pytest.mark.parametrize("by_word", [False, True])
def test_examples_are_shown_and_never_run(by_word, field, tmp_path):
    example = replace(RECORD.hardest[0], by_word=by_word, **{field: HOSTILE})
    page = page_of(replace(RECORD, hardest=[example]), tmp_path)
    assert HOSTILE in page.text
    assert not page.tags("script") and not page.tags("img")


def test_names_from_users_are_escaped_everywhere(tmp_path):
    record = replace(
        RECORD,
        model=HOSTILE,
        task=HOSTILE,
        data=HOSTILE,
        measured_on=HOSTILE,
        recipe={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        epochs=[{HOSTILE: 0.1}, {HOSTILE: 0.2}, {HOSTILE: 0.3}],
        labels=[HOSTILE, "other", "third"],
        confusion=np.full((3, 3), 2),
        table=[{HOSTILE: HOSTILE, "f1": 0.5}],
        checkpoint=Card(licence=HOSTILE, paper=HOSTILE, family=HOSTILE, note=HOSTILE),
    )
    page = page_of(record, tmp_path)
    assert not page.tags("script") and not page.tags("img")
    assert "<script" not in card_of(record, tmp_path).split("---\n")[2]


def test_page_needs_nothing_beside_itself(tmp_path):
    for record in (RECORD, ANSWERS):
        page = page_of(record, tmp_path)
        assert all("src" not in attributes for _, attributes in page.elements)
        links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
        assert links and all(link.startswith("https://arxiv.org/abs/") for link in links)
        assert {tag for tag, attributes in page.elements if "href" in attributes} == {"a"}
        markup = markup_of(record, tmp_path)
        assert "url(" not in markup and "@import" not in markup
        assert "default-src 'none'" in page.tags("meta")[1]["content"]


def test_parts_that_are_empty_are_left_out(tmp_path):
    full, empty = page_of(RECORD, tmp_path).text, page_of(ANSWERS, tmp_path).text
    for title in ("Confusions", "By label", "hardest"):
        assert title in full
        assert title not in empty
    assert "63.26" in empty


def test_one_epoch_is_a_table_and_no_curve(tmp_path):
    record = replace(RECORD, epochs=RECORD.epochs[:1], losses=[0.5], kept_epoch=1)
    page = page_of(record, tmp_path)
    assert not page.tags("svg")
    assert "0.8922" in page.text and "chosen" not in page.text


def test_loss_of_the_measured_split_and_baseline_stand_beside_the_figures(tmp_path):
    epochs = [{**figures, "loss": 0.3 + 0.01 * i} for i, figures in enumerate(RECORD.epochs)]
    baseline = {"accuracy": 0.5092}
    record = replace(RECORD, epochs=epochs, baseline=baseline, baseline_answer="always 'positive'")
    page = page_of(record, tmp_path)
    assert "accuracy (always 'positive': 0.5092)" in page.text
    assert "always 'positive' 0.5092" in page.text
    assert "The dashed line is the training loss." in page.text
    assert len(page.tags("svg")) == 2 and "0.3100" in page.text
    assert [path["class"] for path in page.tags("path")].count("line beside") == 1
    card = card_of(record, tmp_path)
    assert "| validation loss | 0.3100 |" in card
    assert "Without reading, always 'positive': accuracy 0.5092." in card


def test_long_texts_are_folded_and_complete(tmp_path):
    text = "A long text. " * 100
    record = replace(RECORD, hardest=[replace(RECORD.hardest[0], text=text)])
    page = page_of(record, tmp_path)
    assert len(page.tags("details")) == 1
    assert text.strip() in page.text
    assert not page_of(RECORD, tmp_path).tags("details")


def test_tags_are_shown_at_the_words_that_have_a_wrong_one(tmp_path):
    example = HardExample("the pound fell", "B-NP I-NP B-VP", "B-NP B-VP B-VP", 1.5, by_word=True)
    record = replace(RECORD, hardest=[example])
    page = page_of(record, tmp_path)
    assert "1 of 3 words have a wrong tag" in page.text
    assert "the pound B-VP, truth I-NP fell" in page.text


def test_words_and_their_tags_are_escaped(tmp_path):
    example = HardExample(
        "<i>a</i> <i>b</i>", "<b>O</b> <b>O</b>", "<b>O</b> <b>X</b>", 1.5, by_word=True
    )
    record = replace(RECORD, hardest=[example])
    page = page_of(record, tmp_path)
    assert "<i>a</i> <i>b</i> <b>X</b>, truth <b>O</b>" in page.text


def test_many_labels_are_folded_and_the_worst_pairs_listed(tmp_path):
    labels = [f"label_{n}" for n in range(50)]
    confusion = np.diag(np.arange(50))
    confusion[7, 9] = 5
    record = replace(RECORD, labels=labels, confusion=confusion, table=())
    page = page_of(record, tmp_path)
    assert "label_7 label_9 5 41.7%" in page.text
    assert "Left out: 1 label that never came up." in page.text
    assert "label_0" not in page.text
    assert "The matrix of all 49 labels" in page.text
    too_many = [f"label_{n}" for n in range(300)]
    record = replace(record, labels=too_many, confusion=np.eye(300, dtype=int))
    assert "too large for a page" in page_of(record, tmp_path).text


def test_figures_chosen_on_the_measured_split_are_called_so(tmp_path):
    chosen = "chosen by its accuracy on the same validation examples"
    assert chosen in page_of(RECORD, tmp_path).text
    assert chosen in card_of(RECORD, tmp_path)
    last_on_test = replace(RECORD, measured_on="test", kept_epoch=3)
    assert "chosen by" not in page_of(last_on_test, tmp_path).text
    chosen_on_test = replace(RECORD, measured_on="test")
    assert "chosen by" in page_of(chosen_on_test, tmp_path).text


def test_a_loss_that_is_not_finite_is_said_and_drawn_as_a_gap(tmp_path):
    record = replace(RECORD, losses=[0.5, np.nan, np.inf])
    page = page_of(record, tmp_path)
    assert "The training loss was not finite in epoch 2, 3." in page.text
    assert all("nan" not in str(path) for path in page.tags("path") + page.tags("circle"))


def test_half_a_surrogate_pair_does_not_stop_the_files(tmp_path):
    record = replace(
        RECORD, data="Odd \ud83d text.", hardest=[HardExample("\ud83d", "a", "b", 1.0)]
    )
    assert "&#55357;" in markup_of(record, tmp_path)
    assert "&#55357;" in card_of(record, tmp_path)


# --- Colours ---


def luminance(colour) -> float:
    parts = np.asarray(colour) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_text_can_be_read(scheme):
    """WCAG 2.1, 1.4.3: 4.5 to 1."""
    rules = re.findall(r":root\{(.*?)\}", STYLES, re.DOTALL)[scheme]
    colours = {
        name: tuple(map(int, values.split()))
        for name, values in re.findall(r"--(\w+):(\d+ \d+ \d+);", rules)
    }
    card = np.array(colours["card"])
    for name in ("right", "wrong"):
        shaded = card + MOST_SHADE * (np.array(colours[name]) - card)
        assert contrast(colours["ink"], shaded) >= 4.5
    for name in ("ink", "soft", "accent", "alarm"):
        assert contrast(colours[name], card) >= 4.5
    assert contrast(colours["soft"], colours["page"]) >= 4.5


# --- Curves ---


@pytest.mark.parametrize(
    ("low", "high"), [(0.8922, 0.9151), (0.1, 0.1), (0.0, 0.0), (-2.5, 88.1), (1e-7, 3e-7)]
)
def test_ticks_enclose_the_values_and_are_few(low, high):
    ticks = round_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 6


def test_ticks_of_epochs_and_steps_are_few():
    assert position_ticks(range(1, 4)) == [1, 2, 3]
    assert len(position_ticks(range(1, 101))) <= 6
    assert position_ticks([0, 9, 18, 27, 36, 44]) == [0, 20, 40]
    assert position_ticks([0, 4000, 20000]) == [0, 5000, 10000, 15000, 20000]


def test_a_curve_goes_up_where_values_do():
    chart = line_chart([0.1, 0.2, 0.4], "accuracy", 3)
    assert "accuracy by epoch" in chart
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', chart)]
    across = [float(x) for x in re.findall(r'cx="([\d.]+)"', chart)]
    assert heights == sorted(heights, reverse=True)
    assert across == sorted(across)
    assert heights[0] - heights[1] == pytest.approx((heights[1] - heights[2]) / 2, abs=0.2)


def test_steps_stand_where_they_are():
    chart = line_chart([0.1, 0.2, 0.4], "loss", 40, at=[0, 10, 40], unit="step")
    across = [float(x) for x in re.findall(r'cx="([\d.]+)"', chart)]
    assert across[1] - across[0] == pytest.approx((across[2] - across[0]) / 4, abs=0.2)
    assert re.search(r'class="dot kept"[^>]*><title>step 40: 0.4000', chart)


def test_nothing_is_drawn_where_no_value_is_finite():
    assert line_chart([np.nan, np.inf], "loss", 1) == ""


# --- The card ---


def test_card_says_what_went_in_and_came_out(tmp_path):
    card = card_of(RECORD, tmp_path)
    for part in (
        "# minilm_l6, fine-tuned on sst2",
        "model.classify(",
        "| metric | validation, 872 examples |",
        "| accuracy | 0.9151 |",
        "| negative | 0.9296 | 0.8949 | 0.9119 | 428 |",
        "Its 2 labels: negative, positive.",
        "| learning rate | 5e-05 |",
        "| seed | 3 |",
        "| 2 (kept) | 0.2345 | 0.9151 |",
        "Phrases of film reviews.",
        "keras 3.15.0",
        "**Licence: Apache-2.0**",
        "[arXiv:2002.10957](https://arxiv.org/abs/2002.10957)",
        "cut to 128 tokens",
    ):
        assert part in card


def test_head_of_the_card_is_as_the_hub_reads_it(tmp_path):
    head = front_matter(card_of(RECORD, tmp_path))
    assert head["license"] == "apache-2.0" and head["base_model_relation"] == "finetune"
    assert head["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert head["metrics"] == ["accuracy"]
    assert head["pipeline_tag"] == "text-classification"
    assert head["tags"] == ["bert_zoo", "keras", "text-classification"]
    assert head["model-index"][0]["name"] == "minilm_l6 on sst2"


def test_head_of_the_card_parses(tmp_path):
    odd = replace(RECORD, task='a "b": c', measured_on="# d\n---\ne")
    for record in (RECORD, odd):
        head = front_matter(card_of(record, tmp_path))
        (result,) = head["model-index"][0]["results"]
        assert result["dataset"]["name"] == record.task
        assert result["dataset"]["split"] == record.measured_on
        assert result["metrics"] == [{"type": "accuracy", "value": 0.9151}]


def test_figures_that_the_hub_does_not_know_stay_out_of_the_head(tmp_path):
    card = card_of(ANSWERS, tmp_path)
    assert "model-index:" not in front_matter(card) and "metrics:" not in front_matter(card)
    assert "| best f1 | 63.26 |" in card


def test_a_figure_that_is_no_number_stays_out_of_the_head(tmp_path):
    record = replace(RECORD, epochs=[{"accuracy": np.nan, "f1": 0.5}] * 3)
    head = front_matter(card_of(record, tmp_path))
    assert head["metrics"] == ["f1"]


def test_every_licence_of_the_zoo_is_the_hubs_or_qualified():
    for name in bert_zoo.list_models():
        licence = bert_zoo.describe(name)["licence"]
        assert licence in HUB_LICENCES or "(" in licence, name
        assert forbids_commerce(licence) == ("NC" in licence), name


def test_a_licence_against_commerce_is_said_first(tmp_path):
    record = replace(RECORD, model="spanbert_base", checkpoint=bert_zoo.describe("spanbert_base"))
    card = card_of(record, tmp_path)
    assert front_matter(card)["license"] == "cc-by-nc-4.0"
    body = card.split("---\n", 2)[2]
    assert body.index("Not for commercial use") < body.index("This model")
    assert "Not for commercial use" in page_of(record, tmp_path).text
    assert "Not for commercial" not in card_of(RECORD, tmp_path) + page_of(RECORD, tmp_path).text


def test_a_qualified_licence_is_given_in_its_own_words(tmp_path):
    checkpoint = bert_zoo.describe("scibert")
    head = front_matter(card_of(replace(RECORD, checkpoint=checkpoint), tmp_path))
    assert (head["license"], head["license_name"]) == ("other", checkpoint["licence"])


def test_a_directory_has_no_known_licence(tmp_path):
    record = replace(RECORD, model="runs/mine", checkpoint=Card())
    card = card_of(record, tmp_path)
    assert front_matter(card)["license"] == "unknown"
    assert "base_model" not in card
    assert "Its licence is not known to bert_zoo" in card
    assert "licence of the base not known" in page_of(record, tmp_path).text


def test_call_in_the_card_fits_pairs(tmp_path):
    card = card_of(replace(RECORD, reads_pairs=True), tmp_path)
    assert 'model.classify((["A text."], ["Its partner."]))' in card


@pytest.mark.parametrize("task", [name for name in TASKS if getattr(TASKS[name], "use", None)])
def test_every_task_has_a_page_and_a_card(task, tmp_path):
    record = replace(ANSWERS, kind=task, use=TASKS[task].use, epochs=[{"pearson": 0.5}] * 2)
    assert "0.5000" in page_of(record, tmp_path).text
    card = card_of(record, tmp_path)
    assert front_matter(card)["metrics"] == ["pearsonr"] and "{" not in card.split("---\n")[2]


# --- What they are computed from ---


def test_confusions_are_counted_truth_by_prediction():
    confusion = confusion_matrix([0, 0, 1, 2, 2], np.array([0, 1, 1, 0, 2]), 3)
    np.testing.assert_array_equal(confusion, [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    assert confusion_matrix([], [], 2).tolist() == [[0, 0], [0, 0]]


def test_figures_by_label():
    confusion = np.array([[8, 2, 0], [4, 6, 0], [0, 0, 0]])
    one, two, unseen = per_label_table(confusion, ["one", "two", "unseen"])
    assert one == {
        "label": "one",
        "precision": pytest.approx(8 / 12),
        "recall": 0.8,
        "f1": pytest.approx(2 * (8 / 12) * 0.8 / (8 / 12 + 0.8)),
        "support": 10,
    }
    assert (two["precision"], two["recall"]) == (0.75, 0.6)
    assert unseen == {"label": "unseen", "precision": 0, "recall": 0, "f1": 0, "support": 0}


def test_most_confused_pairs_come_first_and_empty_ones_not_at_all():
    pairs = most_confused(np.array([[9, 1, 0], [3, 7, 0], [0, 2, 8]]), ["a", "b", "c"], 10)
    assert pairs == [("b", "a", 3, 0.3), ("c", "b", 2, 0.2), ("a", "b", 1, 0.1)]


def test_cross_entropies_do_not_overflow():
    logits = np.array([[2.0, 0.0], [0.0, 3.0], [800.0, -800.0], [0.0, 0.0]])
    assert cross_entropies([0, 0, 1, 1], logits) == pytest.approx(
        [np.log1p(np.exp(-2)), 3 + np.log1p(np.exp(-3)), 1600.0, np.log(2)]
    )


def test_hardest_examples_come_first_and_are_few():
    examples = hardest_examples(["a", "b", "c"], "xyz", "pqr", [0.5, 2.0, 1.0])
    assert [example.text for example in examples] == ["b", "c", "a"]
    assert examples[0] == HardExample("b", "y", "q", 2.0)
    many = [str(n) for n in range(100)]
    assert len(hardest_examples(many, many, many, np.ones(100))) == 20


def test_a_loss_that_is_no_number_is_the_hardest():
    examples = hardest_examples(["a", "b"], "xx", "xx", [5.0, np.nan])
    assert [example.text for example in examples] == ["b", "a"]


# --- Words and numbers ---


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.91514, "0.9151"),
        (np.float32(0.5), "0.5000"),
        (88.1234, "88.12"),
        (-2.25, "-2.2500"),
        (12345.6, "12,346"),
        (1234, "1,234"),
        (np.int64(428), "428"),
        (float("nan"), "nan"),
    ],
)
def test_figures_have_four_digits_and_counts_all(value, shown):
    assert number(value) == shown


def test_settings_and_times_read_well():
    assert [setting(v) for v in (5e-5, True, None, (0.9, None), "linear", 32)] == [
        "5e-05",
        "yes",
        "none",
        "0.9, none",
        "linear",
        "32",
    ]
    assert [duration(s) for s in (3.21, 59.99, 60, 3599.6, 7322)] == [
        "3.2 s",
        "60.0 s",
        "1 min 0 s",
        "1 h 0 min",
        "2 h 2 min",
    ]


def test_reports_are_made_without_tensorflow_and_keras():
    program = f"""
import sys, types
package = types.ModuleType("bert_zoo.training")
package.__path__ = [{str(PACKAGE / "training")!r}]
sys.modules["bert_zoo.training"] = package
import bert_zoo.cli.report
assert not {{"tensorflow", "keras", "matplotlib"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parent)
