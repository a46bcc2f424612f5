"""GLUE's files, metrics and files of predictions."""

import socket
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.data import glue

SHARED = Path(__file__).parents[2] / "shared" / "data" / "glue"

# --- Files ---

PAIR = "sentence1|sentence2"
MNLI = f"index|promptID|pairID|genre|{PAIR.replace('|', '_binary_parse|')}_binary_parse|{PAIR.replace('|', '_parse|')}_parse|{PAIR}"  # fmt: skip
MNLI_DEV = f"{MNLI}|label1|label2|label3|label4|label5|gold_label"
STSB = f"index|genre|filename|year|old_index|source1|source2|{PAIR}"
AB = (["A."], ["B."])

# (task, split) -> header, rows, expected texts, expected labels; "|" stands for a tab.
LAYOUTS = {
    ("cola", "train"): (None, ['gj04|1||He said "so.', "bc01|0|*|Him said."], ['He said "so.', "Him said."], [1, 0]),
    ("cola", "test"): ("index|sentence", ["0|Who knows?"], ["Who knows?"], None),
    ("sst2", "train"): ("sentence|label", ["a treat |1", " dull , dull |0"], ["a treat ", " dull , dull "], [1, 0]),
    ("sst2", "test"): ("index|sentence", ["0|uneasy mix"], ["uneasy mix"], None),
    ("mrpc", "validation"): (
        "Quality|#1 ID|#2 ID|#1 String|#2 String", ["1|10|11|One.|Uno.", '0|12|13|Two.|"Three"'],
        (["One.", "Two."], ["Uno.", '"Three"']), [1, 0],
    ),
    ("mrpc", "test"): ("index|#1 ID|#2 ID|#1 String|#2 String", ["0|10|11|A.|B."], AB, None),
    ("stsb", "train"): (f"{STSB}|score", ["0|g|f|2012|1|none|none|A.|B.|1.250"], AB, [1.25]),
    ("stsb", "test"): (STSB, ["0|g|f|2012|1|none|none|A.|B."], AB, None),
    ("qqp", "train"): (
        "id|qid1|qid2|question1|question2|is_duplicate", ["0|1|2|Why?|How?|0", "1|3|4|Who?|Who is it?|1"],
        (["Why?", "Who?"], ["How?", "Who is it?"]), [0, 1],
    ),
    ("qqp", "test"): ("id|question1|question2", ["0|A.|B."], AB, None),
    ("mnli", "train"): (
        f"{MNLI}|label1|gold_label",
        [f"0|1|2|3|4|5|6|7|It rains.|{text}|neutral|{label}" for text, label in
         (("It is wet.", "entailment"), ("I sing.", "neutral"), ("It is dry.", "contradiction"))],
        (["It rains."] * 3, ["It is wet.", "I sing.", "It is dry."]), [0, 1, 2],
    ),
    ("mnli", "validation_matched"): (MNLI_DEV, ["0|1|2|3|4|5|6|7|A.|B." + "|entailment" * 5 + "|neutral"], AB, [1]),
    ("mnli", "validation_mismatched"): (MNLI_DEV, ["0|1|2|3|4|5|6|7|C.|D." + "|entailment" * 5 + "|contradiction"], (["C."], ["D."]), [2]),
    ("mnli", "test_matched"): (MNLI, ["0|1|2|3|4|5|6|7|A.|B."], AB, None),
    ("mnli", "test_mismatched"): (MNLI, ["0|1|2|3|4|5|6|7|C.|D."], (["C."], ["D."]), None),
    ("qnli", "validation"): (
        "index|question|sentence|label", ["0|When?|In May.|entailment", "1|Who?|It is.|not_entailment"],
        (["When?", "Who?"], ["In May.", "It is."]), [0, 1],
    ),
    ("qnli", "test"): ("index|question|sentence", ["0|A.|B."], AB, None),
    ("rte", "train"): (
        f"index|{PAIR}|label", ["0|A.|B.|not_entailment", "1|C.|D.|entailment"], (["A.", "C."], ["B.", "D."]), [1, 0],
    ),
    ("rte", "test"): (f"index|{PAIR}", ["0|A.|B."], AB, None),
    ("wnli", "train"): (f"index|{PAIR}|label", ["0|A.|B.|1", "1|C.|D.|0"], (["A.", "C."], ["B.", "D."]), [1, 0]),
    ("wnli", "test"): (f"index|{PAIR}", ["0|A.|B."], AB, None),
    ("ax", "test"): (f"index|{PAIR}", ["0|A.|B."], AB, None),
}  # fmt: skip


def write(data_dir: Path, task: str, split: str, *lines: str, end: str = "\n", mark: str = "") -> Path:  # fmt: skip
    row = glue.DATA_SETS[task]
    path = data_dir / row.directory / row.files[split]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = mark + end.join(line.replace("|", "\t") for line in lines if line is not None)
    path.write_bytes(text.encode())
    return path


def test_the_layouts_cover_every_task_and_its_folder():
    folders = "CoLA SST-2 MRPC STS-B QQP MNLI QNLI RTE WNLI diagnostic".split()
    assert {task for task, _ in LAYOUTS} == set(glue.DATA_SETS)
    assert [task.directory for task in glue.DATA_SETS.values()] == folders


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("task_split", LAYOUTS, ids="-".join)
def test_a_file_as_glue_distributes_it_is_read_exactly(tmp_path, task_split, end):
    header, rows, texts, labels = LAYOUTS[task_split]
    task = glue.DATA_SETS[task_split[0]]
    expected = glue.GlueSplit(texts, labels, task.label_names, task=task.name, split=task_split[1])
    # The end of the last line may be missing, and the header may have a byte order mark.
    for last, mark in ((("",), ""), ((), "\ufeff" if header else "")):
        write(tmp_path, *task_split, header, *rows, *last, end=end, mark=mark)
        result = glue.load_glue(*task_split, tmp_path)
        assert result == expected and len(result) == len(rows)
    if header:
        # Columns are found by name.
        turned = ("|".join(line.split("|")[::-1]) for line in (header, *rows))
        write(tmp_path, *task_split, *turned, end=end)
        assert glue.load_glue(*task_split, tmp_path) == expected


@pytest.mark.parametrize(
    ("task", "train_rows", "validation_rows"),
    [("cola", 8551, 1043), ("sst2", 67349, 872), ("rte", 2490, 277)],
)
def test_real_files_have_glues_number_of_rows(task, train_rows, validation_rows):
    if not (SHARED / glue.DATA_SETS[task].directory).is_dir():
        pytest.skip("GLUE's files are not at ../shared/data/glue.")
    for split, rows in (("train", train_rows), ("validation", validation_rows)):
        data = glue.load_glue(task, split, SHARED)
        assert len(data) == len(data.labels) == rows and set(data.labels) == {0, 1}
        if (task, split) == ("rte", "train"):
            first, second = data.texts
            assert first[0] == "No Weapons of Mass Destruction Found in Iraq Yet."
            assert second[0] == "Weapons of Mass Destruction Found in Iraq."
            assert data.label_names[data.labels[0]] == "not_entailment"


# --- TensorFlow Datasets ---


def test_a_task_from_tfds_comes_in_the_order_of_glues_file(fake_tfds):
    rows = [
        {"idx": np.int32(2), "premise": b"c", "hypothesis": "ç".encode(), "label": np.int64(0)},
        {"idx": np.int32(0), "premise": b"a", "hypothesis": b"A", "label": np.int64(2)},
    ]
    fake_tfds(lambda name, split: {("glue/mnli", "validation_matched"): rows}[name, split])
    result = glue.load_glue("mnli", "validation_matched")
    assert result.texts == (["a", "c"], ["A", "ç"])
    assert result.labels == [2, 0] and all(type(label) is int for label in result.labels)


def test_scores_from_tfds_are_floats_and_hidden_labels_none(fake_tfds):
    texts = {"idx": 0, "sentence": b"a", "sentence1": b"a", "sentence2": b"b"}
    fake_tfds(lambda name, split: [texts | {"label": np.float32(2.5)}])
    labels = glue.load_glue("stsb", "train").labels
    assert labels == [2.5] and type(labels[0]) is float
    fake_tfds(lambda name, split: [texts | {"label": np.int64(-1)}])
    assert glue.load_glue("sst2", "test").labels is None


def test_a_failed_download_says_why_and_names_data_dir(fake_tfds, monkeypatch):
    def load(name, split):
        raise ConnectionError("no route to host")

    fake_tfds(load)
    reason = "glue/rte, split train (ConnectionError: no route | RTE | --data_dir"
    assert_refused(lambda: glue.load_glue("rte", "train"), reason, RuntimeError)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    how = "pip install 'bert_zoo[datasets,tensorflow]' | --data_dir"
    assert_refused(lambda: glue.load_glue("rte", "train"), how, RuntimeError)


def test_without_a_network_nothing_is_tried_again(fake_tfds, monkeypatch):
    def refuse(address, timeout):
        tried.append(address)
        raise OSError("no route to host")

    tried = []
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    urls = ["https://a.org/a.zip", "https://a.org/b.zip", "https://b.org/c.zip"]
    fake_tfds(lambda name, split: pytest.fail("TFDS would try ten times"), urls)
    words = "b.org cannot be reached (no route | --data_dir"
    assert_refused(lambda: glue.load_glue("rte", "train"), words, RuntimeError)
    assert tried == [("a.org", 443), ("b.org", 443)]


def test_the_table_agrees_with_tensorflow_datasets():
    tfds_glue = pytest.importorskip("tensorflow_datasets.text.glue")
    configs = {config.name: config for config in tfds_glue.Glue.BUILDER_CONFIGS}
    for task in glue.DATA_SETS.values():
        config = configs[task.name]
        assert tuple(config.text_features) == (task.text_features or task.text_columns)
        assert tuple(config.label_classes or ()) == task.label_names


# --- Metrics ---

# Values of scikit-learn 1.9.1 (accuracy_score, f1_score, matthews_corrcoef) and SciPy 1.17.1
# (pearsonr, spearmanr).
CLASSES, PREDICTED = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 0, 1, 0]
SCORES = [0.0, 1.2, 2.5, 2.5, 3.8, 5.0, 4.2, 0.4]
PREDICTED_SCORES = [0.3, 0.9, 3.1, 2.0, 3.1, 4.6, 3.1, 1.1]
ACCURACY = {"accuracy": 0.7}
F1 = {"f1": 0.7272727272727273, **ACCURACY}


@pytest.mark.parametrize(
    ("task", "labels", "predictions", "expected"),
    [
        ("cola", CLASSES, PREDICTED, {"matthews_correlation": 0.408248290463863}),
        *((task, CLASSES, PREDICTED, F1) for task in ("mrpc", "qqp")),
        *((task, CLASSES, PREDICTED, ACCURACY) for task in ("sst2", "mnli", "qnli", "rte", "wnli")),
        ("stsb", SCORES, PREDICTED_SCORES, {"pearson": 0.9475177524932438, "spearman": 0.9326733179802502}),
        ("mnli", [0, 1, 2, 2], [0, 2, 2, 1], {"accuracy": 0.5}),
        # A correlation or F1 that is not defined is 0.
        ("cola", [0, 1, 1], [1, 1, 1], {"matthews_correlation": 0.0}),
        ("cola", [1, 1], [0, 1], {"matthews_correlation": 0.0}),
        ("cola", [0, 1, 1], [1, 0, 0], {"matthews_correlation": -1.0}),
        ("mrpc", [0, 0], [0, 0], {"f1": 0.0, "accuracy": 1.0}),
        ("stsb", [1.0, 2.0, 3.0], [0.1, 0.1, 0.1], {"pearson": 0.0, "spearman": 0.0}),
        ("stsb", [1.0, 2.0, 3.0], [1.0, 4.0, 9.0], {"pearson": 0.98974331861, "spearman": 1}),
        ("stsb", [1.0, 2.0, 2.0, 3.0], [4.0, 3.0, 3.0, 0.0], {"pearson": -0.9428090415820634, "spearman": -1.0}),
        # Ranks of the labels 1, 2.5, 2.5, 4 and of the predictions 2, 1, 3.5, 3.5; by hand: 2.25 / 4.5.
        ("stsb", [1.0, 2.0, 2.0, 3.0], [2.0, 1.0, 4.0, 4.0], {"pearson": 2 / 13.5**0.5, "spearman": 0.5}),
    ],
)  # fmt: skip
def test_metrics_equal_scikit_learns_and_scipys(task, labels, predictions, expected):
    result = glue.metrics(task, labels, predictions)
    assert list(result) == list(expected)
    assert result == pytest.approx(expected, abs=1e-12)
    assert all(type(value) is float for value in result.values())


# --- Files of predictions ---


def predictions_for(task: str, split: str) -> np.ndarray:
    """As many as GLUE has rows: every class in turn, or scores."""
    row = glue.DATA_SETS[task]
    ids = np.arange(row.test_splits[split][1])
    return ids / ids[-1] * 5 if row.is_regression else ids % len(row.label_names)


def written(path) -> list[list[str]]:
    content = path.read_bytes().decode("ascii")
    assert content.endswith("\n") and "\r" not in content
    return [line.split("\t") for line in content.removesuffix("\n").split("\n")]


THREE = ["entailment", "neutral", "contradiction"]
TWO = ["entailment", "not_entailment", "entailment"]
# (task, test split) -> the file, its number of rows, and what the first three say.
FILES = {
    ("cola", "test"): ("CoLA.tsv", 1063, ["0", "1", "0"]),
    ("sst2", "test"): ("SST-2.tsv", 1821, ["0", "1", "0"]),
    ("mrpc", "test"): ("MRPC.tsv", 1725, ["0", "1", "0"]),
    ("stsb", "test"): ("STS-B.tsv", 1379, ["0.000", "5.000", "2.718"]),
    ("qqp", "test"): ("QQP.tsv", 390965, ["0", "1", "0"]),
    ("mnli", "test_matched"): ("MNLI-m.tsv", 9796, THREE),
    ("mnli", "test_mismatched"): ("MNLI-mm.tsv", 9847, THREE),
    ("qnli", "test"): ("QNLI.tsv", 5463, TWO),
    ("rte", "test"): ("RTE.tsv", 3000, TWO),
    ("wnli", "test"): ("WNLI.tsv", 146, ["0", "1", "0"]),
    ("ax", "test"): ("AX.tsv", 1104, THREE),
}


def test_every_test_split_has_a_file_of_predictions_and_mnli_two_measured_splits():
    splits = [(task.name, split) for task in glue.DATA_SETS.values() for split in task.test_splits]
    assert splits == [*FILES] and [*FILES] == [case for case in LAYOUTS if "test" in case[1]]
    measured = {name: task.measured_splits for name, task in glue.DATA_SETS.items()}
    assert measured["mnli"] == ("validation_matched", "validation_mismatched")
    assert (measured["rte"], measured["ax"]) == (("validation",), ())


@pytest.mark.parametrize("task_split", FILES, ids="-".join)
def test_predictions_are_written_as_the_server_wants(tmp_path, task_split):
    file, number, first = FILES[task_split]
    predictions = predictions_for(*task_split)
    if task_split[0] == "stsb":
        # Cut to the scale, and to three decimals.
        predictions[:3] = [-0.2, 5.3, 2.71828]
    path = glue.write_submission(*task_split, predictions, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / file
    header, *rows = written(path)
    assert header == ["index", "prediction"] and len(rows) == number
    assert [row[1] for row in rows[:3]] == first
    assert [row[0] for row in rows] == [str(index) for index in range(number)]


# --- What is refused ---


@pytest.mark.parametrize(
    ("task", "lines", "words"),
    [
        ("cola", [""], "train.tsv has no rows"),
        ("rte", [f"index|{PAIR}", "0|a|b"], "line 1: there is no column 'label'"),
        ("sst2", ["sentence|label", "fine|2"], "line 2: the label is '2', expected one of ['0', '1']"),
        ("stsb", [f"{PAIR}|score", "a|b|5.1"], "line 2: the score is 5.1; it must be a number from 0 to 5"),
        ("stsb", [f"{PAIR}|score", "a|b|nan"], "line 2: the score is 'nan', expected a finite number"),
        ("mnli", [f"{PAIR}|gold_label", "a|b|-"], "line 2: the label is '-', expected one of ['entailment'"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(tmp_path, task, lines, words):
    write(tmp_path, task, "train", *lines)
    assert_refused(lambda: glue.load_glue(task, "train", tmp_path), words)


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (glue.load_glue, ("sst-2", "train"), "GLUE has no task 'sst-2'; choose one of ['cola', 'sst2'"),
        (glue.load_glue, ("sst2", "dev"), "no split 'dev' | ['train', 'validation', 'test']"),
        (glue.load_glue, ("mnli", "validation"), "no split 'validation' | 'validation_mismatched'"),
        (glue.load_glue, ("ax", "train"), "no split 'train'; choose one of ['test']"),
        (glue.load_glue, ("sst2", "train"), "train.tsv. data_dir must contain"),
        (glue.metrics, ("sst2", [0, 1], [0]), "There are 2 labels and 1 predictions"),
        (glue.metrics, ("sst2", [], []), "labels for sst2 have the shape (0,)"),
        (glue.metrics, ("sst2", [0, 1], [[0.1, 0.9], [0.8, 0.2]]), "predictions for sst2 have the shape (2, 2)"),
        (glue.metrics, ("sst2", [0, 1], [0.2, 0.9]), "predictions for sst2 have the type float64; they must be integers"),
        (glue.metrics, ("sst2", [0, 1], [0, 2]), "predictions for sst2 range from 0 to 2; class ids are from 0"),
        (glue.metrics, ("sst2", [-1, 1], [0, 1]), "labels for sst2 range from -1 to 1"),
        (glue.metrics, ("stsb", [1.0, 2.0], [1.0, float("nan")]), "predictions for stsb contain values that are not finite"),
        (glue.metrics, ("snli", [0], [0]), "GLUE has no task 'snli'"),
        (glue.metrics, ("ax", [0], [0]), "labels of ax are not public. | GLUE's server with glue.write_submission"),
        (glue.write_submission, ("snli", "test", [0]), "GLUE has no task 'snli'"),
        (glue.write_submission, ("rte", "validation", [0]), "no predictions for rte of 'validation'; choose one of ['test']"),
        (glue.write_submission, ("mnli", "test", [0]), "choose one of ['test_matched', 'test_mismatched']"),
        (glue.write_submission, ("wnli", "test", [0] * 145), "145 predictions for wnli, split test, but GLUE has 146"),
        (glue.write_submission, ("wnli", "test", [0] * 145 + [2]), "range from 0 to 2; class ids are from 0 to 1"),
        (glue.write_submission, ("wnli", "test", [0.1] * 146), "they must be integers. Take the argmax"),
        (glue.write_submission, ("stsb", "test", [float("nan")] * 1379), "contain values that are not finite"),
    ],
)  # fmt: skip
def test_what_glue_does_not_have_or_take_is_refused(function, arguments, words, tmp_path):
    folder = () if function is glue.metrics else (tmp_path,)
    assert_refused(lambda: function(*arguments, *folder), words)
    assert not list(tmp_path.iterdir())
