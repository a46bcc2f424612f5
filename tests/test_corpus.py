"""Corpora: sources of several kinds give the documents that they hold, whole and in order."""

import gzip
import json
import random
import types

import pytest
from helpers import assert_refused, refusals

from bert_zoo.pretraining.corpus import LONGEST, PARTS, Corpus, split_sentences

SENTENCES = "One day.\nIt rained.\n\n\nThe sun came.\nSo did we.\nAnd you.\n"
PARAGRAPHS = (
    "One day. It rained. We ran.\nThe sun came. It was hot.\n\nNo rain. Next day.\nNone. At all.\n"
)
DOCUMENTS = "One day. It rained. We ran.\nThe sun came. It was hot.\n"


def written(path, text):
    path.write_bytes(text.encode("utf-8"))
    return path


def read(source, **options):
    return list(Corpus(source, **options))


@pytest.mark.parametrize(
    "text, form, expected",
    [
        (SENTENCES, "sentences", [["One day.", "It rained."], ["The sun came.", "So did we.", "And you."]]),
        (
            PARAGRAPHS,
            "paragraphs",
            [
                ["One day.", "It rained.", "We ran.", "The sun came.", "It was hot."],
                ["No rain.", "Next day.", "None.", "At all."],
            ],
        ),
        (
            DOCUMENTS,
            "documents",
            [["One day.", "It rained.", "We ran."], ["The sun came.", "It was hot."]],
        ),
        ("One day.\r\nIt rained.", "sentences", [["One day.", "It rained."]]),
        ("A cat. A dog.\n\nA cow. A hen.\n\nMice.\n", "documents", [["A cat.", "A dog."], ["A cow.", "A hen."], ["Mice."]]),
    ],
)  # fmt: skip
def test_text_is_read_in_the_form_that_it_has(tmp_path, text, form, expected):
    path = written(tmp_path / "a.txt", text)
    corpus = Corpus(path)
    assert corpus.form == form
    assert list(corpus) == list(corpus) == expected  # every pass is the same
    assert corpus.counts.documents == len(expected)
    assert corpus.counts.sentences == sum(map(len, expected))
    assert read(path, form=form) == expected


def test_form_overrules_what_the_text_looks_like(tmp_path):
    path = written(tmp_path / "a.txt", SENTENCES)
    assert len(read(path, form="documents")) == 5


def test_files_folders_patterns_and_lists(tmp_path):
    (tmp_path / "inner").mkdir()
    one = written(tmp_path / "b.txt", "B.\n")
    two = written(tmp_path / "inner" / "a.txt", "A.\n")
    written(tmp_path / ".hidden", "no")
    # The end of a file ends a document.
    assert read(tmp_path) == [["B."], ["A."]]
    assert read(str(tmp_path / "**" / "*.txt")) == [["B."], ["A."]]
    assert read([two, str(one)]) == [["A."], ["B."]]


def test_json_lines(tmp_path):
    records = [{"text": "One. Two.\nThree."}, {"text": ["As it is. Whole.", "Two."]}, {"text": ""}]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    assert read(path) == [["One.", "Two.", "Three."], ["As it is. Whole.", "Two."]]
    renamed = written(tmp_path / "b.txt", '{"body": "One."}\n')
    assert read(renamed, form="json_lines", text_field="body") == [["One."]]


def test_packed_files_are_unpacked_while_they_are_read(tmp_path):
    path, lines = tmp_path / "text.txt.gz", tmp_path / "lines.jsonl.gz"
    path.write_bytes(gzip.compress("Grüße.\nZwei.\n\nDrei.\n".encode("latin-1")))
    assert read(path, encoding="latin-1") == [["Grüße.", "Zwei."], ["Drei."]]
    lines.write_bytes(gzip.compress(b'{"text": "One. Two."}\n' * 2))
    assert read(lines) == [["One.", "Two."]] * 2


def test_data_sets(monkeypatch):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def load(name, split):
        assert (name, split) == ("some/thing", "test")
        return tf.data.Dataset.from_tensor_slices({"text": ["One. Two.", "Three."]})

    there = types.SimpleNamespace(is_prepared=lambda: True)
    monkeypatch.setattr(tfds, "builder", lambda name: there)
    monkeypatch.setattr(tfds, "load", load)
    assert read("tfds:some/thing", split="test") == [["One.", "Two."], ["Three."]]
    monkeypatch.setattr(tfds, "load", lambda *_, **__: 1 / 0)
    words = "could not provide some/thing"
    assert_refused(lambda: read("tfds:some/thing"), words, RuntimeError)


def test_iterables():
    texts = ["One. Two.", "Three.\nFour."]
    assert read(iter(texts)) == [["One.", "Two."], ["Three.", "Four."]]
    assert read([["As it is. Whole.", " "], ["Two."]]) == [["As it is. Whole."], ["Two."]]


PACKED = gzip.compress(b"One.\nTwo.\n")
BAD = {
    "a.txt": b"One.\n\nTwo.\n\xff\n",
    "a.txt.gz": gzip.compress(b"\xff"),
    "cut.txt.gz": PACKED[:-9],
    "plain.txt.gz": b"One.\n",
    "b.txt": b'{"body": "One."}\n',
    "c.jsonl": b'{"text": "One."}\n{"text": \n',
    "rows-00000-of-00001.tfrecord": b"",
}


@refusals(
    (lambda d: read(d / "a.txt", form="sentences"), "a.txt, line 4: this is not UTF-8"),
    (lambda d: read(d / "a.txt.gz"), "a.txt.gz, line 1: this is not UTF-8 | --encoding"),
    (lambda d: read(d / "cut.txt.gz"), "cut.txt.gz, line | the file is not complete gzip"),
    (lambda d: read(d / "plain.txt.gz"), "gz, line 1: the file is not complete gzip"),
    (lambda d: read(d / "b.txt", form="json_lines"), "b.txt, line 1: 'text' is missing"),
    (lambda d: read(d / "c.jsonl"), "c.jsonl, line 2"),
    (lambda d: read(d / "rows-00000-of-00001.tfrecord"), "--form masked_rows"),
    (lambda d: read(["One. Two."]), "iter(texts)"),
    (lambda d: read(iter([3])), "A document is 3"),
    (lambda d: Corpus(d, form="word"), "form"),
    (lambda d: Corpus(d, part="test"), "part"),
    (lambda d: Corpus(d, held_out=1), "held_out"),
    (lambda d: Corpus(d, drop_duplicates="documents"), "drop_duplicates"),
)
def test_an_error_names_file_and_line_or_option(call, words, tmp_path):
    for name, content in BAD.items():
        (tmp_path / name).write_bytes(content)
    assert_refused(lambda: call(tmp_path), words)


def test_duplicates_are_counted_and_dropped_by_option():
    documents = [["A.", "B."], ["A.", "C."], ["A.", "B."], ["B."], ["D.", "D."]]
    corpus = Corpus(documents)
    assert list(corpus) == documents
    assert (corpus.counts.duplicate_documents, corpus.counts.duplicate_sentences) == (1, 3)
    assert "1 duplicate documents" in str(corpus.counts)
    assert read(documents, drop_duplicates=["documents"]) == [*documents[:2], *documents[3:]]
    both = Corpus(documents, drop_duplicates=["documents", "sentences"])
    assert list(both) == [["A.", "B."], ["C."], ["D."]]
    assert (both.counts.documents, both.counts.sentences) == (3, 4)


def few(path, documents, form):
    """Writes documents in one of the forms."""
    if form == "sentences":
        path.write_text("\n\n".join(map("\n".join, documents)))
    elif form == "documents":
        path.write_text("\n".join(map(" ".join, documents)))
    else:
        path = path.with_suffix(".jsonl")
        path.write_text("\n".join(json.dumps({"text": each}) for each in documents))
    return path


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("form", ["sentences", "documents", "json_lines"])
def test_both_parts_of_a_few_documents_have_two(tmp_path, share, form):
    documents = [[f"One day {i}.", "It rained."] for i in range(10)]
    path = few(tmp_path / "few.txt", documents, form)
    train, held = (Corpus(path, form, held_out=share, part=part) for part in PARTS)
    parts = list(train), list(held)
    assert sorted(parts[0] + parts[1]) == sorted(documents) and min(map(len, parts)) >= 2
    assert train.division == held.division
    if share == 0.01:
        assert train.division == "Of 10 documents 2 are held out; a share of 0.01 would be 0."


@pytest.mark.parametrize(("number", "lines", "size"), [(1, 4, 1), (1, 100, 5), (3, 30, 4)])
@pytest.mark.parametrize("form", ["sentences", "documents", "json_lines"])
def test_lines_of_fewer_documents_are_held_out(tmp_path, number, lines, size, form):
    documents = [[f"Line {i} of {n}." for i in range(lines)] for n in range(number)]
    path = few(tmp_path / "few.txt", documents, form)
    train, held = (Corpus(path, form, held_out=0.05, part=part) for part in PARTS)
    parts = list(train), list(held)
    blocks = [each[i : i + size] for each in documents for i in range(0, lines, size)]
    assert sorted(parts[0] + parts[1]) == sorted(blocks) and min(map(len, parts)) >= 2
    said = f"too few documents to hold some out, {number}, so every {size} lines or sentences"
    assert said in train.division


@pytest.mark.parametrize("documents", [[["One line"]], [["Two"], ["lines"]]])
def test_a_text_too_short_to_divide_stays_whole(tmp_path, documents):
    path = few(tmp_path / "few.txt", documents, "sentences")
    parts = [read(path, held_out=0.05, part=part) for part in PARTS]
    assert sorted(parts[0] + parts[1]) == sorted(documents)
    assert all(parts) == (len(documents) > 1)


def test_documents_that_can_be_read_once_are_divided_by_their_hash_alone():
    documents = [["One day."], ["It rained."]]
    assert read(iter(documents), held_out=0.0001) == documents


def test_documents_are_set_aside_by_their_content():
    documents = [[f"Document {i}.", "More."] for i in range(2000)]
    train = Corpus(documents, held_out=0.1)
    kept, held = list(train), read(documents, held_out=0.1, part="held_out")
    assert sorted(kept + held) == sorted(documents)
    assert 150 < len(held) < 250
    assert train.counts.other_part == len(held)
    # Whatever else there is, and in whatever order.
    assert sorted(read(documents[1000:][::-1] * 2, held_out=0.1, part="held_out")) == sorted(
        [d for d in held if d in documents[1000:]] * 2
    )


def test_nothing_of_a_long_document_is_lost(tmp_path):
    lines = [f"Sentence number {i} of a very long book." for i in range(60_000)]
    path = written(tmp_path / "book.txt", "\n".join(lines))
    corpus = Corpus(path)
    parts = list(corpus)
    assert [line for part in parts for line in part] == lines
    assert len(parts) == corpus.counts.cut_documents + 1 == 3
    assert max(sum(map(len, part)) for part in parts) <= 1 << 20
    # On one line, too.
    single = written(tmp_path / "line.txt", " ".join(lines))
    assert [line for part in read(single, form="documents") for line in part] == lines


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith went to Washington D.C. in Jan. 2004. ", "He paid $3.50! ", '"Really?" she asked. ',
         "It was 4 p.m. on Sunday. ", "The U.S. Army (see Fig. 3) came.  ", "J. K. Rowling, e.g., wrote. ", "So did I. ", "No."],
        ["He said: “Go.” ", "They went... ", "What?! ", "``Yes.'' ", "It is."],
        ["今天天气很好。", "我们去公园吧！」", "好吗？"],
        ["नमस्ते। ", "आप कैसे हैं?"],
        ["no end"],
    ],
)  # fmt: skip
def test_sentences(sentences):
    assert split_sentences("".join(sentences)) == sentences


def test_sentences_keep_every_character_in_linear_time():
    random.seed(1)
    some = [*"aB .!?\n\t\"'()…。！？\u2028\u0085\u00a0é中\u200d😀؟।", "Mr. ", "e.g. ", "3.5"]
    for _ in range(2000):
        text = "".join(random.choices(some, k=random.randint(0, 60)))
        assert "".join(split_sentences(text)) == text
    for hard in ("a", "a ", ".", ". ", '."', '. "', "。"):
        pieces = split_sentences(hard * 300_000)
        assert "".join(pieces) == hard * 300_000
        assert max(map(len, pieces)) <= LONGEST
