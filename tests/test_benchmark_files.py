"""Benchmarks from their own files: a run, its scores, its answers and what the official scorer takes."""

import json
from pathlib import Path

import numpy as np
import pytest
import test_data_files as data_files
import test_superglue as superglue_files
from helpers import eager_steps
from task_files import write_questions

from bert_zoo.cli import evaluate, finetuning, predict
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.metrics import AnswerSelection
from bert_zoo.metrics.squad import AnswerCandidate
from bert_zoo.presets import Recipe

CHECKPOINT = str(Path(__file__).parent / "golden" / "bert" / "classification")
RECIPE = Recipe(epochs=1, batch_size=2, max_length=40, stride=8, max_question_length=8)


def write_superglue(task: str, folder: Path) -> None:
    for split in ("train", "validation"):
        superglue_files.write(folder, task, split)
    lines = superglue_files.without_labels(superglue_files.LINES[task])
    superglue_files.write(folder, task, "test", lines)


def write_nli(task: str, folder: Path) -> None:
    for split in ("train", "dev", "test"):
        files = {f"snli_1.0_{split}.txt": data_files.SNLI, f"xnli.{split}.tsv": data_files.XNLI}
        data_files.write_files(folder, files)
    translated = {"multinli.train.en.tsv": data_files.translation("A dog.")}
    data_files.write_files(folder, translated)


def write_mrqa(task: str, folder: Path) -> None:
    for file in ("train/SQuAD", "train/NewsQA", "dev/SQuAD", "dev/NewsQA", "dev/DROP", "dev/RACE"):
        lines = data_files.mrqa_lines(data_files.asked(file), name=file.partition("/")[2])
        data_files.write_files(folder, {f"{file}.jsonl.gz": lines})


# Task -> what writes its files, what is asked, the scores in their order, what the test split's answers are
# written to, other options.
RUNS = {
    "multirc": (write_superglue, ["--second", "Who?", "Ann ran."], ["f1a", "exact_match", "loss"], "MultiRC.jsonl", {}),
    "record": (write_superglue, ["--second", "It lost", "It ran."], ["f1", "exact_match", "loss"], "ReCoRD.jsonl", {}),
    "copa": (write_superglue, ["It broke.", "It fell.", "It ran."], ["accuracy", "loss"], "COPA.jsonl", {}),
    "wsc": (write_superglue, ["* It * ran"], ["accuracy", "loss"], "WSC.jsonl", {}),
    "snli": (write_nli, ["--second", "It runs.", "A dog."], ["accuracy", "macro_f1", "loss"], "snli-test.tsv", {}),
    "xnli": (write_nli, ["--second", "It runs.", "A dog."], ["accuracy", "accuracy_de", "accuracy_fr", "loss"], "xnli-test.tsv", {}),
    "mrqa": (write_mrqa, ["Who sat?"], ["f1", "exact_match"], "predictions.json", {"data_sets": ("SQuAD", "NewsQA")}),
}  # fmt: skip


# The others differ from these in their files and scores, which the next test shows.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["record", "copa", "snli", "mrqa"])
def test_a_benchmark_is_trained_measured_and_asked(name, tmp_path, capsys):
    write, question, scores, written, more = RUNS[name]
    write(name, tmp_path)
    options = {"name": name, "data_dir": str(tmp_path), **more}
    task, run = make_task(**options), tmp_path / "run"
    with eager_steps():
        finetuning.finetune(CHECKPOINT, task, RECIPE, run, data=options, export=False)
    kept = json.loads((run / "metrics.json").read_text())["kept"]
    assert list(kept) == scores
    assert task.name in (run / "report.html").read_text()
    arguments = ["--run", str(run), "--split", "test"]
    data_sets = ["--data_sets", "DROP,RACE"] if more else []
    evaluate.PROGRAM.run(evaluate.main, [*arguments, *data_sets])
    said = capsys.readouterr().out
    assert (run / "predictions" / written).is_file()
    if name == "mrqa":
        answers = json.loads((run / "predictions" / written).read_text())
        assert list(answers) == ["dev/DROP", "dev/RACE"]
        assert all(f"{data_set} " in said for data_set in ("DROP", "RACE"))
        (tmp_path / "context.txt").write_text(data_files.MRQA_CONTEXT)
        question = ["--context", str(tmp_path / "context.txt"), *question]
    if name == "snli":
        # Of the same classes, in other files.
        evaluate.PROGRAM.run(evaluate.main, [*arguments, "--task", "xnli"])
        assert "accuracy_de" in capsys.readouterr().out
    predict.PROGRAM.run(predict.main, ["--run", str(run), *question])
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", [name for name in RUNS if name != "mrqa"])
def test_answers_are_scored_beside_a_baseline_and_written(name, tmp_path):
    write, _, scores, written, _ = RUNS[name]
    write(name, tmp_path)
    task = make_task(name, data_dir=str(tmp_path))
    data, test = task.data("validation"), task.data("test")
    classes = len(task.label_names) or 2
    measured = task.measure(data, np.zeros((len(data), classes)))
    assert list(measured.metrics) == scores and measured.hardest
    baseline = task.baseline(data)
    assert list(baseline.figures) == scores[:-1]
    if name == "record":
        # The first candidate of each query, in the order of their names.
        assert baseline.answer == "always the first candidate" and baseline.figures["f1"] == 0.5
    paths = task.write_predictions(tmp_path, "test", test, np.zeros((len(test), classes)), {})
    assert paths[-1] == tmp_path / written and paths[-1].is_file()


def test_a_model_of_rte_answers_the_diagnostic_sets_too(tmp_path):
    superglue_files.write(tmp_path, "axb", "test")
    task = make_task("axb", data_dir=str(tmp_path))
    data = task.data("test")
    logits = superglue_files.one_hot([1])
    assert task.label_names == make_task("superglue_rte").label_names
    assert list(task.measure(data, logits).metrics) == ["matthews_correlation", "loss"]
    paths = task.write_predictions(tmp_path, "test", data, logits, {})
    assert [path.name for path in paths] == ["axb-test.tsv", "AX-b.jsonl"]


def test_glues_server_takes_test_splits_alone(tmp_path):
    (tmp_path / "RTE").mkdir()
    for name in ("train", "dev"):
        lines = "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n"
        (tmp_path / "RTE" / f"{name}.tsv").write_text(lines)
    task = make_task("rte", data_dir=str(tmp_path))
    data, logits = task.data("validation"), superglue_files.one_hot([0])
    paths = task.write_predictions(tmp_path, "validation", data, logits, {})
    assert [path.name for path in paths] == ["rte-validation.tsv"]


def test_answers_are_scored_against_what_mrqa_accepts_by_data_set(tmp_path):
    write_mrqa("mrqa", tmp_path)
    task = make_task("mrqa", data_dir=str(tmp_path), data_sets=("SQuAD", "NewsQA"))
    data = task.data("validation")
    chosen = [AnswerCandidate(text, 0, 1, 0.0, 0.0, 1.0) for text in ("The cat.", "lion cub")]
    measured = task.measure(data, [AnswerSelection((each,), each, None) for each in chosen])
    # Accepted are "the Cat" and "a lion": F1 of "lion cub" is 2 * 1 / (2 + 1).
    assert measured.metrics == pytest.approx({"f1": 250 / 3, "exact_match": 50})
    assert measured.table == [
        {"type": "SQuAD", "exact_match": 100.0, "f1": 100.0, "support": 1},
        {"type": "NewsQA", "exact_match": 0.0, "f1": pytest.approx(200 / 3), "support": 1},
    ]
    # The one of them that no accepted answer has a word of.
    chosen[1] = AnswerCandidate("dog", 0, 1, 0.0, 0.0, 1.0)
    measured = task.measure(data, [AnswerSelection((each,), each, None) for each in chosen])
    assert [(e.truth, e.prediction) for e in measured.hardest] == [("the Cat / a lion", "dog")]


def test_files_of_mrqas_form_are_questions_too(tmp_path):
    lines = data_files.mrqa_lines(data_files.asked())
    file = str(data_files.write_files(tmp_path, {"a.jsonl.gz": lines}) / "a.jsonl.gz")
    task = make_task("questions", train_file=file, dev_file=file)
    assert task.train.examples[0].references == ("the Cat", "a lion")


def test_some_questions_are_shown_with_the_answers_that_are_right(tmp_path):
    write_questions(tmp_path / "questions.json")
    task = make_task("questions", train_file=str(tmp_path / "questions.json"), held_out=1)

    class Model:
        def answer(self, questions, contexts, no_answer_threshold):
            return [
                f"{q}, {no_answer_threshold}: {c}" for q, c in zip(questions, contexts, strict=True)
            ]

    data = task.data("validation")
    context = data.examples[0].context
    assert task.show(Model(), data, {"best_f1_thresh": 0.5}) == (
        f"what, 0.5: {context}\n  (true: {context.split()[-1]})\n\n"
        f"who, 0.5: {context}\n  (true: (no answer))"
    )
