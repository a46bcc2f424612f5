"""Texts are read in NumPy, without TensorFlow, as they are in its graph."""

import functools
import logging

import numpy as np
import pytest
import tensorflow as tf
import text_samples
from helpers import ALL_GOLDEN, small_sentencepiece

pytest.importorskip("tokenizers")
from bert_zoo.registry import registry
from bert_zoo.text import (
    Preprocessor,
    SentencePieceTokenizer,
    preprocessor_from_dir,
)
from bert_zoo.text.numpy_packing import NumpyPacker
from bert_zoo.text.preprocessor import (
    LanguageModelPreprocessor,
    pack_words,
    token_labels,
    word_batch,
)
from bert_zoo.text.windows import (
    NumpyLanguageModelPreprocessor,
    NumpyPreprocessor,
    answer_positions,
    document_windows,
    no_answer_positions,
    question_windows,
    reader_of,
)

# WordPiece, byte-level BPE, SentencePiece with pieces that are split, NFC and padding on the left, BPE of words.
FAMILIES = ("bert", "roberta", "albert", "modernbert", "xlnet", "deberta", "gpt")
SAMPLES = [
    *(t for t in text_samples.WRITTEN_TEXTS if "x" * 50 not in t),
    "In 1,999 or 2, 3,000,000 and 1990, we saw 12,5.",
    "\tA capital\u00a0city\u3000\u3000and   blanks \n",
    *text_samples.random_texts(80),
]
QUESTIONS = ["What is it, in 1,000 words?", "who", "", "Where " * 40]
CONTEXTS = [
    "It is a long text. " * 30,
    "Nobody, in 2,001.",
    " ",
    "Here, or there. Naïve café! " * 9,
]


def samples(family: str) -> list[str]:
    """Texts on which the family's tokenizer in Rust gives the same ids."""
    if family in ("albert", "xlnet"):
        return [text for text in SAMPLES if text.isascii()]
    return SAMPLES


@functools.cache
def preprocessors(family: str, **options):
    """The family's preprocessor in the graph, and the one in NumPy that is made of it."""
    if options:
        in_graph = preprocessors(family)[0].with_options(**options)
    else:
        options = {"sequence_length": 24, "report_truncation": False}
        in_graph = preprocessor_from_dir(ALL_GOLDEN / family / "encoder", family, **options)
    return in_graph, numpy_twin(in_graph)


def numpy_twin(in_graph):
    is_lm = isinstance(in_graph, LanguageModelPreprocessor)
    kind = NumpyLanguageModelPreprocessor if is_lm else NumpyPreprocessor
    return kind(in_graph.tokenizer, **in_graph.get_config())


def assert_equal(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert isinstance(found[name], np.ndarray) and found[name].dtype == np.int32, name
        np.testing.assert_array_equal(found[name], value.numpy(), err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_the_graph(family):
    in_graph, in_numpy = preprocessors(family)
    texts = samples(family)
    assert_equal(in_numpy(texts), in_graph(texts))
    assert_equal(in_numpy("one text"), in_graph("one text"))
    assert_equal(in_numpy([]), in_graph([]))
    if in_graph.packer.layout.pair:
        pair = (texts, texts[::-1])
        assert_equal(in_numpy(pair), in_graph(pair))
    assert_equal(in_numpy.scored(texts[:9]), in_graph.scored(texts[:9]))
    inputs = in_numpy(texts[:3]), in_graph(texts[:3])
    assert_equal(in_numpy.widened(inputs[0], 40), in_graph.widened(inputs[1], 40))
    rows = in_numpy.tokenize(texts)
    assert rows == in_graph.tokenize(texts).to_list()
    ids = [[*row, *range(10)] for row in rows]
    expected = in_graph.tokenizer.detokenize(tf.ragged.constant(ids)).numpy()
    found = in_numpy.tokenizer.detokenized(ids)  # of bytes of characters, the bytes as they are
    assert [text.decode("utf-8", "replace") for text in found] == [t.decode() for t in expected]


@pytest.mark.parametrize("family", ["bertweet", "xlm"])
def test_tokens_are_joined_as_in_the_graph_where_texts_are_read_there_alone(family):
    tokenizer = preprocessors(family)[0].tokenizer
    ids = np.random.default_rng(0).integers(0, tokenizer.vocab_size, (40, 12))
    assert tokenizer.detokenized(ids) == tokenizer.detokenize(ids).numpy().tolist()


@pytest.mark.parametrize("padding", ["longest", "fixed"])
@pytest.mark.parametrize("truncation", ["longest_first", "only_first", "only_second"])
def test_pairs_are_cut_and_padded_as_in_the_graph(truncation, padding):
    for family in ("bert", "xlnet"):
        in_graph, in_numpy = preprocessors(family, truncation=truncation, padding=padding, bucket=5)
        long, short = ["word " * n for n in (0, 3, 30, 60)], ["a", "", "two words", "b"]
        pair = (short, long) if truncation == "only_second" else (long, short)
        assert_equal(in_numpy(pair), in_graph(pair))
        if truncation != "longest_first":
            with pytest.raises(ValueError, match="keeps whole"):
                in_numpy(pair[::-1])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "xlnet"])
def test_words_have_their_first_pieces_where_the_graph_has_them(family):
    in_graph, in_numpy = preprocessors(family)
    words = [
        ["Naïve", "cafés", "don't", "\x00", "!"],
        [],
        ["a"] * 40,
        ["1,000", "words", "unaffable"],
    ]
    if family == "albert":
        words[0] = ["Naive", "!"]
    found, expected = pack_words(words, in_numpy), pack_words(words, in_graph)
    assert_equal(found.inputs, expected.inputs)
    np.testing.assert_array_equal(found.word_ids, expected.word_ids)
    labels = [[*range(len(row))] for row in words]
    np.testing.assert_array_equal(
        token_labels(labels, found, words),
        token_labels(tf.ragged.constant(labels, tf.int64), expected, word_batch(words)),
    )
    with pytest.raises(ValueError, match=r"\(0, \d, 0\)"):
        token_labels([[], *labels[1:]], found, words)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "xlnet"])
def test_windows_of_questions_are_those_of_the_graph(family):
    readers = preprocessors(family, sequence_length=40)
    options = {"stride": 7, "max_question_length": 9}
    in_graph, in_numpy = (question_windows(reader, **options) for reader in readers)
    contexts = CONTEXTS
    if family in ("albert", "xlnet"):
        contexts = [text.encode("ascii", "ignore").decode() for text in contexts]
    found, expected = in_numpy(QUESTIONS, contexts), in_graph(QUESTIONS, contexts)
    assert_equal(found, expected)
    answers = np.array([3, 0, -1, 6]), np.array([7, 5, -1, 9])
    cls_position = in_graph.packer.layout.cls_position
    for ours, theirs in zip(
        answer_positions(found, *answers, cls_position),
        answer_positions(expected, *map(tf.constant, answers), cls_position),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="lie within its context"):
        answer_positions(found, answers[1], answers[0])
    np.testing.assert_array_equal(
        no_answer_positions(found["padding_mask"], cls_position),
        no_answer_positions(expected["padding_mask"], cls_position),
    )


def test_windows_of_documents_are_those_of_the_graph():
    for family in ("bert", "xlnet"):
        for stride in (None, 5):
            for padding in ("longest", "fixed"):
                readers = preprocessors(family, padding=padding)
                in_graph, in_numpy = (document_windows(reader, stride) for reader in readers)
                assert_equal(in_numpy(CONTEXTS[:3]), in_graph(CONTEXTS[:3]))
                pair = (CONTEXTS[:2], QUESTIONS[:2])
                assert_equal(in_numpy(pair), in_graph(pair))


def test_what_is_cut_or_unknown_is_said_once(caplog):
    tokenizer = preprocessors("bert")[0].tokenizer
    reader = NumpyPreprocessor(tokenizer, sequence_length=8)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            reader(["word " * 20, "a"])
            reader.with_options(bucket=1)(["Ω ж ж ж", "the"])
    said = [record.getMessage() for record in caplog.records]
    assert sum("were truncated" in message for message in said) == 1
    assert sum("consist mostly of words" in message for message in said) == 1
    assert len(said) == 2


def test_that_ids_differ_is_said_once_for_a_tokenizer(caplog):
    scheme = registry().families["xlm_roberta"].text.options["scheme"]
    tokenizer = SentencePieceTokenizer(small_sentencepiece(), scheme)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            NumpyPreprocessor(tokenizer, sequence_length=8)(["a text"])
    assert sum("other ids than the model" in record.getMessage() for record in caplog.records) == 1


def test_a_tokenizer_that_the_library_lacks_says_so_when_text_comes():
    for family in ("xlm", "bertweet"):
        _, reader = preprocessors(family)
        with pytest.raises(NotImplementedError, match=r"BpeTokenizer\. Install TensorFlow"):
            reader(["a text"])


def test_what_is_no_text_is_refused_as_in_the_graph():
    in_graph, in_numpy = preprocessors("bert")
    for wrong in (3, [3], ["a", None], {"a": 1}, ("a", "b", "c"), (["a"], ["b", "c"]), ["\ud800"]):
        with pytest.raises((TypeError, ValueError)) as expected:
            in_graph(wrong)
        with pytest.raises(expected.type) as found:
            in_numpy(wrong)
        assert str(found.value) == str(expected.value)
    assert isinstance(in_numpy, Preprocessor)
    assert reader_of(in_numpy.tokenizer) is in_numpy.reader


def test_few_lengths_are_padded_to_on_request():
    packer = NumpyPacker(sequence_length=100, padding="few_lengths", pad_id=0, cls_id=1, sep_id=2)
    widths = [packer.width(np.array([3, length])) for length in range(1, 101)]
    assert sorted({*widths}) == [8, 16, 24, 32, 48, 64, 96, 100]
    assert all(width >= length for length, width in enumerate(widths, 1))
