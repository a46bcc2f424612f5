"""A run directory holds what it should, and answers."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import assert_refused, assert_same_variables, eager_steps

import bert_zoo
from bert_zoo.cli import finetuning, predict
from bert_zoo.cli.benchmarks.texts import TextBenchmark
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.presets import Recipe
from bert_zoo.runtime.answers import Classification, Classifications, softmax
from bert_zoo.training import runs
from bert_zoo.training.runs import TrainingDiverged, check_same_run, read_json
from bert_zoo.weights.files import write_json

ROOT = Path(__file__).parents[1]
CHECKPOINT = ROOT / "tests" / "golden" / "bert" / "classification"
TEXTS = ["good one", "bad two", "good three", "bad four", "good", "bad"] * 4
LABELS = [1, 0, 1, 0, 1, 0] * 4


def accuracy(labels, predictions) -> dict[str, float]:
    return {"accuracy": float(np.mean(np.asarray(labels) == predictions))}


def task(measured_on: str, metric=accuracy) -> TextBenchmark:
    data = LabelledTexts(TEXTS, LABELS, ("bad", "good"))
    return TextBenchmark("toy", lambda split: data, measured=(measured_on,), metric=metric)


RECIPE = Recipe(epochs=2, batch_size=8, max_length=16, learning_rate=1e-3)


def trained(directory: Path, recipe: Recipe = RECIPE, of: TextBenchmark | None = None, **options):
    of = of or task("validation")
    return finetuning.finetune(str(CHECKPOINT), of, recipe, directory, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "toy"
    # Of a killed process; and a file of the user's.
    (directory / ".saved_model.0f.old" / "variables").mkdir(parents=True)
    (directory / ".saved_model.1e.tmp" / "variables").mkdir(parents=True)
    (directory / ".notes.tmp").touch()
    with eager_steps():
        trained(directory, export=False)
    return directory


def test_run_directory_holds_configuration_figures_curve_and_models(run):
    config = json.loads((run / "config.json").read_text())
    assert config["task"] == "toy" and config["recipe"]["batch_size"] == 8
    metrics = json.loads((run / "metrics.json").read_text())
    assert len(metrics["epochs"]) == len(metrics["loss"]) == 2
    assert metrics["steps"] == 6 and metrics["seconds"] > 0
    assert (run / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert list((run / "tensorboard").rglob("events.out.tfevents.*"))
    assert [path.name for path in run.glob(".*")] == [".notes.tmp"]
    model = bert_zoo.load(run / "model")
    assert model.labels == ("bad", "good")
    logits = model.predict(TEXTS, verbose=0)
    assert accuracy(LABELS, logits.argmax(axis=-1))["accuracy"] == metrics["best"]["accuracy"]
    losses = -np.log(softmax(logits)[range(len(LABELS)), LABELS])
    assert metrics["best"]["loss"] == pytest.approx(losses.mean(), abs=1e-5)
    # Half of the rows are of either class; of equal ones the first row's counts.
    assert metrics["baseline"] == {"answer": "always 'good'", "figures": {"accuracy": 0.5}}


@pytest.mark.usefixtures("eager")
def test_head_begins_as_wide_as_the_recipe_says(tmp_path):
    still = RECIPE.replace(total_steps=1, learning_rate=1e-12)
    heads = []
    for width in (None, 0.2):
        directory = tmp_path / str(width)
        trained(directory, still.replace(head_initializer_range=width), export=False)
        heads.append(finetuning.kept_model(directory).classifier.dense.kernel.numpy())
    np.testing.assert_allclose(heads[1], 10 * heads[0], rtol=1e-4)


@pytest.mark.parametrize(("measured_on", "saved"), [("validation", [0]), ("test", [0, 1])])
def test_a_test_set_does_not_choose_the_weights(measured_on, saved, tmp_path, monkeypatch):
    found, figures = [], iter(({"accuracy": 0.9}, {"accuracy": 0.1}))
    measure = finetuning.FineTuningRun(task(measured_on), RECIPE, tmp_path)
    monkeypatch.setattr(measure, "measured", lambda: (None, next(figures)))
    monkeypatch.setattr(bert_zoo, "save", lambda *args: found.append(len(measure.metrics) - 1))
    for epoch in range(2):
        measure.on_epoch_end(epoch, {"loss": 0.5})
    assert found == saved


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    """With dropout, and orders of rows that differ between epochs; in graphs, as users train."""
    run, directory = tmp_path / "whole", tmp_path / "toy"
    trained(run)
    begin = finetuning.FineTuningRun.on_epoch_begin

    def killed(callback, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt
        begin(callback, epoch, logs)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(finetuning.FineTuningRun, "on_epoch_begin", killed)
        trained(directory, checkpoint_seconds=0)
    assert not (directory / "metrics.json").exists()
    other = RECIPE.replace(learning_rate=2e-3)
    words = "learning_rate was 0.001 and is 0.002. Use the same"
    assert_refused(lambda: trained(directory, other), words)
    results = trained(directory)
    whole = json.loads((run / "metrics.json").read_text())
    for name in ("epochs", "loss", "steps", "kept"):
        assert results[name] == whole[name], name
    assert not (directory / finetuning.CHECKPOINT).exists()
    assert_same_variables(*(bert_zoo.load(d / "model") for d in (directory, run)))
    assert (directory / "report.html").exists()


def test_the_best_epoch_is_kept_and_patience_ends(tmp_path):
    measure = finetuning.FineTuningRun(task("validation"), RECIPE, tmp_path, patience=2)
    assert not measure.stopped
    for values, best, stopped in (
        ((float("nan"), -3.0, float("nan")), 2, False),
        ((0.5, 0.7, 0.7), 2, False),
        ((0.5, 0.7, 0.6, 0.7), 2, True),
    ):
        measure.progress.figures = [{"accuracy": value} for value in values]
        assert (measure.best_epoch, measure.stopped) == (best, stopped)


def test_checkpoints_are_as_far_apart_as_asked(tmp_path, monkeypatch):
    now, written = 1000.0, []
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(runs, "write_checkpoint", lambda *args: written.append(args[2]))
    monkeypatch.setattr(bert_zoo, "save", lambda *args: None)
    measure = finetuning.FineTuningRun(task("validation"), RECIPE, tmp_path, checkpoint_seconds=60)
    monkeypatch.setattr(measure, "measured", lambda: (None, {"accuracy": 0.5}))
    now += 500  # spent before the training
    measure.on_train_begin()
    for epoch in range(6):
        now += 25
        measure.on_epoch_end(epoch, {"loss": 0.5})
    assert written == [3, 6]


@pytest.mark.usefixtures("eager")
def test_a_training_that_diverges_stops(tmp_path):
    recipe = RECIPE.replace(learning_rate=1e30, warmup_proportion=0.0)
    with pytest.raises(TrainingDiverged, match=r"The loss is .* of epoch 1, at a learning rate of"):
        trained(tmp_path / "toy", recipe)
    assert not {"metrics.json", "model"} & {path.name for path in (tmp_path / "toy").iterdir()}


@pytest.mark.usefixtures("eager")
def test_the_metrics_of_an_epoch_are_printed_once(tmp_path, capsys):
    trained(tmp_path, RECIPE.replace(epochs=1), export=False)
    out = capsys.readouterr().out
    assert " after epoch 1: " in out and "val_" not in out


def test_numbers_that_json_does_not_have_are_written_as_null(tmp_path):
    write_json(tmp_path / "x.json", {"a": [1.5, float("nan")], "b": (float("inf"), "é")})
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [1.5, None], "b": [None, "é"]}


def test_half_a_json_file_of_a_run_is_named_with_the_next_step(tmp_path):
    path = tmp_path / "config.json"
    for content in (b'{"recipe": {"ep', b"", '{"text": "é'.encode()[:-1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"config\.json, line 1: .*(Restore|Convert|fetch)"):
            read_json(path)


def test_a_finished_run_is_not_replaced(run, monkeypatch):
    began = (run / "metrics.json").read_bytes()
    monkeypatch.setattr(bert_zoo, "load", None)
    assert trained(run) == json.loads(began)
    other = task("validation")
    other.data = lambda split: LabelledTexts(TEXTS[::-1], LABELS, ("bad", "good"))
    epochs = "epochs was 2 and is 3. Choose another"
    for options, words in (
        ({"recipe": RECIPE.replace(epochs=3)}, f"finished run | {epochs}"),
        ({"of": other}, "finished run | the examples or their splits are different"),
        ({"seed": 1}, "seed was 0 and is 1"),
    ):
        assert_refused(lambda: trained(run, **options), words)  # noqa: B023
    assert (run / "metrics.json").read_bytes() == began


def test_a_run_of_a_version_without_a_setting_is_the_same_where_the_setting_is_off(tmp_path):
    began = {"seed": 0, "examples": "x", "recipe": {"epochs": 2}}
    write_json(tmp_path / "config.json", began)
    for off in (None, False, 0, ""):
        now = began | {"recipe": {"epochs": 2, "new": off}}
        check_same_run(tmp_path, now, "a run", "")
    now["recipe"]["new"] = 0.5
    with pytest.raises(ValueError, match=r"new was None and is 0\.5"):
        check_same_run(tmp_path, now, "a run", "")


def test_previews_stand_on_one_line_each():
    texts = ["two\nlines", "three\r\nlines\n\x85here", "x " * 999, "", "fine", "last\n"]
    data = LabelledTexts(texts, [0, 1, 0, 1, 0, 1], ("bad", "good"))
    shown = TextBenchmark("toy", lambda split: data, metric=accuracy)

    class Model:
        def classify(self, texts):
            scores = {"bad": 0.2, "good": 0.8}
            return Classifications(
                Classification(text, "good", 0.8, scores, {"good": 0.8}) for text in texts
            )

    _title, *lines = shown.show(Model(), data, {}).split("\n")
    assert lines[:2] == [
        "  good  0.800  two lines   (wrong: bad)",
        "  good  0.800  three lines here",
    ]
    assert len(lines) == len(texts) and max(map(len, lines)) < 140


@pytest.mark.slow
def test_class_weights_change_what_is_learned(tmp_path):
    """The rows of a class without weight, here as small as can be, teach nothing."""
    recipe = RECIPE.replace(epochs=1, class_weight={"bad": 1e-9, "good": 1.0})
    results = trained(tmp_path / "toy", recipe, export=False)
    predicted = bert_zoo.load(tmp_path / "toy" / "model").predict(TEXTS, verbose=0).argmax(axis=-1)
    assert set(predicted) == {1} and results["loss"][0] < 0.5
    with pytest.raises(ValueError, match=r"is 'god'\. .* Did you mean 'good'\?"):
        task("validation").class_weights(RECIPE.replace(class_weight="god=2"))


def test_summary_gives_mean_and_sample_deviation():
    figures = ({"a": value} for value in (0.5, 0.6, 0.7))
    summary = finetuning.summarize([{"last": a, "best": a, "seconds": 1.0} for a in figures])
    assert summary["last a"]["mean"] == pytest.approx(0.6)
    assert summary["last a"]["sd"] == pytest.approx(0.1)


def test_predict_answers_from_a_run_directory(run, capsys):
    predict.PROGRAM.run(predict.main, ["--run", str(run), "good one", "bad two"])
    lines = capsys.readouterr().out.strip().split("\n")
    assert [line.split()[-2:] for line in lines] == [["good", "one"], ["bad", "two"]]
    assert all(line.split()[0] in ("bad", "good") for line in lines)


def test_a_run_of_several_seeds_says_where_their_models_are(tmp_path):
    (tmp_path / "seed_0" / "model").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"Choose one of its runs: seed_0\."):
        finetuning.kept_model(tmp_path)
