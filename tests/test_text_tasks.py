"""GLUE, SuperGLUE and SQuAD as text, mixtures of them, and tables of sources and targets."""

import csv
import json
import sys

import numpy as np
import pytest
import test_superglue as superglue_files
from helpers import assert_refused, directory_of, eager_steps
from sklearn.metrics import accuracy_score

from bert_zoo.cli import evaluate, finetuning, predict
from bert_zoo.cli.benchmarks import TEXT_BENCHMARKS, make_task
from bert_zoo.data import glue, superglue
from bert_zoo.data.buckets import Batching, MixedOrder, mixed_rows
from bert_zoo.metrics.texts import text_metric
from bert_zoo.presets import Recipe

CHECKPOINT = str(directory_of("t5/text_to_text_gated"))
# What t5/data/preprocessors.py makes of the lines of test_superglue.py.
SUPERGLUE = {
    "boolq": ("boolq passage: It is. question: is it", "True"),
    "cb": ("cb hypothesis: B. premise: A.", "neutral"),
    "copa": ("copa choice1: He hit it. choice2: It sang. premise: It broke. question: cause", "choice1"),
    "multirc": ("multirc question: Who ran? answer: Ann paragraph: Ann ran. Bob sat.", "True"),
    "record": (
        "record query: @placeholder lost to Rome entities: Oslo, Rome, the Paris team passage: "
        "Rome beat the Paris team. Oslo saw it.", "the Paris team",
    ),
    "superglue_rte": ("rte hypothesis: B. premise: A.", "not_entailment"),
    "wic": ("wic sentence1: A bank. sentence2: Banks. word: bank", "False"),
    "wsc": ("wsc: The big dog saw Tom because *he*, Tom, ran.", "The big dog"),
}  # fmt: skip
# Task -> its file, the file's lines, and sources and targets of them.
GLUE = {
    "cola": ("CoLA/{}.tsv", "gj04\t1\t\tHe ran.\ngj04\t0\t*\tRan he.\n",
             ["cola sentence: He ran.", "cola sentence: Ran he."], ["acceptable", "unacceptable"]),
    "rte": ("RTE/{}.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n1\tC.\tD.\tnot_entailment\n",
            ["rte sentence1: A. sentence2: B.", "rte sentence1: C. sentence2: D."], ["entailment", "not_entailment"]),
    "stsb": ("STS-B/{}.tsv", "sentence1\tsentence2\tscore\nA.\tB.\t3.25\nC.\tD.\t5\n",
             ["stsb sentence1: A. sentence2: B.", "stsb sentence1: C. sentence2: D."], ["3.2", "5.0"]),
}  # fmt: skip
QUESTIONS = {"Who?": "J.R. Smith", "Where?": "in Rome"}


def write_glue(folder) -> None:
    for file, lines, *_ in GLUE.values():
        for split in ("train", "dev"):
            path = folder / file.format(split)
            path.parent.mkdir(exist_ok=True)
            path.write_text(lines)


def write_squad(folder) -> None:
    context = "It was J.R. Smith, in Rome."
    asked = [
        {"id": q, "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
        for q, a in QUESTIONS.items()
    ]
    article = {"title": "", "paragraphs": [{"context": context, "qas": asked}]}
    for split in ("train", "dev"):
        text = json.dumps({"version": "1.1", "data": [article]})
        (folder / f"{split}-v1.1.json").write_text(text)


def write_pairs(path) -> None:
    rows = [f"say {word} {i},{word}" for i in range(12) for word in ("yes", "no")]
    path.write_text("\n".join(["source,target", *rows]) + "\n")


def superglue_task(name, folder):
    files = name.removeprefix("superglue_")
    for split in ("train", "validation"):
        superglue_files.write(folder, files, split)
    lines = superglue_files.without_labels(superglue_files.LINES[files])
    superglue_files.write(folder, files, "test", lines)
    return make_task(f"text:{name}", data_dir=str(folder))


# --- Sources and targets -------------------------------------------------------------------------


def test_every_task_of_glue_and_superglue_has_its_words():
    names = {n if n not in glue.DATA_SETS else f"superglue_{n}" for n in superglue.DATA_SETS}
    assert set(TEXT_BENCHMARKS) == {*glue.DATA_SETS, *names, "squad_v1"}
    assert glue.AS_TEXT["mnli"] == "mnli hypothesis: {hypothesis} premise: {premise}"
    assert glue.AS_TEXT["ax"] == glue.AS_TEXT["mnli"]
    assert glue.AS_TEXT["mrpc"] == "mrpc sentence1: {sentence1} sentence2: {sentence2}"
    assert glue.AS_TEXT["qnli"] == "qnli question: {question} sentence: {sentence}"


@pytest.mark.parametrize("name", GLUE)
def test_glue_is_read_in_t5s_words(name, tmp_path):
    write_glue(tmp_path)
    data = make_task(f"text:{name}", data_dir=str(tmp_path)).train
    _, _, sources, targets = GLUE[name]
    assert data.trained == (sources, targets)


@pytest.mark.parametrize("name", SUPERGLUE)
def test_superglue_is_read_in_t5s_words_and_answers_are_written_for_its_server(name, tmp_path):
    task = superglue_task(name, tmp_path)
    data, test = task.data("validation"), task.data("test")
    assert (data.sources[0], data.targets[0][0]) == SUPERGLUE[name]
    assert test.targets is None and test.sources == data.sources
    right = [(targets or ("",))[0] for targets in data.targets]
    paths = task.write_predictions(tmp_path, "test", test, right, {})
    files = name.removeprefix("superglue_")
    lines = [json.loads(line) for line in paths[1].read_text().splitlines()]
    if name == "record":
        assert [line["label"] for line in lines] == ["the Paris team", "Oslo"]
    elif name != "multirc":
        of_task = superglue.DATA_SETS[files]
        labels = task.task.data("validation").labels
        names = of_task.submitted or of_task.label_names
        assert [line["label"] for line in lines] == [names[label] for label in labels]
    assert paths[1].name == f"{superglue.DATA_SETS[files].directory}.jsonl"


def test_markup_of_multirc_and_points_of_record_are_read_as_text():
    (row,) = superglue.AS_TEXT["multirc"].rows({"paragraph": "<b>A.</b><br>B."}, "")
    assert row["paragraph"] == "A. B."
    record = {"passage": "A.\n@highlight\nB\n@highlight\nC", "entities": ["A"], "answers": ["A"]}
    (row,) = superglue.AS_TEXT["record"].rows(record, "")
    assert row["passage"] == "A. B. C"


def test_diagnostic_sets_read_as_rte(tmp_path):
    superglue_files.write(tmp_path, "axb", "test")
    task = make_task("text:axb", data_dir=str(tmp_path))
    data = task.data("test")
    assert data.sources == ["rte hypothesis: B. premise: A."]
    assert list(task.measure(data, ["entailment"]).metrics) == ["matthews_correlation", "no_label"]


# --- What texts score ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(SUPERGLUE) - {"wsc"}))
def test_right_texts_score_1_and_others_0(name, tmp_path):
    task = superglue_task(name, tmp_path)
    data = task.data("validation")
    right = task.measure(data, [targets[0] for targets in data.targets])
    wrong = task.measure(data, ["zebra"] * len(data))
    assert set(list(right.metrics.values())[:-1]) == {1.0} and not right.hardest
    assert set(list(wrong.metrics.values())[:-1]) == {0.0} and len(wrong.hardest) == len(data)
    unfit = list(right.metrics)[-1]
    assert (right.metrics[unfit], wrong.metrics[unfit]) == (0, 1)


def test_a_text_that_is_no_label_is_wrong_and_counted(tmp_path):
    write_glue(tmp_path)
    task = make_task("text:rte", data_dir=str(tmp_path))
    data = task.data("validation")
    for texts, accuracy, share in (
        (["entailment", "not_entailment"], 1, 0),
        ([" entailment", "entail"], 0.5, 0.5),
        (["", "entailment"], 0, 0.5),
    ):
        found = task.measure(data, texts)
        truth = [label for (label,) in data.targets]
        assert accuracy_score(truth, [text.strip() for text in texts]) == accuracy
        assert found.metrics == {"accuracy": accuracy, "no_label": share}
    assert task.baseline(data).figures == {"accuracy": 0.5}


def test_scores_are_numbers_and_other_texts_minus_one(tmp_path):
    write_glue(tmp_path)
    task = make_task("text:stsb", data_dir=str(tmp_path))
    data = task.data("validation")
    assert task.measure(data, ["1.0", "4.8"]).metrics["pearson"] == pytest.approx(1)
    found = task.measure(data, ["0.4", "none"])
    assert found.metrics["pearson"] == pytest.approx(-1) and found.metrics["no_number"] == 0.5
    assert task.judged(data, ["nan", " 2.6"]).predictions.tolist() == [-1, 2.6]


@pytest.mark.parametrize(
    ("text", "is_noun"),
    [("The big dog", True), ("dog", True), ("a BIG dog", True), ("Tom", False), ("The big dog's", False)],
)  # fmt: skip
def test_a_pronoun_stands_for_the_noun_that_a_text_says(text, is_noun, tmp_path):
    task = superglue_task("wsc", tmp_path)
    data = task.data("validation")
    # It is true of the first row and not of the second.
    assert task.judged(data, [text] * 2).predictions.argmax(-1).tolist() == [is_noun] * 2
    assert task.train.trained[1] == ["The big dog"]
    assert task.measure(data, ["the", ""]).metrics == {"accuracy": 0, "no_label": 1}


def test_answers_of_squad_are_measured_as_they_stand_in_the_context(tmp_path):
    write_squad(tmp_path)
    task = make_task("text:squad_v1", data_dir=str(tmp_path))
    data = task.data("validation")
    assert data.sources[0] == "question: Who ? context: It was J . R . Smith , in Rome ."
    assert task.train.trained[1] == ["J . R . Smith", "in Rome"]
    right = task.measure(data, ["J . R . Smith", "in  Rome"])
    assert right.metrics == {"f1": 100, "exact_match": 100, "not_in_source": 0}
    half = task.measure(data, ["J . R . Smith", "Rome or Oslo"])
    assert half.metrics == {"f1": 100 * (1 + 2 / 5) / 2, "exact_match": 50, "not_in_source": 0.5}
    paths = task.write_predictions(tmp_path, "validation", data, ["J . R . Smith", "Oslo"], {})
    assert json.loads(paths[1].read_text()) == {"Who?": "J.R. Smith", "Where?": "Oslo"}


# --- Mixtures ------------------------------------------------------------------------------------


def test_tasks_are_mixed_by_size_up_to_a_limit_and_by_temperature():
    sizes = [100, 900, 4000]
    assert mixed_rows(sizes, 2**19, 1.0) == sizes
    assert mixed_rows(sizes, 1000, 1.0) == [100, 900, 1000]
    # Roots of 100, 400 and 900 are 10, 20 and 30.
    assert mixed_rows([100, 400, 900], 2**19, 2.0) == [233, 467, 700]
    assert mixed_rows([100, 900], 2**19, 1e6) == [500, 500]
    assert_refused(lambda: mixed_rows(sizes, 0, 1.0), "at least 1")
    assert_refused(lambda: mixed_rows(sizes, 10, 0.5), "at least 1")


def test_every_epoch_has_each_tasks_rows_and_none_comes_again_before_all_have_come():
    sizes, rows = [5, 40], [8, 12]
    order = MixedOrder(np.ones(45), Batching(batch_size=4, seed=3), sizes=sizes, rows=rows)
    epochs = [np.concatenate(order.batches(epoch)) for epoch in range(10)]
    for drawn in epochs:
        assert [np.sum(drawn < 5), np.sum(drawn >= 5)] == rows
    # 80 rows of the first task are 16 passes; 120 of the second 3.
    counts = np.bincount(np.concatenate(epochs), minlength=45)
    assert set(counts[:5]) == {16} and set(counts[5:]) == {3}
    again = zip(order.batches(7), order.batches(7), strict=True)
    assert all(np.array_equal(a, b) for a, b in again)
    assert not np.array_equal(*(np.sort(epochs[i]) for i in (0, 1)))


def test_a_mixture_is_measured_by_the_mean_of_its_tasks(tmp_path):
    write_glue(tmp_path)
    task = make_task("text:rte,cola", data_dir=str(tmp_path))
    assert task.name == "rte+cola" and task.num_train == 4
    data = task.data("validation")
    found = task.measure(data, [["entailment"] * 2, ["unacceptable", "acceptable"]])
    of_rte = {"rte accuracy": 0.5, "rte no_label": 0}
    of_cola = {"cola matthews_correlation": -1, "cola no_label": 0}
    assert found.metrics == pytest.approx({"average": (0.5 - 1) / 2, **of_rte, **of_cola})
    assert set(task.baseline(data).figures) < set(found.metrics)
    words = "text-to-text task 'rt' | Did you mean 'rte'"
    assert_refused(lambda: make_task("text:cola,rt"), words)


# --- Tables and runs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [("bleu", "sacrebleu", "sacrebleu"), ("rouge", "rouge_score.rouge_scorer", "rouge-score")],
)
def test_a_metric_without_its_package_says_how_to_install_it(
    name, module, package, monkeypatch, tmp_path
):
    write_pairs(tmp_path / "pairs.csv")
    monkeypatch.setitem(sys.modules, module, None)
    options = {"train_file": str(tmp_path / "pairs.csv"), "held_out": 2, "text_metric": name}
    words = f"{package}: pip install 'bert_zoo[text_metrics]'"
    assert_refused(lambda: make_task("text", **options), words, ImportError)


SAID, WANTED = ["the cat sat on the mat", "a dog"], ["the cat sat on a mat", "a dog"]


def test_bleu_is_sacrebleus():
    sacrebleu = pytest.importorskip("sacrebleu")
    score = sacrebleu.corpus_bleu(SAID, [WANTED]).score
    assert text_metric("bleu")(SAID, WANTED) == {"bleu": score} and 0 < score < 100
    assert_refused(lambda: text_metric("meteor"), "no text metric 'meteor'")


# Importing nltk takes seconds.
@pytest.mark.slow
def test_rouge_is_the_share_of_words_in_common():
    pytest.importorskip("rouge_score")
    # Of the first pair 3 of 5 pairs of words and 5 of 6 words are shared.
    assert text_metric("rouge")(SAID, WANTED) == pytest.approx(
        {"rouge2": 50 * (3 / 5 + 1), "rouge1": 50 * (5 / 6 + 1), "rougeLsum": 50 * (5 / 6 + 1)}
    )


def test_columns_of_a_table_are_named(tmp_path):
    (tmp_path / "pairs.csv").write_text("english,german\nhouse,Haus\ntree,Baum\nboat,Boot\n")
    options = {"train_file": str(tmp_path / "pairs.csv"), "held_out": 1}
    named = {"source_column": "english", "target_column": "german"}
    task = make_task("text", **options, **named)
    pairs = {*zip(*task.train.trained, strict=True)}
    pairs |= {*zip(*task.data("validation").trained, strict=True)}
    assert pairs == {("house", "Haus"), ("tree", "Baum"), ("boat", "Boot")} and task.num_train == 2
    assert_refused(lambda: len(make_task("text", **options).train), "'source' | --source_column")


def trained(options, folder, **settings):
    """A task and its run directory."""
    recipe = Recipe(epochs=1, batch_size=4, max_length=24, optimizer="adafactor", weight_decay=0.0)
    task = make_task(**options)
    recipe, how = recipe.replace(**settings), {"data": options, "export": False}
    with eager_steps():
        finetuning.finetune(CHECKPOINT, task, recipe, folder, **how)
    return task


@pytest.mark.slow
def test_a_table_is_trained_on_evaluated_and_asked(tmp_path, capsys):
    write_pairs(tmp_path / "pairs.csv")
    run, output = tmp_path / "run", tmp_path / "answers.csv"
    options = {"name": "text", "train_file": str(tmp_path / "pairs.csv"), "held_out": 6}
    trained(options, run, learning_rate=0.01, schedule="constant", epochs=2, dropout=0.0)
    metrics = json.loads((run / "metrics.json").read_text())
    assert list(metrics["kept"]) == ["exact_match", "token_accuracy", "loss"]
    first, second = (epoch["loss"] for epoch in metrics["epochs"])
    assert second < first
    with eager_steps():
        evaluate.PROGRAM.run(evaluate.main, ["--run", str(run)])
        assert f"{'loss':<34} {metrics['kept']['loss']:.4f}" in capsys.readouterr().out
        predict.PROGRAM.run(predict.main, ["--run", str(run), "say no 3"])
        said = capsys.readouterr().out.removesuffix("\n")
        asked = ["--file", str(tmp_path / "pairs.csv"), "--text", "source"]
        predict.PROGRAM.run(predict.main, ["--run", str(run), *asked, "--output", str(output)])
    with output.open(newline="") as file:
        rows = {row["text"]: row["generated_text"] for row in csv.DictReader(file)}
    assert len(rows) == 24 and rows["say no 3"] == said


@pytest.mark.slow
def test_a_mixture_is_trained_and_evaluated(tmp_path, capsys):
    write_glue(tmp_path)
    run = tmp_path / "run"
    options = {"name": "text:rte,cola,stsb", "data_dir": str(tmp_path)}
    trained(options, run)
    kept = json.loads((run / "metrics.json").read_text())["kept"]
    assert next(iter(kept)) == "average" and "stsb no_number" in kept
    evaluate.PROGRAM.run(evaluate.main, ["--run", str(run)])
    assert f"{'rte accuracy':<34} {kept['rte accuracy']:.4f}" in capsys.readouterr().out
    written = {path.name for path in (run / "predictions").iterdir()}
    assert {f"{name}-validation.tsv" for name in ("rte", "cola", "stsb")} <= written
    # One of its tasks alone.
    evaluate.PROGRAM.run(evaluate.main, ["--run", str(run), "--task", "text:cola"])
    assert "no_label" in capsys.readouterr().out
