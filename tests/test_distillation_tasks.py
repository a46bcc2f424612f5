"""Distillation on tasks: the losses, the teacher's answers on disk, and runs of every kind."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_variables,
    directory_of,
    eager_steps,
    load_task,
    refusals,
    tensors_of,
)
from task_files import KINDS, PAIRS, write_table

import bert_zoo
from bert_zoo.cli import distill as distill_program
from bert_zoo.cli import finetuning
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.cli.benchmarks.distilled import Lesson, columns_of, learn_from, unlabelled
from bert_zoo.cli.benchmarks.questions import PADDED
from bert_zoo.distillation import (
    TaughtLoss,
    VectorLoss,
    distill,
    student_of,
    targets_of,
    teacher_answers,
)
from bert_zoo.distillation.losses import KINDS as LOSSES
from bert_zoo.distillation.losses import taught_loss, vectors_of_size
from bert_zoo.models import losses as model_losses
from bert_zoo.training import Recipe, compile_for_task

CHECKPOINT = str(directory_of("bert/classification"))
RECIPE = Recipe(epochs=2, batch_size=8, max_length=24, stride=8, learning_rate=1e-3)


# --- Losses ---


def softmax(x):
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def binary(p, x):
    return -(p * np.log(sigmoid(x)) + (1 - p) * np.log(1 - sigmoid(x))).mean(axis=-1)


def squared(a, b):
    return ((a - b) ** 2).mean(axis=-1)


def cross(p, x):
    return -(p * np.log(softmax(x))).sum(axis=-1)


# Kind -> (soft, at a temperature; hard), in NumPy.
PLAIN = {
    "cross_entropy": (lambda t, s, T: T**2 * cross(softmax(t / T), s / T), cross),
    "squared_error": (lambda t, s, T: squared(t, s), cross),
    "binary": (lambda t, s, T: T**2 * binary(sigmoid(t / T), s / T), binary),
    "binary_squared_error": (lambda t, s, T: squared(t, s), binary),
    "score": (lambda t, s, T: squared(t, s), squared),
}


def tensors(kind: str, *rows: int):
    """Targets with rows that are known in all three ways, and outputs."""
    rng = np.random.default_rng(0)
    size = 1 if kind == "score" else 3
    teacher, student = rng.normal(size=(2, *rows, size)).astype(np.float32)
    labels = np.eye(size)[rng.integers(size, size=rows)].astype(np.float32)
    known = np.resize([2, 0, 1, 2, 1], rows).astype(np.float32)
    return np.concatenate([teacher, labels, known[..., None]], axis=-1), student


@pytest.mark.parametrize("rows", [(5,), (4, 5)])
@pytest.mark.parametrize("kind", LOSSES)
def test_loss_is_the_formula_over_the_rows_that_have_a_target(kind, rows):
    targets, student = tensors(kind, *rows)
    size = student.shape[-1]
    teacher, labels, known = targets[..., :size], targets[..., size:-1], targets[..., -1]
    soft, hard = PLAIN[kind]
    weight = np.where(known == 2, 0.3, 0)
    values = (1 - weight) * soft(teacher, student, 2.5) + weight * hard(labels, student)
    loss = TaughtLoss(kind, temperature=2.5, hard_weight=0.3)
    assert float(loss(targets, student)) == pytest.approx(values[known > 0].mean(), rel=1e-5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert float(again(targets, student)) == float(loss(targets, student))
    assert float(loss(np.where(known[..., None] > 0, targets, 0) * 0, student)) == 0


def test_replicas_with_other_numbers_of_targets_have_the_mean_of_the_whole_batch(monkeypatch):
    targets, student = tensors("cross_entropy", 5)
    loss = TaughtLoss("cross_entropy", 2.0, 0.5)
    whole = float(loss(targets, student))
    # Three rows on one replica, one on the other.
    monkeypatch.setattr(model_losses, "over_replicas", lambda number, how: number * 0 + 2.0)
    parts = [float(loss(targets[rows], student[rows])) for rows in (slice(4), slice(4, 5))]
    assert np.mean(parts) == pytest.approx(whole, rel=1e-6)


def test_vectors_are_compared_by_distance_or_direction():
    a, b = np.float32([[3, 0], [0, 1]]), np.float32([[1, 0], [0, -1]])
    assert float(VectorLoss()(a, b)) == pytest.approx((4 + 4) / 2)
    assert float(VectorLoss("cosine")(a, b)) == pytest.approx((0 + 2) / 2)


def test_vectors_keep_their_cosines_in_fewer_numbers_where_these_hold_them():
    rng = np.random.default_rng(0)
    wide = (rng.normal(size=(40, 3)) @ rng.normal(size=(3, 8))).astype(np.float32)
    narrow = vectors_of_size(wide, 3)
    np.testing.assert_allclose(narrow @ narrow.T, wide @ wide.T, rtol=1e-3, atol=1e-3)


# --- The teacher's answers ---

TEXTS = [f"good {'dog ' * (i % 5)}" for i in range(20)]


def test_answers_are_the_teachers_and_those_of_others_are_refused(tmp_path):
    """test_probing_vectors.py stops, goes on and damages a file of the same kind."""
    teacher, path = load_task("classification"), tmp_path / "answers.npy"
    found = teacher_answers(teacher, TEXTS, path, batch_size=4)
    np.testing.assert_allclose(found, teacher.predict(TEXTS, verbose=0), atol=1e-5)
    words = "of another model or for other texts. Choose"
    assert_refused(lambda: teacher_answers(teacher, TEXTS[1:], path), words)
    bias, words = teacher.classifier.dense.bias, "or delete | answers.npy and | answers.json"
    bias.assign_add([1.0, 0.0, 0.0])
    assert_refused(lambda: teacher_answers(teacher, TEXTS, path), words)
    bias.assign([np.nan, 0.0, 0.0])
    words = "for the texts 0 to 19 are not all finite"
    assert_refused(lambda: teacher_answers(teacher, TEXTS, tmp_path / "other.npy"), words)


# --- Every kind of task ---


def write_rankings(path: Path) -> None:
    rows = [f"good dog {i},a dog,a river,{i % 2}" for i in range(12)]
    path.write_text("\n".join(["query,positive,negative,label", *rows]) + "\n")


def write_similar(path: Path) -> None:
    rows = [f"good dog {i},a dog,{i / 12}" for i in range(12)]
    path.write_text("\n".join(["sentence1,sentence2,label", *rows]) + "\n")


RANKED = (write_rankings, "rows.csv")
LISTS = {"name": "reranking", "held_out": 4, "columns": ("query", "positive", "negative")}
TAUGHT = {
    **{kind: case[:3] for kind, case in KINDS.items() if kind != "multiple_choice"},
    "pairs": PAIRS[:3],
    "scores": (write_similar, "rows.csv", {"name": "scores", "held_out": 4}),
    "reranking": (*RANKED, LISTS | {"columns": ("query", "positive")}),
    "lists": (*RANKED, LISTS | {"label": "none"}),
}
PAIRED = ("regression", "reranking", "question_answering")


def made(kind: str, folder: Path):
    """The benchmark of a kind, with a line of text without a label."""
    write, file, options = TAUGHT[kind]
    write(folder / file)
    (folder / "more.txt").write_text("a big\tgood city\n\n" if kind in PAIRED else "a big city\n\n")
    return make_task(**options, train_file=str(folder / file))


def loaded_for(task, case: str = CHECKPOINT):
    return bert_zoo.load(case, **task.load_options(), max_length=24)


def lesson_of(task, folder: Path, kind: str = "", teacher=None, more=None):
    """What the large teacher answers, also for a line of text without a label, or another teacher's answers."""
    if more is None:
        more = {} if kind == "lists" or teacher else unlabelled(task, [str(folder / "more.txt")])
    teacher, place = teacher or loaded_for(task), folder / "teacher"
    options = {"more": more, "teaching": {}, "recipe": RECIPE}
    return learn_from(teacher, "large", task, place, **options)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", TAUGHT)
def test_every_kind_trains_on_targets_of_its_shape(kind, tmp_path):
    task = made(kind, tmp_path)
    lesson = lesson_of(task, tmp_path, kind)
    rows = 12 - 4 if "_answering" not in kind and kind != "token_classification" else None
    assert rows is None or lesson.num_train == rows + (kind != "lists")
    student = loaded_for(task)
    batches = lesson.batches(student, RECIPE, 0)
    for inputs, targets in batches.dataset.take(1):
        size = max(1, len(task.label_names))
        if kind in ("pairs", "scores"):
            assert targets.shape[1:] == [student.encoder.vector_size]
        elif kind == "lists":
            assert targets.shape[1:] == [2]
        elif kind == "question_answering":
            width = inputs["token_ids"].shape[1]
            assert {t.shape[1] for t in targets.values()} == {2 * width + 1}
        else:
            tokens = inputs["token_ids"].shape[:2] if student.outputs_per_token else len(targets)
            assert targets.shape == [*np.atleast_1d(tokens), 2 * size + 1]
    compile_for_task(student, loss=lesson.loss(RECIPE))
    before = [np.array(weight) for weight in student.trainable_weights]
    history = student.fit(batches.dataset.take(1), verbose=0).history
    assert set(history) <= {"loss", "start_logits_loss", "end_logits_loss"}
    assert np.isfinite(history["loss"][0]) and history["loss"][0] > 0
    changed = [not np.array_equal(a, b) for a, b in zip(before, student.weights, strict=False)]
    assert any(changed)


def test_words_have_their_targets_on_first_pieces(tmp_path):
    task = made("token_classification", tmp_path)
    lesson, student = lesson_of(task, tmp_path), loaded_for(task)
    words = sum(map(len, task.train.words)) + 3
    assert len(lesson.answers) == words
    np.testing.assert_allclose(np.exp(lesson.answers).sum(axis=-1), 1, rtol=1e-5)
    known = [targets[..., -1].numpy() for _, targets in lesson.batches(student, RECIPE, 0).dataset]
    counts = np.bincount(np.concatenate([k.ravel() for k in known]).astype(int))
    assert counts[1] == 3 and counts[2] == words - 3


def test_answers_stand_at_their_tokens(tmp_path):
    task = made("question_answering", tmp_path)
    teacher = loaded_for(task)
    lesson = lesson_of(task, tmp_path, teacher=teacher)
    for inputs, targets in lesson.batches(teacher, RECIPE, 0).dataset:
        outputs, is_token = teacher(inputs), inputs["padding_mask"].numpy() == 1
        for name, of_name in targets.items():
            answers, places, known = np.split(of_name, [is_token.shape[1], -1], axis=1)
            logits = np.where(is_token, outputs[name], PADDED)
            np.testing.assert_allclose(answers, logits, atol=1e-5)
            assert (places.sum(axis=1) == 1).all() and not places[~is_token].any()
            assert (known == 2).all()


# --- Runs ---


@pytest.fixture(scope="module")
def teacher_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    write_table(folder / "rows.csv")
    options = {"name": "table", "train_file": str(folder / "rows.csv"), "held_out": 4}
    with eager_steps():
        finetuning.finetune(
            CHECKPOINT, make_task(**options), RECIPE, folder / "run", export=False, data=options
        )
    return folder / "run"


def run_program(*arguments) -> None:
    distill_program.PROGRAM.run(distill_program.main, [*map(str, arguments)])


FLAGS = "--epochs 2 --batch_size 8 --max_length 24 --learning_rate 1e-3 --noexport".split()


@pytest.mark.usefixtures("eager")
def test_a_run_learns_from_its_teacher_and_says_so(teacher_run, tmp_path, capsys):
    (tmp_path / "more.txt").write_text("a good city\na bad dog\na good city\n")
    output = tmp_path / "student"
    flags = ("--teacher", teacher_run, "--layers", 1, "--output_dir", output, *FLAGS)
    flags += ("--unlabelled", tmp_path / "more.txt", "--augment", 2)
    flags += ("--augment_with", directory_of("bert/masked_lm"))
    run_program(*flags)
    student = bert_zoo.load(output / "model")
    assert student.encoder.config.num_layers == 1 and student.labels == ("no", "yes")
    config = json.loads((output / "config.json").read_text())
    assert config["data"]["held_out"] == 4 and config["lesson"]["temperature"] == 2.0
    metrics = json.loads((output / "metrics.json").read_text())
    teacher = json.loads((output / "teacher" / "metrics.json").read_text())
    share = f"{metrics['kept']['accuracy'] / teacher['metrics']['accuracy']:.1%}"
    card = (output / "model" / "README.md").read_text()
    for told in (f"distilled from {teacher_run} with", f"| retained | {share} |", "more.txt | 2 |"):
        assert told in card, told
    page = (output / "report.html").read_text()
    assert "<th>retained</th>" in page and share in page
    capsys.readouterr()
    run_program(*flags)
    assert "is finished; nothing is trained again" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"'temperature': 2\.0.*'temperature': 3\.0"):
        run_program(*flags, "--temperature", 3)


def test_a_student_that_is_made_of_its_teacher_keeps_its_head_and_licence(teacher_run, tmp_path):
    teacher = bert_zoo.load(teacher_run, task="classification")
    bert_zoo.save(student_of(teacher, 1), tmp_path / "made")
    task = made("classification", tmp_path)
    lesson = Lesson(task, "large", np.zeros(0), (), {}, {}, makes_student=True)
    student = bert_zoo.load(tmp_path / "made", **lesson.load_options())
    lesson.prepare(student)
    for own, theirs in zip(student.classifier.weights, teacher.classifier.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (own, theirs)))


@pytest.mark.parametrize(
    ("config", "licence"),
    [
        ({"model": "minilm_l6"}, "Apache-2.0"),
        ({"model": "minilm_l6, layers 2", "teacher": "minilm_l6"}, "Apache-2.0"),
        ({"model": "a/folder/that/is/gone"}, None),
    ],
)
def test_a_model_of_a_run_has_the_licence_of_what_the_run_began_with(config, licence, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**config, "recipe": {}}))
    assert finetuning.card_of(str(tmp_path)).get("licence") == licence


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_run_that_is_killed_after_an_epoch_ends_with_the_same_bits(tmp_path, monkeypatch):
    task = make_task("messages", labels_per_class=3)
    teacher, more = loaded_for(task), {"written here": ["where is it", "no"]}

    def train(directory: Path):
        lesson = lesson_of(task, directory, teacher=teacher, more=more)
        options = {"export": False, "checkpoint_seconds": 0, "lesson": lesson}
        return finetuning.finetune(CHECKPOINT, task, RECIPE, directory, **options)

    def killed(callback, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt

    whole = train(tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(finetuning.FineTuningRun, "on_epoch_begin", killed)
        train(tmp_path / "killed")
    results = train(tmp_path / "killed")
    assert (results["loss"], results["epochs"]) == (whole["loss"], whole["epochs"])
    wanted, found = (tensors_of(tmp_path / run / "model") for run in ("whole", "killed"))
    assert all(np.array_equal(value, found[name]) for name, value in wanted.items())


# --- In memory ---


@pytest.mark.usefixtures("eager")
def test_models_in_memory_are_taught_with_some_labels_or_none():
    teacher = load_task("classification")
    texts = TEXTS[:8]
    students = []
    for labels in (None, [None] * 8, [teacher.labels[0], *[None] * 7]):
        keras.utils.set_random_seed(0)
        student = load_task("classification")
        student.classifier.dense.bias.assign([1.0, 0.0, 0.0])
        history = distill(teacher, student, texts, labels, epochs=1, verbose=0).history
        assert history["loss"][0] > 0
        students.append(student)
    assert_same_variables(*students[:2])
    with pytest.raises(AssertionError):
        assert_same_variables(*students[1:])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("task", "labels"),
    [("multi_label_classification", True), ("regression", True), ("embedding", None)],
)
def test_other_outputs_in_memory_are_taught(task, labels):
    teacher, student = load_task(task), load_task(task)
    some = {"regression": [0.5] * 4, "multi_label_classification": [teacher.labels[:1]] * 4}
    labels = some[task] if labels else None
    history = distill(teacher, student, TEXTS[:4], labels, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])


# --- Bad input ---


def test_a_teachers_classes_may_have_another_order(tmp_path):
    options = {"labels": ("yes", "no"), "init": ("classifier",)}
    teacher = bert_zoo.load(CHECKPOINT, "classification", **options)
    assert columns_of(teacher, made("classification", tmp_path)) == [1, 0]
    words = "They must be equal and for whole texts"
    assert_refused(lambda: distill(load_task("classification"), teacher, TEXTS), words)


def other_tokens(folder: Path):
    task = made("question_answering", folder)
    other = loaded_for(task, directory_of("roberta/question_answering"))
    lesson_of(task, folder).batches(other, RECIPE, 0)


def other_rows(folder: Path):
    task = made("regression", folder)
    (folder / "more.txt").write_text("one text\n")
    unlabelled(task, [str(folder / "more.txt")])


def without_head(folder: Path):
    data = ("--task", "messages", "--student", CHECKPOINT, "--output_dir", folder)
    run_program("--teacher", directory_of("bert/encoder"), *data)


@refusals(
    (
        lambda _: taught_loss("cross_entropy", "cosine"),
        "'cosine'; for models of this task it must be cross_entropy or squ",
    ),
    (lambda _: taught_loss(None), "cannot learn from a teacher"),
    (lambda _: taught_loss("binary", None, 0.0), "temperature is 0.0; it must be a number above 0"),
    (
        lambda _: taught_loss("score", None, 1.0, 2.0),
        "hard_weight is 2.0; it must be a number from 0 to 1",
    ),
    (lambda _: vectors_of_size(np.ones((4, 8)), 9), "have 9 numbers, and its teacher's 8. Choose"),
    (
        lambda folder: columns_of(load_task("classification"), made("classification", folder)),
        "rows has the classes ['no', 'yes']. Choose a teacher",
    ),
    (other_tokens, "into different tokens | make one from the teacher with --layers"),
    (other_rows, "more.txt, line 1: 'one text' has 0 tabs"),
    (without_head, "has no trained classifier | Fine-tune it first"),
    (
        lambda folder: run_program("--teacher", folder, "--student", "a", "--layers", "2"),
        "Give either --student",
    ),
    (lambda folder: run_program("--teacher", folder), "Give either --student"),
    (
        lambda _: targets_of(np.zeros((2, 3)), np.zeros((2, 1))),
        "shape (2, 1), and the teacher's answers (2, 3)",
    ),
)
def test_what_teaches_nothing_is_refused(call, words, tmp_path):
    assert_refused(lambda: call(tmp_path), words)
