"""Texts go into any Keras model, which is trained, saved and exported with its vocabulary."""

import functools
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    GOLDEN,
    TASK_CASES,
    TEXTS,
    assert_refused,
    assert_same,
    load_recurrent,
    loaded,
    loaded_task,
    run_program,
    slow_but,
    task_inputs,
)

import bert_zoo
from bert_zoo.layers import Preprocessor

LABELS = np.array([0, 1, 0])
# What models of two sentences read: the second texts.
SECOND = ["it was good", "not very", "they saw it"]


def classifier_of(directory) -> keras.Model:
    """As a user writes it."""
    texts = keras.Input(shape=(), dtype="string", name="text")
    ids = Preprocessor(directory, max_length=16)(texts)
    vectors = bert_zoo.load(directory, "embedding")(ids)
    model = keras.Model(texts, keras.layers.Dense(2)(vectors))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=False)
    return model


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that learned from strings, whose encoder's directory is gone."""
    source = shutil.copytree(GOLDEN / "encoder", tmp_path_factory.mktemp("source") / "model")
    model = classifier_of(source)
    shutil.rmtree(source)
    before = model.evaluate(tf.constant(TEXTS), LABELS, verbose=0)
    model.fit(np.array(TEXTS, dtype=object), LABELS, verbose=0, epochs=2)
    batches = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(2)
    model.fit(batches, verbose=0, epochs=20)
    assert model.evaluate(tf.constant(TEXTS), LABELS, verbose=0) < 0.7 * before
    return model


def test_the_layer_gives_the_preprocessors_ids():
    encoder = loaded("encoder")
    layer = Preprocessor(GOLDEN / "encoder", max_length=12)
    expected = encoder.preprocessor.with_options(sequence_length=12)
    for texts in (TEXTS, np.array(TEXTS), tf.constant(TEXTS), tf.constant(TEXTS)[:, None]):
        assert_same(layer(texts), expected(TEXTS))
    assert_same(layer((np.array(TEXTS), np.array(SECOND))), expected((TEXTS, SECOND)))
    assert_same(Preprocessor(encoder, max_length=12)(TEXTS), expected(TEXTS))
    fixed = Preprocessor(encoder, padding="fixed")
    assert fixed(["a cat"])["token_ids"].shape == (1, encoder.longest_input)
    symbolic = fixed(keras.Input(shape=(), dtype="string"))
    assert {name: value.shape for name, value in symbolic.items()} == dict.fromkeys(
        ("token_ids", "segment_ids", "padding_mask"), (None, encoder.longest_input)
    )


def test_a_model_of_strings_comes_back_in_a_fresh_process(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    trained.export(str(tmp_path / "exported"), verbose=False)
    tf.saved_model.save(trained, str(tmp_path / "saved"))
    program = f"""
import numpy as np, tensorflow as tf
texts = tf.constant({TEXTS!r})
import tensorflow_text
exported = tf.saved_model.load({str(tmp_path / "exported")!r})
saved = tf.saved_model.load({str(tmp_path / "saved")!r})
(by_signature,) = saved.signatures["serving_default"](texts).values()
import bert_zoo, keras
reloaded = keras.models.load_model({str(tmp_path / "model.keras")!r})
outputs = [exported.serve(texts), by_signature, reloaded.predict(texts, verbose=0)]
np.save({str(tmp_path / "outputs.npy")!r}, np.stack(outputs))
"""
    run_program("-c", program)
    expected = trained.predict(tf.constant(TEXTS), verbose=0)
    for outputs in np.load(tmp_path / "outputs.npy"):
        np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_what_the_layer_cannot_do_is_said(tmp_path):
    for source in (GOLDEN / "encoder", loaded("encoder")):
        words = "max_length is 41 | from 3 to 40"
        assert_refused(functools.partial(Preprocessor, source, max_length=41), words)
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    for name in ("vocab.txt", "tokenizer.json"):
        (directory / name).unlink(missing_ok=True)
    assert_refused(lambda: Preprocessor(directory), "vocab.txt")
    config = json.loads(json.dumps(Preprocessor(GOLDEN / "encoder").get_config()))
    copy = Preprocessor.from_config(config)
    assert_refused(lambda: copy(TEXTS), "no vocabulary | Make a new layer")


@pytest.mark.parametrize("task", slow_but(TASK_CASES, "multiple_choice"))
def test_kerass_own_export_gives_equal_outputs(task, tmp_path):
    model = loaded_task(task)
    model.export(str(tmp_path), verbose=False)
    given = task_inputs(task)
    ids = {name: np.zeros_like(given["token_ids"]) for name in ("token_ids", "segment_ids")}
    ids |= {"padding_mask": np.ones_like(given["token_ids"])}
    ids |= {name: value for name, value in given.items() if name in ids}
    exported = tf.saved_model.load(str(tmp_path))
    outputs = exported.serve({name: tf.constant(value) for name, value in ids.items()})
    assert_same(outputs, model(ids), atol=2e-5)


def test_a_model_with_a_memory_is_exported_by_bert_zoo_alone(tmp_path):
    assert_refused(lambda: load_recurrent("hf_adaptive").export(str(tmp_path)), "bert_zoo.export")
