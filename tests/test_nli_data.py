"""SNLI's and XNLI's files."""

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest

from bert_zoo.data import nli

PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")
SNLI = [("neutral", "A man.", "He sleeps."), ("-", "A dog.", "It runs."), ("entailment", "One.", "It.")]  # fmt: skip
XNLI_HEADER = ("language", "gold_label", *PARSES, "sentence1", "sentence2", "promptID", "pairID", "genre")  # fmt: skip
XNLI = [("de", "neutral", "Ein Hund.", 'Er "bellt".'), ("fr", "contradiction", "Un chien.", "Un chat."),
        ("de", "entailment", "Ja.", "Eben."), ("fr", "entailment", "Oui.", "Voilà.")]  # fmt: skip


def write_snli(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("gold_label", *PARSES, "sentence1", "sentence2", "captionID")
    rows = [(label, "(p)", "(p)", first, second, "c") for label, first, second in SNLI]
    if path.suffix == ".jsonl":
        records = (dict(zip(names, row, strict=True)) for row in rows)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        path.write_text("".join("\t".join(row) + "\n" for row in (names, *rows)))
    return path


def write_xnli(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [(lang, label, "", "", a, b, "1", "2", "fiction") for lang, label, a, b in XNLI]
    path.write_text("".join("\t".join(row) + "\n" for row in (XNLI_HEADER, *rows)))
    return path


def write_translation(path: Path, first: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"premise\thypo\tlabel\n{first}\tb\tcontradictory\n{first} 2\tb\tneutral\n")
    return path


@pytest.mark.parametrize("name", ["snli_1.0/snli_1.0_dev.jsonl", "snli_1.0_dev.txt"])
def test_snli_is_read_without_undecided_pairs_and_says_so(name, tmp_path, caplog):
    write_snli(tmp_path / name)
    with caplog.at_level(logging.WARNING, "bert_zoo"):
        data = nli.load_snli("validation", tmp_path)
    assert data.texts == (["A man.", "One."], ["He sleeps.", "It."])
    assert data.labels == [1, 0] and data.label_names == nli.NLI_LABELS and data.skipped == 1
    assert f"{Path(name).name}: left out 1 of 3 pairs" in caplog.text


def test_xnli_is_measured_in_every_language_of_its_file(tmp_path):
    write_xnli(tmp_path / "XNLI-1.0" / "xnli.test.tsv")
    data = nli.load_xnli("test", tmp_path)
    assert data.texts[1] == ['Er "bellt".', "Un chat.", "Eben.", "Voilà."]
    assert data.languages == ["de", "fr", "de", "fr"] and data.labels == [1, 2, 0, 0]
    logits = np.eye(3)[[1, 2, 1, 0]]
    assert nli.accuracies(data, logits) == {
        "accuracy": 0.75,
        "accuracy_de": 0.5,
        "accuracy_fr": 1.0,
    }


@pytest.mark.parametrize("folder", ["XNLI-MT-1.0/multinli", "multinli", "."])
def test_xnli_is_trained_on_the_languages_that_are_asked_for(folder, tmp_path):
    for language in ("en", "sw"):
        write_translation(tmp_path / folder / f"multinli.train.{language}.tsv", language)
    assert nli.load_xnli("train", tmp_path).texts[0] == ["en", "en 2"]
    data = nli.load_xnli("train", tmp_path, ("sw", "en"))
    assert data.texts[0] == ["sw", "sw 2", "en", "en 2"] and data.labels == [2, 1, 2, 1]
    assert data.languages == ["sw", "sw", "en", "en"]


def test_errors_name_file_and_line(tmp_path):
    path = write_snli(tmp_path / "snli_1.0_train.jsonl")
    path.write_text(path.read_text().replace("entailment", "maybe"))
    for call, message in (
        (lambda: nli.load_snli("train", tmp_path), "train.jsonl, line 3: the label is 'maybe'"),
        (lambda: nli.load_snli("dev", tmp_path), "SNLI has no split 'dev'"),
        (lambda: nli.load_xnli("train", tmp_path, ("it",)), "XNLI has no language 'it'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
    with pytest.raises(FileNotFoundError, match=r"multinli\.train\.en\.tsv\. data_dir must be"):
        nli.load_xnli("train", tmp_path)


def test_tensorflow_datasets_gives_the_same(fake_tfds, tmp_path):
    write_snli(tmp_path / "snli_1.0_test.txt")
    ids = {"neutral": 1, "-": -1, "entailment": 0}
    snli = [
        {"premise": a.encode(), "hypothesis": b.encode(), "label": np.int64(ids[label])}
        for label, a, b in SNLI
    ]
    fake_tfds(lambda name, split: {("snli", "test"): snli}[name, split])
    assert nli.load_snli("test") == nli.load_snli("test", tmp_path)
    pair = {
        "premise": {"de": b"Ja.", "fr": b"Oui.", "en": b"Yes."},
        "hypothesis": {
            "language": np.array([b"fr", b"de", b"en"], object),
            "translation": np.array([b"Bien.", b"Gut.", b"Well."], object),
        },
        "label": np.int64(2),
    }
    asked = []
    fake_tfds(lambda name, split: asked.append((name, split)) or [pair])
    data = nli.load_xnli("train", languages=("fr", "de"))
    assert data.texts == (["Oui.", "Ja."], ["Bien.", "Gut."]) and data.labels == [2, 2]
    assert asked == [("xtreme_xnli", "train")]
