"""MRQA's files and scores."""

import gzip
import json
import re
from pathlib import Path

import pytest

from bert_zoo.data import mrqa
from bert_zoo.data.squad import Answer

CONTEXT = "[TLE] Café [PAR] The cat sat. [DOC] A cat ran."


def asked(qid: str = "q1", **members):
    spans = [[21, 23], [38, 40]]
    answers = [{"text": "cat", "char_spans": spans, "token_spans": [[3, 3], [8, 8]]}]
    return {"qid": qid, "question": "Who sat?", "question_tokens": [["Who", 0]],
            "detected_answers": answers, "answers": ["the Cat", "a lion"], **members}  # fmt: skip


def write(path: Path, *questions, context: str = CONTEXT, name: str = "NewsQA") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"header": {"dataset": name, "split": "dev"}}
    line = {"id": "", "context": context, "context_tokens": [["[TLE]", 0]], "qas": list(questions)}
    text = json.dumps(header) + "\n" + json.dumps(line) + "\n"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl"])
def test_answers_stand_at_all_places_where_they_were_detected(name, tmp_path):
    split = mrqa.read_mrqa(write(tmp_path / name, asked(), asked("q2")))
    assert split.version == "1.1" and [e.id for e in split.examples] == ["q1", "q2"]
    example = split.examples[0]
    assert example.context == CONTEXT and example.question == "Who sat?"
    assert example.answers == (Answer("cat", 21), Answer("cat", 38))
    # What is accepted need not stand in the context.
    assert example.references == ("the Cat", "a lion") and example.data_set == "NewsQA"
    assert not example.is_impossible and example.title == "NewsQA, line 2"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"detected_answers": []}, "line 2, question 1: no answer was detected in the context"),
        ({"detected_answers": [{"text": "cat", "char_spans": [[40, 50]]}]}, "the span [40, 50] must be [first, last] character"),
        ({"detected_answers": [{"text": "cat", "char_spans": [[5, 4]]}]}, "the span [5, 4] must be"),
        ({"answers": []}, "question 1: 'answers' is empty"),
        ({"question": None}, "question 1: question is None"),
    ],
)  # fmt: skip
def test_a_bad_question_is_named(members, message, tmp_path):
    path = write(tmp_path / "a.jsonl", asked(**members))
    with pytest.raises(ValueError, match=re.escape(message)):
        mrqa.read_mrqa(path)


def test_spans_that_hold_something_else_are_said(tmp_path, caplog):
    other = [{"text": "The CAT!", "char_spans": [[21, 23], [22, 24]]}]
    path = write(tmp_path / "a.jsonl", asked(), asked("q2", detected_answers=other))
    assert mrqa.read_mrqa(path).examples[1].answers == (Answer("cat", 21), Answer("at ", 22))
    assert "of 2 questions, 1 have spans that differ" in caplog.text
    assert "['q2']" in caplog.text


def test_an_id_stands_once(tmp_path):
    with pytest.raises(ValueError, match="question 2: the qid 'q1' has occurred before"):
        mrqa.read_mrqa(write(tmp_path / "a.jsonl", asked(), asked()))


def test_data_sets_are_found_by_the_names_of_the_release_and_of_its_scripts(tmp_path):
    write(tmp_path / "train" / "TriviaQA-web.jsonl.gz", asked("t"))
    write(tmp_path / "train" / "NaturalQuestions.jsonl.gz", asked("n"))
    write(tmp_path / "dev" / "DuoRC.ParaphraseRC.jsonl.gz", asked("d"))
    names = ("TriviaQA", "NaturalQuestions")
    assert [e.id for e in mrqa.load_mrqa("train", tmp_path, names).examples] == ["t", "n"]
    assert [e.id for e in mrqa.load_mrqa("test", tmp_path, ("DuoRC",)).examples] == ["d"]
    with pytest.raises(FileNotFoundError, match=r"train.SQuAD\.jsonl\.gz"):
        mrqa.load_mrqa("train", tmp_path)
    with pytest.raises(ValueError, match="MRQA's split test has no data set 'SQuAD'"):
        mrqa.load_mrqa("test", tmp_path, ("SQuAD",))
