"""Texts with any number of labels: loading, thresholds, answers, metrics, in every format."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    GOLDEN,
    TEXTS,
    assert_refused,
    assert_same,
    assert_same_variables,
    directory_of,
    load_task,
    loaded_task,
    refusals,
    task_inputs,
)

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.models import Classifier, MultiLabelClassifier
from bert_zoo.models.labels import checked_labels, label_arrays
from bert_zoo.models.metrics import LabelF1
from bert_zoo.training import start_from_frequencies, start_from_mean

pytestmark = pytest.mark.usefixtures("eager")
TASK = "multi_label_classification"
LABELS = ("toxic", "obscene", "threat", "insult")
THRESHOLDS = (0.4, 0.5, 0.9, 0.05)


def sigmoid(logits) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(logits, "float64")))


def directory_saying(problem_type: str | None, directory: Path) -> Path:
    """The golden directory with another `problem_type`."""
    shutil.copytree(GOLDEN / TASK, directory)
    config = json.loads((directory / "config.json").read_text()) | {"problem_type": problem_type}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


# ---------------------------------------------------------------------------------------------
# Loading
# ---------------------------------------------------------------------------------------------


def test_a_hugging_face_directory_that_says_multi_label_is_never_read_as_single_label(caplog):
    model = bert_zoo.load(GOLDEN / TASK, "classification")
    assert type(model) is MultiLabelClassifier and model.labels == LABELS
    (line,) = caplog.messages
    assert "multi-label" in line and "single_label_classification" in line
    assert_same_variables(model, load_task(TASK))


def test_it_starts_a_single_label_head_where_asked(caplog):
    said = "single_label_classification"
    fresh = bert_zoo.load(GOLDEN / TASK, "classification", num_classes=2, init=["classifier"])
    asked = bert_zoo.load(GOLDEN / TASK, "classification", problem_type=said)
    assert type(fresh) is type(asked) is Classifier
    assert any("trained for multi_label_classification" in line for line in caplog.messages)


def test_problem_type_is_another_spelling_of_the_task(tmp_path, caplog):
    for number, (said, task) in enumerate([(None, "classification"), (None, None), (TASK, TASK)]):
        directory = directory_saying(said, tmp_path / str(number))
        model = bert_zoo.load(directory, task, problem_type=TASK)
        assert type(model) is MultiLabelClassifier
    assert not caplog.messages
    single = directory_saying("single_label_classification", tmp_path / "single")
    assert type(bert_zoo.load(single, TASK)) is MultiLabelClassifier
    assert any("trained for classification" in line for line in caplog.messages)


# ---------------------------------------------------------------------------------------------
# Thresholds
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["bert_zoo", "hf", "keras"])
def test_thresholds_are_kept_with_the_model(fmt, tmp_path):
    model = load_task(TASK, thresholds=THRESHOLDS)
    if fmt == "keras":
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    else:
        bert_zoo.save(model, tmp_path, format=fmt)
        again = bert_zoo.load(tmp_path, TASK)
    assert again.thresholds == model.thresholds == THRESHOLDS
    assert_same(again(task_inputs(TASK)), model(task_inputs(TASK)))


@pytest.mark.parametrize(("fmt", "file"), [("bert_zoo", "bert_zoo.json"), ("hf", "config.json")])
def test_directories_without_thresholds_have_the_default(fmt, file, tmp_path):
    bert_zoo.save(load_task(TASK), tmp_path, format=fmt)
    config = json.loads((tmp_path / file).read_text())
    assert "thresholds" not in config
    assert bert_zoo.load(tmp_path, TASK).thresholds == (0.5,) * 4
    assert bert_zoo.load(tmp_path, TASK, thresholds={"threat": 0.2}).thresholds[2] == 0.2
    (tmp_path / file).write_text(json.dumps(config | {"thresholds": [0.5, 2]}))
    with pytest.raises(ConfigError, match=rf"{file}.*\[0.5, 2\].*from 0 to 1"):
        bert_zoo.load(tmp_path, TASK)


def test_a_fresh_head_does_not_take_the_thresholds_of_the_old_one(tmp_path):
    bert_zoo.save(load_task(TASK, thresholds=THRESHOLDS), tmp_path)
    fresh = bert_zoo.load(tmp_path, labels=LABELS[::-1], init=["classifier"])
    assert fresh.thresholds == (0.5,) * 4


# ---------------------------------------------------------------------------------------------
# Labels
# ---------------------------------------------------------------------------------------------

ROWS = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
NAMES = [["toxic", "insult"], [], ["obscene"]]


def test_labels_are_lists_or_sets_of_names_or_rows_of_zeros_and_ones():
    model, ragged = loaded_task(TASK), tf.ragged.constant(NAMES)
    for labels in (ROWS == 1, ROWS.astype("float32"), NAMES, list(map(set, NAMES)), ragged):
        assert np.array_equal(label_arrays(model, TEXTS, labels), ROWS)
    for labels in (tf.constant(ROWS), tf.constant(ROWS == 1), ragged, ragged.to_tensor("")):
        assert np.array_equal(checked_labels(model, TEXTS, labels), ROWS)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, ragged)).batch(2)
    found, wanted = model.evaluate(data, verbose=0), model.evaluate(TEXTS, ROWS, verbose=0)
    assert found == pytest.approx(wanted, abs=1e-6)


def test_a_fresh_head_may_begin_with_the_frequencies_of_the_labels():
    model = load_task(TASK, labels=LABELS, init=["classifier"])
    labels = [{"toxic"}] * 6 + [{"toxic", "threat"}] * 2 + [set()] * 2
    start_from_frequencies(model, labels)
    model.classifier.dense.kernel.assign(np.zeros((32, 4)))
    probabilities = sigmoid(model.predict(TEXTS[:1], verbose=0)[0])
    # One text more has each label and one does not.
    np.testing.assert_allclose(probabilities, [9 / 12, 1 / 12, 3 / 12, 1 / 12], atol=1e-6)


def test_a_fresh_score_may_begin_with_the_mean():
    model = load_task("regression", init=["classifier"])
    start_from_mean(model, [1.0, 2.0, 4.5])
    model.classifier.dense.kernel.assign(np.zeros((32, 1)))
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), [[2.5]] * len(TEXTS), atol=1e-6)


def test_heads_without_a_bias_begin_as_they_are():
    directory = directory_of("gpt/classification")
    scores = bert_zoo.load(directory, "regression", init=["classifier"])
    start_from_mean(scores, [1.0, 2.0])
    sets = bert_zoo.load(directory, TASK, labels=LABELS, init=["classifier"])
    start_from_frequencies(sets, [{"toxic"}])
    assert scores.classifier.dense.bias is None and sets.classifier.dense.bias is None


def evaluate(labels):
    return lambda: loaded_task(TASK).evaluate(TEXTS, labels, verbose=0)


def in_graph(labels):
    return lambda: checked_labels(loaded_task(TASK), TEXTS, tf.constant(labels))


def thresholds(values, task: str = TASK):
    return lambda: load_task(task, thresholds=values)


def load(task: str, problem_type: str):
    return lambda: bert_zoo.load(GOLDEN / TASK, task, problem_type=problem_type)


@refusals(
    (load("classification", "multi"), "'multi' | multi_label_classification"),
    (load("masked_lm", TASK), "requires task='classification'; got task='masked_lm'"),
    (thresholds(1.5), "1.5 | from 0 to 1"),
    (thresholds("half"), "'half' | from 0 to 1"),
    (thresholds([0.5, 0.5]), "2 thresholds and 4 labels | 'insult'"),
    (thresholds({"rude": 0.5}), "'rude' | 'insult'"),
    (thresholds([0.5, 0.5, float("nan"), 0.5]), "nan | from 0 to 1"),
    (thresholds(0.5, "classification"), "'classification' has no thresholds | multi_label"),
    (evaluate([["toxic"], ["rude"], []]), "label[1][0] is 'rude' | 'obscene'"),
    (evaluate(["toxic", "insult", "toxic"]), "label[0] is 'toxic'.  | list or set of names"),
    (evaluate([["toxic"], None, []]), "label[1] is None, among rows of names"),
    (evaluate([0, 1, 2]), "shape (3,).  | 0 or 1 for each of the 4 labels"),
    (evaluate([[0, 3], [1], [2]]), "different lengths.  | list or set of names"),
    (evaluate(ROWS[:, :3]), "shape (3, 3)."),
    (evaluate(ROWS * 2), "label[0, 0] is 2; | 0 or 1"),
    (evaluate(ROWS * np.nan), "label[0, 0] is nan; | 0 or 1"),
    (evaluate([{0}, {4}, set()]), "label[1][0] is 4"),
    (in_graph([["rude"], [""], [""]]), "rude"),
    (in_graph(ROWS * 2), "must be 0 or 1"),
    (in_graph(["toxic", "", "insult"]), "string of shape | list or set of names"),
    (in_graph(ROWS[:, :3]), "shape (3, 3)"),
    (
        lambda: loaded_task(TASK).fit(TEXTS, NAMES, class_weight={0: 2.0}),
        "class_weight | sample_weight",
    ),
    (lambda: loaded_task("classification").classify(TEXTS[0], top_k=0), "top_k is 0"),
    (lambda: LabelF1(THRESHOLDS, "mean"), "'macro' | average=mean"),
)
def test_what_fits_no_labels_is_refused(call, words):
    assert_refused(call, words, (TypeError, ValueError, tf.errors.InvalidArgumentError))


def test_the_accuracy_that_keras_would_compute_from_one_class_a_row_is_said(caplog):
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    load_task(TASK).compile("adam", loss, metrics=["accuracy"])
    assert any("accuracy" in line and "F1" in line for line in caplog.messages)


# ---------------------------------------------------------------------------------------------
# Answers
# ---------------------------------------------------------------------------------------------


def test_classify_gives_every_label_above_its_threshold():
    model = load_task(TASK, thresholds=THRESHOLDS)
    probabilities = sigmoid(model.predict(TEXTS, verbose=0))
    answers = model.classify(TEXTS)
    for answer, row in zip(answers, probabilities, strict=True):
        above = {label for label, p, t in zip(LABELS, row, THRESHOLDS, strict=True) if p > t}
        assert set(answer.labels) == above
        assert list(answer.labels.values()) == sorted(answer.labels.values(), reverse=True)
        np.testing.assert_allclose(list(answer.scores.values()), row, atol=1e-6)
    assert any(len(answer.labels) > 1 for answer in answers)
    assert all(len(answer.labels) <= 1 for answer in model.classify(TEXTS, top_k=1))


def test_answers_print_as_a_table_with_empty_ones_said():
    model = load_task(TASK, thresholds=0)
    first, *_ = str(model.classify([*TEXTS, "two\nlines"])).split("\n")
    for label, score in model.classify(TEXTS)[0].labels.items():
        assert f"{label} {score:.3f}" in first
    lines = str(model.classify([*TEXTS, "two\nlines"])).split("\n")
    assert len(lines) == 4 and lines[3].endswith("  two lines")
    assert len({line.index(text) for line, text in zip(lines, TEXTS, strict=False)}) == 1
    model.thresholds = 1.0
    assert str(model.classify(TEXTS[1])) == f"(no label)  {TEXTS[1]}"


def test_classify_gives_the_top_k_labels_of_a_single_label_model():
    model = load_task("classification")
    (answer,) = model.classify(TEXTS[0], top_k=2)
    ranked = sorted(answer.scores.items(), key=lambda item: -item[1])
    assert list(answer.top.items()) == ranked[:2]
    assert (answer.label, answer.score) == ranked[0]
    assert str(answer) == "{} {:.3f}, {} {:.3f}  {}".format(*ranked[0], *ranked[1], TEXTS[0])
    assert len(model.classify(TEXTS[0], top_k=9)[0].top) == 3
    (plain,) = model.classify(TEXTS[0])
    assert str(plain) == f"{plain.label}  {plain.score:.3f}  {TEXTS[0]}"


# ---------------------------------------------------------------------------------------------
# Metrics
# ---------------------------------------------------------------------------------------------


def f1_by_hand(present, predicted, weights) -> dict[str, float]:
    """Micro and macro F1 from counts, row by row."""
    weights = weights[:, None]
    found = (weights * (present & predicted)).sum(axis=0)
    others = (weights * present).sum(axis=0) + (weights * predicted).sum(axis=0)
    by_label = [2 * f / o if o else 0.0 for f, o in zip(found, others, strict=True)]
    return {"micro_f1": 2 * found.sum() / others.sum(), "macro_f1": np.mean(by_label)}


def test_f1_counts_over_batches_and_weights():
    rng = np.random.default_rng(0)
    logits, present = rng.normal(size=(50, 4)), rng.random((50, 4)) < 0.3
    weights = rng.random(50)
    present[:, 2] = False  # a label that neither occurs
    logits[:, 2] = -9  # nor is predicted
    predicted = sigmoid(logits) > np.array(THRESHOLDS)
    for name, expected in f1_by_hand(present, predicted, weights).items():
        metric = LabelF1(THRESHOLDS, name.removesuffix("_f1"))
        metric = LabelF1.from_config(metric.get_config())
        for rows in np.array_split(np.arange(50), 7):
            values = tf.constant(logits[rows], tf.float32)
            metric.update_state(present[rows].astype(int), values, weights[rows])
        assert metric.name == name
        np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)


def test_evaluate_gives_f1_by_the_models_thresholds_also_after_reload(tmp_path):
    trained, inputs = load_task(TASK), task_inputs(TASK)
    present = np.random.default_rng(0).integers(0, 2, (4, 4))
    trained.save(tmp_path / "model.keras")
    probabilities = sigmoid(trained.predict(inputs, verbose=0))
    for model in (trained, keras.saving.load_model(tmp_path / "model.keras")):
        for thresholds in {model.thresholds, THRESHOLDS} if model is trained else {THRESHOLDS}:
            model.thresholds = thresholds
            got = model.evaluate(inputs, present, batch_size=3, verbose=0, return_dict=True)
            predicted = probabilities > np.array(thresholds)
            expected = f1_by_hand(present.astype(bool), predicted, np.ones(4))
            assert {name: got[name] for name in expected} == pytest.approx(expected, abs=1e-6)
