"""Tagged words in columns, and the schemes of tags."""

import itertools
import re
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TAGS, TAGS)))
def test_each_scheme_converts_to_each(source, target):
    assert tagging.convert_tags(TAGS[source], target) == TAGS[target]


@pytest.mark.parametrize("scheme", TAGS)
def test_all_short_sentences_survive_a_scheme(scheme):
    # All ways to cut five words into spans of two types and words outside.
    for tags in itertools.product(["O", "B-a", "I-a", "B-b", "I-b"], repeat=5):
        sentence_spans = tagging.spans(tags)
        assert tagging.spans(tagging.span_tags(sentence_spans, 5, scheme)) == sentence_spans


def test_tags_that_break_every_scheme_are_read_as_conlleval_reads_them():
    tags = ["I-a", "I-b", "O", "E-a", "I-a", "S-a", "B-a", "E-b"]
    assert tagging.spans(tags) == [
        Span(0, 1, "a"),
        Span(1, 2, "b"),
        Span(3, 4, "a"),
        Span(4, 5, "a"),
        Span(5, 6, "a"),
        Span(6, 7, "a"),
        Span(7, 8, "b"),
    ]


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
    with pytest.raises(ValueError, match=r"'BIO' is not a tag scheme; choose one of \['IOB2', "):
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


def test_columns_by_number_and_by_name(tmp_path):
    path = write(tmp_path, FILE)
    by_number = tagging.read_tagging(path, word_column=0, tag_column=1)
    by_name = tagging.read_tagging(
        path, word_column="word", tag_column="pos", columns=("word", "pos", "ner")
    )
    assert by_number == by_name
    assert by_number.label_names == ("NN", "NNP") and by_number.scheme is None


def test_words_without_tags(tmp_path):
    split = tagging.read_tagging(write(tmp_path, "a\nb\n\nc\n"), tag_column=None)
    assert split.words == [["a", "b"], ["c"]] and split.labels is None


def test_words_in_tab_separated_columns_may_hold_spaces(tmp_path):
    path = write(tmp_path, "New York\tB-LOC\n 1\u00a02 \tO\n")
    assert tagging.read_tagging(path).words == [["New York", " 1\u00a02 "]]


def test_unicode_spaces_do_not_cut_columns(tmp_path):
    path = write(tmp_path, "1\u00a02 O\n\u3000 O\na\x85b O\n")
    assert tagging.read_tagging(path).words == [["1\u00a02", "\u3000", "a\x85b"]]


def test_the_order_of_names_does_not_depend_on_the_order_of_lines(tmp_path):
    tags = ["O", "I-b", "B-b", "E-a", "B-a", "S-b", "E-b"]
    sentences = ["x B-b\nx I-b\nx E-b\n", "x S-b\nx O\n", "x B-a\nx E-a\n"]
    first = tagging.read_tagging(write(tmp_path, "\n".join(sentences)))
    second = tagging.read_tagging(write(tmp_path, "\n".join(reversed(sentences))))
    assert first.label_names == second.label_names
    assert first.label_names == ("O", "B-a", "E-a", "B-b", "I-b", "E-b", "S-b")
    assert set(first.label_names) == set(tags)


def test_a_file_is_converted_to_a_scheme(tmp_path):
    path = write(tmp_path, "a I-x\nb B-x\nc O\n")
    assert tagging.read_tagging(path).scheme == "IOB1"
    split = tagging.read_tagging(path, scheme="IOBES")
    assert split.scheme == "IOBES" and split.label_names == ("O", "S-x")
    assert split.labels == [[1, 1, 0]]


def test_given_names_give_the_ids(tmp_path):
    names = ("B-PER", "I-PER", "O", "B-ORG", "I-ORG")
    split = tagging.read_tagging(write(tmp_path, FILE), label_names=names)
    assert split.label_names == names and split.labels == [[3, 2], [0, 1]]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (FILE + "alone\n", {}, ", line 9: found 1 columns in 'alone', expected 3 as on the first"),
        (FILE + "a b c d\n", {}, ", line 9: found 4 columns in 'a b c d', expected 3"),
        (FILE, {"columns": ("word", "ner")}, ", line 3: found 3 columns in 'U.N. NNP B-ORG', "
         "expected 2 (['word', 'ner'])"),
        ("a\tO\n\tO\n", {}, r", line 2: column 0 of '\tO' is empty"),
        (FILE, {"tag_column": 3}, ": there is no column 3; the file has 3 columns"),
        (FILE, {"tag_column": "ner"}, ": there is no column 'ner'; the columns: they have no names"),
        (FILE, {"tag_column": "net", "columns": ("w", "pos", "ner")},
         ": there is no column 'net'; the columns: ['w', 'pos', 'ner']"),
        (FILE, {"label_names": ("O", "B-PER", "I-PER")},
         ", line 3: the tag is 'B-ORG', expected one of ['O', 'B-PER', 'I-PER']. Did you mean"),
        (FILE, {"label_names": ("O", "O")}, "label_names must differ from each other"),
        (FILE, {"tag_column": 1, "scheme": "IOB2"}, ", line 3: 'NNP' is not a tag of a scheme"),
        ("a B-x\nb I-x\n\nc I-x\n", {"scheme": "IOBES"},
         ", line 4: the tag 'I-x' breaks IOB2, which the tags before it follow"),
        (FILE, {"scheme": "BIO"}, "'BIO' is not a tag scheme"),
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


def test_a_files_own_encoding_can_be_named(tmp_path):
    path = write(tmp_path, b"caf\xe9 O\n")
    assert tagging.read_tagging(path, encoding="latin-1").words == [["café"]]


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


def test_unknown_names_and_missing_files_are_named(tmp_path):
    with pytest.raises(
        ValueError, match=r"'conll' is not a tagging task; choose one of \['conll20"
    ):
        tagging.load_conll("conll", "train")
    with pytest.raises(
        ValueError, match=r"no split 'validation'; choose one of \['train', 'test'\]"
    ):
        tagging.load_conll("conll2000", "validation")
    with pytest.raises(FileNotFoundError, match=r"eng\.testb or .*test\.txt\. data_dir must be"):
        tagging.load_conll("conll2003", "test", tmp_path)
    with pytest.raises(RuntimeError, match=r"does not have conll2000\. Pass the folder"):
        tagging.load_conll("conll2000", "train")


def test_conll_2003_from_tfds(fake_tfds):
    def load(name, split):
        assert (name, split) == ("conll2003", "dev")
        empty = {"tokens": np.array([], object), "ner": np.array([], np.int64)}
        return [{"tokens": np.array(["É".encode(), b"b"], object), "ner": np.array([7, 8])}, empty]

    fake_tfds(load)
    split = tagging.load_conll("conll2003", "validation")
    assert split.words == [["É", "b"]]
    assert [split.label_names[i] for i in split.labels[0]] == ["B-MISC", "I-MISC"]


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
