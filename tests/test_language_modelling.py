"""Files as streams and streams as segments, against plain Python."""

import itertools
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_refused, refusals

from bert_zoo import text
from bert_zoo.cli import build_vocabulary
from bert_zoo.pretraining import streams as lm
from bert_zoo.pretraining import vocabularies

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT.parent / "shared" / "data" / "text"
WIKITEXT = TEXTS / "wikitext2_part.txt"
needs_wikitext = pytest.mark.skipif(
    not WIKITEXT.is_file(), reason="needs ../shared/data/text/wikitext2_part.txt"
)
CLOSED = {"unknown_token": None, "eos_token": None}


def original(paths, *, special, lowercase=False, add_eos, unknown=None, min_freq=0, max_size=None):
    """Transformer-XL's Vocab by its rules, for files of symbols with blanks between them.

    Returns its vocabulary, from the files' symbols, and the ids of the first file.
    """
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines.append([(line.lower() if lowercase else line).split() for line in file])
    counter = Counter(symbol for file in lines for line in file for symbol in line)
    vocabulary = list(special)
    for symbol, count in counter.most_common(max_size):
        if count >= min_freq and symbol not in vocabulary:
            vocabulary.append(symbol)
    ids = {symbol: index for index, symbol in enumerate(vocabulary)}
    end = ["<eos>"] if add_eos else []
    stream = [ids.get(s, ids.get(unknown)) for line in lines[0] for s in [*line, *end]]
    return vocabulary, np.array(stream, np.int32)


@pytest.fixture(params=[None, 7])
def small_blocks(request, monkeypatch):
    """Files are read in pieces of any size, with the same result."""
    if request.param:
        monkeypatch.setattr(lm, "_BLOCK_BYTES", request.param)


def write(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


# ---------------------------------------------------------------------------------------------
# Files as ids, and vocabularies
# ---------------------------------------------------------------------------------------------

CONTENTS = {
    "plain": "a b a\nc <unk> a\n",
    "blank_lines": "\n\n a \n \t \n\nb\n\n",
    "no_last_newline": "a b\nc",
    "carriage_returns": "a b\r\nc\rd\r\n\r\n\re\r",
    "unicode": "été\u3000字字 ΑΣ\u2028Σ\x1cb\x85a\n" * 9,
    "one_line": "a b c d e f g h " * 20,
    "one_word": "abcdefghijklmnopqrstuvwxyz" * 20,
}


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_of_words_has_the_originals_vocabulary_and_ids(
    content, lowercase, tmp_path, small_blocks
):
    path = write(tmp_path / "train.txt", content)
    vocabulary = vocabularies.build_vocabulary([path], lowercase=lowercase, unknown_token=None)
    for eos_at, add_eos in (("newlines", True), ("line_ends", True), ("never", False)):
        expected, ids = original([path], special=["<eos>"], lowercase=lowercase, add_eos=add_eos)
        tokenizer = text.WordLevelTokenizer(
            vocabulary, lowercase=lowercase, unknown_token=None, eos_at=eos_at
        )
        stream = lm.encode_file(path, tokenizer)
        assert vocabulary == expected
        assert stream.dtype == np.int32
        np.testing.assert_array_equal(stream, ids)


@needs_wikitext
def test_wikitext_has_the_originals_vocabulary_and_ids():
    vocabulary = vocabularies.build_vocabulary([WIKITEXT], max_size=5000, min_count=2)
    expected, ids = original(
        [WIKITEXT], special=["<eos>"], add_eos=True, unknown="<unk>", max_size=5000, min_freq=2
    )
    assert vocabulary == expected
    tokenizer = text.WordLevelTokenizer(vocabulary, eos_at="newlines")
    np.testing.assert_array_equal(lm.encode_file(WIKITEXT, tokenizer), ids)


def test_bytes_are_those_of_enwik8s_preparation(tmp_path, small_blocks):
    raw = Random(1).randbytes(500) + b"\n\n<page>\n"
    prepared = " ".join("\n" if byte == 10 else str(byte) for byte in raw)
    expected, ids = original([write(tmp_path / "train.txt", prepared)], special=[], add_eos=False)
    path = write(tmp_path / "train.txt.raw", raw)
    vocabulary = vocabularies.build_vocabulary([path], unit="byte", special=(), unknown_token=None)
    assert vocabulary == expected
    tokenizer = text.WordLevelTokenizer(vocabulary, unit="byte", **CLOSED)
    np.testing.assert_array_equal(lm.encode_file(path, tokenizer), ids)


@pytest.mark.parametrize("ends", ["", " ", "  "])
def test_characters_are_those_of_text8s_preparation(ends, tmp_path, small_blocks):
    raw = f"{ends}anarchism originated as a term  of abuse first used{ends}"
    prepared = " ".join("_" if char == " " else char for char in raw.strip())
    expected, ids = original([write(tmp_path / "train.txt", prepared)], special=[], add_eos=False)
    path = write(tmp_path / "train.txt.raw", raw)
    options = {"unit": "character", "space_token": "_"}
    vocabulary = vocabularies.build_vocabulary([path], special=(), unknown_token=None, **options)
    assert vocabulary == expected
    tokenizer = text.WordLevelTokenizer(vocabulary, **options, **CLOSED)
    np.testing.assert_array_equal(lm.encode_file(path, tokenizer), ids)


def test_characters_are_lower_cased_in_the_context_of_their_word(tmp_path, small_blocks):
    content = "ΑΣΑΣ ΟΔΟΣ\nσ字🙂" * 20
    path = write(tmp_path / "train.txt", content)
    options = {"unit": "character", "lowercase": True}
    vocabulary = vocabularies.build_vocabulary([path], special=(), unknown_token=None, **options)
    tokenizer = text.WordLevelTokenizer(vocabulary, **options, **CLOSED)
    read = "".join(vocabulary[index] for index in lm.encode_file(path, tokenizer))
    assert read == content.lower()


def test_several_files_are_counted_in_their_order(tmp_path):
    first, second = write(tmp_path / "1", "b a"), write(tmp_path / "2", "c a b d")
    assert vocabularies.build_vocabulary([first, second], special=(), unknown_token=None) == [
        *"bacd"
    ]
    assert vocabularies.count_tokens([first, second]) == {"a": 2, "b": 2, "c": 1, "d": 1}


@pytest.mark.parametrize(
    ("counts", "options", "expected"),
    [
        ({"a": 1, "<unk>": 5, "b": 7}, {}, ["<eos>", "b", "<unk>", "a"]),  # as in WikiText
        ({"a": 1, "b": 7}, {}, ["<eos>", "<unk>", "b", "a"]),
        ({"a": 9, "<unk>": 1}, {"min_count": 2}, ["<eos>", "<unk>", "a"]),
        ({"a": 9, "<eos>": 99}, {"unknown_token": None}, ["<eos>", "a"]),
        ({"a": 9, "b": 9, "c": 9}, {"max_size": 2, "unknown_token": None}, ["<eos>", "a", "b"]),
    ],
)
def test_special_symbols_come_first_and_unknown_where_its_count_puts_it(counts, options, expected):
    assert vocabularies.select_tokens(counts, **options) == expected


@pytest.mark.parametrize(
    ("content", "options", "problem"),
    [
        (b"", {}, "train.txt is empty"),
        (b"a\nb\n\xff\xfe\n", {}, r"train.txt, line 3: this is not UTF-8 .*0xff"),
        (b"a\nb\nc", CLOSED, r"train.txt does not fit the tokenizer.*\[b\]"),
        (b" \n ", {"unit": "character", "space_token": "a"}, "has only white space"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content, options, problem, tmp_path, small_blocks):
    path = write(tmp_path / "train.txt", content)
    with pytest.raises(ValueError, match=problem):
        lm.encode_file(path, text.WordLevelTokenizer(["<eos>", "<unk>", "a"], **options))


# ---------------------------------------------------------------------------------------------
# Segments
# ---------------------------------------------------------------------------------------------

SIZES = [
    (2, 1, 1),
    (2, 3, 4),
    (13, 3, 4),
    (13, 4, 3),
    (50, 4, 7),
    (64, 5, 3),
    (65, 8, 8),
    (9, 1, 4),
]


def batches(*args, **options):
    return [
        {name: value.numpy() for name, value in batch.items()}
        for batch in lm.segments(*args, **options)
    ]


@pytest.mark.parametrize(("size", "batch_size", "length"), SIZES)
def test_every_token_but_the_first_is_a_label_once_after_the_token_before_it(
    size, batch_size, length
):
    stream = np.arange(1000, 1000 + size)
    pairs = []
    for batch in batches(stream, batch_size, length):
        labelled = batch["labels"] != -100
        assert (batch["token_ids"][~labelled] == 0).all()
        pairs += zip(batch["token_ids"][labelled], batch["labels"][labelled], strict=True)
    assert sorted(pairs) == list(itertools.pairwise(stream))


@pytest.mark.parametrize(("size", "batch_size", "length"), SIZES)
def test_each_row_is_contiguous_and_padded_at_its_end_only(size, batch_size, length):
    labels = np.concatenate([b["labels"] for b in batches(np.arange(size), batch_size, length)], 1)
    lengths = []
    for row in labels:
        held = row[row != -100]
        assert (row[: len(held)] == held).all()
        assert (np.diff(held) == 1).all()
        lengths.append(len(held))
    assert max(lengths) - min(lengths) <= 1


def test_a_later_start_gives_the_rest_of_the_same_pass():
    stream = np.random.default_rng(0).integers(0, 50, 101)
    whole = batches(stream, 4, 5)
    for first_step in range(len(whole) + 1):
        rest = batches(stream, 4, 5, first_step=first_step)
        assert len(rest) == len(whole) - first_step
        for ours, theirs in zip(rest, whole[first_step:], strict=True):
            assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_the_stream_starts_in_the_first_batch_alone():
    starts = [batch["starts_stream"].tolist() for batch in batches(np.arange(30), 2, 5)]
    assert starts == [[1, 1], [0, 0], [0, 0]]


def test_shapes_and_size_are_known_before_anything_runs():
    dataset = lm.segments(np.arange(50), 4, 7)
    assert dataset.cardinality() == 2
    assert dataset.element_spec == {
        "token_ids": tf.TensorSpec([4, 7], tf.int32),
        "labels": tf.TensorSpec([4, 7], tf.int32),
        "starts_stream": tf.TensorSpec([4], tf.int32),
    }


def segments(stream, *args, **options):
    return lambda: lm.segments(np.array(stream), *args, **options)


@refusals(
    (segments([5], 1, 1), "1 tokens are too few for a batch"),
    (segments(range(20), 0, 5), "batch_size is 0"),
    (segments(range(20), 4, 0), "segment_length is 0"),
    (segments(range(20), 2, 5, first_step=3), "first_step is 3 | 0 to 2"),
    (segments(range(20), 2, 5, first_step=-1), "first_step is -1"),
    (segments([[1, 2]], 1, 1), "shape (1, 2)"),
    (segments([0.5, 1.0], 1, 1), "array of float64"),
    (lambda: vocabularies.count_tokens([Path("absent.txt")]), "no file | absent.txt"),
    (lambda: vocabularies.count_tokens([], unit="letter"), "unit is 'letter'"),
)
def test_segments_and_counts_that_cannot_be_are_refused(call, words):
    assert_refused(call, words)


# ---------------------------------------------------------------------------------------------
# The tool
# ---------------------------------------------------------------------------------------------


def test_the_tool_writes_a_vocabulary_that_reads_its_texts(tmp_path, capsys):
    path = write(tmp_path / "train.txt", "b a a\n<unk> a b c\n")
    arguments = [f"--output={tmp_path / 'out'}", "--min_count=2", str(path)]
    build_vocabulary.PROGRAM.run(build_vocabulary.main, arguments)
    tokenizer = text.tokenizer_from_dir(tmp_path / "out", "transformer_xl")
    assert tokenizer.vocabulary == ("<eos>", "<unk>", "a", "b")
    assert lm.encode_file(path, tokenizer).tolist() == [3, 2, 2, 0, 1, 2, 3, 1, 0]
    output = capsys.readouterr().out
    assert "4 tokens" in output and "covers 85.7143%" in output and "'a' 3, 'b' 2" in output
