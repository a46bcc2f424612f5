"""Keras's own layers on an encoder leave padding out: a text has the same results alone and beside a longer one."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    COVER,
    ONE_A_TASK,
    TEXTS,
    assert_same,
    family_of,
    load_case,
    loaded,
    slow_but,
    steps_of,
    task_of,
)

import bert_zoo
from bert_zoo.layers import Dropout, FirstToken, Preprocessor, ScalarMix
from bert_zoo.training import TokenCrossentropy

FAMILIES = [case for case in ONE_A_TASK if task_of(case) == "encoder"]
QUICK = ("awd_lstm/encoder", "bert/encoder")
SHORT, LONG = 3, 11


def rows_of(encoder) -> tuple[dict, dict]:
    """Random ids of a short row: alone, and beside a longer one."""
    shape = (2, LONG, getattr(encoder.config, "max_characters", 0) or 1)
    ids = np.random.default_rng(0).integers(6, 20, shape).astype("int32")
    main = encoder.backbone.main_input
    ids = ids if main == "char_ids" else ids[..., 0]
    mask = (np.arange(LONG) < [[SHORT], [LONG]]).astype("int32")
    both = {main: ids, "padding_mask": mask}
    return {name: value[:1, :SHORT] for name, value in both.items()}, both


def pooled(outputs, padding_mask, mean, lstm) -> dict:
    """The three ways of pooling; docs/howto/features.md tells why the maximum is not Keras's layer."""
    real = keras.ops.cast(padding_mask, "bool")[..., None]
    states = outputs["hidden_states"]
    return {
        "mean": mean(outputs["sequence_output"]),
        "lstm": lstm(states[len(states) // 2]),
        "maximum": keras.ops.max(keras.ops.where(real, states[-1], -1e9), axis=1),
    }


def new_layers() -> tuple[keras.layers.Layer, keras.layers.Layer]:
    return keras.layers.GlobalAveragePooling1D(), keras.layers.Bidirectional(keras.layers.LSTM(3))


def symbolic(inputs) -> dict:
    return {
        name: keras.Input((None, *value.shape[2:]), dtype="int32", name=name)
        for name, value in inputs.items()
    }


def functional(encoder) -> keras.Model:
    inputs = symbolic(rows_of(encoder)[1])
    return keras.Model(inputs, pooled(encoder(inputs), inputs["padding_mask"], *new_layers()))


@keras.saving.register_keras_serializable("bert_zoo_tests")
class Pooled(keras.Model):
    """As a user writes it."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.mean, self.lstm = new_layers()

    def call(self, inputs):
        return pooled(self.encoder(inputs), inputs["padding_mask"], self.mean, self.lstm)

    def get_config(self):
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
        }

    @classmethod
    def from_config(cls, config):
        config["encoder"] = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**config)


def assert_first_is_same(alone, beside) -> None:
    assert_same(keras.tree.map_structure(lambda x: x[:1], beside), alone, atol=1e-5)


@pytest.mark.parametrize("case", slow_but(FAMILIES, *QUICK))
def test_a_row_is_pooled_alike_alone_and_beside_a_longer_one(case):
    encoder = load_case(case, output_hidden_states=True)
    alone, beside = rows_of(encoder)
    model = Pooled(encoder)
    assert_first_is_same(model(alone), model(beside))


@pytest.mark.parametrize("case", slow_but(FAMILIES, *QUICK))
def test_outputs_of_tokens_have_the_mask_and_no_others(case):
    encoder = loaded(case)
    _, beside = rows_of(encoder)
    for inputs in (beside, symbolic(beside)):
        outputs = encoder(inputs, internals=True)
        for (name, *_), value in keras.tree.flatten_with_path(outputs):
            mask = getattr(value, "_keras_mask", None)
            assert (mask is not None) == (name in ("sequence_output", "hidden_states")), name
            assert (
                mask is None or inputs is not beside or np.array_equal(mask, beside["padding_mask"])
            )


@pytest.mark.parametrize("case", slow_but(FAMILIES, "bert/encoder"))
@pytest.mark.parametrize("make", slow_but([functional, Pooled], functional))
def test_the_mask_is_read_in_graphs_and_after_reloading(make, case, tmp_path):
    encoder = load_case(case, output_hidden_states=True)
    alone, beside = rows_of(encoder)
    model = make(encoder)
    expected = model(alone)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    again.compile(jit_compile=make is Pooled)
    assert_first_is_same(expected, again.predict(beside, verbose=0))


def test_a_mask_may_be_shared_by_all_rows_and_chosen_positions_have_none():
    encoder = loaded("bert/encoder")
    _, inputs = rows_of(encoder)
    inputs["padding_mask"] = inputs["padding_mask"][:1]
    mask = encoder(inputs)["sequence_output"]._keras_mask
    assert np.array_equal(mask, np.repeat(inputs["padding_mask"], 2, axis=0))
    outputs = encoder(inputs, positions=np.array([[0, 5]]), internals=True)
    masks = [getattr(x, "_keras_mask", None) for x in outputs["hidden_states"]]
    assert masks[-1] is None and None not in masks[:-1]
    del inputs["padding_mask"]
    assert getattr(encoder(inputs)["sequence_output"], "_keras_mask", None) is None


@pytest.mark.parametrize("case", slow_but(COVER, *COVER[:3]))
def test_outputs_of_tasks_have_no_mask_that_would_change_their_losses(case):
    outputs = loaded(case)(steps_of(case)[0])
    if task_of(case) != "encoder":
        assert not [
            x for x in keras.tree.flatten(outputs) if getattr(x, "_keras_mask", None) is not None
        ]


@pytest.mark.parametrize(
    "loss", [keras.losses.SparseCategoricalCrossentropy(True), TokenCrossentropy()]
)
def test_a_users_loss_of_tokens_leaves_padding_out(loss):
    encoder = loaded("bert/encoder")
    _, inputs = rows_of(encoder)
    given = symbolic(inputs)
    model = keras.Model(given, keras.layers.Dense(3)(encoder(given)["sequence_output"]))
    real = inputs["padding_mask"] == 1
    labels = np.where(real, np.arange(LONG) % 3, 0 if loss.name.startswith("sparse") else -100)
    model.compile(loss=loss, run_eagerly=True)
    values = keras.losses.sparse_categorical_crossentropy(
        np.maximum(labels, 0), model(inputs), from_logits=True
    )
    wanted = float(np.mean(np.array(values)[real]))
    assert model.evaluate(inputs, labels, verbose=0) == pytest.approx(wanted, rel=1e-5)


def test_layers_of_the_zoo_pass_the_mask_on_as_keras_does():
    encoder = loaded("bert/encoder")
    _, inputs = rows_of(encoder)
    states = encoder(inputs, internals=True)["hidden_states"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (ScalarMix(len(states))(states), Dropout(0.1)(states[-1], training=True)):
            assert np.array_equal(x._keras_mask, inputs["padding_mask"])
        assert getattr(FirstToken()(states[-1]), "_keras_mask", None) is None
    with pytest.warns(UserWarning, match="does not support masking"):
        keras.layers.GlobalMaxPooling1D()(states[-1])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bert/encoder", "elmo/encoder", "xlnet/encoder"])
def test_a_saved_model_in_a_layer_has_the_mask(case, tmp_path):
    encoder, texts = loaded(case), ["a bird", " ".join(TEXTS)]
    bert_zoo.export(encoder, tmp_path)
    layer = bert_zoo.layers.SavedModelLayer(tmp_path)
    mean, lstm = new_layers()

    def pooled(inputs):
        outputs = layer(inputs)
        return mean(outputs["sequence_output"]), lstm(outputs["encoder_outputs"][0])

    wanted = mean(encoder(encoder.preprocessor(texts))["sequence_output"])
    for read in (lambda rows: dict(encoder.preprocessor(rows)), tf.constant):
        beside = pooled(read(texts))
        assert_first_is_same(pooled(read(texts[:1])), beside)
        assert_same(beside[0], wanted, atol=1e-5)


@pytest.mark.parametrize("case", slow_but(FAMILIES, "elmo/encoder"))
def test_the_layer_of_texts_fits_the_encoder(case, tmp_path):
    encoder = loaded(case)
    if not encoder.has_preprocessor:
        encoder = bert_zoo.load(f"{family_of(case)}_nano")
    texts = keras.Input((), dtype="string")
    ids = Preprocessor(encoder)(texts)
    model = keras.Model(
        texts, keras.layers.GlobalAveragePooling1D()(encoder(ids)["sequence_output"])
    )
    given = encoder.preprocessor(TEXTS)
    assert {name: x.shape[2:] for name, x in ids.items()} == {
        n: x.shape[2:] for n, x in given.items()
    }
    beside = model(tf.constant(TEXTS))
    assert_same(beside, keras.layers.GlobalAveragePooling1D()(encoder(given)["sequence_output"]))
    assert_first_is_same(model(tf.constant(TEXTS[:1])), beside)
    model.save(tmp_path / "model.keras")
    assert_same(keras.saving.load_model(tmp_path / "model.keras")(tf.constant(TEXTS)), beside)
