"""Texts that are longer than a model reads at once: cut with a word, or read in windows."""

import functools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TEXTS,
    assert_refused,
    load_case,
    load_recurrent,
    load_task,
    loaded_task,
    refusals,
)

import bert_zoo
from bert_zoo.models import graphs
from bert_zoo.models.long_texts import LongTexts, advice
from bert_zoo.serving.servable import outputs_of_texts
from bert_zoo.text.windows import document_windows

LENGTH = 40  # of the golden models
ROOM = LENGTH - 2
STRIDE = 17
LONG = " ".join(TEXTS * 5)
MIXED = [TEXTS[0], LONG, TEXTS[1], " ".join(TEXTS * 3)]
POOL = {"mean": np.mean, "max": np.max}


def windows_by_hand(preprocessor, text: str, stride: int) -> list[dict[str, np.ndarray]]:
    """The inputs of each window of a text, rows of one."""
    tokenizer = preprocessor.tokenizer
    tokens, rows, start = tokenizer([text])[0].numpy().tolist(), [], 0
    while not rows or start + ROOM - stride < len(tokens):
        ids = [tokenizer.cls_id, *tokens[start : start + ROOM], tokenizer.sep_id]
        rows.append({"token_ids": np.array([ids], np.int32)})
        start += stride
    return rows


def load_windows(task: str, mode: str, **options):
    case = "encoder" if task in ("encoder", "embedding") else "classification"
    if task in ("regression", "multi_label_classification"):
        options["init"] = ("classifier",)
    return load_case(case, task, long_texts=mode, stride=STRIDE, **options)


# --- Windows -------------------------------------------------------------------------------------


def test_windows_show_all_of_a_text():
    preprocessor = loaded_task("classification").preprocessor
    windows = document_windows(preprocessor, STRIDE)([*MIXED, ""])
    assert windows["token_ids"].shape[0] == len(MIXED) + 1
    for number, text in enumerate([*MIXED, ""]):
        expected = windows_by_hand(preprocessor, text, STRIDE)
        ids = windows["token_ids"][number].numpy()
        mask = windows["padding_mask"][number].numpy()
        assert mask.any(axis=1).sum() == len(expected)
        for row, (window, inside) in enumerate(zip(ids, mask, strict=True)):
            of_text = expected[row]["token_ids"][0].tolist() if row < len(expected) else []
            assert window[inside == 1].tolist() == of_text
            assert (window[inside == 0] == preprocessor.tokenizer.pad_id).all()


def test_windows_are_three_quarters_of_their_room_apart_by_default():
    preprocessor = loaded_task("classification").preprocessor
    rows, text = document_windows(preprocessor, None).rows(tf.constant(MIXED))
    expected = [len(windows_by_hand(preprocessor, text, ROOM * 3 // 4)) for text in MIXED]
    assert np.bincount(text).tolist() == expected
    assert set(rows) == set(preprocessor(MIXED))


# --- Models --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("classification", "mean"),
        pytest.param("multi_label_classification", "max", marks=pytest.mark.slow),
        pytest.param("regression", "mean", marks=pytest.mark.slow),
        pytest.param("embedding", "max", marks=pytest.mark.slow),
    ],
)
def test_outputs_are_those_of_the_windows_pooled(task, mode, monkeypatch):
    monkeypatch.setattr(graphs, "TOKENS_A_CHUNK", 3 * LENGTH)
    model = load_windows(task, mode)
    model.encoder.pooling = model.encoder.pooling.__class__("mean", normalize=False)
    expected = np.stack(
        [
            POOL[mode]([model(row)[0] for row in windows_by_hand(model.preprocessor, t, STRIDE)], 0)
            for t in MIXED
        ]
    )
    if task == "embedding":
        model.encoder.pooling = model.encoder.pooling.__class__("mean", normalize=True)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(MIXED, verbose=0), expected, atol=1e-5)
    cut = loaded_task("embedding").predict(MIXED, verbose=0)
    if task == "embedding":  # where one window shows all of it, it is what it was
        np.testing.assert_allclose(expected[[0, 2]], cut[[0, 2]], atol=1e-5)
        assert np.abs(expected[1] - cut[1]).max() > 1e-3


def test_embed_and_similarity_read_all_of_a_text():
    encoder = load_windows("encoder", "max")
    reader = encoder.preprocessor
    windows = (windows_by_hand(reader, text, STRIDE) for text in MIXED)
    expected = np.stack(
        [np.max([encoder.window_outputs(row)[0] for row in rows], 0) for rows in windows]
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.embed(MIXED, batch_size=3), expected, atol=1e-6)
    scores = bert_zoo.similarity(MIXED[1], MIXED[3], model=encoder)
    assert scores == pytest.approx(expected[1] @ expected[3], abs=1e-5)
    assert encoder.text_reader is reader  # outputs by token have no windows to pool


@pytest.mark.usefixtures("eager")
def test_training_learns_from_the_windows():
    model = load_windows("classification", "mean", dropout=0.0)
    labels = np.array([0, 1, 2, 1])
    rows = [windows_by_hand(model.preprocessor, text, STRIDE) for text in MIXED]
    with tf.GradientTape() as tape:
        logits = tf.stack([tf.reduce_mean([model(row)[0] for row in texts], 0) for texts in rows])
        loss = model.compute_loss(None, tf.constant(labels), logits)
    variables = model.trainable_variables
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    before = [np.array(variable) for variable in variables]
    model.compile(keras.optimizers.SGD(1.0), model.loss)
    history = model.fit(MIXED, labels, verbose=0).history
    assert history["loss"] == pytest.approx([float(loss)], abs=1e-5)
    for variable, start, gradient in zip(variables, before, gradients, strict=True):
        change = np.array(variable) - start
        np.testing.assert_allclose(change, -tf.convert_to_tensor(gradient), atol=2e-5)


def test_pairs_are_cut_as_before():
    model = load_windows("classification", "max")
    expected = loaded_task("classification")(model.preprocessor((MIXED, MIXED)))
    np.testing.assert_allclose(model(model.text_reader((MIXED, MIXED))), expected, atol=1e-5)


# --- Saved, exported, asked for ------------------------------------------------------------------


def test_saved_models_read_long_texts_as_before(tmp_path, caplog):
    model = load_windows("classification", "max")
    expected = model(model.text_reader(MIXED))
    bert_zoo.save(model, tmp_path / "ours")
    model.save(tmp_path / "model.keras")
    ours, kerass = (
        bert_zoo.load(tmp_path / "ours"),
        keras.models.load_model(tmp_path / "model.keras"),
    )
    assert ours.encoder.long_texts == kerass.encoder.long_texts == LongTexts("max", STRIDE)
    for other in (ours, kerass):
        np.testing.assert_allclose(other(other.text_reader(MIXED)), expected, atol=1e-6)
    with_choice = functools.partial(bert_zoo.load, tmp_path / "ours", weights=None)
    assert with_choice(long_texts="cut").encoder.long_texts == LongTexts()
    assert with_choice(stride=9).encoder.long_texts == LongTexts("max", 9)
    assert with_choice("token_classification").encoder.long_texts == LongTexts()
    with caplog.at_level(logging.WARNING):
        bert_zoo.save(model, tmp_path / "hf", format="hf")
    assert "Load the directory with long_texts='max', stride=17" in caplog.text


@pytest.mark.parametrize(
    "task", ["embedding", pytest.param("classification", marks=pytest.mark.slow)]
)
def test_what_is_served_reads_all_of_a_text_in_chunks(task, monkeypatch):
    monkeypatch.setattr(graphs, "TOKENS_A_CHUNK", 3 * LENGTH)
    model = load_windows(task, "mean")
    read = functools.partial(outputs_of_texts, model, None, model.preprocessor)
    serve = tf.function(read, input_signature=[(tf.TensorSpec([None], tf.string),)])
    (name,) = model.interface.outputs
    served = serve((tf.constant(MIXED),))[name]
    np.testing.assert_allclose(served, model(model.text_reader(MIXED)), atol=1e-6)
    assert not len(serve((tf.zeros([0], tf.string),))[name])


@pytest.mark.slow
def test_an_exported_model_reads_all_of_a_text_and_cuts_pairs(tmp_path):
    model = load_windows("classification", "mean")
    bert_zoo.export(model, tmp_path)
    serve = tf.saved_model.load(str(tmp_path)).signatures
    texts, pairs = tf.constant(MIXED), model.predict((MIXED, MIXED), verbose=0)
    served = serve["serving_default"](text=texts)["logits"]
    np.testing.assert_allclose(served, model.predict(MIXED, verbose=0), atol=1e-6)
    served = serve["pairs"](text=texts, text_pair=texts)["logits"]
    np.testing.assert_allclose(served, pairs, atol=1e-5)


def load(task, **options):
    return lambda: load_task(task, **options)


@refusals(
    (load("classification", long_texts="first"), "long_texts is 'first'; it must be one of ['cut'"),
    (load("classification", long_texts="mean", stride=0), "stride is 0; it must be a whole number"),
    (load("classification", stride=9), "stride is 9, but long texts are cut"),
    (
        load("token_classification", long_texts="mean"),
        "for the tasks encoder, classification",
    ),
    (
        lambda: load_recurrent("hf_adaptive", "encoder", long_texts="mean"),
        "without a memory",
    ),
)
def test_what_cannot_be_is_said_by_load(call, words):
    assert_refused(call, words)


# --- The word on texts that are cut --------------------------------------------------------------

LABELS = np.zeros(len(MIXED), int)
CALLS = {
    "classify": lambda model: model.classify(MIXED, batch_size=2),
    "evaluate": lambda model: model.evaluate(MIXED, LABELS, batch_size=2, verbose=0),
    "fit": lambda model: model.fit(
        MIXED, LABELS, batch_size=2, epochs=2, validation_data=(MIXED[:2], LABELS[:2]), verbose=0
    ),
}


@pytest.mark.parametrize(
    "call", ["classify", "fit", pytest.param("evaluate", marks=pytest.mark.slow)]
)
def test_cut_texts_are_said_once_with_the_numbers_of_the_call(call, caplog):
    model = load_task("classification")
    with caplog.at_level(logging.WARNING):
        CALLS[call](model)
        model.preprocessor(MIXED)
    said = [record.message for record in caplog.records if "truncated" in record.message]
    assert len(said) == 1
    assert said[0].startswith("2 of the 4 texts exceed the model's limit of 40 tokens")
    assert "load() with long_texts='mean' or 'max', which reads them whole" in said[0]


def test_of_a_stream_the_first_cut_batch_is_said(caplog):
    model = load_task("classification")
    dataset = tf.data.Dataset.from_tensor_slices(MIXED * 2).batch(3)
    with caplog.at_level(logging.WARNING):
        model.predict(dataset, verbose=0)
    (said,) = (record.message for record in caplog.records if "truncated" in record.message)
    assert said.startswith(("1 of the 3 texts", "2 of the 3 texts", "1 of the 2 texts"))
    assert "long_texts='mean'" in said


def test_the_advice_is_what_helps():
    model = loaded_task("classification")
    assert "load() with long_texts='mean' or 'max'" in advice(model, False, pooled=True)
    assert "Pairs are always cut" in advice(model, True, pooled=True)
    assert "long_texts" not in advice(model.encoder, False, pooled=False)
    shorter = load_task("classification", max_length=20)
    assert advice(shorter, True, pooled=True) == (
        "To keep them, call load() with max_length, up to 40."
    )


def test_windows_need_no_word(caplog):
    model = load_windows("classification", "mean")
    with caplog.at_level(logging.WARNING):
        model.text_reader(MIXED)
        assert not caplog.records
        model.text_reader((MIXED, MIXED))
    assert "were truncated" in caplog.text
