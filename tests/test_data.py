"""The messages that ship with the package; what readers of data import."""

import collections
import itertools
import re
import subprocess
import sys
import unicodedata
from importlib import resources

import pytest

from bert_zoo.data import messages


def test_importing_readers_and_metrics_imports_neither_tensorflow_nor_keras():
    code = (
        "import sys, bert_zoo.metrics; "
        "from bert_zoo.data import choices, files, glue, messages, squad, tables, tagging; "
        "print({'tensorflow', 'tensorflow_datasets', 'keras', 'jax'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


# --- The messages ---


def normalised(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def tokens(text: str) -> frozenset[str]:
    return frozenset(normalised(text).split())


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second)


@pytest.fixture(scope="module")
def all_messages() -> list[str]:
    return messages.load("train")[0] + messages.load("test")[0]


@pytest.mark.parametrize(("split", "per_label"), [("train", 75), ("test", 15)])
def test_every_intent_has_the_same_number_of_messages(split, per_label):
    texts, label_ids = messages.load(split)
    assert len(texts) == len(label_ids) == per_label * len(messages.LABELS)
    counts = collections.Counter(label_ids)
    assert counts == dict.fromkeys(range(len(messages.LABELS)), per_label)


@pytest.mark.parametrize("split", messages.SPLITS)
def test_message_files_are_well_formed_utf8_tsv(split):
    file = resources.files("bert_zoo.data") / "messages" / f"{split}.tsv"
    text = file.read_bytes().decode("utf-8")
    assert text.endswith("\n") and not text.startswith("\ufeff")
    assert text == unicodedata.normalize("NFC", text)
    header, *rows = text.removesuffix("\n").split("\n")
    assert header == "label\ttext"
    assert len(rows) == len(text.splitlines()) - 1, "a message holds another kind of line end"
    fields = [row.split("\t") for row in rows]
    assert {len(row) for row in fields} == {2}
    assert {label for label, _ in fields} == set(messages.LABELS)
    assert all(message == message.strip() for _, message in fields)
    loaded_texts, loaded_ids = messages.load(split)
    assert [
        [messages.LABELS[i], t] for i, t in zip(loaded_ids, loaded_texts, strict=True)
    ] == fields


def test_labels_are_sorted_readable_names():
    assert list(messages.LABELS) == sorted(set(messages.LABELS))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in messages.LABELS)


def test_messages_have_3_to_35_words(all_messages):
    lengths = [len(message.split()) for message in all_messages]
    assert min(lengths) >= 3 and max(lengths) <= 35


def test_no_message_occurs_twice(all_messages):
    assert len({normalised(message) for message in all_messages}) == len(all_messages)


def test_no_two_messages_are_near_duplicates(all_messages):
    pairs = itertools.combinations([(message, tokens(message)) for message in all_messages], 2)
    close = [(a, b) for (a, a_tokens), (b, b_tokens) in pairs if jaccard(a_tokens, b_tokens) >= 0.5]
    assert not close


def test_near_duplicates_would_be_noticed():
    assert jaccard(tokens("Where is my parcel?"), tokens("where is my big parcel")) == 0.8
    assert normalised("Where is my PARCEL?!") == normalised("where is my parcel")


def test_messages_in_files_are_mixed(all_messages):
    _, label_ids = messages.load("train")
    assert len(set(label_ids[:40])) == len(messages.LABELS)


def test_an_unknown_split_of_the_messages_names_the_splits():
    with pytest.raises(ValueError, match=r"'validation'.*\['train', 'test'\]"):
        messages.load("validation")
