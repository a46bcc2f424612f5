"""Tables as tasks: which rows are measured, what is said of them, and how classes are weighted."""

import json

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.cli.benchmarks import make_task
from bert_zoo.cli.benchmarks.base import spread_order
from bert_zoo.data.tables import label_remarks, read_table
from bert_zoo.metrics.labels import class_metrics
from bert_zoo.training.freezing import class_weights


def table(path, labels, texts=None):
    texts = texts or [f"text {i}" for i in range(len(labels))]
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


# --- Which rows are measured ---


@pytest.mark.parametrize("held_out", [50, 0.25])
def test_rows_held_out_of_a_sorted_file_have_each_class_in_its_share(tmp_path, held_out):
    file = table(tmp_path / "a.jsonl", ["a"] * 100 + ["b"] * 80 + ["c"] * 20)
    task = make_task("table", train_file=file, held_out=held_out)
    train, measured = task.train, task.data("validation")
    assert [measured.labels.count(i) for i in range(3)] == [25, 20, 5]
    assert [train.labels.count(i) for i in range(3)] == [75, 60, 15]
    assert sorted(train.texts + measured.texts) == sorted(read_table(file).texts)
    again = make_task("table", train_file=file, held_out=held_out)
    assert again.data("validation") == measured and again.fingerprint() == task.fingerprint()
    other = make_task("table", train_file=file, held_out=held_out, split_seed=1)
    assert other.data("validation") != measured and other.fingerprint() != task.fingerprint()


def test_fewer_training_rows_have_each_class_in_its_share_and_are_among_more_of_them(tmp_path):
    file = table(tmp_path / "a.jsonl", ["a"] * 100 + ["b"] * 80 + ["c"] * 20)
    options = {"train_file": file, "held_out": 50}
    few, more, everything = (make_task("table", **options, train_rows=rows) for rows in (15, 60, 0))
    assert [few.train.labels.count(i) for i in range(3)] == pytest.approx([7.5, 6, 1.5], abs=1)
    assert set(few.train.texts) < set(more.train.texts) < set(everything.train.texts)
    assert (len(few.train), len(more.train), len(everything.train)) == (15, 60, 150)
    assert few.data("validation") == everything.data("validation")
    beside = make_task("table", train_file=file, dev_file=file, train_rows=15)
    assert len(beside.train) == 15 and len(beside.data("validation")) == 200


def test_a_spread_order_is_a_random_permutation():
    groups = [None] * 1000
    order = spread_order(groups, seed=3)
    assert sorted(order) == list(range(1000))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.1
    assert (spread_order(groups, seed=3) == order).all()
    assert not (spread_order(groups, seed=4) == order).all()


def test_sentences_and_articles_are_drawn_at_random(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"w{i} O\n\n" for i in range(40)))
    task = make_task("tagging", train_file=str(path), held_out=10)
    words = [sentence[0] for sentence in task.data("validation").words]
    assert len(words) == 10 and words != [f"w{i}" for i in range(30, 40)]


def test_tags_that_break_the_scheme_of_spans_are_said(tmp_path):
    path = tmp_path / "a.txt"
    for tag, said in (("I-LOC", 0), ("I-PER", 1)):
        path.write_text("Ada B-PER\n\n" * 3 + f"to O\nNew B-LOC\nYork {tag}\n\n")
        remarks = [*make_task("tagging", train_file=str(path), test_file=str(path)).remarks()]
        assert len(remarks) == said
    assert "sentence 4 breaks that scheme: 'York' has the tag 'I-PER'" in remarks[0]


OWN = "each of the 6 rows has a label of its own, such as 'ticket 0' | --label, | --regression"
ONE = "all 6 rows have the label 'yes', | Is 'label' the label column"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "swag", "train_file": None}, "needs --data_dir"),
        ({}, "nothing to measure on"),
        ({"train_file": None, "held_out": 3}, "needs --train_file"),
        ({"held_out": 5, "dev_file": "x"}, "dev_file and held_out both choose"),
        ({"held_out": 2.5}, "held_out is 2.5; it must be a number of rows, or a fraction"),
        ({"held_out": 6}, "held_out takes 6 of the 6 rows of | so none is left"),
        ({"held_out": 2, "train_rows": 5}, "has only 4 rows to train on"),
        ({"held_out": 2, "train_rows": -1}, "0 for all"),
        ({"train_file": "one", "held_out": 2}, ONE),
        ({"train_file": "own", "held_out": 2}, OWN),
        ({"train_file": "own", "dev_file": "own"}, OWN),
        ({"train_file": "own", "test_file": "own"}, OWN),
    ],
)
def test_tasks_and_splits_that_cannot_be_are_refused(tmp_path, options, words):
    labels = {"two": ["a", "b"] * 3, "one": ["yes"] * 6, "own": [f"ticket {i}" for i in range(6)]}
    files = {name: table(tmp_path / f"{name}.jsonl", each) for name, each in labels.items()}
    options = {"name": "table", "train_file": "two", **options}
    options = {name: files.get(value, value) for name, value in options.items()}
    assert_refused(lambda: len(make_task(**options).train), words)


def test_labels_that_are_all_different_may_be_scores_or_sets(tmp_path):
    scores = table(tmp_path / "b.jsonl", [i / 7 for i in range(6)])
    assert make_task("table", train_file=scores, held_out=2, regression=True).num_train == 4
    tags = table(tmp_path / "c.jsonl", [f"a;{i}" for i in range(6)])
    assert make_task("table", train_file=tags, held_out=2, label_delimiter=";").num_train == 4


# --- How the file is written ---


def test_the_layout_of_a_table_is_an_option(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("é\tyes\nb\tno\nc\tno\n".encode("latin-1"))
    layout = {"text": "0", "label": "1", "header": False, "delimiter": "tab", "encoding": "latin-1"}
    task = make_task("table", train_file=str(path), test_file=str(path), **layout)
    assert task.train.texts == ["é", "b", "c"] and task.label_names == ("no", "yes")


# --- What is said ---


@pytest.mark.parametrize(
    ("labels", "texts", "parts"),
    [
        (["a", "b"], ["", " \n"], ["Of the 2 texts of a.jsonl, 2 are empty, the first on line 1."]),
        (["a", "a", "null", "null"], None, ["Of the 4 labels of a.jsonl, 2 are 'null', the first on line 3"]),
        ([*range(25)] * 2, None, ["25 different numbers", "--regression"]),
        (["a", "a", "b"], None, ["Of the 2 classes of a.jsonl, 1 have only one row: ['b']"]),
        ([1, 2, 3, 4, 5] * 2, None, []),
        (["a", "b"] * 2, None, []),
    ],
)  # fmt: skip
def test_what_looks_as_if_it_was_not_meant_is_said(tmp_path, labels, texts, parts):
    path = tmp_path / "a.jsonl"
    said = list(label_remarks(path, read_table(table(path, labels, texts))))
    rare = [sentence for sentence in said if "only one row" in sentence]
    if len(set(labels)) == len(labels):
        said = [sentence for sentence in said if sentence not in rare]
    assert len(said) == bool(parts)
    for part in parts:
        assert part in said[0]


def test_remarks_name_classes_of_which_nothing_is_measured(tmp_path):
    train = table(tmp_path / "a.jsonl", ["a", "b", "c"] * 2)
    dev = table(tmp_path / "b.jsonl", ["a", "b"])
    said = [*make_task("table", train_file=train, dev_file=dev).remarks()]
    assert "The validation split has no row with the labels ['c']" in said[-1]


# --- Figures and weights ---


def test_macro_f1_is_the_mean_over_classes_that_occur():
    figures = class_metrics([0, 0, 0, 1, 3], np.array([0, 0, 1, 1, 0]))
    assert figures == pytest.approx({"accuracy": 0.6, "macro_f1": (4 / 6 + 2 / 3 + 0) / 3})


@pytest.mark.parametrize(
    ("regression", "labels", "answer", "figure", "value"),
    [
        (False, ["a", "b", "b", "b"], "always 'b'", "accuracy", 0.75),
        (True, [1.0, 2.0, 3.0, 2.0], "always 2, the mean", "negative mean squared error", -0.5),
    ],
)
def test_the_baseline_answers_without_reading(tmp_path, regression, labels, answer, figure, value):
    file = table(tmp_path / "a.jsonl", labels)
    task = make_task("table", train_file=file, test_file=file, regression=regression)
    baseline = task.baseline(task.data("test"))
    assert baseline.answer == answer and baseline.figures[figure] == pytest.approx(value)


def test_class_weights():
    labels, names = [0, 0, 0, 1], ("no", "yes", "never")
    assert class_weights("balanced", labels, names) == {0: 4 / 6, 1: 2.0, 2: 1.0}
    assert class_weights("yes=5", labels, names) == {0: 1.0, 1: 5.0, 2: 1.0}
    assert class_weights({"no": 0.5, "yes": 2}, labels, names) == {0: 0.5, 1: 2.0, 2: 1.0}
    for wrong in ("yes", "yes=-1", {"yes": None}, "yes=nan"):
        with pytest.raises(ValueError, match="'balanced', or positive numbers by class"):
            class_weights(wrong, labels, names)
