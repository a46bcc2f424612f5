"""The files of edge probing and of SentEval's probing tasks."""

import json
import re

import pytest

from bert_zoo.data.edges import Edge, EdgeSentence, read_edges
from bert_zoo.data.senteval import read_senteval

TARGET = {"span1": [1, 2], "label": "NN", "info": {"height": 1}}


def edges_file(tmp_path, *targets, text="The  bee landed ."):
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"text": text, "targets": targets, "info": {}}) + "\n")
    return path


def test_spans_and_pairs_of_spans_are_read(tmp_path):
    pair = {"span1": [2, 3], "span2": [0, 2], "label": ["arg0", "agent"]}
    assert read_edges(edges_file(tmp_path, TARGET, pair)) == [
        EdgeSentence(
            ("The", "bee", "landed", "."),
            (Edge((1, 2), None, ("NN",)), Edge((2, 3), (0, 2), ("arg0", "agent"))),
        )
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"span1": [2, 2]}, "the span is [2, 2], expected [first word, word after the last] in a text of 4"),
        ({"span1": [3, 5]}, "the span is [3, 5]"),
        ({"span2": [0, 1, 2]}, "the span is [0, 1, 2]"),
        ({"span2": "ab"}, "the span is 'ab'"),
        ({"label": None}, "'label' is None, expected a string"),
        ({"label": [3]}, "'label' is 3, expected a string"),
    ],
)  # fmt: skip
def test_edges_that_do_not_fit_are_refused_with_their_line(tmp_path, change, message):
    path = edges_file(tmp_path, TARGET | change)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 1: {message}")):
        read_edges(path)


def test_sentences_of_senteval_are_read_with_their_splits(tmp_path):
    path = tmp_path / "past_present.txt"
    path.write_text("tr\tPAST\tHe left .\nva\tPRES\tShe runs\nte\tPAST\tIt ended .\n")
    data = read_senteval(path)
    assert data.words == [["He", "left", "."], ["She", "runs"], ["It", "ended", "."]]
    assert data.labels == ["PAST", "PRES", "PAST"]
    assert data.splits == ["train", "validation", "test"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dev\tPAST\tHe left", "the split is 'dev', expected one of ['tr', 'va', 'te']"),
        ("tr\tPAST\t ", "the text has no words"),
        ("tr\tPAST", "found 2 fields, expected 3"),
    ],
)
def test_lines_that_are_not_sentevals_are_refused(tmp_path, line, message):
    path = tmp_path / "past_present.txt"
    path.write_text(f"tr\tPAST\tHe left .\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 2: {message}")):
        read_senteval(path)
