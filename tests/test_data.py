"""The messages that ship with the package; what readers of data import."""

import collections
import hashlib
import re
from importlib import resources

import pytest
from helpers import run_program

from bert_zoo.data import messages

# Files in which no message is another's near duplicate (Jaccard's index of their words below 0.5),
# all are NFC, have 3 to 35 words and no other line end than "\n", and intents are mixed.
CHECKED = {
    "train": "c18f370662c630549547f623172226127705b3736f2f8fdd75f0e374c47ee452",
    "test": "ca0de9eeeb948e4fc449ee33d634ee42ca9fb194d1a1ef02f7e27bb1aa348910",
}


def test_importing_readers_and_metrics_imports_neither_tensorflow_nor_keras():
    code = (
        "import sys, bert_zoo.metrics; "
        "from bert_zoo.data import choices, files, glue, messages, squad, tables, tagging; "
        "print({'tensorflow', 'tensorflow_datasets', 'keras', 'jax', 'pandas'} & set(sys.modules))"
    )
    assert run_program("-c", code).strip() == "set()"


@pytest.mark.parametrize(("split", "per_label"), [("train", 75), ("test", 15)])
def test_every_intent_has_the_same_number_of_messages(split, per_label):
    content = (resources.files("bert_zoo.data") / "messages" / f"{split}.tsv").read_bytes()
    assert hashlib.sha256(content).hexdigest() == CHECKED[split]
    texts, label_ids = messages.load(split)
    header, *rows = content.decode("utf-8").splitlines()
    assert header == "label\ttext"
    assert rows == [f"{messages.LABELS[i]}\t{t}" for i, t in zip(label_ids, texts, strict=True)]
    counts = collections.Counter(label_ids)
    assert counts == dict.fromkeys(range(len(messages.LABELS)), per_label)


def test_labels_are_sorted_readable_names_and_splits_are_two():
    assert list(messages.LABELS) == sorted(set(messages.LABELS))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in messages.LABELS)
    with pytest.raises(ValueError, match=r"'validation'.*\['train', 'test'\]"):
        messages.load("validation")
