"""Every kind of task: from the user's files to a run directory, a served model and predictions."""

import csv
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers import directory_of, eager_steps, slow_but
from task_files import CONTEXTS, KINDS, write_questions, write_table, write_tags

import bert_zoo
from bert_zoo.cli import evaluate, finetuning, predict
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.data import messages
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.presets import Recipe

ROOT = Path(__file__).parents[1]
CHECKPOINT = str(ROOT / "tests" / "golden" / "bert" / "classification")
RECIPE = Recipe(epochs=1, batch_size=4, max_length=24, stride=8, learning_rate=1e-3)


@pytest.fixture(scope="module", params=slow_but(KINDS, "token_classification"))
def run(request, tmp_path_factory):
    """The kind, its task, its run directory, and what is asked."""
    write, file, options, question = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    write(folder / file)
    options = {**options, ("train_file" if file else "data_dir"): str(folder / file)}
    task = make_task(**options)
    directory = folder / "run"
    with eager_steps():
        finetuning.finetune(CHECKPOINT, task, RECIPE, directory, data=options)
    if request.param == "question_answering":
        (folder / "context.txt").write_text(CONTEXTS[0])
        question = ["--context", str(folder / "context.txt"), *question]
    return request.param, task, directory, question


def test_run_directory_holds_figures_report_and_card(run):
    kind, task, directory, _ = run
    metrics = json.loads((directory / "metrics.json").read_text())
    assert task.kind == kind
    assert metrics["kept"] == metrics["epochs"][0] and metrics["steps"] > 0
    page = (directory / "report.html").read_text()
    assert task.name in page and "hardest validation examples" in page
    assert "bert_zoo" in (directory / "model" / "README.md").read_text()


# Kind -> what a SavedModel of it is asked, and the output that is compared.
SERVED = {
    "classification": (lambda data: {"text": data.texts}, "logits"),
    "multi_label_classification": (lambda data: {"text": data.texts}, "logits"),
    "regression": (lambda data: {"text": data.texts[0], "text_pair": data.texts[1]}, "value"),
    "token_classification": (lambda data: {"text": [*map(" ".join, data.words)]}, "probabilities"),
    "multiple_choice": (lambda data: {"text": data.prompts, "choices": data.choices}, "logits"),
    "question_answering": (
        lambda data: {n: [getattr(e, n) for e in data.examples] for n in ("question", "context")},
        "no_answer_score",
    ),
}


def served(kind: str, directory: Path, data) -> np.ndarray:
    """The answers of the run's SavedModel, in plain TensorFlow."""
    signature = tf.saved_model.load(str(directory / "saved_model")).signatures["serving_default"]
    inputs, output = SERVED[kind]
    found = signature(**{name: tf.constant(each) for name, each in inputs(data).items()})
    found = found[output].numpy()
    if kind != "token_classification":
        return found
    return np.concatenate([row[1 : 1 + len(w)] for row, w in zip(found, data.words, strict=True)])


def plain(kind: str, predictions) -> np.ndarray:
    if kind == "question_answering":
        return np.asarray([selection.no_answer_score for selection in predictions])
    if kind == "multi_label_classification":
        return predictions[0]
    return np.concatenate(predictions) if kind == "token_classification" else predictions


def test_kept_model_predicts_the_same_when_loaded_and_when_served(run):
    kind, task, directory, _ = run
    model, data = finetuning.kept_model(directory), task.data("validation")
    predictions = task.predict(model, data, RECIPE)
    # The exported windows are of the usual stride; these contexts fit into one.
    np.testing.assert_allclose(served(kind, directory, data), plain(kind, predictions), atol=1e-5)
    measured = task.measure(data, predictions)
    kept = json.loads((directory / "metrics.json").read_text())["kept"]
    assert measured.metrics == pytest.approx(kept, abs=1e-5)
    if kind == "regression":
        assert model.score_name == "label"
    if kind == "multi_label_classification":
        labels = [{task.label_names[i] for i in row} for row in data.labels]
        evaluated = model.evaluate(data.texts, labels, verbose=0, return_dict=True)
        assert evaluated == pytest.approx(measured.metrics, abs=1e-5)
        supports = {row["label"]: row["support"] for row in measured.table}
        assert supports == {name: sum(name in row for row in labels) for name in task.label_names}


def test_predictions_stand_beside_texts_and_labels(tmp_path):
    write_table(tmp_path / "rows.csv")
    task = make_task("table", train_file=str(tmp_path / "rows.csv"), held_out=2)
    data = LabelledTexts((["a\tb", 'c "d"'], ["x", "y\nz"]), [1, 0], ("no", "yes"))
    logits = np.log([[0.25, 0.75], [0.25, 0.75]])
    (path,) = task.write_predictions(tmp_path, "test", data, logits, {})
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = ("text", "text_pair", "label", "prediction", "no")
    assert [tuple(map(row.get, names)) for row in rows] == [
        ("a\tb", "x", "yes", "yes", "0.250000"),
        ('c "d"', "y\nz", "no", "yes", "0.250000"),
    ]
    texts = LabelledTexts(["a"], None, ("no", "yes"))
    (path,) = task.write_predictions(tmp_path, "more", texts, logits[:1], {})
    assert path.read_text().splitlines() == [
        "index\ttext\tprediction\tno\tyes",
        "0\ta\tyes\t0.250000\t0.750000",
    ]


def test_tags_that_training_had_not_count_as_missed(tmp_path, caplog):
    write_tags(tmp_path / "tags.txt")
    (tmp_path / "test.txt").write_text("the O\nbig B-ORG\nfirm I-ORG\nin O\ncity B-LOC\n\n")
    files = {"train_file": str(tmp_path / "tags.txt"), "test_file": str(tmp_path / "test.txt")}
    task = make_task("tagging", **files)
    assert task.label_names == ("O", "B-LOC", "I-LOC", "B-PER")
    data = task.data("test")
    assert "['B-ORG', 'I-ORG'], which the training file does not have. The 2 words" in caplog.text
    answers = np.eye(4)[[0, 1, 0, 0, 1]]
    measured = task.measure(data, [answers])
    assert measured.metrics["recall"] == measured.metrics["precision"] == 0.5
    assert {row["type"]: row["recall"] for row in measured.table} == {"LOC": 1, "ORG": 0}
    (path,) = task.write_predictions(tmp_path, "test", data, [answers], {})
    assert path.read_text().splitlines()[1] == "big B-ORG B-LOC"


def test_evaluate_finds_the_data_again_and_predict_answers(run, capsys):
    kind, _, directory, question = run
    evaluate.PROGRAM.run(evaluate.main, ["--run", str(directory)])
    figure, value = next(iter(json.loads((directory / "metrics.json").read_text())["kept"].items()))
    assert f"{figure:<34} {value:.4f}" in capsys.readouterr().out
    written = {path.name for path in (directory / "predictions").iterdir()}
    expected = {
        "question_answering": "predictions.json",
        "multiple_choice": "swag-validation.json",
        "token_classification": "tags-validation.txt",
    }
    assert expected.get(kind, "rows-validation.tsv") in written
    predict.PROGRAM.run(predict.main, ["--run", str(directory), *question])
    assert capsys.readouterr().out.strip()


def test_a_run_is_measured_on_the_split_that_chose_its_weights(tmp_path, capsys):
    """The messages have no other split than test."""
    model = bert_zoo.load("bert_nano", "classification", labels=messages.LABELS)
    bert_zoo.save(model, tmp_path / "model")
    config = {"data": {"name": "messages"}, "recipe": asdict(Recipe())}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "metrics.json").write_text(json.dumps({"kept": {}}))
    evaluate.PROGRAM.run(evaluate.main, ["--run", str(tmp_path)])
    assert "messages, test split, 120 examples" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no split 'validation'"):
        evaluate.PROGRAM.run(evaluate.main, ["--run", str(tmp_path), "--split", "validation"])


@pytest.mark.slow
def test_evaluate_runs_on_several_devices(run):
    _, _, directory, _ = run
    command = ("-m", "bert_zoo", "evaluate", "--run", directory, "--strategy", "cpu:2")
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    figure, value = next(iter(json.loads((directory / "metrics.json").read_text())["kept"].items()))
    assert f"{figure:<34} {value:.4f}" in done.stdout


@pytest.mark.slow
def test_questions_are_answered_with_a_beam_of_starts(tmp_path):
    write_questions(tmp_path / "questions.json")
    file = str(tmp_path / "questions.json")
    options = {"name": "questions", "train_file": file, "held_out": 2, "beam_search": True}
    task, directory = make_task(**options), tmp_path / "run"
    finetuning.finetune(str(directory_of("xlnet/encoder")), task, RECIPE, directory, data=options)
    model, data = finetuning.kept_model(directory), task.data("validation")
    assert model.task == task.kind == "beam_question_answering"
    found = plain("question_answering", task.predict(model, data, RECIPE))
    answers = served("question_answering", directory, data)
    np.testing.assert_allclose(answers, found, atol=1e-5)
