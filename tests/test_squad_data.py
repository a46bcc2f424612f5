"""SQuAD's files and what is wrong with bad ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from bert_zoo.data import squad
from bert_zoo.data.squad import Answer, SquadExample

SAMPLE = Path(__file__).parents[2] / "shared" / "data" / "squad" / "squad_v2_sample.json"

# One astral character (two UTF-16 units, four bytes) and one of two bytes before the answers.
CONTEXT = "𝔸 café in Paris, and one more in Paris."


def question(id="q1", answers=(("Paris", 10),), **members):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": "Where?", "answers": answers, **members}


def write(path: Path, *questions, context=CONTEXT, **dump_options) -> Path:
    article = {"title": "Cafés", "paragraphs": [{"context": context, "qas": list(questions)}]}
    path.write_text(json.dumps({"version": "x", "data": [article]}, **dump_options), "utf-8")
    return path


def test_a_file_of_version_1_1_is_read_exactly(tmp_path):
    answers = (("Paris", 10), ("Paris", 33), ("Paris", 10), ("in Paris", 7))
    path = write(tmp_path / "a.json", question(answers=answers))
    split = squad.read_squad(path)
    assert split.version == "1.1" and len(split) == 1
    expected = tuple(Answer(text, start) for text, start in answers)
    assert split.examples == (SquadExample("q1", "Cafés", "Where?", CONTEXT, expected, False),)


def test_impossible_questions_have_no_answers_and_plausible_ones_are_left_out(tmp_path):
    plausible = [{"text": "Paris", "answer_start": 10}]
    path = write(
        tmp_path / "a.json",
        question("q1", is_impossible=False),
        question("q2", (), is_impossible=True, plausible_answers=plausible),
        question("q3", (), is_impossible=True),
    )
    split = squad.read_squad(path)
    assert split.version == "2.0"
    assert [(e.id, e.is_impossible, len(e.answers)) for e in split.examples] == [
        ("q1", False, 1),
        ("q2", True, 0),
        ("q3", True, 0),
    ]


def test_answers_can_be_left_unread(tmp_path):
    path = write(tmp_path / "a.json", {"id": "q1", "question": "Where?"})
    # Files without titles are common.
    path.write_text(path.read_text("utf-8").replace('"title"', '"name"'), "utf-8")
    (example,) = squad.read_squad(path, with_answers=False).examples
    assert example == SquadExample("q1", "", "Where?", CONTEXT, None, None)


@pytest.mark.parametrize(
    ("text", "start", "there", "advice"),
    [
        ("Paris", 11, "'aris,'", "The context has it at 10. Correct answer_start, which counts characters"),
        ("Paris", 31, "'n Par'", "The context has it at 33"),
        ("Paris", -29, "''", "The context has it at 10"),
        ("Paris", 99, "''", "The context has it at 33"),
        ("London", 10, "'Paris,'", f"The context of {len(CONTEXT)} characters does not contain it"),
    ],
)  # fmt: skip
def test_an_answer_that_is_elsewhere_is_named_with_its_place(tmp_path, text, start, there, advice):
    path = write(tmp_path / "a.json", question("q1"), question("q2", [(text, start)]))
    with pytest.raises(ValueError) as e:
        squad.read_squad(path)
    assert str(e.value).startswith(
        f"{path}, article 1 ('Cafés'), paragraph 1, question 2 ('q2'): at character {start} "
        f"the context has {there} instead of the answer {text!r}. {advice}"
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (question(answers=()), r"'q1'\): there is no answer\. Set is_impossible"),
        (question(is_impossible=True), r"'q1'\): is_impossible is true, but there are answers"),
        (question(is_impossible="no"), "is_impossible is 'no'; it must be true or false"),
        (question(answers=[("", 3)]), "the text of an answer is empty"),
        (question(answers=[("Paris", "10")]), "answer_start is '10'; it must be a whole number"),
        (question(answers=[("Paris", True)]), "answer_start is True; it must be a whole number"),
        (question(answers=[(5, 10)]), "text is 5; it must be a string"),
        (question(id=7), "paragraph 1, question 2: id is 7; it must be a string"),
        ({"id": "q1", "answers": []}, r"'question' is missing; the keys are \['id', 'answers'\]"),
        ({"id": "q1", "question": "?"}, "'answers' is missing"),
        ("q1", "question 2 is 'q1'; it must be a JSON object"),
        (question("q0"), r"question 2 \('q0'\): this id has occurred before"),
    ],
)  # fmt: skip
def test_a_bad_question_is_named(tmp_path, bad, message):
    path = write(tmp_path / "a.json", question("q0"), bad)
    with pytest.raises(ValueError, match=message) as e:
        squad.read_squad(path)
    assert str(e.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", " is empty"),
        (b" \n", " is empty"),
        (b'{"data": []}', " has no questions"),
        (b"[]", r" is \[\]; it must be a JSON object"),
        (b'{"version": "2.0"}', "'data' is missing"),
        (b'{"data": [{"title": "a"}]}', "article 1: 'paragraphs' is missing"),
        (b'{"data":\n [,]}', r"line 2: this is not JSON \(Expecting value at character 3"),
        (b'{"data":\n\n "caf\xe9"}', "line 3: this is not UTF-8"),
        (
            b'{"data": [{"paragraphs": [], "title": "\\ud800"}]}',
            "'title' contains a lone surrogate",
        ),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as e:
        squad.read_squad(path)
    assert str(e.value).startswith(str(path))


# --- The official files ---


def test_official_names_are_found(tmp_path):
    for version in ("1.1", "2.0"):
        for split, prefix in (("train", "train"), ("validation", "dev")):
            write(tmp_path / f"{prefix}-v{version}.json", question(f"{prefix}{version}"))
            assert squad.load_squad(version, split, tmp_path).examples[0].id == f"{prefix}{version}"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("2", "train"), ValueError, r"no version '2'; choose one of \['1.1', '2.0'\]"),
        (("2.0", "dev"), ValueError, r"no split 'dev'; choose one of \['train', 'validation'\]"),
        (("2.0", "train", "none"), FileNotFoundError, r"train-v2\.0\.json\. data_dir must be the folder"),
    ],
)  # fmt: skip
def test_unknown_versions_splits_and_files_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        squad.load_squad(*arguments)


def test_the_real_sample_is_read_whole():
    if not SAMPLE.is_file():
        pytest.skip("The sample of SQuAD 2.0 is not at ../shared/data/squad.")
    split = squad.read_squad(SAMPLE)
    assert (split.version, len(split)) == ("2.0", 3708)
    assert sum(example.is_impossible for example in split.examples) == 1987
    assert len({example.title for example in split.examples}) == 10
    assert split.examples[0].question == "In what country is Normandy located?"
    assert split.examples[0].answers == (Answer("France", 159),) * 4


# --- TensorFlow Datasets ---


def tfds_example(**members):
    texts, starts = np.array([b"Paris", b"Paris"], object), np.array([10, 33], np.int32)
    return {
        "id": b"q1",
        "title": "Cafés".encode(),
        "question": b"Where?",
        "context": CONTEXT.encode(),
        "answers": {"text": texts, "answer_start": starts},
        **members,
    }


def load_from_tfds(fake_tfds, version, *examples):
    asked = []

    def load(name, split):
        asked.append((name, split))
        return examples

    fake_tfds(load)
    split = squad.load_squad(version, "validation")
    assert asked == [(f"squad/v{version}", "validation")]
    return split


def test_version_1_1_comes_from_tfds_as_from_the_file(fake_tfds, tmp_path):
    path = write(tmp_path / "a.json", question(answers=(("Paris", 10), ("Paris", 33))))
    assert load_from_tfds(fake_tfds, "1.1", tfds_example()) == squad.read_squad(path)


def test_impossible_questions_come_from_tfds(fake_tfds):
    none = {"text": np.array([], object), "answer_start": np.array([], np.int32)}
    example = tfds_example(is_impossible=np.True_, answers=none, plausible_answers=none)
    split = load_from_tfds(fake_tfds, "2.0", example)
    assert split.version == "2.0"
    assert split.examples[0].is_impossible is True and split.examples[0].answers == ()


def test_misaligned_answers_of_tfds_are_refused(fake_tfds):
    # Versions of its data set before 3.0.0 took white space off the contexts.
    with pytest.raises(ValueError, match=r"squad/v1\.1 of tensorflow_datasets, article 'Cafés'"):
        load_from_tfds(fake_tfds, "1.1", tfds_example(context=CONTEXT[1:].encode()))


def test_the_files_are_those_of_tensorflow_datasets():
    builder = pytest.importorskip(
        "tensorflow_datasets.datasets.squad.squad_dataset_builder"
    ).Builder
    configs = {
        config.name: (config.train_file, config.dev_file) for config in builder.BUILDER_CONFIGS
    }
    assert configs == {
        f"v{version}": tuple(files.values()) for version, files in squad.FILES.items()
    }
