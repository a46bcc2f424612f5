"""Entities as annotation tools write them, spans of characters, train taggers like words with tags."""

import json
import logging

import numpy as np
import pytest
from helpers import assert_refused, load_task, run_program

from bert_zoo.cli.benchmarks import make_task
from bert_zoo.data.entities import read_entities
from bert_zoo.tasks.token_classification import with_words

LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
TEXTS = ["Ada Lovelace left London.", "nothing here", "東京 and «New\u00a0York» met Grace"]
ENTITIES = [
    [(0, 12, "PER"), (18, 24, "LOC")],
    [],
    [(0, 2, "LOC"), (8, 16, "LOC"), (22, 27, "PER")],
]
WORDS = [
    ["Ada", "Lovelace", "left", "London", "."],
    ["nothing", "here"],
    ["東", "京", "and", "«", "New", "York", "»", "met", "Grace"],
]
TAGS = [
    ["B-PER", "I-PER", "O", "B-LOC", "O"],
    ["O", "O"],
    ["B-LOC", "I-LOC", "O", "O", "B-LOC", "I-LOC", "O", "O", "B-PER"],
]
ROWS = list(zip(TEXTS, ENTITIES, strict=True))


def named(entities, **more):
    return [{"start": s, "end": e, "label": label, **more} for s, e, label in entities]


def label_studio(text, entities):
    found = [{"start": s, "end": e, "text": text[s:e], "labels": [n]} for s, e, n in entities]
    result = [{"type": "labels", "value": value} for value in found]
    return {
        "data": {"text": text},
        "annotations": [
            {"result": [], "was_cancelled": True},
            {"result": [*result, {"type": "choices", "value": {"choices": ["good"]}}]},
        ],
    }


# Tool -> its records, and the suffix of its files.
TOOLS = {
    "spacy": ([(text, {"entities": some}) for text, some in ROWS], ".json"),
    "prodigy": (
        [{"text": text, "spans": named(some), "tokens": []} for text, some in ROWS]
        + [{"text": TEXTS[0], "answer": answer} for answer in ("reject", "ignore", "ignore")],
        ".jsonl",
    ),
    "doccano": ([{"id": 7, "text": text, "label": some} for text, some in ROWS], ".jsonl"),
    "doccano_1": ([{"text": text, "labels": some} for text, some in ROWS], ".ndjson"),
    "label_studio": ([label_studio(*row) for row in ROWS], ".json"),
}


def write(tmp_path, records, suffix=".jsonl"):
    path = tmp_path / f"train{suffix}"
    lines = "\n".join(map(json.dumps, records))
    path.write_text(json.dumps(records) if suffix == ".json" else lines, encoding="utf-8")
    return path


@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_every_tool_are_words_with_tags(tool, tmp_path):
    records, suffix = TOOLS[tool]
    split = read_entities(write(tmp_path, records, suffix))
    assert split.label_names == LABELS and split.scheme == "IOB2"
    assert split.words == WORDS
    assert [[LABELS[i] for i in row] for row in split.labels] == TAGS


def test_what_is_left_out_is_said(tmp_path, caplog):
    several = label_studio(*ROWS[0])
    several["annotations"].append({"result": [], "ground_truth": False})
    several["annotations"][1]["ground_truth"] = True
    unlabelled = {"data": {"text": "x"}, "annotations": []}
    records = [*TOOLS["prodigy"][0], several, unlabelled, {"text": " ", "label": []}]
    with caplog.at_level(logging.WARNING):
        split = read_entities(write(tmp_path, records))
    assert split.words == [*WORDS, WORDS[0]] and split.labels[3] == split.labels[0]
    assert caplog.messages == [
        "1 of 9 texts have the answer 'reject' and are left out.",
        "2 of 9 texts have the answer 'ignore' and are left out.",
        "1 of 9 texts have several annotations, of which the ground truth is read, or else the last.",
        "1 of 9 texts have no annotation and are left out.",
        "1 of 9 texts have no words and are left out.",
    ]


def test_offsets_of_label_studio_count_units_of_utf_16(tmp_path):
    text = "💩📉 Ada  Lovelace\nleft 🙂"
    value = {"start": 5, "end": 23, "text": "Ada Lovelace\\nleft", "labels": ["PER"]}
    record = {
        "data": {"text": text},
        "annotations": [{"result": [{"type": "labels", "value": value}]}],
    }
    split = read_entities(write(tmp_path, [record], ".json"))
    assert [w for w, i in zip(split.words[0], split.labels[0], strict=True) if i] == [
        *("Ada", "Lovelace", "left")
    ]


@pytest.fixture(scope="module")
def tagger():
    model = load_task("token_classification", dropout=0.0, labels=LABELS, init=("classifier",))
    model.run_eagerly = True
    return model


@pytest.mark.parametrize("tool", TOOLS)
def test_records_of_every_tool_are_words_with_tags(tool, tagger):
    records, _ = TOOLS[tool]
    assert with_words(tagger, records, None) == (WORDS, TAGS)
    assert with_words(tagger, np.array([*records, None], object)[:-1], None) == (WORDS, TAGS)


@pytest.mark.parametrize(
    "y",
    [
        ENTITIES,
        np.array([*map(named, ENTITIES)], object),
        [{"entities": some} for some in ENTITIES],
        [{"spans": named(some)} for some in ENTITIES],
    ],
    ids=["lists", "objects", "spacy", "prodigy"],
)
def test_entities_beside_texts_are_words_with_tags(y, tagger):
    for texts in (TEXTS, np.array(TEXTS), tuple(TEXTS)):
        assert with_words(tagger, texts, y) == (WORDS, TAGS)
    # What are words and tags stays that.
    for data in ((WORDS, TAGS), (TEXTS, [" ".join(row) for row in TAGS]), (TEXTS, None)):
        assert with_words(tagger, *data) == data


def test_entities_train_and_are_measured_like_words_with_tags(tagger):
    records = TOOLS["spacy"][0]
    wanted = tagger.evaluate(WORDS, TAGS, verbose=0)
    np.testing.assert_allclose(tagger.evaluate(records, verbose=0), wanted, rtol=1e-5)
    history = tagger.fit(TEXTS, ENTITIES, validation_data=(TEXTS[1:2], [[]]), verbose=0).history
    assert np.isfinite([history["loss"], history["val_loss"]]).all()


def test_tags_of_entities_follow_the_scheme_of_the_labels():
    labels = ("O", "B-LOC", "I-LOC", "E-LOC", "S-LOC")
    model = load_task("token_classification", labels=labels, init=("classifier",))
    arguments = model.training_arguments(["New York met Rome"], [[(0, 8, "LOC"), (13, 17, "LOC")]])
    _, found = arguments["x"].at(0)
    found = np.asarray(found)
    assert found[found != -100].tolist() == [1, 3, 0, 4]


MISALIGNED = [
    ("Berliners left", (0, 6, "LOC"), "'Berlin', is read as 'Berliners'"),
    ("Ada Lovelace left", (0, 13, "PER"), "'Ada Lovelace ', is read as 'Ada Lovelace'"),
    ("Ada Lovelace left", (4, 10, "PER"), "'Lovela', is read as 'Lovelace'"),
]


@pytest.mark.parametrize(("text", "entity", "message"), MISALIGNED)
def test_entities_that_are_not_whole_words_are_kept_and_named(
    text, entity, message, tmp_path, caplog
):
    with caplog.at_level(logging.WARNING):
        split = read_entities(write(tmp_path, [{"text": text, "label": [entity]}]))
    assert sum(map(bool, split.labels[0])) == len(message.split("read as ")[1].split())
    assert f"line 1: {entity}, {message}" in caplog.text
    assert "1 of 1 entities do not begin and end where words do" in caplog.text


TEXT = "Ada Lovelace left"


def labelled(*entities, text=TEXT):
    return [{"text": text, "label": list(entities)}]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (
            labelled((0, 12, "PER"), (4, 12, "LOC")),
            "line 1: (4, 12, 'LOC'), 'Lovelace', overlaps (0, 12, 'PER')",
        ),
        (labelled((0, 2, "PER"), (2, 3, "LOC")), "(2, 3, 'LOC'), 'a', overlaps (0, 2, 'PER')"),
        (labelled((0, 3, "PER"), (0, 3, "PER")), "overlaps"),
        (labelled((0, 18, "PER")), "(0, 18, 'PER') is outside of 'Ada Lovelace left'"),
        (labelled((-3, 3, "PER")), "is outside of"),
        (labelled((3, 3, "PER")), "(3, 3, 'PER') is empty in"),
        (labelled((3, 0, "PER")), "is empty in"),
        (labelled((3, 4, "PER")), "' ', has only blanks"),
        (labelled((0, 3)), "the entity [0, 3] is not [start, end, label]"),
        (labelled((0, 3.5, "PER")), "two numbers of characters"),
        (labelled((0, True, "PER")), "two numbers of characters"),
        (labelled((0, 3, "")), "one label"),
        (labelled({"start": 0, "end": 3, "labels": ["A", "B"]}), "one label"),
        (
            labelled({"start": 1, "end": 4, "label": "PER", "text": "Ada"}),
            "its characters in the text are 'da '",
        ),
        (
            [{"text": TEXT, "label": "PER"}],
            "the entities are 'PER' | it is empty for a text without entities",
        ),
        (labelled("pos"), "the entity 'pos' is not"),
        # Records.
        ([{"text": TEXT}], "line 1: the entities are None; the keys are ['text']"),
        ([{"label": []}], "the text is missing. Name it \"text\"; the keys are ['label']"),
        ([[TEXT]], "expected a text with its entities, such as"),
        ([{"text": TEXT, "annotations": [{"label": 3}]}], "are not Label Studio's"),
        (labelled(), "none of its 1 texts has an entity"),
        ([{"text": TEXT, "answer": "reject"}], "has no annotated texts"),
        (labelled(text=3), "'text' is 3, expected a string"),
    ],
)
def test_records_that_cannot_be_read_are_named(records, words, tmp_path):
    assert_refused(lambda: read_entities(write(tmp_path, records)), words)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (WORDS, ENTITIES, r"Entities are spans of characters: pass the texts as strings"),
        (TEXTS, ENTITIES[:2], "y has 2 rows, but x has 3"),
        (TEXTS[:1], [[(0, 3, "ORG")]], r"Load it with labels=\['O', 'B-ORG', 'I-ORG'\]"),
        (TEXTS[:1], [[(0, 99, "PER")]], r"y\[0\]: \(0, 99, 'PER'\) is outside of 'Ada"),
        ([(TEXTS[0], {"entities": [(0, 99, "PER")]})], None, r"x\[0\]: \(0, 99, 'PER'\)"),
    ],
)
def test_wrong_entities_in_memory_are_named(x, y, message, tagger):
    for call in (tagger.fit, tagger.evaluate):
        with pytest.raises(ValueError, match=message):
            call(x, y, verbose=0)


def test_finetune_reads_entities_and_counts_labels_of_the_measured_file(tmp_path, caplog):
    train = write(tmp_path, TOOLS["doccano"][0]).rename(tmp_path / "lines.json")
    dev = tmp_path / "dev.json"
    dev.write_text(json.dumps([["Rome and Acme", {"entities": [[0, 4, "LOC"], [9, 13, "ORG"]]}]]))
    task = make_task("tagging", train_file=str(train), dev_file=str(dev))
    assert task.label_names == LABELS and task.train.words == WORDS
    assert task.data("validation").label_names == (*LABELS, "B-ORG")
    assert "which the training file does not have" in caplog.text
    assert make_task("tagging", train_file=str(train), held_out=1).num_train == 2


def test_files_are_read_without_tensorflow(tmp_path):
    code = (
        "import sys; from bert_zoo.data.entities import read_entities; "
        f"read_entities({str(write(tmp_path, TOOLS['doccano'][0]))!r}); "
        "assert not {'tensorflow', 'keras', 'jax'} & set(sys.modules)"
    )
    run_program("-c", code)
