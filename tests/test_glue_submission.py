"""Files for GLUE's server: names, header, spelling of labels, numbers of rows."""

import re

import numpy as np
import pytest

from bert_zoo.data import glue

TEST_SPLITS = [(task.name, split) for task in glue.DATA_SETS.values() for split in task.submissions]


def predictions_for(task: str, split: str) -> np.ndarray:
    """As many as GLUE has rows: every class in turn, or scores."""
    row = glue.DATA_SETS[task]
    ids = np.arange(row.submissions[split].rows)
    return ids / ids[-1] * 5 if row.is_regression else ids % len(row.label_names)


def written(path) -> list[list[str]]:
    content = path.read_bytes().decode("ascii")
    assert content.endswith("\n") and "\r" not in content
    return [line.split("\t") for line in content.removesuffix("\n").split("\n")]


def test_the_files_are_the_eleven_that_the_server_wants():
    names = {s.file for task in glue.DATA_SETS.values() for s in task.submissions.values()}
    assert names == {
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv",
        "QQP.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv",
    }  # fmt: skip


@pytest.mark.parametrize(("task", "split"), TEST_SPLITS)
def test_every_test_split_of_the_files_has_a_submission(task, split):
    row = glue.DATA_SETS[task]
    assert set(row.submissions) == {name for name in row.files if name.startswith("test")}
    assert split in row.submissions


def test_measured_splits_have_labels_and_are_two_for_mnli():
    assert glue.DATA_SETS["mnli"].measured_splits == ("validation_matched", "validation_mismatched")
    assert glue.DATA_SETS["rte"].measured_splits == ("validation",)
    assert glue.DATA_SETS["ax"].measured_splits == ()


@pytest.mark.parametrize(
    ("task", "split", "file", "first"),
    [
        ("cola", "test", "CoLA.tsv", ["0", "1", "0"]),
        ("sst2", "test", "SST-2.tsv", ["0", "1", "0"]),
        ("mrpc", "test", "MRPC.tsv", ["0", "1", "0"]),
        ("qqp", "test", "QQP.tsv", ["0", "1", "0"]),
        ("mnli", "test_matched", "MNLI-m.tsv", ["entailment", "neutral", "contradiction"]),
        ("mnli", "test_mismatched", "MNLI-mm.tsv", ["entailment", "neutral", "contradiction"]),
        ("qnli", "test", "QNLI.tsv", ["entailment", "not_entailment", "entailment"]),
        ("rte", "test", "RTE.tsv", ["entailment", "not_entailment", "entailment"]),
        ("wnli", "test", "WNLI.tsv", ["0", "1", "0"]),
        ("ax", "test", "AX.tsv", ["entailment", "neutral", "contradiction"]),
    ],
)
def test_labels_are_spelled_as_the_server_wants(tmp_path, task, split, file, first):
    predictions = predictions_for(task, split)
    path = glue.write_submission(task, split, predictions, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / file
    header, *rows = written(path)
    assert header == ["index", "prediction"]
    assert [row[1] for row in rows[:3]] == first
    assert [row[0] for row in rows] == [str(index) for index in range(len(predictions))]


def test_scores_lie_on_the_scale_with_three_decimals(tmp_path):
    scores = predictions_for("stsb", "test")
    scores[:4] = [-0.2, 5.3, 2.71828, 4.0]
    rows = written(glue.write_submission("stsb", "test", scores, str(tmp_path)))
    assert (tmp_path / "STS-B.tsv").is_file()
    assert [row[1] for row in rows[1:5]] == ["0.000", "5.000", "2.718", "4.000"]


def test_integer_types_of_any_width_are_class_ids(tmp_path):
    predictions = predictions_for("wnli", "test")
    first = glue.write_submission("wnli", "test", predictions.astype("int32"), tmp_path / "a")
    second = glue.write_submission("wnli", "test", predictions.tolist(), tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("task", "split", "predictions", "message"),
    [
        ("snli", "test", [0], "'snli' is not a GLUE task"),
        ("rte", "validation", [0], "no predictions for the split 'validation' of rte; choose one"),
        ("mnli", "test", [0], "choose one of ['test_matched', 'test_mismatched']"),
        ("wnli", "test", [0] * 145, "There are 145 predictions for wnli, split test, and GLUE has 146"),
        ("wnli", "test", [0] * 145 + [2], "range from 0 to 2, expected class ids from 0 to 1"),
        ("wnli", "test", [0.1] * 146, "expected integer class ids. Take the argmax"),
        ("stsb", "test", [float("nan")] * 1379, "hold values that are not finite"),
    ],
)  # fmt: skip
def test_predictions_that_the_server_would_refuse_are_an_error(
    tmp_path, task, split, predictions, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        glue.write_submission(task, split, predictions, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_diagnostic_set_has_no_score_here():
    with pytest.raises(ValueError, match=r"keeps the labels of ax.*write_submission"):
        glue.metrics("ax", [0], [0])
