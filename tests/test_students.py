"""Students: they have the teacher's weights where these fit, its task and its vocabulary."""

import numpy as np
import pytest
from helpers import (
    ONE_A_TASK,
    TEXTS,
    arrays,
    assert_refused,
    assert_same,
    carries_state,
    covering,
    family_of,
    flat,
    inputs_of,
    load_case,
    loaded,
    refusals,
    task_of,
)

import bert_zoo
from bert_zoo.distillation import student_of
from bert_zoo.distillation.students import chosen_layers, principal_components
from bert_zoo.models.base import encoder_of
from bert_zoo.weights.bind import variables_of

# Those of pretraining may have two encoders, and recurrent ones carry a state.
CASES = [
    case
    for case in covering([c for c in ONE_A_TASK if task_of(c) != "pretraining"], family_of)
    if not carries_state(arrays(case)) and case.partition("/")[0] != "static"
]


MODERN = "modernbert/classification"


@pytest.fixture(scope="module")
def teacher():
    return bert_zoo.load("bert_nano", task="masked_lm")


def test_layers_are_spread_evenly_from_the_first_to_the_last():
    assert chosen_layers(6, 12) == (0, 2, 4, 7, 9, 11)
    assert chosen_layers(4, 12) == (0, 4, 7, 11)
    assert chosen_layers(1, 5) == (0,)
    assert chosen_layers(5, 5) == (0, 1, 2, 3, 4)
    assert chosen_layers([3, 1], 5) == (3, 1)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("case", CASES)
def test_a_student_of_all_layers_is_its_teacher(case):
    teacher, inputs = loaded(case), inputs_of(arrays(case))
    student = student_of(teacher, encoder_of(teacher).config.num_layers)
    assert type(student) is type(teacher) and student is not teacher
    assert_same(student(inputs), teacher(inputs))


def test_it_runs_the_layers_that_were_chosen():
    teacher = load_case("classification")  # of three layers
    student, inputs = student_of(teacher, 2), inputs_of(arrays("bert/classification"))
    assert student.encoder.config.num_layers == 2
    teacher.encoder.stack.blocks_of_layers = ((0,), (2,))
    assert_same(student(inputs), teacher(inputs))


def test_of_layers_that_share_their_weights_there_are_fewer():
    teacher = bert_zoo.load("albert_nano")
    student = student_of(teacher, 1)
    teacher.stack.blocks_of_layers = teacher.stack.blocks_of_layers[:1]
    inputs = teacher.preprocessor(TEXTS)
    assert_same(flat(student(inputs)), flat(teacher(inputs)))


def test_a_narrow_table_keeps_inner_products(teacher):
    width = 32
    student = student_of(teacher, 1, hidden_size=width, num_heads=2)
    config, before = student.encoder.config, teacher.encoder.config
    assert (config.num_layers, config.hidden_size, config.num_heads) == (1, width, 2)
    assert config.intermediate_size * before.hidden_size == width * before.intermediate_size

    def tables(model):
        found = {path: np.array(v) for path, v in variables_of(model).items()}
        names = ("token", "position", "segment")
        return [found[f"encoder/embeddings/{name}_embedding/embeddings"] for name in names]

    own, theirs = tables(student), tables(teacher)

    def error(table):
        return np.linalg.norm(table @ table.T - theirs[0] @ theirs[0].T)

    rotation, _ = np.linalg.qr(np.random.normal(size=(before.hidden_size, width)))
    assert error(own[0]) < 0.7 * error(theirs[0] @ rotation)
    # One map for all: a sum of rows becomes the sum of what they become.
    components = principal_components(theirs[0], width)
    np.testing.assert_allclose(components.T @ components, np.eye(width), atol=1e-6)
    for narrow, wide in zip(own, theirs, strict=True):
        np.testing.assert_allclose(narrow, wide @ components, atol=1e-5)


def test_tables_with_a_width_of_their_own_are_copied():
    teacher = bert_zoo.load("albert_nano")
    width = teacher.config.hidden_size // 2
    student = student_of(teacher, 2, hidden_size=width)
    path = "encoder/embeddings/token_embedding/embeddings"
    np.testing.assert_array_equal(variables_of(student)[path], variables_of(teacher)[path])
    assert student.config.hidden_size == width


def test_it_has_task_labels_and_vocabulary_and_can_be_trained(tmp_path):
    labels = ["no", "yes", "perhaps"]
    teacher = bert_zoo.load("bert_nano", task="classification", labels=labels)
    teacher.trainable = False
    student = student_of(teacher, 1)
    assert student.labels == tuple(labels) and student.compiled
    assert student.preprocessor is teacher.preprocessor
    assert len(student.trainable_variables) == len(student.weights)
    probabilities = student.predict(TEXTS, verbose=0)
    for format in ("bert_zoo", "hf"):
        bert_zoo.save(student, tmp_path / format, format=format)
        again = bert_zoo.load(tmp_path / format, task="classification")
        assert again.labels == student.labels and again.encoder.config == student.encoder.config
        np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), probabilities)


def test_heads_stay_as_wide_where_their_number_does_not_divide_the_width():
    teacher = bert_zoo.load("minilm_l6", weights=None)  # 12 heads of 32
    heads = {w: student_of(teacher, 1, hidden_size=w).config.num_heads for w in (128, 192)}
    assert heads == {128: 4, 192: 12}


@pytest.mark.parametrize("layers", [0, 6, [], [5], [-1], [True], [1.0]])
def test_layers_that_the_teacher_lacks_are_refused(layers):
    assert_refused(lambda: chosen_layers(layers, 5), "layers is")


@refusals(
    (lambda teacher: student_of(teacher, 1, hidden_size=4096), "from 1 to 128, the teacher's"),
    (lambda teacher: student_of(teacher, 1, hidden_size=31), "multiple of num_heads"),
    (lambda _: student_of(loaded("electra/tf1_small"), 1), "second encoder, the generator"),
    (lambda _: student_of(loaded(MODERN), [1, 3]), "layer 0 has one norm less"),
)
def test_what_is_no_student_is_refused(call, words, teacher):
    assert_refused(lambda: call(teacher), words)


def test_layers_attend_to_all_tokens_where_they_did():
    student = student_of(loaded(MODERN), [0, 3])
    assert student.encoder.config.global_layers == (0, 1)
