"""The page and the card of a fine-tuning run, and what they are computed from."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

import bert_zoo
from bert_zoo.charts.svg import line_chart, position_ticks, round_ticks
from bert_zoo.cli.report import RunRecord, duration, forbids_commerce, setting, write_report
from bert_zoo.metrics.confidence import Confidence
from bert_zoo.metrics.errors import (
    HardExample,
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    most_confused,
    per_label_table,
)
from bert_zoo.printing import number
from bert_zoo.registry import HUB_LICENCES, Card
from bert_zoo.tasks import TASKS, Classifier

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


def files_of(record: RunRecord, directory: Path) -> tuple[Page, str]:
    """The page and the card of a run."""
    (directory / "model").mkdir(parents=True, exist_ok=True)
    write_report(record, directory)
    page = Page((directory / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    return page, (directory / "model" / "README.md").read_text(encoding="utf-8")


def front_matter(card: str) -> dict:
    return yaml.safe_load(card.removeprefix("---\n").split("\n---\n\n")[0])


LOSSES = [{**metrics, "loss": 0.3 + 0.01 * i} for i, metrics in enumerate(RECORD.epochs)]
MANY = [f"label_{n}" for n in range(300)]
CONFUSED = np.diag(np.arange(50))
CONFUSED[7, 9] = 5
CHOSEN = "chosen by its accuracy on the same validation examples"
WARNING = "Not for commercial use"


# What differs from RECORD -> what its page and its card say, and what neither does.
@pytest.mark.parametrize(
    ("changes", "on_page", "on_card", "nowhere"),
    [
        (
            {},
            [
                "minilm_l6 on sst2", "(872 examples) after epoch 2 of 3", "46 min 57 s", "2 kept",
                *("0.9151", "0.8922", "0.9048", "0.4567", "0.2345", "0.1234"),
                *("383", "45", "29", "415", "798 of 872 predictions are right (91.5%)", "By label"),
                "The 1 hardest validation examples",
                "truth positive prediction negative loss 5.4321 a charming journey",
                *("Phrases of film reviews.", "5e-05", "0.9, 0.999", "none", "seed 3", "3.15.0"),
                *("22,713,986", "1,234,567", "Apache-2.0", "arXiv:2002.10957", CHOSEN),
            ],
            [
                "# minilm_l6, fine-tuned on sst2", 'model.classify(["A text."])',
                "| metric | validation, 872 examples |", "| accuracy | 0.9151 |",
                "| negative | 0.9296 | 0.8949 | 0.9119 | 428 |", "It has 2 labels: negative, positive.",
                *("| learning rate | 5e-05 |", "| seed | 3 |", "| 2 (kept) | 0.2345 | 0.9151 |"),
                *("Phrases of film reviews.", "keras 3.15.0", "**Licence: Apache-2.0**", CHOSEN),
                "[arXiv:2002.10957](https://arxiv.org/abs/2002.10957)", "cut to 128 tokens",
            ],
            [WARNING, "not finite", "without reading", "share of truth", "Confidence"],
        ),
        (
            {"task": "squad_v2", "labels": (), "confusion": None, "table": (), "hardest": (),
             "epochs": [{"best_f1": 61.1}, {"best_f1": 63.257}], "losses": [2.0, 1.0]},
            ["63.26"],
            ["| best f1 | 63.26 |"],
            ["Confusions", "By label", "hardest", "labels:", "model-index:", "metrics:"],
        ),
        ({"epochs": RECORD.epochs[:1], "losses": [0.5], "kept_epoch": 1}, ["0.8922"], [], ["chosen"]),
        (
            {"epochs": LOSSES, "baseline": {"accuracy": 0.5092}, "baseline_answer": "always 'yes'"},
            ["accuracy (always 'yes': 0.5092)", "always 'yes' 0.5092", "0.3100",
             "The dashed line is the training loss."],
            ["| validation loss | 0.3100 |", "without reading the text (always 'yes'): accuracy 0.5092."],
            [],
        ),
        ({"measured_on": "test", "kept_epoch": 3}, [], [], ["chosen by"]),
        ({"measured_on": "test"}, ["chosen by"], ["chosen by"], []),
        ({"losses": [0.5, np.nan, np.inf]}, ["The training loss was not finite in epoch 2, 3."], [], []),
        ({"hardest": [HardExample("the pound fell", "B-NP I-NP B-VP", "B-NP B-VP B-VP", 1.5, True)]},
         ["1 of 3 words have a wrong tag", "the pound B-VP, truth I-NP fell"], [], []),
        ({"labels": MANY[:50], "confusion": CONFUSED, "table": ()},
         ["label_7 label_9 5 41.7%", "Not shown: 1 label without examples or predictions."], [], ["prediction →"]),
        ({"labels": MANY, "confusion": np.eye(300, dtype=int), "table": ()},
         ["300 of 300 predictions are right"], ["and 200 more, which `config.json` lists"], []),
        ({"model": "spanbert_base", "checkpoint": bert_zoo.describe("spanbert_base")},
         [WARNING], [WARNING, "license: cc-by-nc-4.0"], []),
        ({"checkpoint": bert_zoo.describe("scibert")},
         [], ["license: other", f"license_name: {bert_zoo.describe('scibert')['licence']}"], []),
        ({"model": "runs/mine", "checkpoint": Card()},
         ["licence unknown"], ["license: unknown", "bert_zoo does not know its licence"], ["base_model"]),
        ({"reads_pairs": True}, [], ['model.classify((["A text."], ["Its partner."]))'], []),
    ],
)  # fmt: skip
def test_page_and_card_say_what_is_known(tmp_path, changes, on_page, on_card, nowhere):
    record = replace(RECORD, **changes)
    page, card = files_of(record, tmp_path)
    assert [words for words in on_page if words not in page.text] == []
    assert [words for words in on_card if words not in card] == []
    assert [words for words in nowhere if words in page.text or words in card] == []
    if WARNING in on_card:
        body = card.split("---\n", 2)[2]
        assert body.index(WARNING) < body.index("This model")
    # The kept epoch alone is marked, in the table and in each chart.
    several = len(changes.get("epochs", RECORD.epochs)) > 1
    assert [row.get("class") for row in page.tags("tr")].count("kept") == 1
    kept = [dot for dot in page.tags("circle") if dot["class"] == "dot kept"]
    # A loss that is not finite has no ring.
    assert len(page.tags("svg")) == 2 * several
    assert len(kept) == several * (1 + np.isfinite(record.losses[record.kept_epoch - 1]))
    drawn = [path["class"] for path in page.tags("path")]
    assert drawn.count("line baseline") == ("baseline" in changes)
    assert all("nan" not in str(shape) for shape in page.tags("path") + page.tags("circle"))


def test_confidence_of_a_runs_answers_stands_on_its_page(tmp_path):
    confidence = Confidence(np.array([0.9, 0.6]), np.array([True, False]))
    page, _ = files_of(replace(RECORD, confidence=confidence), tmp_path)
    assert "calibration error is 0.3500" in page.text
    assert "0.6000 100.0% 50.0% 0.9000 50.0% 100.0%" in page.text


def test_settings_that_differ_from_the_default_stand_before_the_others(tmp_path):
    recipe = {"epochs": 3, "learning_rate": 2e-5, "batch_size": 32}
    page, _ = files_of(replace(RECORD, recipe=recipe), tmp_path)
    changed, _, others = page.text.partition("2 settings of the recipe have their default values")
    assert "learning rate 2e-05" in changed and "batch size" not in changed
    assert "epochs 3 batch size 32" in others


def test_every_metric_of_every_epoch_stands_in_the_table(tmp_path):
    epochs = [{f"figure_{n}": 0.1 * epoch + 0.001 * n for n in range(9)} for epoch in (1, 2)]
    page, _ = files_of(replace(RECORD, epochs=epochs, losses=[2.0, 1.0]), tmp_path)
    assert all(number(value) in page.text for metrics in epochs for value in metrics.values())


@pytest.mark.parametrize("field", ["text", "truth", "prediction"])
@pytest.mark.parametrize("by_word", [False, True])
def test_examples_are_shown_and_never_run(by_word, field, tmp_path):
    example = replace(RECORD.hardest[0], by_word=by_word, **{field: HOSTILE})
    page, _ = files_of(replace(RECORD, hardest=[example]), tmp_path)
    assert HOSTILE in page.text
    assert not page.tags("script") and not page.tags("img")


def test_names_from_users_are_escaped_everywhere(tmp_path):
    record = replace(
        RECORD,
        **dict.fromkeys(("model", "task", "data", "measured_on"), HOSTILE),
        recipe={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        epochs=[{HOSTILE: 0.1}, {HOSTILE: 0.2}, {HOSTILE: 0.3}],
        labels=[HOSTILE, "other", "third"],
        confusion=np.full((3, 3), 2),
        table=[{HOSTILE: HOSTILE, "f1": 0.5}],
        hardest=[HardExample("<i>a</i> b", "<b>O</b> O", "<b>X</b> O", 1.5, by_word=True)],
        checkpoint=Card(licence=HOSTILE, paper=HOSTILE, family=HOSTILE, note=HOSTILE),
    )
    page, card = files_of(record, tmp_path)
    assert not {"script", "img", "i"} & {tag for tag, _ in page.elements}
    assert "<i>a</i> <b>X</b>, truth <b>O</b> b" in page.text
    assert "<script" not in card.split("---\n")[2]


def test_page_needs_nothing_beside_itself(tmp_path):
    page, _ = files_of(RECORD, tmp_path)
    assert all("src" not in attributes for _, attributes in page.elements)
    links = [(tag, found["href"]) for tag, found in page.elements if "href" in found]
    assert links and all(link.startswith("https://arxiv.org/abs/") for _, link in links)
    assert {tag for tag, _ in links} == {"a"}
    markup = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "url(" not in markup and "@import" not in markup
    assert "default-src 'none'" in page.tags("meta")[1]["content"]


def test_long_texts_are_folded_and_complete(tmp_path):
    text = "A long text. " * 100
    record = replace(RECORD, recipe={}, hardest=[replace(RECORD.hardest[0], text=text)])
    page, _ = files_of(record, tmp_path)
    assert len(page.tags("details")) == 1
    assert text.strip() in page.text


def test_half_a_surrogate_pair_does_not_stop_the_files(tmp_path):
    odd = {"data": "Odd \ud83d text.", "hardest": [HardExample("\ud83d", "a", "b", 1.0)]}
    files_of(replace(RECORD, **odd), tmp_path)
    for path in (tmp_path / "report.html", tmp_path / "model" / "README.md"):
        assert "&#55357;" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("task", [name for name in TASKS if getattr(TASKS[name], "use", None)])
def test_every_task_has_a_page_and_a_card(task, tmp_path):
    record = replace(RECORD, kind=task, use=TASKS[task].use, epochs=[{"pearson": 0.5}] * 3)
    page, card = files_of(record, tmp_path)
    assert "0.5000" in page.text
    assert front_matter(card)["metrics"] == ["pearsonr"] and "{" not in card.split("---\n")[2]


# --- The head of the card ---


def test_head_of_the_card_is_as_the_hub_reads_it(tmp_path):
    head = front_matter(files_of(RECORD, tmp_path)[1])
    assert head.pop("model-index")[0]["name"] == "minilm_l6 on sst2"
    assert (
        head.items()
        >= {
            **{"license": "apache-2.0", "base_model_relation": "finetune", "metrics": ["accuracy"]},
            **{"base_model": "sentence-transformers/all-MiniLM-L6-v2"},
            **{"pipeline_tag": "text-classification"},
            **{"tags": ["bert_zoo", "keras", "text-classification"]},
        }.items()
    )


def test_head_of_the_card_parses(tmp_path):
    odd = {"task": 'a "b": c', "measured_on": "# d\n---\ne"}
    metrics = {"accuracy": 0.91514, "f1": np.nan, "unknown to the hub": 0.5}
    record = replace(RECORD, **odd, epochs=[metrics] * 3)
    head = front_matter(files_of(record, tmp_path)[1])
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["name"] == record.task
    assert result["dataset"]["split"] == record.measured_on
    assert result["metrics"] == [{"type": "accuracy", "value": 0.9151}]


def test_every_licence_of_the_zoo_is_the_hubs_or_qualified():
    for name in bert_zoo.list_models():
        licence = bert_zoo.describe(name)["licence"]
        assert licence in HUB_LICENCES or "(" in licence, name
        assert forbids_commerce(licence) == ("NC" in licence), name


# --- Curves ---


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.8922, 0.9151), (0.1, 0.1), (0.0, 0.0), (-2.5, 88.1), (1e-7, 3e-7), (1 - 2e-16, 1.0)],
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


def test_a_curve_goes_up_where_values_do_and_steps_stand_where_they_are():
    chart = line_chart([0.1, 0.2, 0.4], "loss", 40, at=[0, 10, 40], unit="step")
    assert "loss by step" in chart
    across, heights = (
        [float(place) for place in re.findall(rf'c{axis}="([\d.]+)"', chart)] for axis in "xy"
    )
    assert heights == sorted(heights, reverse=True) and across == sorted(across)
    assert heights[0] - heights[1] == pytest.approx((heights[1] - heights[2]) / 2, abs=0.2)
    assert across[1] - across[0] == pytest.approx((across[2] - across[0]) / 4, abs=0.2)
    assert re.search(r'class="dot kept"[^>]*><title>step 40: 0.4000', chart)
    assert line_chart([np.nan, np.inf], "loss", 1) == ""


# --- What they are computed from ---


def test_confusions_are_counted_truth_by_prediction():
    confusion = confusion_matrix([0, 0, 1, 2, 2], np.array([0, 1, 1, 0, 2]), 3)
    np.testing.assert_array_equal(confusion, [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    assert confusion_matrix([], [], 2).tolist() == [[0, 0], [0, 0]]


def test_a_label_that_never_occurs_has_figures_of_zero():
    confusion = np.array([[8, 2, 0], [4, 6, 0], [0, 0, 0]])
    one, two, unseen = per_label_table(confusion, ["one", "two", "unseen"])
    assert (one["support"], one["recall"]) == (10, 0.8)
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
    examples = hardest_examples(["a", "b"], "xx", "xx", [5.0, np.nan])
    assert [example.text for example in examples] == ["b", "a"]
    many = [str(n) for n in range(100)]
    assert len(hardest_examples(many, many, many, np.ones(100))) == 20


# --- Words and numbers ---


@pytest.mark.parametrize(
    ("show", "value", "shown"),
    [
        (number, 0.91514, "0.9151"), (number, np.float32(0.5), "0.5000"), (number, 88.1234, "88.12"),
        (number, -2.25, "-2.2500"), (number, 12345.6, "12,346"), (number, 1234, "1,234"),
        (number, np.int64(428), "428"), (number, float("nan"), "nan"), (number, None, ""),
        (setting, 5e-5, "5e-05"), (setting, True, "yes"), (setting, None, "none"),
        (setting, (0.9, None), "0.9, none"), (setting, "linear", "linear"), (setting, 32, "32"),
        (duration, 3.21, "3.2 s"), (duration, 59.99, "60.0 s"), (duration, 60, "1 min 0 s"),
        (duration, 3599.6, "1 h 0 min"), (duration, 7322, "2 h 2 min"),
    ],
)  # fmt: skip
def test_numbers_settings_and_times_read_well(show, value, shown):
    assert show(value) == shown
