"""The programs run on Keras's JAX backend where TensorFlow cannot be imported."""

import pytest
from helpers import slow_but
from task_files import KINDS
from test_jax import pytestmark, run_on_jax  # noqa: F401

PROGRAMS = """
import contextlib, io, json, os
from unittest import mock
from task_files import CONTEXTS, KINDS, PAIRS
from bert_zoo.__main__ import main
from bert_zoo.cli import finetuning

CHECKPOINT = pathlib.Path(sys.path[0]) / "golden/bert/classification"
folder = pathlib.Path(tempfile.mkdtemp())
os.chdir(folder)

def run(verb, *arguments):
    with mock.patch("sys.argv", ["bert_zoo", verb, *map(str, arguments)]):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main()
    return out.getvalue()

def read(path):
    return json.loads(pathlib.Path(path).read_text())
"""


def test_a_fine_tuning_that_was_stopped_goes_on_and_is_measured_and_asked():
    run_on_jax(
        PROGRAMS
        + """
KINDS["classification"][0](folder / "rows.csv")
settings = ["--model", CHECKPOINT, "--task=table", "--train_file=rows.csv", "--held_out=4",
            "--epochs=2", "--batch_size=4", "--max_length=16", "--learning_rate=1e-3",
            "--least_updates=0", "--checkpoint_minutes=0"]
said = run("finetune", *settings, "--output_dir=whole")
assert "No SavedModel was written" in said and "bert_zoo[tensorflow]" in said, said
begin = finetuning.FineTuningRun.on_epoch_begin

def killed(callback, epoch, logs=None):
    if epoch == 1:
        raise KeyboardInterrupt
    begin(callback, epoch, logs)

with mock.patch.object(finetuning.FineTuningRun, "on_epoch_begin", killed):
    try:
        run("finetune", *settings, "--output_dir=stopped")
    except SystemExit as end:
        assert end.code == 130
assert not pathlib.Path("stopped/metrics.json").exists()
assert "Resuming after epoch 1" in run("finetune", *settings, "--output_dir=stopped")
whole, stopped = read("whole/metrics.json"), read("stopped/metrics.json")
for name in ("epochs", "loss", "steps", "kept"):
    assert stopped[name] == whole[name], name
one, other = (bert_zoo.load(f"{name}/model") for name in ("whole", "stopped"))
for path, value in variables_of(one).items():
    np.testing.assert_array_equal(variables_of(other)[path], value, err_msg=path)
assert "jax" in read("whole/config.json")["versions"] and pathlib.Path("whole/report.html").exists()

run("evaluate", "--run=whole", "--split=validation")
(path,) = pathlib.Path("whole/predictions").glob("*-validation-metrics.json")
measured = read(path)
assert abs(measured["loss"] - whole["kept"]["loss"]) < 1e-5
assert "yes" in run("predict", "--run=whole", "good dog", "bad cat")
run("predict", "--run=whole", "--file=rows.csv", "--output=answers.jsonl", "--all_scores")
lines = pathlib.Path("answers.jsonl").read_text().splitlines()
assert len(lines) == 12 and {"label", "score_yes", "score_no"} <= json.loads(lines[0]).keys()
bert_zoo.save(bert_zoo.load(CHECKPOINT.parent / "encoder"), "encoder")
run("embed", "--model=encoder", "--text=rows.csv", "--output=vectors.npy")
assert np.load("vectors.npy").shape == (12, 32)
"""
    )


@pytest.mark.parametrize("kind", slow_but([*KINDS, "embedding"], "token_classification"))
def test_every_kind_of_task_is_fine_tuned_measured_and_asked(kind):
    run_on_jax(
        PROGRAMS
        + f"""
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.training.presets import Recipe

write, file, options, asked = {{**KINDS, "embedding": PAIRS}}[{kind!r}]
write(folder / file)
options |= {{"train_file" if file else "data_dir": str(folder / file)}}
task = make_task(**options)
recipe = Recipe(epochs=1, batch_size=4, max_length=24, stride=8, learning_rate=1e-3)
results = finetuning.finetune(str(CHECKPOINT), task, recipe, folder / "run", data=options)
run("evaluate", "--run=run", f"--split={{task.measured[0]}}")
(path,) = pathlib.Path("run/predictions").glob("*-metrics.json")
name = next(iter(results["kept"]))
assert abs(read(path)[name] - results["kept"][name]) < 1e-5
pathlib.Path("context.txt").write_text(CONTEXTS[0])
context = ["--context=context.txt"] if {kind!r} == "question_answering" else []
assert run("predict", "--run=run", *context, *asked)
"""
    )


def test_a_pretraining_that_was_killed_ends_with_the_same_bits():
    run_on_jax(
        PROGRAMS
        + """
from bert_zoo.pretraining.run import PretrainingRun

words = "the dog sat she saw a river it was big good tree city bad on and".split()
rows = np.random.default_rng(0).choice(words, (40, 4, 8))
documents = ("\\n".join(map(" ".join, document)) for document in rows)
(folder / "text.txt").write_text("\\n\\n".join(documents))
settings = ["--model", CHECKPOINT.parent / "pretraining", "--text=text.txt", "--form=sentences", "--steps=6",
            "--batch_size=4", "--length=16", "--held_out=0", "--checkpoint_minutes=0"]
through = run("pretrain", *settings, "--output_dir=through")
train = PretrainingRun.on_train_batch_end

def killed(keeper, batch, logs=None):
    train(keeper, batch, logs)
    if keeper.progress.all_batches == 4:
        raise KeyboardInterrupt

with mock.patch.object(PretrainingRun, "on_train_batch_end", killed):
    try:
        run("pretrain", *settings, "--output_dir=stopped")
    except SystemExit as end:
        assert end.code == 130
assert "from step 4." in run("pretrain", *settings, "--output_dir=stopped")
one, other = (read(f"{name}/metrics.json") for name in ("through", "stopped"))
assert one["tokens"] == other["tokens"] and one["steps"] == other["steps"] == 6
losses = [[row["loss"] for row in metrics["measured"]] for metrics in (one, other)]
assert losses[0] == losses[1]
one, other = (tensors_of(folder / name / "model") for name in ("through", "stopped"))
for name, value in one.items():
    assert np.array_equal(value, other[name]), name
"""
    )
