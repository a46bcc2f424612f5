"""Sentence vectors and rerankers by `bert_zoo finetune`, and classifiers on sentence vectors."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import (
    GOLDEN,
    TEXTS,
    assert_refused,
    eager_steps,
    load_case,
    load_task,
    refusals,
    slow_but,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import bert_zoo
from bert_zoo.cli import evaluate, finetuning, predict
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.cli.benchmarks.few_labels import contrastive_pairs, logistic_regression, set_fit
from bert_zoo.cli.benchmarks.retrieval import average_precision
from bert_zoo.data.buckets import Batching, RowOrder, text_numbers
from bert_zoo.metrics.labels import class_metrics
from bert_zoo.presets import Recipe
from bert_zoo.runtime.answers import sigmoid, softmax
from bert_zoo.tasks import Classifier, LateInteraction, SparseEmbedder
from bert_zoo.training import preset


# RoBERTa's own head has a layer that one on sentence vectors lacks.
@pytest.mark.parametrize("case", ["bert/encoder", "roberta/encoder"])
def test_a_classifier_on_sentence_vectors_comes_back_as_it_was_saved(case, tmp_path):
    embedder = load_case(case, "embedding")
    model = Classifier(embedder.encoder, labels=("a", "b", "c"), reads_vectors=True)
    kernel = model.classifier.dense.kernel
    kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))
    ids = model.preprocessor(TEXTS)
    logits = model(ids).numpy()
    np.testing.assert_allclose(logits, embedder(ids).numpy() @ kernel.numpy(), atol=1e-5)
    bert_zoo.save(model, tmp_path / "model")
    np.testing.assert_array_equal(bert_zoo.load(tmp_path / "model")(ids), logits)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(ids), logits)
    words = "Hugging Face transformers and KerasHub have no such class"
    assert_refused(lambda: bert_zoo.save(model, tmp_path / "hf", format="hf"), words)


# --- Programs ------------------------------------------------------------------------------------

CHECKPOINT = str(GOLDEN / "encoder")
PRETRAINED = str(GOLDEN / "masked_lm")  # whose head sparse vectors need
RECIPE = Recipe(epochs=2, batch_size=4, max_length=12, learning_rate=1e-3)
WORDS = "the a cat dog tree city big good river saw she it was on sat ran bird bad".split()
TEXTS_OF_ROWS = [f"{a} {b} {c}" for a, b, c in zip(WORDS, WORDS[3:], WORDS[7:], strict=False)]
PARTNERS = [f"{b} {a}" for a, b in zip(WORDS, WORDS[5:], strict=False)]
OTHERS = PARTNERS[3:] + PARTNERS[:3]


HELD_OUT = 3
# Kinds of vectors that are not those of sentences.
KINDS = {"sparse": SparseEmbedder.task, "tokens": LateInteraction.task}


def write_rows(path: Path, **row) -> dict:
    names = list(row)
    rows = [dict(zip(names, cells, strict=True)) for cells in zip(*row.values(), strict=False)]
    path.write_text("".join(json.dumps(cells) + "\n" for cells in rows))
    return {"train_file": str(path), "held_out": HELD_OUT}


def write_beir(folder: Path) -> dict:
    (folder / "qrels").mkdir()
    for file, texts in (("queries", TEXTS_OF_ROWS), ("corpus", PARTNERS)):
        lines = [json.dumps({"_id": f"{i}", "text": text}) for i, text in enumerate(texts)]
        (folder / f"{file}.jsonl").write_text("\n".join(lines))
    for split, rows in (("train", range(8)), ("test", range(8, 11))):
        lines = ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return {"data_dir": str(folder)}


GRADES = [i % 2 for i in range(len(TEXTS_OF_ROWS))]
NEGATIVES = [list(pair) for pair in zip(OTHERS, PARTNERS[1:], strict=False)]
LISTS = {"query": TEXTS_OF_ROWS, "positive": PARTNERS}
# Name -> (task, columns of its file, names of columns, settings, the metric that chooses).
TASKS = {
    "pairs": ("pairs", {"anchor": TEXTS_OF_ROWS, "positive": PARTNERS}, (),
              {"symmetric": True, "matryoshka": (32, 8), "mini_batch_size": 2}, "ndcg@10"),
    "triplets": ("triplets", {"anchor": TEXTS_OF_ROWS, "positive": PARTNERS, "negatives": NEGATIVES},
                 ("anchor", "positive", "negatives"), {}, "ndcg@10"),
    "scores": ("scores", {"sentence1": TEXTS_OF_ROWS, "sentence2": PARTNERS, "label": GRADES}, (),
               {"loss": "cosine_regression"}, "spearman"),
    "beir": ("beir", None, (), {}, "ndcg@10"),
    "sparse": ("beir", None, (), {"sparsity": (1e-3, 1e-3)}, "ndcg@10"),
    "tokens": ("beir", None, (), {"mini_batch_size": 2}, "ndcg@10"),
    "reranking": ("reranking", {"query": TEXTS_OF_ROWS, "document": PARTNERS, "label": GRADES}, (), {},
                  "average_precision"),
    "lists": ("reranking", LISTS | {"negatives": NEGATIVES}, ("query", "positive", "negatives"), {}, "ndcg@10"),
    "margins": ("reranking", LISTS | {"negative": OTHERS, "label": GRADES}, ("query", "positive", "negative"), {},
                "ndcg@10"),
}  # fmt: skip


@pytest.fixture(scope="module", params=slow_but(TASKS, "pairs", "scores", "lists", *KINDS))
def run(request, tmp_path_factory):
    """A task, its run directory, the metrics that are kept, and the name of the first."""
    name, columns, names, settings, metric = TASKS[request.param]
    folder = tmp_path_factory.mktemp("data")
    files = write_rows(folder / "rows.jsonl", **columns) if columns else write_beir(folder)
    kind = KINDS.get(request.param)
    more = {"columns": names} if names else {"vectors": kind} if kind else {}
    data = {"name": name, **more, **files}
    task, recipe = make_task(**data), RECIPE.replace(epochs=1, **settings)
    with eager_steps():
        results = finetuning.finetune(
            PRETRAINED, task, recipe, folder / "run", data=data, export=False
        )
    return task, folder / "run", results, metric


def test_a_task_trains_from_files_and_reports(run):
    task, directory, results, metric = run
    assert next(iter(results["kept"])) == metric
    assert 0 <= results["kept"][metric] <= 1 and np.isfinite(results["loss"]).all()
    report = (directory / "report.html").read_text()
    assert metric in report.replace(" ", "_")
    assert "bert_zoo.load" in (directory / "model" / "README.md").read_text()
    size = {SparseEmbedder.task: "active dims", LateInteraction.task: "vectors"}.get(task.kind)
    assert not size or (f">{size}</th>" in report and "<td>documents</td>" in report)


@pytest.mark.slow
def test_a_kept_model_is_measured_again_and_asked(run, capsys):
    task, directory, results, metric = run
    split = task.measured[0]
    evaluate.PROGRAM.run(evaluate.main, ["--run", str(directory), "--split", split])
    file = directory / "predictions" / f"{task.name}-{split}-metrics.json"
    assert json.loads(file.read_text())[metric] == pytest.approx(results["kept"][metric], abs=1e-5)
    predict.PROGRAM.run(predict.main, ["--run", str(directory), "good dog", "bad cat", "big city"])
    scores = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()[-2:]]
    assert scores == sorted(scores, reverse=True)


def test_a_rerankers_scores_are_written_as_its_activation_makes_them(tmp_path):
    columns = {"query": TEXTS_OF_ROWS, "document": PARTNERS, "label": GRADES}
    task = make_task("reranking", **write_rows(tmp_path / "rows.jsonl", **columns))
    model, data = load_task("reranking"), task.data(task.measured[0])
    model.score_activation = "linear"
    with eager_steps():
        judged = task.predict(model, data, RECIPE)
        wanted = model.row_scores(*data.columns)
    (path,) = task.write_predictions(tmp_path, "dev", data, judged, {})
    written = [float(row[-1]) for row in map(str.split, path.read_text().splitlines()[1:])]
    np.testing.assert_allclose(written, wanted, atol=1e-5)
    model.score_activation = "sigmoid"
    with eager_steps():
        _, scores = task.predict(model, data, RECIPE)
    np.testing.assert_allclose(scores[:, 0], sigmoid(wanted), atol=1e-5)


def test_no_text_stands_twice_in_a_batch_of_pairs():
    numbers = text_numbers((["a", "b", "c", "d"] * 2, ["p", "q", "r", "s", "p", "t", "u", "a"]))
    order = RowOrder(np.ones(8), Batching(3, seed=1), numbers)
    for epoch in range(3):
        batches = order.batches(epoch)
        assert sorted(np.concatenate(batches)) == list(range(8))
        assert all(len(np.unique(numbers[b])) == numbers[b].size for b in batches)
        again = RowOrder(np.ones(8), Batching(3, seed=1), numbers).batches(epoch)
        assert [b.tolist() for b in again] == [b.tolist() for b in batches]
    by_tokens = Batching(3, tokens=10)
    assert_refused(lambda: RowOrder(np.ones(8), by_tokens, numbers), "mini_batch_size saves memory")


# --- Few labels ----------------------------------------------------------------------------------


def test_setfits_model_predicts_what_vectors_and_their_regression_do(tmp_path):
    data = {"name": "messages", "labels_per_class": 2, "split_seed": 3}
    task = make_task(**data)
    assert np.bincount(task.train.labels).tolist() == [2] * 8
    recipe = preset("setfit").recipe.replace(contrastive_pairs=1, max_length=12)
    with eager_steps():
        results = finetuning.finetune(CHECKPOINT, task, recipe, tmp_path, data=data, export=False)
    model = finetuning.kept_model(tmp_path)
    texts = task.data("test").texts
    vectors = model.encoder.embed(task.train.texts)
    found = LogisticRegression(max_iter=1000).fit(vectors, task.train.labels)
    wanted = found.predict_proba(model.encoder.embed(texts))
    logits = model.predict(texts, verbose=0)
    np.testing.assert_allclose(softmax(logits), wanted, atol=1e-5)
    assert class_metrics(task.data("test").labels, logits.argmax(-1))["accuracy"] == pytest.approx(
        results["kept"]["accuracy"]
    )


@pytest.mark.parametrize(
    ("labels", "weights"), [([0, 1, 1, 0], None), ([0, 1, 2, 0, 1, 2], {0: 1.0, 1: 5.0, 2: 0.5})]
)
def test_classes_of_a_regression_have_a_logit_each_and_weights(labels, weights):
    vectors = np.eye(len(labels))
    kernel, bias = logistic_regression(vectors, labels, *([weights] if weights else []))
    wanted = LogisticRegression(class_weight=weights).fit(vectors, labels).predict_proba(vectors)
    np.testing.assert_allclose(softmax(vectors @ kernel + bias), wanted, atol=1e-9)


LABEL_SETS = {
    "text": ["a cat", "a red cat", "a red bird", "the bird", "the city", "red"],
    "label": ["cat", "cat,red", "red,bird", "bird", "", "red"],
}


def task_of_label_sets(path: Path):
    file = write_rows(path, **LABEL_SETS)["train_file"]
    return make_task("table", train_file=file, dev_file=file, label_delimiter=",")


def assert_are_regressions_of_each_label(logits, vectors, labels) -> None:
    assert labels == ("bird", "cat", "red")
    for number, name in enumerate(labels):
        applies = [name in label.split(",") for label in LABEL_SETS["label"]]
        found = LogisticRegression(max_iter=1000).fit(vectors, applies)
        np.testing.assert_allclose(logits[:, number], found.decision_function(vectors), atol=1e-4)


def test_setfit_has_a_regression_for_each_label_and_pairs_that_share_one(tmp_path):
    task = set_fit(task_of_label_sets(tmp_path / "rows.jsonl"))
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    kernel, bias = task.regression(vectors)
    assert_are_regressions_of_each_label(vectors @ kernel + bias, vectors, task.label_names)
    applies = task.memberships()
    first, second = contrastive_pairs(applies, 5, seed=0)
    is_same = (applies[first] & applies[second]).any(1) | (first == second)
    assert len(first) == 2 * 5 * 6 and is_same.sum() == 30
    # Only the text without labels has no other partner.
    assert set(first[first == second]) == {4}


@pytest.mark.slow
def test_setfit_learns_sets_of_labels(tmp_path):
    recipe = preset("setfit").recipe.replace(contrastive_pairs=1, max_length=12, batch_size=4)
    task = task_of_label_sets(tmp_path / "rows.jsonl")
    with eager_steps():
        finetuning.finetune(CHECKPOINT, task, recipe, tmp_path / "run", export=False)
    model = finetuning.kept_model(tmp_path / "run")
    vectors = model.encoder.embed(LABEL_SETS["text"])
    logits = model.predict(LABEL_SETS["text"], verbose=0)
    assert_are_regressions_of_each_label(logits, vectors, model.labels)


def test_pairs_of_few_labels_are_half_of_one_class():
    labels = np.array([0, 0, 0, 1, 1, 2])
    first, second = contrastive_pairs(np.eye(3, dtype=bool)[labels], 5, seed=0)
    assert len(first) == 2 * 5 * 6 and (labels[first] == labels[second]).sum() == 30
    # The only text of a class has no other partner than itself.
    assert set(first[first == second]) == {5}


UNEVEN = {"anchor": ["a", "b"], "positive": ["c", "d"], "negative": [["e"], "f g".split()]}
UNFIT = {"query": TEXTS_OF_ROWS, "document": PARTNERS, "label": range(11)}


def rows_of(task: str, folder: Path, **columns):
    return make_task(task, **write_rows(folder / "rows.jsonl", **columns)).train


@refusals(
    (
        lambda d: make_task("messages").check_settings(
            Recipe(symmetric=True, loss="cosine_regression")
        ),
        "'symmetric' | 'loss'",
    ),
    (lambda d: len(make_task("messages", labels_per_class=100).train), "is 100, but only 75"),
    (lambda d: len(rows_of("reranking", d, **UNFIT)), "from 0 to 10, but a reranker needs | to 1"),
    (lambda d: len(rows_of("triplets", d, **UNEVEN)), "line 2: the row has 4 texts | first one 3"),
)
def test_settings_and_labels_that_do_not_fit_are_refused(call, words, tmp_path):
    assert_refused(lambda: call(tmp_path), words)


def test_lists_to_rerank_may_lack_labels(tmp_path):
    listed = LISTS | {"negative": OTHERS}
    columns = {"columns": ("query", "positive", "negative")}
    for more, labels in (({}, None), ({"label": GRADES}, 8)):
        file = write_rows(tmp_path / "lists.jsonl", **listed, **more)
        found = make_task("reranking", **file, **columns).train.labels
        assert (found and len(found)) == labels


def test_average_precision_is_scikit_learns():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 50), rng.integers(0, 9, 50) / 9
    wanted = average_precision_score(labels, scores)
    assert average_precision(labels, scores) == pytest.approx(wanted)
