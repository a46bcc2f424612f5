import gzip
import json
import logging
from pathlib import Path

import pytest
import tensorflow as tf
from helpers import assert_refused, refusals

from bert_zoo import text
from bert_zoo.config import UNLIMITED
from bert_zoo.text.numpy_packing import BERT, PLAIN, ROBERTA, Layout, Slices
from bert_zoo.text.windows import NumpyPreprocessor, document_windows, question_windows

REFERENCES = Path(__file__).parent / "golden" / "text" / "references.json.gz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "é"]
CLS, SEP, A, B = 2, 3, 5, 6
TOKENIZER = text.WordPieceTokenizer(VOCABULARY)


def packer(**options):
    return text.Packer(cls_id=CLS, sep_id=SEP, pad_id=0, **{"sequence_length": 12, **options})


def plain(packed):
    return {name: value.numpy().tolist() for name, value in packed.items()}


# --- Packing ---


def test_one_segment_is_framed_and_padded():
    packed = packer(bucket=1)(tf.ragged.constant([[5, 6], []], tf.int32))
    assert plain(packed) == {
        "token_ids": [[2, 5, 6, 3], [2, 3, 0, 0]],
        "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
        "padding_mask": [[1, 1, 1, 1], [1, 1, 0, 0]],
    }
    assert {value.dtype for value in packed.values()} == {tf.int32}


def test_a_real_token_that_equals_the_padding_is_not_masked():
    packed = packer(bucket=1)(tf.ragged.constant([[0, 5]], tf.int32))
    assert packed["padding_mask"].numpy().tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("tokens", "options", "length"),
    [
        (1, {}, 8),
        (6, {}, 8),
        (7, {}, 12),  # 9 round up to 16, and 12 is the most
        (7, {"sequence_length": 40}, 16),
        (50, {"sequence_length": 40}, 40),
        (3, {"bucket": 5}, 5),
        (1, {"padding": "fixed"}, 12),
    ],
)
def test_rows_are_as_long_as_the_longest_rounded_up(tokens, options, length):
    ids = tf.ragged.constant([[5], [5] * tokens], tf.int32)
    assert packer(**options)(ids)["token_ids"].shape == (2, length)


def test_longest_first_truncation_is_hugging_faces():
    rows = json.loads(gzip.decompress(REFERENCES.read_bytes()))["truncation"]
    assert len(rows) > 1000
    for sequence_length in {row[2] for row in rows}:
        cases = [row for row in rows if row[2] == sequence_length]
        first = tf.ragged.constant([[A] * row[0] for row in cases], tf.int32)
        second = tf.ragged.constant([[B] * row[1] for row in cases], tf.int32)
        ids = packer(sequence_length=sequence_length)([first, second])["token_ids"].numpy()
        kept = [[list(row).count(A), list(row).count(B)] for row in ids]
        assert kept == [row[3:] for row in cases]


def test_truncation_keeps_the_beginnings():
    first = tf.ragged.constant([[5, 6, 7, 8, 5]], tf.int32)
    second = tf.ragged.constant([[8, 7, 6, 5, 8, 7]], tf.int32)
    one = packer(sequence_length=5)(first)["token_ids"].numpy().tolist()
    two = packer(sequence_length=8)([first, second])["token_ids"].numpy().tolist()
    assert one == [[2, 5, 6, 7, 3]]
    assert two == [[2, 5, 6, 3, 8, 7, 6, 3]]


@pytest.mark.parametrize(("truncation", "kept"), [("only_second", [5, 4]), ("only_first", [3, 6])])
def test_one_segment_only_is_cut_on_request(truncation, kept):
    first = tf.ragged.constant([[A] * 5], tf.int32)
    second = tf.ragged.constant([[B] * 6], tf.int32)
    ids = list(packer(truncation=truncation)([first, second])["token_ids"].numpy()[0])
    assert [ids.count(A), ids.count(B)] == kept


def uncut(truncation, in_graph: bool):
    long, short = tf.ragged.constant([[A] * 12], tf.int32), tf.ragged.constant([[B]], tf.int32)
    segments = [long, short] if truncation == "only_second" else [short, long]
    pack = packer(truncation=truncation)
    return tf.function(lambda: pack(segments)) if in_graph else lambda: pack(segments)


# --- Layouts ---

# XLNet's, whose padding has a segment of its own in the original code, and T5's.
XLNET = Layout("A sep cls:2", "A sep B:1 sep:1 cls:2", padding_side="left", padding_segment=4)
T5 = Layout("A eos", "A eos B eos", segments=False)
IDS = {"cls_id": CLS, "sep_id": SEP, "pad_id": 0, "eos_id": 4}


@pytest.mark.parametrize(
    ("layout", "rows", "segment_ids"),
    [
        (BERT, [[2, 5, 6, 3, 7, 3], [2, 5, 3, 3, 0, 0]], [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0]]),
        (ROBERTA, [[2, 5, 6, 3, 3, 7, 3], [2, 5, 3, 3, 3, 0, 0]], None),
        (XLNET, [[5, 6, 3, 7, 3, 2], [0, 0, 5, 3, 3, 2]], [[0, 0, 0, 1, 1, 2], [4, 4, 0, 0, 1, 2]]),
        (T5, [[5, 6, 4, 7, 4], [5, 4, 4, 0, 0]], None),
    ],
)
def test_rows_are_composed_as_the_layout_says(layout, rows, segment_ids):
    """Rows of transformers' fast tokenizers; the segments of XLNet's padding are the original's."""
    pack = text.Packer(layout=layout, sequence_length=12, bucket=1, **IDS)
    segments = [tf.ragged.constant([[5, 6], [5]]), tf.ragged.constant([[7], []], tf.int32)]
    packed = plain(pack(segments))
    assert packed["token_ids"] == rows
    assert packed.get("segment_ids") == segment_ids
    assert packed["padding_mask"] == [[int(token != 0) for token in row] for row in rows]
    again = text.Packer(**pack.get_config(), **IDS)
    assert plain(again(segments)) == packed


def test_rows_of_one_text_are_composed_too():
    ids = tf.ragged.constant([[5, 6], []], tf.int32)
    packed = plain(text.Packer(layout=XLNET, sequence_length=4, padding="fixed", **IDS)(ids))
    assert packed["token_ids"] == [[5, 6, 3, 2], [0, 0, 3, 2]]
    assert packed["segment_ids"] == [[0, 0, 0, 2], [4, 4, 0, 2]]
    packed = plain(text.Packer(layout=PLAIN, sequence_length=4, bucket=1, pad_id=0)(ids))
    assert packed == {"token_ids": [[5, 6], [0, 0]], "padding_mask": [[1, 1], [0, 0]]}


@pytest.mark.parametrize("layout", [BERT, XLNET])
def test_rows_that_were_kept_without_padding_are_padded_again(layout):
    pack = text.Packer(layout=layout, sequence_length=9, bucket=4, **IDS)
    packed = pack(tf.ragged.constant([[5, 6, 7, 5, 6, 7, 5], [5]], tf.int32))
    is_token = packed["padding_mask"] == 1
    kept = {n: tf.ragged.boolean_mask(v, is_token) for n, v in packed.items()}
    del kept["padding_mask"]
    kept = {
        n: Slices(v.values.numpy(), v.row_starts().numpy(), v.row_lengths().numpy())
        for n, v in kept.items()
    }
    padded = pack.in_numpy().pad(kept)
    assert {n: ids.tolist() for n, ids in padded.items()} == plain(packed)
    short = pack(tf.ragged.constant([[5]], tf.int32))
    wide = plain(pack.widened(short, 9, {}))
    assert {n: row[1:] for n, row in plain(packed).items()} == wide


# --- Preprocessor ---


def preprocessor(**options):
    return text.Preprocessor(TOKENIZER, **{"sequence_length": 8, **options})


def test_pairs_are_a_tuple_of_two_batches():
    inputs = preprocessor(bucket=1)((["a", "b b"], ["c", ""]))
    assert inputs["token_ids"].numpy().tolist() == [[2, 5, 3, 7, 3], [2, 6, 6, 3, 3]]
    assert preprocessor(bucket=1)(("a", "c"))["token_ids"].shape == (1, 5)


@pytest.mark.parametrize("empty", [[], ([], [])])
def test_a_batch_without_rows_stays_one(empty):
    for padding in ("longest", "fixed"):
        inputs = preprocessor(padding=padding)(empty)
        assert {tuple(value.shape) for value in inputs.values()} == {(0, 8)}


def test_fixed_padding_has_a_static_shape_in_tf_data():
    fixed = preprocessor(padding="fixed", sequence_length=16)
    texts = tf.data.Dataset.from_tensor_slices((["a b"] * 9, ["é"] * 9))
    for drop, batch in ((True, 4), (False, None)):
        spec = texts.batch(4, drop).map(lambda a, b: fixed((a, b))).element_spec
        assert {tuple(value.shape) for value in spec.values()} == {(batch, 16)}


def test_options_are_changed_on_a_copy_that_shares_the_tokenizer():
    prepare = preprocessor()
    changed = prepare.with_options(sequence_length=20, padding="fixed")
    assert changed.tokenizer is prepare.tokenizer
    assert (prepare.sequence_length, changed.sequence_length) == (8, 20)
    options = {"sequence_length": 20, "padding": "fixed"}
    assert changed.get_config() == prepare.get_config() | options
    assert changed(["a"])["token_ids"].shape == (1, 20)


def test_it_answers_to_tf_hubs_names():
    prepare = preprocessor()
    segments = [prepare.tokenize(["a"]), prepare.tokenize(["b c"])]
    packed = plain(prepare.bert_pack_inputs(segments))
    assert packed == {
        "input_word_ids": [[2, 5, 3, 6, 7, 3, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 0, 0]],
        "input_type_ids": [[0, 0, 0, 1, 1, 1, 0, 0]],
    }
    assert prepare.bert_pack_inputs(segments, seq_length=5)["input_mask"].shape == (1, 5)


def test_a_pair_of_unequal_batches_is_refused_inside_a_graph_too():
    prepare = preprocessor()
    strings = tf.TensorSpec([None], tf.string)
    pack = tf.function(lambda a, b: prepare((a, b)), input_signature=[strings, strings])
    assert pack(tf.constant(["a"]), tf.constant(["b"]))["token_ids"].shape == (1, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in size"):
        pack(tf.constant(["a"]), tf.constant(["b", "c"]))


ONE = tf.ragged.constant([[5]], tf.int32)


@refusals(
    (lambda: packer(sequence_length=2), "is 2; it must be at least 3"),
    (lambda: packer(sequence_length=12.5), "12.5; it must be a whole number"),
    (lambda: packer(padding="max"), "padding is 'max' | longest"),
    (lambda: packer(bucket=0), "bucket is 0"),
    (lambda: packer(truncation="middle"), "truncation is 'middle' | longest_first"),
    (lambda: packer()([ONE] * 3), "3 segments"),
    (lambda: packer()([ONE, tf.constant([[5]])]), "Segment 1 is | [batch, (tokens)]"),
    *((uncut("only_second", g), "keeps whole does not fit | 12 | 9") for g in (True, False)),
    *((uncut("only_first", g), "keeps whole does not fit | 12 | 9") for g in (True, False)),
    # Layouts.
    (lambda: Layout("cls B sep"), "'cls B sep' is no template for a row of 1 | A once"),
    (lambda: Layout(padding_side="top"), "padding_side is 'top'"),
    (lambda: text.Packer(layout=T5, sequence_length=9, pad_id=0), "also needs eos_id"),
    (
        lambda: text.Packer(layout=PLAIN, sequence_length=9, pad_id=0)([ONE] * 2),
        "2 segments, but this model's rows have one",
    ),
    # Texts.
    (lambda: preprocessor()(("a", "b", "c")), "tuple of 3"),
    (lambda: preprocessor()((["a"], ["b", "c"])), "1 firsts and 2 seconds"),
    (lambda: preprocessor()((["a"], [None])), "seconds[0] is None"),
    (lambda: preprocessor()([("a", "b")]), "texts[0] | (firsts, seconds)"),
    (lambda: preprocessor()(None), "None"),
    (lambda: preprocessor().with_options(size=3), "'size' | sequence_length"),
)
def test_what_cannot_be_packed_is_refused(call, words):
    assert_refused(call, words, (TypeError, ValueError, tf.errors.InvalidArgumentError))


# --- The word about truncation ---


def truncation_messages(caplog):
    return [message for message in caplog.messages if "were truncated" in message]


@pytest.mark.parametrize("where", ["eager", "map"])
def test_truncation_is_reported_once(caplog, where):
    prepare = preprocessor()
    texts = tf.data.Dataset.from_tensor_slices(["a", "a " * 6, "a " * 9, "b " * 30] * 5).batch(4)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batches = texts.map(prepare, num_parallel_calls=4) if where == "map" else texts
            for batch in batches:
                if where == "eager":
                    prepare(batch)
    (message,) = truncation_messages(caplog)
    assert "2 of the 4 texts" in message
    assert "sequence_length=8" in message and "30 tokens" in message


def test_nothing_is_reported_where_everything_fits_or_the_report_is_off(caplog):
    with caplog.at_level(logging.WARNING):
        preprocessor()(["a " * 6, ""])
        preprocessor(report_truncation=False)(["a " * 60])
        preprocessor()((["a " * 2], ["b " * 3]))
    assert truncation_messages(caplog) == []


@pytest.mark.parametrize("kind", [text.Preprocessor, NumpyPreprocessor])
def test_long_texts_that_nothing_cuts_are_said_once(caplog, kind):
    read = kind(TOKENIZER, sequence_length=UNLIMITED)
    with caplog.at_level(logging.WARNING):
        read(["a " * 500])
        assert not caplog.records
        for _ in range(2):
            read(["a " * 600, "b", "a " * 513])
        kind(TOKENIZER, sequence_length=UNLIMITED, report_truncation=False)(["a " * 600])
        kind(TOKENIZER, sequence_length=700)(["a " * 600])
    (message,) = [record.getMessage() for record in caplog.records]
    assert "2 of the 3 texts of a batch have more than 512 tokens; the longest has 600" in message
    assert "max_length" in message


@pytest.mark.parametrize("where", ["eager", "map", "questions", "windows"])
def test_texts_of_unknown_words_are_said_once(caplog, where):
    prepare = preprocessor()
    strange, known = "語 語 a", "a b 語 語"
    readers = {
        "questions": lambda texts: question_windows(prepare)(["a"] * 4, texts),
        "windows": document_windows(prepare, stride=2),
    }
    read = readers.get(where, prepare)
    read(tf.constant([known, "", "a", "b"]))
    assert "vocabulary" not in caplog.text
    for _ in range(2):
        texts = tf.data.Dataset.from_tensors([strange, known, "a", "語"]).repeat(2)
        for batch in texts.map(read) if where == "map" else texts:
            if where != "map":
                read(batch)
        prepare.with_options(sequence_length=6)(["語"])
    (message,) = [m for m in caplog.messages if "vocabulary" in m]
    assert "2 of the 4 texts" in message and "language" in message
    preprocessor(report_truncation=False)(["語"])
    assert len([m for m in caplog.messages if "vocabulary" in m]) == 1
