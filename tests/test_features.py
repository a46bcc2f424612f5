"""Heads on a frozen encoder's layers: what they read, what is trained, and what is kept of them."""

import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    GOLDEN,
    TEXTS,
    TOLERANCE,
    WITH_LAYERS,
    assert_refused,
    load_case,
    load_task,
    refusals,
    slow_but,
    variables_of,
)

import bert_zoo
from bert_zoo import runtime
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.cli.finetune import recipe_for
from bert_zoo.config import HEAD_KINDS, HeadSpec
from bert_zoo.layers import ScalarMix
from bert_zoo.text.preprocessor import pack_words
from bert_zoo.training import Recipe

LABELS = ("no", "yes")
FORMS = [
    ("token_classification", "mix", "linear"),
    ("token_classification", "concat2", "bilstm"),
    ("classification", 1, "linear"),
    ("classification", "mix", "bilstm"),
    ("classification", None, "bilstm"),
]
QUICK = FORMS[0], FORMS[3]


def featured(task: str, features, head: str = "linear", directory=GOLDEN / "encoder", **options):
    return bert_zoo.load(
        directory, task=task, labels=LABELS, features=features, head=head, head_size=None, **options
    )


def test_a_mixture_weighs_layers_by_a_softmax():
    mix = ScalarMix(3)
    states = np.random.normal(size=(3, 2, 5, 4)).astype("float32")
    np.testing.assert_allclose(mix([*states]), states.mean(0), atol=1e-6)
    w, gamma = np.array([0.5, -1.0, 2.0], "float32"), 1.5
    mix.scalars.assign(w)
    mix.gamma.assign([gamma])
    shares = np.exp(w) / np.exp(w).sum()
    expected = gamma * np.tensordot(shares, states, 1)
    np.testing.assert_allclose(mix([*states]), expected, atol=1e-6)


def test_features_name_hidden_states():
    for features, chosen in (
        *(("top", [3]), ("mix", [0, 1, 2, 3]), ("concat2", [2, 3])),
        *(("0", [0]), (-2, [2]), (None, [3])),
    ):
        assert HeadSpec(features).layers_read(4) == chosen


@pytest.mark.parametrize("case", WITH_LAYERS)
def test_the_layers_of_every_family_are_mixed_and_joined(case):
    """Whatever head the checkpoint was saved with."""
    encoder = load_case(case, "encoder", output_hidden_states=True)
    ids = np.arange(5, 12, dtype="int32").reshape(1, 7)
    inputs = {"token_ids": ids}
    if encoder.backbone.main_input == "char_ids":
        inputs = {"char_ids": np.tile(ids[:, :, None], encoder.config.max_characters)}
    states = [np.asarray(state) for state in encoder(inputs)["hidden_states"]]
    assert len(states) > 1
    wanted = {"concat": np.concatenate(states, axis=-1)}
    if len({state.shape for state in states}) == 1:
        wanted["mix"] = np.mean(states, axis=0)
    else:
        with pytest.raises(ValueError, match="Only layers of the same width can be mixed"):
            load_case(case, "token_classification", features="mix")
    for features, read in wanted.items():
        model = load_case(case, "token_classification", features=features, init=())
        dense = model.classifier.dense
        expected = read @ np.asarray(dense.kernel) + np.asarray(dense.bias)
        atol = 1e-4 * np.abs(expected).max() + TOLERANCE
        np.testing.assert_allclose(model(inputs), expected, atol=atol)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("form", slow_but(FORMS, *QUICK))
def test_what_is_trained_and_kept(form, tmp_path):
    task, features, head = form
    model = featured(task, features, head)
    before, x, y = variables_of(model), TEXTS, ["yes", "no", "yes"]
    if task == "token_classification":
        x = [text.split() for text in TEXTS]
        y = [[label] * len(words) for label, words in zip(y, x, strict=True)]
    model.fit(x, y, verbose=0)
    after = variables_of(model)
    changed = {path for path in before if not np.array_equal(before[path], after[path])}
    assert any(path.startswith("encoder/") for path in changed) == (features is None)
    assert {path for path in before if not path.startswith("encoder/")} <= changed
    bert_zoo.save(model, tmp_path / "saved")
    again = bert_zoo.load(tmp_path / "saved")
    assert again.head == model.head
    assert again.labels == LABELS
    expected = model.predict(TEXTS, verbose=0)
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    words = "Hugging Face transformers and KerasHub have no such class"
    assert_refused(lambda: bert_zoo.save(model, tmp_path / "hf", format="hf"), words)


@pytest.mark.usefixtures("eager")
def test_a_keras_file_holds_the_head_and_what_is_frozen(tmp_path):
    model = featured("classification", "mix", "bilstm")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert [v.shape for v in again.trainable_variables] == [
        v.shape for v in model.trainable_variables
    ]
    expected = model.predict(TEXTS, verbose=0)
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)


def test_another_head_than_the_saved_one_begins_anew(tmp_path, caplog):
    model = featured("classification", "mix")
    bert_zoo.save(model, tmp_path / "saved")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "bert_zoo"):
        same = featured("classification", "mix", directory=tmp_path / "saved")
        assert "randomly initialised" not in caplog.text
        other = featured("classification", "top", directory=tmp_path / "saved")
    assert "no trained classifier" in caplog.text
    np.testing.assert_array_equal(same.classifier.dense.kernel, model.classifier.dense.kernel)
    assert not np.array_equal(other.classifier.dense.kernel, model.classifier.dense.kernel)


@pytest.mark.parametrize("task", ["token_classification", "classification"])
def test_padding_changes_nothing(task):
    model = featured(task, "mix", "bilstm")
    together = model.predict(TEXTS, verbose=0)
    for text, row in zip(TEXTS, together, strict=True):
        (alone,) = model.predict([text], verbose=0)
        np.testing.assert_allclose(alone, row[: len(alone)], atol=TOLERANCE)


def test_a_frozen_encoder_drops_nothing_out_in_training():
    model = featured("token_classification", "mix", dropout=0.0)
    inputs = model.preprocessor(TEXTS)
    np.testing.assert_array_equal(model(inputs, training=True), model(inputs, training=False))


@pytest.mark.slow
@pytest.mark.parametrize("head", HEAD_KINDS)
def test_a_saved_model_gives_the_same_logits(head, tmp_path):
    model = featured("classification", "mix", head)
    bert_zoo.export(model, tmp_path)
    served = tf.saved_model.load(str(tmp_path))
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))["logits"]
    np.testing.assert_allclose(found, model.predict(TEXTS, verbose=0), atol=TOLERANCE)


@pytest.mark.slow
def test_onnx_runs_a_bilstm(tmp_path):
    model = featured("classification", "mix", "bilstm")
    bert_zoo.export(model, tmp_path, format="onnx")
    served, expected = runtime.load(tmp_path).classify(TEXTS), model.classify(TEXTS)
    scores = [[row.score for row in found] for found in (served, expected)]
    np.testing.assert_allclose(*scores, atol=TOLERANCE)


def classifier(task: str = "classification", **options):
    return lambda _: bert_zoo.load(GOLDEN / "encoder", task, **options)


def saved_for_another_task(directory):
    bert_zoo.save(featured("classification", "mix"), directory)
    path = directory / "bert_zoo.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task": "masked_lm"}))
    bert_zoo.load(directory)


@refusals(
    (classifier("masked_lm", features="mix"), "are for the tasks classification"),
    (classifier("encoder", features="top"), "output_hidden_states=True"),
    (classifier(features="last"), "features is 'last'; it must be 'top'"),
    (classifier(features=9), "this encoder has 4 layers, 0"),
    (lambda _: HeadSpec(-5).layers_read(4), "this encoder has 4 layers, 0"),
    (lambda _: HeadSpec("mix5").layers_read(4), "this encoder has 4 layers, 0"),
    (lambda _: ScalarMix(3)([np.ones((2, 5, 4))] * 2), "mixes 3 hidden states, but got 2"),
    (classifier(head="lstm"), "head is 'lstm'; it must be one of"),
    (classifier(head_size=8), "head_size is 8; it needs head='bilstm'"),
    (saved_for_another_task, "sets head"),
    (lambda _: Recipe(features="mix", layer_decay=0.8), "['layer_decay'] are about its training"),
    (
        lambda directory: bert_zoo.export(
            featured("classification", "mix", "bilstm"), directory, format="litert"
        ),
        "loops over tokens of a BiLSTM",
    ),
    (lambda _: load_task("encoder").embed_words(TEXTS, pooling="sum"), "'sum'; it must be one of"),
)
def test_what_cannot_be_is_refused(call, words, tmp_path):
    assert_refused(lambda: call(tmp_path), words)


def test_recipes_train_features_by_their_own_settings(capsys):
    task = make_task(name="messages")
    recipe = recipe_for("bert_nano", task, None, {"features": "top", "head": "linear"})
    assert (recipe.features, recipe.head, recipe.learning_rate) == ("top", "linear", 1e-3)
    assert "Recipe features" in capsys.readouterr().out


def test_words_have_the_vectors_of_their_pieces():
    encoder = bert_zoo.load(GOLDEN / "encoder")
    words = ("unaffable", "cats", ",", "a", "sat")
    texts = [TEXTS[0], "unaffable cats, a sat", ""]
    packed = pack_words([[*words]], encoder.preprocessor)
    (word_ids,) = np.asarray(packed.word_ids)
    assert (word_ids == 0).sum() > 1
    states = encoder(packed.inputs, internals=True)["hidden_states"]
    for features, wanted in {
        "top": states[-1],
        1: states[1],
        "mix": np.mean(states, axis=0),
        "concat2": np.concatenate(states[-2:], axis=-1),
    }.items():
        pieces = np.asarray(wanted)[0][word_ids == 0]
        pooled = {"mean": pieces.mean(0), "first": pieces[0], "last": pieces[-1]}
        for pooling, of_word in pooled.items():
            found = encoder.embed_words(texts, features=features, pooling=pooling)
            assert [row.words for row in found] == [tuple(TEXTS[0].split()), words, ()]
            assert [row.vectors.shape[0] for row in found] == [6, 5, 0]
            np.testing.assert_allclose(found[1].vectors[0], of_word, atol=TOLERANCE)


def test_words_of_long_texts_have_vectors_and_empty_texts_none():
    encoder = bert_zoo.load(GOLDEN / "encoder", max_length=8)
    words = TEXTS[0].split() * 5
    (found,) = encoder.embed_words([words])
    assert found.vectors.shape == (len(words), encoder.config.hidden_size)
    assert np.all(np.abs(found.vectors).sum(-1) > 0)
    assert encoder.embed_words([""])[0].vectors.shape[0] == 0
