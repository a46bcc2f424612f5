"""Tagged words in columns, and the schemes of tags."""

import itertools
import re
from pathlib import Path

import pytest

from bert_zoo.data import tagging
from bert_zoo.data.tagging import Span

SHARED = Path(__file__).parents[2] / "shared" / "data" / "tagging"

# Spans of a sentence of seven words, and their tags in each scheme.
SPANS = [Span(0, 1, "PER"), Span(1, 3, "PER"), Span(3, 6, "LOC")]
TAGS = {
    "IOB1": ["I-PER", "B-PER", "I-PER", "I-LOC", "I-LOC", "I-LOC", "O"],
    "IOB2": ["B-PER", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-LOC", "O"],
    "IOBES": ["S-PER", "B-PER", "E-PER", "B-LOC", "I-LOC", "E-LOC", "O"],
}


@pytest.mark.parametrize("scheme", TAGS)
def test_spans_and_tags_of_each_scheme(scheme):
    assert tagging.spans(TAGS[scheme]) == SPANS
    assert tagging.span_tags(SPANS, 7, scheme) == TAGS[scheme]
    assert tagging.recognise_scheme([TAGS[scheme]]) == scheme
    for source in TAGS:
        assert tagging.convert_tags(TAGS[source], scheme) == TAGS[scheme]
    # All ways to cut five words into spans of two types and words outside.
    for tags in itertools.product(["O", "B-a", "I-a", "B-b", "I-b"], repeat=5):
        sentence_spans = tagging.spans(tags)
        assert tagging.spans(tagging.span_tags(sentence_spans, 5, scheme)) == sentence_spans


def test_types_may_hold_hyphens_and_may_be_missing():
    assert tagging.convert_tags(["B-a-b", "I-a-b", "O"], "IOBES") == ["B-a-b", "E-a-b", "O"]
    assert tagging.convert_tags(["B", "I", "B"], "IOBES") == ["B", "E", "S"]


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["O"], ["I-a", "I-a"]], "IOB1"),
        ([["O"], ["B-a", "I-a"]], "IOB2"),
        ([["B-a", "E-a"]], "IOBES"),
        ([["O", "O"]], "IOB2"),
        ([["B-a"], ["I-a"]], None),
        ([["B-a", "I-b"]], None),
        ([["NN", "DT"]], None),
        ([["B-a", "O-a"]], None),
        ([["-"]], None),
    ],
)
def test_schemes_are_recognised(sentences, scheme):
    assert tagging.recognise_scheme(sentences) == scheme


def test_tags_of_no_scheme_and_unknown_schemes_are_refused():
    with pytest.raises(ValueError, match="'NN' is not a tag of a scheme"):
        tagging.convert_tags(["O", "NN"], "IOB2")
    with pytest.raises(ValueError, match=r"no tag scheme 'BIO'; choose one of \['IOB2', "):
        tagging.convert_tags(["O"], "BIO")


# --- Files ---

FILE = "-DOCSTART- -X- O\n\nU.N. NNP B-ORG\nofficial NN O\n\n\nJohn NNP B-PER\nSmith NNP I-PER\n"


def write(tmp_path, content, name="a.txt"):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [" ", "   ", "\t"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_words_and_tags_of_a_file(tmp_path, separator, line_end, end):
    content = FILE.removesuffix("\n") + end
    path = write(tmp_path, content.replace(" ", separator).replace("\n", line_end))
    split = tagging.read_tagging(path)
    assert split.words == [["U.N.", "official"], ["John", "Smith"]]
    assert split.label_names == ("O", "B-ORG", "B-PER", "I-PER")
    assert split.labels == [[1, 0], [2, 3]]
    assert split.scheme == "IOB2" and len(split) == 2


@pytest.mark.parametrize(
    ("content", "options", "words", "labels", "names"),
    [
        (FILE, {"tag_column": 1}, [["U.N.", "official"], ["John", "Smith"]], [[1, 0], [1, 1]], ("NN", "NNP")),
        (FILE, {"word_column": -2, "tag_column": 0, "label_names": ("John", "Smith", "U.N.", "official")},
         [["NNP", "NN"], ["NNP", "NNP"]], [[2, 3], [0, 1]], ("John", "Smith", "U.N.", "official")),
        ("a\nb\n\nc\n", {"tag_column": None}, [["a", "b"], ["c"]], None, ()),
        # Tabs cut columns where the first line has one, and words may hold spaces; Unicode's always.
        ("New York\tB-LOC\n 1\u00a02 \tO\n", {}, [["New York", " 1\u00a02 "]], [[1, 0]], ("O", "B-LOC")),
        ("1\u00a02 O\n\u3000 O\na\x85b O\n", {}, [["1\u00a02", "\u3000", "a\x85b"]], [[0, 0, 0]], ("O",)),
        # Names in an order of their own.
        ("x B-b\nx I-b\nx E-b\n\nx S-b\nx O\n\nx B-a\nx E-a\n", {}, [["x"] * 3, ["x"] * 2, ["x"] * 2],
         [[3, 4, 5], [6, 0], [1, 2]], ("O", "B-a", "E-a", "B-b", "I-b", "E-b", "S-b")),
        ("x B-a\nx E-a\n\nx S-b\nx O\n", {}, [["x"] * 2, ["x"] * 2], [[1, 2], [3, 0]], ("O", "B-a", "E-a", "S-b")),
        (FILE, {"label_names": ("B-PER", "I-PER", "O", "B-ORG")}, [["U.N.", "official"], ["John", "Smith"]],
         [[3, 2], [0, 1]], ("B-PER", "I-PER", "O", "B-ORG")),
        (FILE, {"label_names": ("O", "B-ORG"), "allow_unseen": True}, [["U.N.", "official"], ["John", "Smith"]],
         [[1, 0], [2, 3]], ("O", "B-ORG", "B-PER", "I-PER")),
        ("a I-x\nb B-x\nc O\n", {"scheme": "IOBES"}, [["a", "b", "c"]], [[1, 1, 0]], ("O", "S-x")),
        (b"caf\xe9 O\n", {"encoding": "latin-1"}, [["café"]], [[0]], ("O",)),
    ],
)  # fmt: skip
def test_files_are_read_as_asked_for(tmp_path, content, options, words, labels, names):
    split = tagging.read_tagging(write(tmp_path, content), **options)
    assert (split.words, split.labels, split.label_names) == (words, labels, names)
    assert split.scheme == options.get("scheme", split.scheme)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (FILE + "alone\n", {}, ", line 9: found 1 columns in 'alone', expected 3 as on the first"),
        (FILE + "a b c d\n", {}, ", line 9: found 4 columns in 'a b c d', expected 3"),
        ("a\tO\n\tO\n", {}, r", line 2: column 0 of '\tO' is empty"),
        (FILE, {"tag_column": 3}, ": there is no column 3; the file has 3 columns"),
        (FILE, {"label_names": ("O", "B-PER", "I-PER")},
         ", line 3: the tag is 'B-ORG', expected one of ['O', 'B-PER', 'I-PER']. Did you mean"),
        (FILE, {"label_names": ("O", "O")}, "label_names must differ from each other"),
        (FILE, {"tag_column": 1, "scheme": "IOB2"}, ", line 3: the tag 'NNP' breaks IOB2, and no other"),
        ("a B-x\nb I-x\n\nc I-x\n", {"scheme": "IOBES"},
         ", line 4: the tag 'I-x' breaks IOB2, and no other scheme fits"),
        (FILE, {"scheme": "BIO"}, "There is no tag scheme 'BIO'"),
        ("", {}, " has no words"),
        ("\n-DOCSTART- -X- O\n\n", {}, " has no words"),
        (b"caf\xe9 O\n", {}, ", line 1: this is not UTF-8"),
        ("a O\n" + "b" * 99 + " O\n", {"max_line_bytes": 50}, ", line 2: the line is longer than"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(tmp_path, content, options, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=re.escape(message)) as e:
        tagging.read_tagging(path, **options)
    if message[0] in ",: ":
        assert str(e.value).startswith(f"{path}{message}")


# --- The shared tasks ---


def test_conll_2003_is_read_from_either_kind_of_file(tmp_path):
    row = "{} NNP I-NP {}\n"
    official, passed_on = tmp_path / "official", tmp_path / "passed_on"
    official.mkdir()
    passed_on.mkdir()
    start = "-DOCSTART- -X- O O\n\n"
    write(official, start + row.format("EU", "I-ORG") + row.format("UN", "B-ORG"), "eng.testa")
    write(passed_on, start + row.format("EU", "B-ORG") + row.format("UN", "B-ORG"), "valid.txt")
    split = tagging.load_conll("conll2003", "validation", official)
    assert split == tagging.load_conll("conll2003", "validation", passed_on)
    assert split.label_names[:3] == ("O", "B-PER", "I-PER") and split.labels == [[3, 3]]
    in_iobes = tagging.load_conll("conll2003", "validation", official, scheme="IOBES")
    assert [in_iobes.label_names[i] for i in in_iobes.labels[0]] == ["S-ORG", "S-ORG"]
    assert len(in_iobes.label_names) == 17


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("conll", "train", "none"), ValueError, r"no tagging task 'conll'; choose one of \['conll20"),
        (("conll2000", "validation", "none"), ValueError, r"no split 'validation'; .*\['train', 'test'\]"),
        (("conll2003", "test", "none"), FileNotFoundError, r"eng\.testb or .*test\.txt\. data_dir must"),
    ],
)  # fmt: skip
def test_unknown_names_and_missing_files_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        tagging.load_conll(*arguments)


def test_the_tags_are_those_of_tensorflow_datasets():
    lib = pytest.importorskip(
        "tensorflow_datasets.core.dataset_builders.conll.conll_dataset_builder_utils"
    )
    types_of = {name: task.types for name, task in tagging.DATA_SETS.items()}
    assert tagging.scheme_names(types_of["conll2003"], "IOB2") == lib.NER_TAGS
    assert tagging.scheme_names(types_of["conll2000"], "IOB2") == lib.CHUNK_TAGS


@pytest.mark.parametrize(
    ("split", "sentences", "words", "chunks"),
    [("train", 8936, 211727, 106978), ("test", 2012, 47377, 23852)],
)
def test_real_conll_2000_has_its_known_counts(split, sentences, words, chunks):
    if not SHARED.is_dir():
        pytest.skip("CoNLL-2000's files are not at ../shared/data/tagging.")
    result = tagging.load_conll("conll2000", split, SHARED)
    assert (len(result), sum(map(len, result.words))) == (sentences, words)
    assert len(result.label_names) == 23 and result.scheme == "IOB2"
    tags = [[result.label_names[i] for i in row] for row in result.labels]
    assert sum(len(tagging.spans(row)) for row in tags) == chunks
