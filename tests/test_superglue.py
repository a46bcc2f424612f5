"""SuperGLUE's files, texts, metrics and submissions."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, refusals
from sklearn.metrics import f1_score, matthews_corrcoef

from bert_zoo.data import superglue
from bert_zoo.data.superglue import load_superglue, metrics, write_submission


# Two lines of each task's train file, in the members of the official ones. What has labels loses them in
# test files; AX's one file keeps them.
def answer(idx: int, text: str, label: int) -> dict:
    return {"text": text, "idx": idx, "label": label}


def span(start: int, end: int, **text) -> dict:
    return {"start": start, "end": end, **text}


WHO_RAN = {"question": "Who ran?", "sentences_used": [0], "idx": 7}
WHO_SAT = {"question": "Who sat?", "idx": 8, "answers": [answer(22, "Bob", 1)]}
QUESTIONS = [WHO_RAN | {"answers": [answer(20, "Ann", 1), answer(21, "Bob", 0)]}, WHO_SAT]
MULTIRC = {
    **{"idx": 3, "version": 1.1},
    "passage": {"text": "Ann ran. Bob sat.", "questions": QUESTIONS},
}
PASSAGE = "Rome beat the Paris team. Oslo saw it."
LOST = {"query": "@placeholder lost to Rome", "answers": [span(10, 23, text="the Paris team")]}
SEEN = {"query": "It was seen in @placeholder", "answers": [span(26, 29, text="Oslo")]}
RECORD = {
    **{"source": "made", "idx": 5},
    "passage": {"text": PASSAGE, "entities": [span(10, 23), span(0, 3), span(26, 29)]},
    "qas": [LOST | {"idx": 31}, SEEN | {"idx": 32}],
}
WSC = {"text": "The big dog saw Tom because he, Tom, ran.", "label": True, "idx": 0, "target": {
    "span1_index": 0, "span1_text": "The big dog", "span2_index": 6, "span2_text": "he"}}  # fmt: skip
LINES = {
    "boolq": [{"question": "is it", "passage": "It is.", "idx": 0, "label": True},
              {"question": "is it not", "passage": "It is.", "idx": 1, "label": False}],
    "cb": [{"premise": "A.", "hypothesis": "B.", "label": "neutral", "idx": 0},
           {"premise": "C.", "hypothesis": "D.", "label": "contradiction", "idx": 1}],
    "copa": [{"premise": "It broke.", "choice1": "He hit it.", "choice2": "It sang.", "question": "cause",
              "label": 0, "idx": 0},
             {"premise": "He ran.", "choice1": "It was old.", "choice2": "He fell.", "question": "effect",
              "label": 1, "idx": 1}],
    "multirc": [MULTIRC],
    "record": [RECORD],
    "rte": [{"premise": "A.", "hypothesis": "B.", "label": "not_entailment", "idx": 0}],
    "wic": [{"word": "bank", "sentence1": "A bank.", "sentence2": "Banks.", "idx": 0, "label": False,
             "start1": 2, "start2": 0, "end1": 6, "end2": 5, "version": 1.1}],
    "wsc": [WSC, WSC | {"idx": 1, "label": False}],
    "axb": [{"sentence1": "A.", "sentence2": "B.", "idx": 0, "label": "entailment", "logic": "Negation"}],
    "axg": [{"premise": "A.", "hypothesis": "B.", "idx": 0, "label": "entailment", "pair_id": 1}],
}  # fmt: skip
MARKED = "* The big dog * saw Tom because # he #, Tom, ran."
# Task -> texts and labels of these lines.
EXPECTED = {
    "boolq": ((["It is."] * 2, ["is it", "is it not"]), [1, 0]),
    "cb": ((["A.", "C."], ["B.", "D."]), [2, 1]),
    "multirc": ((["Ann ran. Bob sat."] * 3, ["Who ran? Ann", "Who ran? Bob", "Who sat? Bob"]), [1, 0, 1]),
    "record": (
        ([PASSAGE] * 6,
         [f"{entity} lost to Rome" for entity in ("Oslo", "Rome", "the Paris team")]
         + [f"It was seen in {entity}" for entity in ("Oslo", "Rome", "the Paris team")]),
        [0, 0, 1, 1, 0, 0],
    ),
    "rte": ((["A."], ["B."]), [1]),
    "wic": ((["bank: A bank."], ["Banks."]), [0]),
    "wsc": ([MARKED, MARKED], [1, 0]),
    "axb": ((["A."], ["B."]), [0]),
    "axg": ((["A."], ["B."]), [0]),
}  # fmt: skip


def without_labels(value):
    if isinstance(value, dict):
        hidden = ("label", "answers") if "query" in value else ("label",)
        return {name: without_labels(v) for name, v in value.items() if name not in hidden}
    return [without_labels(each) for each in value] if isinstance(value, list) else value


def write(folder: Path, task: str, split: str = "train", lines=None) -> Path:
    of_task = superglue.DATA_SETS[task]
    path = folder / of_task.directory / of_task.files[split]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines or LINES[task]))
    return path


def one_hot(answers, classes: int = 2) -> np.ndarray:
    return np.eye(classes)[list(answers)]


@pytest.mark.parametrize("task", EXPECTED)
def test_a_file_as_superglue_distributes_it_is_read(task, tmp_path):
    split = "test" if task.startswith("ax") else "train"
    write(tmp_path, task, split)
    data = load_superglue(task, split, tmp_path)
    assert (data.texts, data.labels) == EXPECTED[task] and len(data) == len(data.labels)
    if split == "train":
        write(tmp_path, task, "test", without_labels(LINES[task]))
        test = load_superglue(task, "test", tmp_path)
        assert (test.texts, test.labels) == (EXPECTED[task][0], None)


def test_copa_asks_for_the_cause_or_the_effect(tmp_path):
    write(tmp_path, "copa")
    data = load_superglue("copa", "train", tmp_path)
    asked = ["It broke. What was the cause of this?", "He ran. What happened as a result?"]
    assert data.prompts == asked
    assert data.choices == [["He hit it.", "It sang."], ["It was old.", "He fell."]]
    assert data.labels == [0, 1]


@pytest.mark.parametrize(
    ("span", "marked"),
    [
        # Spelled otherwise; the nearest of several; else the words that are numbered.
        ({"span1_text": "the  Big dog"}, MARKED),
        ({"span2_text": "tom", "span2_index": 6}, "* The big dog * saw Tom because he, # Tom #, ran."),
        ({"span2_text": "him"}, "* The big dog * saw Tom because # he, # Tom, ran."),
        ({"span1_index": 4, "span1_text": "Tom"}, "The big dog saw * Tom * because # he #, Tom, ran."),
        # The noun may come after the pronoun.
        ({"span1_index": 7, "span1_text": "Tom"}, "The big dog saw Tom because # he #, * Tom *, ran."),
    ],
)  # fmt: skip
def test_wsc_is_marked_where_the_words_are_numbered(span, marked, tmp_path):
    write(tmp_path, "wsc", lines=[WSC | {"target": WSC["target"] | span}])
    assert load_superglue("wsc", "train", tmp_path).texts == [marked]


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("boolq", {"passage": None}, "train.jsonl, line 1: passage is None; it must be a string"),
        ("boolq", {"label": "yes"}, "line 1: the label is 'yes'; it must be one of ['False', 'True'] or"),
        ("cb", {"label": "no"}, "line 1: the label is 'no'; it must be one of ['entailment', 'contrad"),
        ("rte", {"label": None}, "line 1: the label is None"),
        ("rte", {"idx": "1"}, "line 1: idx is '1'; it must be a whole number"),
        ("copa", {"question": "why"}, "line 1: the question is 'why'; it must be one of ['cause', 'effect']"),
        ("record", {"qas": [RECORD["qas"][0] | {"query": "No gap"}]}, "the query 'No gap' has no '@place"),
        ("record", {"qas": [RECORD["qas"][0] | {"answers": []}]}, "line 1: the label is None"),
        ("record", {"passage": {"text": "A.", "entities": []}}, "the passage has no entities"),
        ("multirc", {"passage": {"text": "A."}}, "line 1: 'questions' is missing"),
        ("wsc", {"target": WSC["target"] | {"span2_index": 9}}, "span2 is 'he' from word 9, but the text has 9"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(task, change, message, tmp_path):
    write(tmp_path, task, lines=[LINES[task][0] | change])
    assert_refused(lambda: load_superglue(task, "train", tmp_path), message)


@refusals(
    (lambda d: load_superglue("sst2", "train", d), "SuperGLUE has no task 'sst2'; | 'boolq', 'cb'"),
    (lambda d: load_superglue("axb", "train", d), "axb has no split 'train'; | ['test']"),
    (lambda d: load_superglue("boolq", "validation", d), "val.jsonl. data_dir must contain"),
)
def test_unknown_names_list_the_known_ones(call, words, tmp_path):
    assert_refused(lambda: call(tmp_path), words)


# --- TensorFlow Datasets ---


def of_tfds(record):
    """A flat record as `as_numpy` gives it."""
    if isinstance(record, dict):
        return {name: of_tfds(value) for name, value in record.items()}
    if isinstance(record, list):
        return np.array([of_tfds(value) for value in record], object)
    return record.encode() if isinstance(record, str) else np.int32(record)


@pytest.mark.parametrize("task", LINES)
def test_tensorflow_datasets_gives_what_the_file_gives(task, fake_tfds, tmp_path):
    of_task = superglue.DATA_SETS[task]
    split = "test" if task.startswith("ax") else "train"
    write(tmp_path, task, split)
    records = [dict(r) for line in LINES[task] for r in of_task.flat(line, "")]
    for record in records:
        if isinstance(record.get("label"), str):
            record["label"] = of_task.label_names.index(record["label"])
    fake_tfds(lambda name, split: [of_tfds(record) for record in records[::-1]])
    assert load_superglue(task, split) == load_superglue(task, split, tmp_path)
    if split == "train" and task != "record":
        fake_tfds(lambda name, split: [of_tfds(record | {"label": -1}) for record in records])
        assert load_superglue(task, "test").labels is None


def test_the_table_agrees_with_tensorflow_datasets():
    module = pytest.importorskip("tensorflow_datasets.text.super_glue")
    configs = {config.name: config for config in module.SuperGlue.BUILDER_CONFIGS}
    for task in superglue.DATA_SETS.values():
        config = configs[task.name]
        if task.name != "record":  # it has no labels there
            assert tuple(config.label_classes) == task.label_names
        assert config.data_url.endswith(f"/{task.directory}.zip")
        flat = next(task.flat(LINES[task.name][0], ""))
        assert {*config.features} <= {*flat}


# --- Metrics ---


def split_of(task: str, labels, **more) -> superglue.SuperGlueSplit:
    texts = ["a"] * len(labels)
    names = superglue.DATA_SETS[task].label_names
    return superglue.SuperGlueSplit(texts, list(labels), names, task=task, **more)


def test_metrics_equal_scikit_learns():
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 3, 40), rng.normal(size=(40, 3))
    found = metrics(split_of("cb", labels), logits)
    answers = logits.argmax(-1)
    f1 = f1_score(labels, answers, average="macro")
    assert found == pytest.approx({"f1": f1, "accuracy": np.mean(labels == answers)})
    labels, logits = rng.integers(0, 2, 40), rng.normal(size=(40, 2))
    answers = logits.argmax(-1)
    correlation = metrics(split_of("axb", labels), logits)["matthews_correlation"]
    assert correlation == pytest.approx(matthews_corrcoef(labels, answers))
    indices = [(0, i // 4, i) for i in range(40)]
    found = metrics(split_of("multirc", labels, indices=indices), logits)
    right = (labels == answers).reshape(10, 4).all(1)
    assert found == pytest.approx({"f1a": f1_score(labels, answers), "exact_match": right.mean()})
    for task in ("boolq", "rte", "wic", "wsc"):
        assert metrics(split_of(task, labels), logits) == {"accuracy": np.mean(labels == answers)}


def test_multirc_counts_a_question_when_all_of_its_answers_are_right(tmp_path):
    write(tmp_path, "multirc")
    data = load_superglue("multirc", "train", tmp_path)
    # Of the labels 1 0 | 1: two true positives and a false one.
    assert metrics(data, one_hot([1, 1, 1])) == {"f1a": pytest.approx(0.8), "exact_match": 0.5}


def test_record_takes_the_likeliest_entity_of_each_query(tmp_path):
    write(tmp_path, "record")
    data = load_superglue("record", "train", tmp_path)
    # Oslo, Rome, the Paris team: margins of the second logit.
    logits = np.array([[0, -3], [0, -2], [5, 4.5], [1, 3], [0, 1.5], [0, 1]])
    assert metrics(data, logits) == {"f1": 1.0, "exact_match": 1.0}
    logits[1] = [0, 0]
    assert metrics(data, logits) == {"f1": 0.5, "exact_match": 0.5}
    # A part of the words, and an article that does not count.
    data.right[:3] = [("Paris team", "Rome team")] * 3
    assert metrics(data, logits) == {"f1": pytest.approx((2 / 3 + 1) / 2), "exact_match": 0.5}
    logits[2] = [0, 1]
    assert metrics(data, logits) == {"f1": 1.0, "exact_match": 1.0}


def test_gender_parity_is_of_neighbours():
    data = split_of("axg", [0, 0, 1, 1])
    assert metrics(data, one_hot([0, 1, 1, 1])) == {"accuracy": 0.75, "gender_parity": 0.5}


# --- Submissions ---

SUBMITTED = {
    "boolq": ("BoolQ", [1, 0], [{"idx": 0, "label": "true"}, {"idx": 1, "label": "false"}]),
    "cb": ("CB", [1, 2], [{"idx": 0, "label": "contradiction"}, {"idx": 1, "label": "neutral"}]),
    "copa": ("COPA", [1, 0], [{"idx": 0, "label": 1}, {"idx": 1, "label": 0}]),
    "multirc": ("MultiRC", [1, 0, 1], [{"idx": 3, "passage": {"questions": [
        {"idx": 7, "answers": [{"idx": 20, "label": 1}, {"idx": 21, "label": 0}]},
        {"idx": 8, "answers": [{"idx": 22, "label": 1}]}]}}]),
    "record": ("ReCoRD", [0, 1, 0, 0, 0, 1],
               [{"idx": 31, "label": "Rome"}, {"idx": 32, "label": "the Paris team"}]),
    "rte": ("RTE", [1], [{"idx": 0, "label": "not_entailment"}]),
    "wic": ("WiC", [1], [{"idx": 0, "label": "true"}]),
    "wsc": ("WSC", [1, 0], [{"idx": 0, "label": "True"}, {"idx": 1, "label": "False"}]),
    "axb": ("AX-b", [0], [{"idx": 0, "label": "entailment"}]),
    "axg": ("AX-g", [1], [{"idx": 0, "label": "not_entailment"}]),
}  # fmt: skip


@pytest.mark.parametrize("task", SUBMITTED)
def test_submissions_are_as_the_server_takes_them(task, tmp_path):
    name, answers, lines = SUBMITTED[task]
    write(tmp_path, task, "test", without_labels(LINES[task]))
    data = load_superglue(task, "test", tmp_path)
    classes = len(superglue.DATA_SETS[task].label_names)
    path = write_submission(task, data, one_hot(answers, classes), tmp_path / "sent")
    assert path == tmp_path / "sent" / f"{name}.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == lines
