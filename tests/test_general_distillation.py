"""Distillation on plain text: its losses, what they read of student and teacher, and its training."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    TOLERANCE,
    arrays,
    assert_refused,
    load_case,
    random_text,
    refusals,
    tensors_of,
)
from keras import ops

import bert_zoo
from bert_zoo.cli import distill as distill_program
from bert_zoo.distillation import distill_on_text, general_losses, relation_loss, relations
from bert_zoo.distillation.general import (
    DISTILLATIONS,
    LayerDistillation,
    RelationDistillation,
    TripleDistillation,
    ValueRelationDistillation,
)
from bert_zoo.distillation.general_losses import Insides, MeanOverTokens, check_can_be_read
from bert_zoo.layers import Stack
from bert_zoo.models import Encoder, MaskedLM
from bert_zoo.pretraining.run import PretrainingRun
from bert_zoo.training import bert_adamw

OF_ENCODERS = ("layers", "relations_v1", "relations")
ORIGINALS = {
    "soft_tokens": ("logits", general_losses.soft_token_loss),
    "cosine": ("states", general_losses.cosine_loss),
    "scores": ("scores", general_losses.attention_score_loss),
    "states": ("states", general_losses.hidden_state_loss),
}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(ALL_GOLDEN / "distillation.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    return random_text(tmp_path_factory.mktemp("text") / "text.txt", documents=60)


def model(objective: str, **changes):
    """A model of the golden vocabulary with random weights: four layers of 32, four heads, no dropout."""
    golden = load_case("bert/encoder")
    sizes = {"num_layers": 4, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    config = golden.config.with_pooler(objective != "triple")
    config = config.replace(initializer_range=0.2, **sizes | changes)
    encoder = Encoder(config, "bert", preprocessor=golden.preprocessor)
    return MaskedLM(encoder) if objective == "triple" else encoder


def small(objective: str, **changes):
    """A student of two layers, narrower where it may be."""
    width = 32 if objective == "triple" else 16
    sizes = {"hidden_size": width, "intermediate_size": 32, "num_layers": 2}
    return model(objective, **sizes | changes)


def rows(length: int = 10, lengths=(10, 7, 4), seed: int = 0) -> dict[str, np.ndarray]:
    mask = np.int32(np.arange(length) < np.array(lengths)[:, None])
    random = np.random.default_rng(seed)
    ids = np.zeros(mask.shape, np.int32)
    for row, count in enumerate(lengths):
        ids[row, :count] = random.integers(5, 100, count)
    return {"token_ids": ids, "padding_mask": mask, "mask_positions": np.int32([[1], [2], [3]])}


def labels_of(distillation, inputs) -> dict[str, np.ndarray]:
    mask = np.float32(inputs["padding_mask"])
    labels = dict.fromkeys(distillation.default_loss_weights, mask)
    if "masked_tokens" in labels:
        labels["masked_tokens"] = np.int32([[7], [8], [-100]])
    return labels


def compiled(distillation):
    distillation.compile(
        bert_adamw(1e-3, total_steps=100),
        loss=distillation.default_loss(),
        loss_weights=distillation.default_loss_weights,
    )
    return distillation


# --- Losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORIGINALS)
def test_losses_and_their_gradients_are_those_of_the_originals(name, golden):
    what, loss = ORIGINALS[name]
    student, teacher = (tf.constant(golden[f"{role}/{what}"]) for role in ("student", "teacher"))
    mask = np.arange(golden["lengths"].max()) < golden["lengths"][:, None]
    # TinyBERT's program has padding in its means.
    mask = np.ones_like(mask) if name in ("scores", "states") else mask
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = MeanOverTokens()(np.float32(mask), loss(student, teacher))
    assert abs(value - golden[f"{name}/loss"]) <= TOLERANCE * max(1, golden[f"{name}/loss"])
    gradient = tape.gradient(value, student)
    assert np.abs(gradient - golden[f"{name}/gradient"]).max() <= TOLERANCE


def test_divergences_of_relations_are_those_of_rows_without_their_padding(golden):
    lengths = golden["lengths"]
    mask = np.arange(lengths.max()) < lengths[:, None]

    def of(first, second, student, heads):
        scores = [
            relations(golden[f"{role}/{first}"], golden[f"{role}/{second}"], heads)
            for role in (student, "teacher")
        ]
        losses = ops.convert_to_numpy(relation_loss(*scores, np.int32(mask)))
        return np.array([row[seen].mean() for row, seen in zip(losses, mask, strict=True)])

    for name in ("queries", "keys", "values"):
        found = of(name, name, "student", heads=2)
        assert np.allclose(found, golden[f"relations/{name}"], rtol=TOLERANCE, atol=TOLERANCE)
    wanted = golden["attention/loss"], golden["value_relations/loss"]
    found = of("queries", "keys", "alike", heads=4), of("values", "values", "alike", heads=4)
    assert np.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_relation_heads_are_parts_of_each_tokens_vector_whatever_the_heads_of_attention():
    vectors = np.random.default_rng(0).normal(size=(1, 5, 12)).astype(np.float32)
    found = ops.convert_to_numpy(relations(vectors, vectors, 3))
    for head in range(3):
        part = vectors[0, :, 4 * head : 4 * head + 4]
        assert np.allclose(found[0, head], part @ part.T / 2, atol=TOLERANCE)


# --- What is read of a model ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "distilbert", "albert"])
def test_scores_give_the_attention_of_the_model_itself(family):
    encoder = load_case(f"{family}/encoder", output_hidden_states=True, output_attentions=True)
    check_can_be_read(encoder, "teacher")
    io = arrays(f"{family}/encoder")
    inputs = {name: io[name] for name in encoder.backbone.inputs if name in io}
    outputs = encoder(inputs)
    layers = encoder.config.num_layers
    insides = Insides(encoder, inputs, layers, training=False)
    for layer in range(1, layers + 1):
        found = ops.softmax(insides.scores(layer))
        assert np.abs(found - outputs["attentions"][layer - 1]).max() <= TOLERANCE
    for state, wanted in zip(insides.states, outputs["hidden_states"], strict=True):
        assert np.abs(state - wanted).max() <= TOLERANCE


@pytest.mark.parametrize(
    "family", ["mpnet", "modernbert", "deberta", "mobilebert", "longformer", "xlm"]
)
def test_other_attention_than_berts_is_refused_with_what_can_be_done(family):
    with pytest.raises(ValueError, match=rf"of the family {family}.*objective='triple'"):
        check_can_be_read(load_case(f"{family}/encoder"), "teacher")


def test_layers_of_the_teacher_above_the_highest_that_is_read_are_not_computed(monkeypatch):
    teacher, student, run = model("layers"), small("layers"), []
    original = Stack.run

    def counted(self, block, *args, **options):
        run.append(self is teacher.backbone.stack)
        return original(self, block, *args, **options)

    monkeypatch.setattr(Stack, "run", counted)
    LayerDistillation(student, teacher, layer_map=[1, 3])(rows())
    assert run == [True] * 3 + [False] * 2
    run.clear()
    RelationDistillation(student, teacher, teacher_layer=3)(rows())
    assert run == [True] * 2 + [False]


# --- Student and teacher -------------------------------------------------------------------------


@pytest.mark.parametrize("objective", DISTILLATIONS)
def test_a_copy_of_its_teacher_has_nothing_to_learn(objective):
    teacher = model(objective)
    student = model(objective)
    student.set_weights(teacher.get_weights())
    losses = DISTILLATIONS[objective](student, teacher)(rows(), training=True)
    losses.pop("masked_tokens", None)
    for name, values in losses.items():
        # Float32 rounds to 1.1e-6 on processors without AVX-512.
        assert np.abs(values).max() <= 1e-5, name


@pytest.mark.parametrize("objective", DISTILLATIONS)
def test_the_gradient_reaches_what_is_trained_of_the_student_and_no_teacher(objective):
    student, teacher = small(objective), model(objective)
    distillation = compiled(DISTILLATIONS[objective](student, teacher))
    inputs = rows()
    labels = labels_of(distillation, inputs)
    trained = distillation.trainable_variables
    with tf.GradientTape() as tape:
        outputs = distillation({n: tf.constant(v) for n, v in inputs.items()}, training=True)
        loss = distillation.compute_loss(inputs, labels, outputs)
    gradients = tape.gradient(loss, [v.value for v in (*trained, *teacher.trainable_variables)])
    for variable, gradient in zip(trained, gradients[: len(trained)], strict=True):
        # Softmax has no use for what all keys share.
        is_read = gradient is not None and np.abs(tf.convert_to_tensor(gradient)).max() > 0
        assert is_read or variable.path.endswith("qkv/bias"), variable.path
    assert not any(gradient is not None for gradient in gradients[len(trained) :])
    # All but what no loss reads: the pooler, and of the last block what stands on its attention.
    left = {id(v) for v in student.trainable_variables} ^ {id(v) for v in student.variables}
    above = " ".join(v.path for v in student.variables if id(v) in left)
    assert "pooler" in above or objective == "triple"
    assert ("layer_1/feed_forward" in above) == objective.startswith("relations")
    assert "layer_0" not in above and "embeddings" not in above
    assert distillation.trained_student() is student
    assert len(student.trainable_variables) == len(student.weights)


@pytest.mark.parametrize("objective", DISTILLATIONS)
def test_padding_changes_nothing(objective):
    distillation = DISTILLATIONS[objective](small(objective), model(objective))
    shorter, longer = (
        {
            part: loss(labels_of(distillation, inputs)[part], distillation(inputs)[part])
            for part, loss in distillation.default_loss().items()
        }
        for inputs in (rows(), rows(16))
    )
    assert shorter.keys() == distillation.default_loss_weights.keys()
    for part, loss in shorter.items():
        assert float(loss) > 0 and abs(loss - longer[part]) <= TOLERANCE * float(loss), part


def test_a_student_as_wide_as_its_teacher_has_no_projection_and_others_share_one():
    alike = LayerDistillation(model("layers", num_layers=2), model("layers"))
    assert alike.projection is None and alike.layer_map == (2, 4)
    narrow = LayerDistillation(small("layers"), model("layers"))
    assert narrow.projection.kernel.shape == (16, 32)
    # Without the pooler.
    assert len(narrow.trainable_variables) == len(narrow.student.weights) - 2 + 2


def program(flags: str):
    arguments = ["--teacher", "minilm_l6", "--text", "text.txt", *flags.split()]
    return lambda: distill_program.PROGRAM.run(distill_program.main, arguments)


@refusals(
    (lambda: LayerDistillation(small("layers", num_layers=3), model("layers")), "4, is not a multiple of the student's, 3"),
    (lambda: LayerDistillation(small("layers"), model("layers"), layer_map=[1]), "must have 2 numbers, one per layer"),
    (lambda: LayerDistillation(small("layers"), model("layers"), layer_map=[1, 5]), "must be a whole number from 1 to 4"),
    (lambda: LayerDistillation(small("layers", num_heads=2), model("layers")), "2 heads and the teacher 4"),
    (lambda: ValueRelationDistillation(small("", num_heads=2), model("")), "objective='relations'"),
    (lambda: RelationDistillation(small(""), model(""), relation_heads=5), "Choose one of 1, 2, 4, 8, 16"),
    (lambda: RelationDistillation(small(""), model(""), teacher_layer=0), "must be a whole number from 1 to 4"),
    (lambda: TripleDistillation(small("triple", hidden_size=16), model("triple")), "16 and the teacher's 32"),
    (lambda: TripleDistillation(small("triple"), model("layers")), "teacher predicts no masked tokens"),
    (lambda: RelationDistillation(load_case("roberta/encoder"), model("")), "different vocabularies"),
    (lambda: distill_on_text("minilm_l6", "a", "out", layers=3, objective="tiny"), "objective is 'tiny'; it must be one of ['triple"),
    (lambda: distill_on_text("minilm_l6", "a", "out", layers=3, options={"layer_map": [1]}), "'relations' has no layer_map"),
    (lambda: distill_on_text("minilm_l6", "a", "out"), "either an existing student"),
    (program("--layers 2"), "one of --steps and --minutes"),
    (program("--layers 2 --steps 5 --minutes 1"), "one of --steps and --minutes"),
    (program("--layers 2 --steps 5 --match cosine"), "With --text, --match has no effect"),
    (program("--layers 2 --steps 5 --max_length 64"), "--length the tokens per row"),
    (program("--steps 5"), "either --student"),
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_does(call, words):
    assert_refused(call, words)


# --- Training ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def directories(tmp_path_factory) -> Path:
    """A teacher and a student for encoders' objectives, and for the triple one."""
    where = tmp_path_factory.mktemp("models")
    for objective, name in (("triple", "predicting"), ("relations", "encoding")):
        keras.utils.set_random_seed(1)
        bert_zoo.save(model(objective), where / name / "teacher")
        bert_zoo.save(small(objective, hidden_dropout=0.1), where / name / "student")
    return where


def distilled(directories, text, where, objective: str, steps: int, **options):
    """A run with a student that is there, unless the options say how to make one."""
    models = directories / ("predicting" if objective == "triple" else "encoding")
    if "layers" not in options:
        options["student"] = str(models / "student")
    settings = {"total_steps": steps, "batch_size": 8, "learning_rate": 2e-3, "max_length": 16}
    return distill_on_text(
        str(models / "teacher"),
        [text],
        where,
        objective=objective,
        changes={**settings, "gradient_accumulation_steps": 2},
        held_out=0.2,
        **options,
    )


@pytest.mark.parametrize("objective", DISTILLATIONS)
def test_a_student_learns_from_a_text_and_is_an_ordinary_model(
    objective, directories, text, tmp_path
):
    results = distilled(directories, text, tmp_path, objective, steps=20)
    before, after = results["before"], results["after"]
    assert before.keys() == after.keys()
    assert len(before) == 1 + len(DISTILLATIONS[objective].default_loss_weights)
    assert after["held out loss"] < 0.9 * before["held out loss"]
    assert results["steps"] == 20 and results["unigram loss"] is None
    student = bert_zoo.load(tmp_path / "model")
    assert student.task == DISTILLATIONS[objective].student_task
    assert all(variable.trainable for variable in student.weights)
    models = directories / ("predicting" if objective == "triple" else "encoding")
    learned, began = tensors_of(tmp_path / "model"), tensors_of(models / "student")
    assert learned.keys() == began.keys()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["objective"] == objective and config["teacher"] == str(models / "teacher")
    assert not list(tmp_path.glob("checkpoint"))
    # The triple loss alone hides tokens.
    assert bool(results["sentences"]) == (objective == "triple")


def test_a_run_that_is_stopped_ends_with_the_same_student(directories, text, tmp_path, monkeypatch):
    def run(where):
        made = {"layers": 2, "hidden_size": 16, "checkpoint_seconds": 0}
        return distilled(directories, text, where, "layers", steps=4, **made)

    through, original = run(tmp_path / "through"), PretrainingRun.save

    def save_and_stop(self):
        original(self)
        if self.progress.batches == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PretrainingRun, "save", save_and_stop)
        run(tmp_path / "stopped")
    assert len(list((tmp_path / "stopped" / "checkpoint").glob("step-*"))) == 1
    stopped = run(tmp_path / "stopped")
    assert stopped["after"] == through["after"]
    wanted, found = (tensors_of(tmp_path / d / "model") for d in ("through", "stopped"))
    for name, value in wanted.items():
        assert np.array_equal(value, found[name]), name


FLAGS = """
    --layers 2 --hidden 16 --heads 2 --steps 20 --length 16 --batch_size 8 --learning_rate 2e-3 --held_out 0.2
    --relation_heads 8
""".split()


def test_the_program_names_the_teacher_on_its_card(directories, text, tmp_path, capsys):
    teacher = str(directories / "encoding" / "teacher")
    arguments = ["--teacher", teacher, "--text", text, "--output_dir", str(tmp_path), *FLAGS]
    distill_program.PROGRAM.run(distill_program.main, arguments)
    results = json.loads((tmp_path / "metrics.json").read_text())
    assert results["after"]["held out loss"] < 0.9 * results["before"]["held out loss"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["relation_heads"] == 8 and config["teacher_layer"] == 4
    assert config["recipe"]["gradient_accumulation_steps"] == 1
    assert config["recipe"]["warmup_proportion"] == 0.01  # the paper's
    student = bert_zoo.load(tmp_path / "model")
    assert (student.config.num_layers, student.config.num_heads) == (2, 2)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"It was distilled from {teacher}" in card and "Losses of the objective" in card
    assert (tmp_path / "report.html").is_file()
    printed = capsys.readouterr().out
    assert "Wang et al. 2021" in printed and "Before: held out" in printed
    distill_program.PROGRAM.run(distill_program.main, arguments)
    assert "is finished; nothing is trained again" in capsys.readouterr().out
