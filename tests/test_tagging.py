"""Words keep their labels: through tokens, batches, training and long texts."""

import logging
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ENCODERS,
    assert_refused,
    assert_same,
    flat,
    has_text,
    load_task,
    loaded,
    refusals,
)

from bert_zoo.data.batches import tagged_batches
from bert_zoo.data.buckets import Batching
from bert_zoo.data.tagging import TaggedSplit
from bert_zoo.metrics import span_report
from bert_zoo.tasks.token_classification import word_probabilities
from bert_zoo.text import preprocessor_from_dir
from bert_zoo.text.numpy_packing import row_splits_that_fit, word_spans
from bert_zoo.text.preprocessor import (
    pack_words,
    token_labels,
    word_batch,
    word_pieces,
)
from bert_zoo.training import SpanF1

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
WORDS = [["the", "treehouse", "sat"], ["bird"], ["\x07", "unwatchful", "it", "東"]]
WORD_LABELS = [[0, 3, 4], [1], [-100, 2, 0, 0]]
FAMILIES = ("bert", "roberta/token_classification", "albert/token_classification")


def model_of(family: str):
    return loaded("token_classification" if family == "bert" else family)


@pytest.fixture
def model():
    """One to train, without graphs: tracing one takes longer than a few steps."""
    model = load_task("token_classification", dropout=0.0)
    model.run_eagerly = True
    return model


# ---------------------------------------------------------------------------------------------
# Words and tokens
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_token_knows_its_word_and_every_word_begins_once(family):
    preprocessor = model_of(family).preprocessor
    tokenizer = preprocessor.tokenizer
    packed = pack_words(WORDS, preprocessor)
    ids, mask = packed.inputs["token_ids"].numpy(), packed.inputs["padding_mask"].numpy()
    for row, words in enumerate(WORDS):
        of_word = packed.word_ids[row].numpy()
        assert of_word[0] == of_word[mask[row].sum() - 1] == -1
        assert (of_word[mask[row] == 0] == -1).all()
        for number, word in enumerate(words):
            blank = "" if family == "bert" else " "
            alone = tokenizer([blank + word]).to_list()[0] or [tokenizer.unk_id]
            assert ids[row][of_word == number].tolist() == alone
        at_first = of_word[packed.first_pieces[row].numpy()]
        assert at_first.tolist() == list(range(len(words)))


def test_words_of_byte_level_bpe_have_a_blank_before_them_also_around_special_tokens():
    preprocessor = model_of("roberta/token_classification").preprocessor
    assert not preprocessor.tokenizer.get_config()["add_prefix_space"]
    prefixing = preprocessor_from_dir(
        Path(__file__).parent / "golden" / "roberta" / "token_classification",
        "roberta",
        sequence_length=40,
        tokenizer_options={"add_prefix_space": True},
    )
    words = [["the", "<s>the", "the<mask>the", " the"]]
    ours, wanted = (pack_words(words, p).inputs["token_ids"] for p in (preprocessor, prefixing))
    assert ours.numpy().tolist() == wanted.numpy().tolist()


def test_lists_texts_and_tensors_are_the_same_words():
    wanted = word_batch([["the", "cat\xadbird"], [], ["sat"]]).to_list()
    for same in (
        [" the  cat\xadbird\n", "\u3000", "\u2003sat\x85"],
        tf.ragged.constant([["the", "cat\xadbird"], [], ["sat"]], row_splits_dtype=tf.int32),
        [np.array(["the", "cat\xadbird"]), (), ["sat"]],
    ):
        assert word_batch(same).to_list() == wanted
    assert word_batch(np.array([["a", "b"], ["c", "d"]])).to_list() == [[b"a", b"b"], [b"c", b"d"]]


def test_rows_that_are_too_long_are_cut_with_a_word_and_keep_their_first_labels(caplog):
    preprocessor = model_of("bert").preprocessor.with_options(sequence_length=6)
    words, labels = [["the", "dogs", "sat", "on", "it"]], tf.ragged.constant([[1, 2, 3, 4, 0]])
    with caplog.at_level(logging.WARNING):
        packed = pack_words(words, preprocessor)
    assert "were truncated" in caplog.text
    assert packed.word_ids.numpy().tolist() == [[-1, 0, 1, 1, 2, -1]]
    found = token_labels(labels, packed, word_batch(words))
    assert found.numpy().tolist() == [[-100, 1, 2, -100, 3, -100]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Berlin, (U.S.)!", ["Berlin", ",", "(", "U", ".", "S", ".", ")", "!"]),
        ("don't a_b x+y", ["don", "'", "t", "a", "_", "b", "x", "+", "y"]),
        ("हिन्दी naïve 北京 10\u00a0000", ["हिन्दी", "naïve", "北", "京", "10", "000"]),
        (" \n", []),
    ],
)
def test_raw_texts_are_split_at_white_space_and_punctuation(text, words):
    assert [text[start:end] for start, end in word_spans(text)] == words


# ---------------------------------------------------------------------------------------------
# Training
# ---------------------------------------------------------------------------------------------


def test_lists_texts_names_and_tf_data_train_alike(model):
    names = [[LABELS[i] for i in row] for row in ([0, 3, 4], [1], [2, 0])]
    words, ids = [*WORDS[:2], WORDS[2][1:3]], [[0, 3, 4], [1], [2, 0]]
    wanted = model.evaluate(words, ids, verbose=0)
    loss, accuracy, *_ = wanted
    ragged = tf.ragged.constant(words), tf.ragged.constant(ids)
    dataset = tf.data.Dataset.from_tensor_slices(ragged).batch(2)
    for same in (
        model.evaluate([" ".join(row) for row in words], names, verbose=0),
        model.evaluate(*ragged, verbose=0),
        model.evaluate(dataset, verbose=0),
    ):
        np.testing.assert_allclose(same, wanted, rtol=1e-5)
    packed = pack_words(words, model.preprocessor)
    probabilities = tf.nn.softmax(model(packed.inputs))[packed.first_pieces].numpy()
    chosen = probabilities[np.arange(6), np.concatenate(ids)]
    np.testing.assert_allclose(loss, -np.log(chosen).mean(), rtol=1e-5)
    right = probabilities.argmax(-1) == np.concatenate(ids)
    np.testing.assert_allclose(accuracy, right.mean(), rtol=1e-5)


@pytest.mark.parametrize(
    "labels",
    [
        ("O", "B-a", "I-a", "B-b", "I-b"),
        ("I-a", "O", "E-a", "S-a", "B-a", "S-b", "I", "B"),
        ("B-a-x", "O", "I-a-x", "I-b"),
    ],
)
def test_span_f1_of_tokens_is_that_of_the_report_of_words(labels):
    rng = np.random.default_rng(0)
    metric = SpanF1.from_config(SpanF1(labels).get_config())
    tags: list[list[list[str]]] = [[], []]
    for length in range(1, 9):
        numbers = rng.integers(-1, len(labels), (4, length))
        numbers[numbers == -1] = -100  # further pieces of words, padding
        logits = rng.normal(size=(4, length, len(labels)))
        metric.update_state(numbers, logits)
        for row, found in zip(numbers, logits.argmax(-1), strict=True):
            for sentences, some in zip(tags, (row, found), strict=True):
                sentences.append([labels[i] for i in some[row != -100]])
    report = span_report(*tags).micro
    found = {name: float(value) for name, value in metric.result().items()}
    assert found == pytest.approx({n: getattr(report, n) for n in ("precision", "recall", "f1")})
    assert 0 < report.f1 < 1
    metric.reset_state()
    assert float(metric.result()["f1"]) == 0


def test_evaluate_and_validation_give_the_f1_of_spans(model):
    names = [[LABELS[i] for i in row] for row in ([0, 3, 4], [1], [2, 0])]
    words = [*WORDS[:2], WORDS[2][1:3]]
    bias = model.classifier.weights[-1]
    bias.assign(50.0 * (np.arange(5) == 1))  # each word is a person
    found = model.evaluate(words, names, verbose=0, return_dict=True)
    report = span_report(names, [["B-PER"] * len(row) for row in words])
    assert {*found} == {"loss", "accuracy", "precision", "recall", "f1"}
    assert found["accuracy"] == pytest.approx(report.accuracy)
    assert found["f1"] == pytest.approx(report.micro.f1) == pytest.approx(4 / 9)
    history = model.fit(words, names, validation_data=(words, names), verbose=0).history
    assert {"f1", "val_f1", "val_precision", "val_recall"} <= history.keys()
    model.compile("sgd", model.loss, metrics=["accuracy"])
    assert len(model.evaluate(words, names, verbose=0)) == 2


def test_labels_that_mark_no_spans_are_measured_by_words():
    tagger = load_task("token_classification", labels=["NN", "DT"], init=("classifier",))
    assert tagger.default_metrics() == ["accuracy"]


def test_tagged_batches_hold_each_sentence_with_its_labels_once(model):
    words = [["dog"] * (1 + i % 7) for i in range(50)]
    labels = [[i] * (1 + i % 7) for i in range(50)]
    split = TaggedSplit(words, labels, tuple(map(str, range(50))), None)
    seen = []
    for inputs, found in tagged_batches(split, model.preprocessor, Batching(8)).dataset:
        assert inputs["token_ids"].shape == found.shape
        for ids in found.numpy():
            ids = ids[ids != -100]
            seen.append(int(ids[0]))
            assert ids.tolist() == labels[ids[0]]
    assert sorted(seen) == list(range(50)) and seen != sorted(seen)


@pytest.mark.parametrize("case", [*filter(has_text, ENCODERS)])
def test_tagged_words_are_kept_as_every_family_reads_them(case):
    """Without padding, which each batch has anew."""
    preprocessor = loaded(case).preprocessor
    words = [["the", "cat"], ["a", "big", "bird", "ran"]]
    split = TaggedSplit(words, [[0, 1], [0, 0, 1, 0]], ("O", "N"), None)
    ((inputs, _),) = tagged_batches(split, preprocessor, Batching(2)).dataset
    wanted = flat(pack_words(words, preprocessor).inputs)
    assert inputs.keys() == wanted.keys()
    order = np.argsort(inputs["padding_mask"].numpy().sum(-1))
    assert_same({name: value.numpy()[order] for name, value in inputs.items()}, wanted)


def test_labels_in_tf_data_are_checked_when_they_are_read(model):
    words = word_batch(WORDS)
    assert model.as_text_labels(words, tf.ragged.constant(WORD_LABELS)).to_list() == WORD_LABELS

    def evaluated(labels):
        data = tf.data.Dataset.from_tensor_slices((words, tf.ragged.constant(labels))).batch(3)
        return model.evaluate(data, verbose=0)

    by_name, by_id = ([[value] * len(row) for row in WORDS] for value in (LABELS[3], 3))
    assert evaluated(by_name) == evaluated(by_id)
    for labels, message in (
        ([[0, 3], [1], [0] * 4], "(?s)one label per word.*Rows"),
        ([[0, 3, 7], [1], [0] * 4], r"must lie in \[0, 5\)"),
        ([["B-LOCX"] * len(row) for row in WORDS], r"(?s)names of classes.*B-LOCX"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            evaluated(labels)


def test_words_and_tags_are_read_as_tables_and_lines_hold_them(model):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    tagger = model
    names = [[LABELS[max(i, 0)] for i in row] for row in WORD_LABELS]
    ids = [[max(i, 0) for i in row] for row in WORD_LABELS]
    frame = pd.DataFrame({"words": WORDS, "tags": names}, index=[5, 6, 7])
    # What Parquet files are read as: arrays in a column of objects, or columns of arrow.
    arrays = frame.map(lambda row: np.array(row, object))
    arrow = pa.table({"words": WORDS, "ids": ids, "line": [" ".join(row) for row in names]})
    for words in (frame["words"], arrays["words"], arrow["words"]):
        assert tagger.as_text_rows(words).to_list() == word_batch(WORDS).to_list()
    assert tagger.tag(arrow["words"]) == tagger.tag(WORDS)
    for tags in (
        frame["tags"],
        arrays["tags"],
        arrow["ids"],
        arrow["line"],
        [" ".join(row) for row in names],
        frame[["tags"]],
    ):
        assert tagger.as_text_labels(word_batch(WORDS), tags).to_list() == ids
    assert_refused(
        lambda: tagger.as_text_labels(word_batch(WORDS), frame),
        "columns ['words', 'tags']. Pass one column",
    )
    lines = tf.data.Dataset.from_tensors((tf.ragged.constant(WORDS), arrow["line"].to_pylist()))
    wanted = tagger.evaluate(frame["words"], frame["tags"], verbose=0)
    np.testing.assert_allclose(tagger.evaluate(lines, verbose=0), wanted, rtol=1e-5)


# ---------------------------------------------------------------------------------------------
# The verb
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["first", "average", "max"])
def test_words_of_several_pieces_are_tagged_as_transformers_aggregates_them(strategy):
    tagger = model_of("bert")
    pieces = word_pieces(word_batch(WORDS), tagger.preprocessor.tokenizer)
    lengths = [row.row_lengths().numpy() for row in pieces]
    assert max(map(max, lengths)) > 1
    packed = pack_words(WORDS, tagger.preprocessor)
    probabilities = tf.nn.softmax(tagger(packed.inputs)).numpy()
    for batch_size in (1, 8):
        found = word_probabilities(tagger, WORDS, batch_size, strategy)
        for row, numbers, ours in zip(probabilities, lengths, found, strict=True):
            # The first token is [CLS].
            words = np.split(row[1 : 1 + sum(numbers)], np.cumsum(numbers)[:-1])
            wanted = {
                "first": [word[0] for word in words],
                "average": [np.mean(word, axis=0) for word in words],
                "max": [max(word, key=max) for word in words],
            }[strategy]
            np.testing.assert_allclose(ours, wanted, atol=1e-6)
    for row, of_text in zip(found, tagger.tag(WORDS, aggregation_strategy=strategy), strict=True):
        assert of_text.labels == [LABELS[i] for i in np.argmax(row, axis=1)]
        np.testing.assert_allclose([w.score for w in of_text.words], np.max(row, axis=1), atol=1e-6)


def test_every_word_of_a_long_text_has_a_label():
    tagger = model_of("bert")
    long = ["the", "dogs", "sat"] * 30
    (alone,) = word_probabilities(tagger, [long])
    assert alone.shape == (90, 5)
    np.testing.assert_allclose(alone.sum(axis=1), 1, atol=1e-5)
    # Its rows are read as texts of their own.
    pieces = word_pieces(word_batch([long]), tagger.preprocessor.tokenizer)
    lengths = pieces.values.row_lengths().numpy()
    length = row_splits_that_fit(lengths, np.array([0, len(lengths)]), 38)[1]
    np.testing.assert_allclose(
        alone[:length], word_probabilities(tagger, [long[:length]])[0], atol=1e-6
    )


def test_spans_are_marked_in_the_text_as_it_stands(monkeypatch):
    tagger = model_of("bert")
    tags = {"Ann": 1, "Lee": 2, "New": 3, "York": 4}

    def certain(model, words, batch_size, strategy):
        return [np.eye(5, dtype=np.float32)[[tags.get(w, 0) for w in row]] * 0.98 for row in words]

    monkeypatch.setattr("bert_zoo.tasks.token_classification.word_probabilities", certain)
    text = "Ann  Lee left\nNew York."
    (tagging,) = tagger.tag(text)
    assert [(s.text, s.type, s.first_word, s.end_word) for s in tagging.spans] == [
        ("Ann  Lee", "PER", 0, 2),
        ("New York", "LOC", 3, 5),
    ]
    for part in (*tagging.spans, *tagging.words):
        assert text[part.start : part.end] == part.text
    assert str(tagging) == "[Ann  Lee]PER 0.98 left\n[New York]LOC 0.98."
    of_words = tagger.tag([["in", "New", "York"]])
    assert str(of_words) == "in [New York]LOC 0.98"
    (alone,) = tagger.tag(text, aggregate=False)
    assert alone.spans is None and alone.words == tagging.words
    assert str(alone).splitlines()[1] == "Lee   I-PER  0.98"


def test_labels_of_no_scheme_give_words_alone():
    tagger = load_task(
        "token_classification", num_classes=2, labels=("NOUN", "VERB"), init=("classifier",)
    )
    tagging, empty = tagger.tag(["the dog sat", ""])
    assert tagging.spans is None and len(tagging.words) == 3
    assert empty.words == () and str(empty) == ""
    for call, words in (
        (lambda: tagger.tag([3]), "texts[0] is 3 (int), not a string"),
        (
            lambda: tagger.tag("a b", aggregation_strategy="simple"),
            "'simple' | 'average' | aggregate=False",
        ),
    ):
        assert_refused(call, words)


# ---------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------


def batch_of(words):
    return lambda: word_batch(words)


def fit(y, method="fit", x=WORDS):
    return lambda: getattr(model_of("bert"), method)(x, y, verbose=0)


def untagged():
    split = TaggedSplit(WORDS, None, (), None)
    return tagged_batches(split, model_of("bert").preprocessor, Batching(8))


@refusals(
    (batch_of([["a"], "b c"]), "words[1] is 'b c' (str), not a list"),
    (batch_of([["a"], ["b", None]]), "words[1][1] is None, no word. Drop it"),
    (batch_of([["a"], ["b", ""]]), "words[1][1] is an empty word"),
    (batch_of([["a", "\ud800"]]), "words[0][1] | lone surrogate"),
    (batch_of(tf.constant([[1, 2]])), "int32"),
    (batch_of(tf.constant([["a", ""]])), "empty words"),
    (untagged, "without tags"),
    (fit([[0, 3], [1], [0] * 4]), "Row 0 has 3 words, but 2 labels | 'the'"),
    (fit([[0, 3], [1], [0] * 4], "evaluate"), "Row 0 has 3 words, but 2 labels | 'the'"),
    (fit([[0, 3, 4], [1]]), "y has 2 rows and x has 3"),
    (fit([[0, 3, 5], [1], [0] * 4]), "y[0][2] is 5; it must lie in [0, 5)"),
    (fit([["O", "PER", "O"], ["O"], ["O"] * 4]), "y[0][1] is 'PER' | 'B-PER'"),
    (fit([[0, 1.5, 0], [1], [0] * 4]), "y[0][1] is 1.5"),
    (fit([[0, 3, 4], "O O", [0] * 4]), "Row 1 has 1 words, but 2 labels"),
    (fit([[0, 3, 4], None, [0] * 4]), "y[1] is None; it must be a list of labels"),
    (fit([0, 1, 2]), "y[0] is 0; it must be a list of labels"),
    (fit([[0, 0, 0]], x=(["a b"], ["c"])), "x is a pair of texts"),
)
def test_wrong_words_and_labels_are_named_by_their_place(call, words):
    assert_refused(call, words, (TypeError, ValueError, tf.errors.InvalidArgumentError))
