"""What models compute: in every way of running, with every input, at every precision."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TASK_CASES,
    assert_refused,
    assert_same,
    flat,
    load_case,
    load_task,
    loaded_task,
    task_inputs,
)

from bert_zoo.family import Pooling
from bert_zoo.layers import TransformerBackbone
from bert_zoo.training import rematerialize

TOLERANCE = 1e-5


# --- Ways of running -----------------------------------------------------------------------------


# --- Inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["encoder", "embedding", "classification", "masked_lm"])
def test_missing_inputs_have_their_defaults(task):
    model = loaded_task(task)
    ids = task_inputs(task)["token_ids"]
    given = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    given["position_ids"] = np.broadcast_to(np.arange(ids.shape[1], dtype="int32"), ids.shape)
    assert_same(model({"token_ids": ids}), model(given), 1e-6)


def test_segments_and_positions_matter():
    model, inputs = loaded_task("encoder"), task_inputs("encoder")
    base = flat(model(inputs))["sequence_output"]
    for name, value in (
        ("segment_ids", 1 - inputs["segment_ids"]),
        ("position_ids", np.full_like(inputs["token_ids"], 7)),
    ):
        other = flat(model({**inputs, name: value}))["sequence_output"]
        assert np.abs(other - base).max() > 0.01, name


# --- Masked positions ----------------------------------------------------------------------------


def test_vocabulary_projection_runs_at_mask_positions_only():
    model, inputs = loaded_task("masked_lm"), task_inputs("masked_lm")
    inputs["mask_positions"] = np.zeros((4, 3), "int32")
    graph = tf.function(model).get_concrete_function(
        {name: tf.TensorSpec(value.shape, "int32") for name, value in inputs.items()}
    )
    vocabulary = model.encoder.config.vocab_size
    shapes = {
        tuple(op.outputs[0].shape) for op in graph.graph.get_operations() if "MatMul" in op.type
    }
    # Without oneDNN, the table is the left factor (see `vocabulary_logits`).
    rows = {row for shape in shapes if vocabulary in shape for row in {*shape} - {vocabulary}}
    assert rows == {4 * 3}


# --- The tokens that heads read ------------------------------------------------------------------


def rows_of_last_feed_forward(model, inputs, monkeypatch) -> int:
    """How many tokens the last layer's feed-forward part reads."""
    rows = []
    feed_forward = model.encoder.stack.blocks[-1].feed_forward
    run = feed_forward.call

    def counted(x, **options):
        rows.append(x.shape[0])
        return run(x, **options)

    monkeypatch.setattr(feed_forward, "call", counted)
    model(inputs)
    return rows[-1]


FIRST_ONLY = """classification multi_label_classification regression multiple_choice
    next_sentence_prediction reranking"""


@pytest.mark.parametrize("task", [task for task in TASK_CASES if task != "encoder"])
def test_the_last_layer_computes_what_the_head_reads(task, monkeypatch):
    model, inputs = load_task(task), task_inputs(task)
    whole = model.encoder(model.encoder_inputs(inputs))
    assert_same(model(inputs), model.head_outputs(whole, inputs), 1e-6)
    texts = int(np.prod(inputs["token_ids"].shape[:-1]))
    tokens = texts if model.reads_first_only else inputs["token_ids"].size
    assert rows_of_last_feed_forward(model, inputs, monkeypatch) == tokens
    assert model.reads_first_only == (task in FIRST_ONLY.split())


@pytest.mark.parametrize("kind", ["", "packed", "rematerialized"])
@pytest.mark.parametrize(
    "case", [TASK_CASES["pretraining"], "spanbert/pretraining", "mpnet/masked_lm"]
)
def test_pretraining_computes_the_last_layer_where_heads_read(case, kind, monkeypatch):
    """Same logits and gradients as with all tokens, from as many as are asked for, and the first."""
    model = load_case(case, dropout=0.0)
    rows, length = 3, 12
    random = np.random.default_rng(0)
    inputs = {"token_ids": random.integers(5, 20, (rows, length), "int32")}
    inputs["mask_positions"] = np.int32([[1, 5], [0, 0], [11, 3]])
    if "span_boundaries" in model.positions_read:
        spans = [[2, 5], [0, 0]], [[7, 9], [2, 5]], [[0, 4], [8, 11]]
        inputs["span_boundaries"] = np.int32(spans)
    if kind == "packed":
        inputs["document_ids"] = np.int32([[1] * 5 + [2] * 7, [1] * 12, [1] * 8 + [2] * 3 + [0]])
    elif kind == "rematerialized":
        rematerialize(model)

    def of_all_tokens():
        encoded = model.encoder(model.encoder_inputs(inputs), training=True)
        return model.head_outputs(encoded, inputs, True)

    results = []
    for outputs in (lambda: model(inputs, training=True), of_all_tokens):
        with tf.GradientTape() as tape:
            given = outputs()
            loss = sum(tf.reduce_mean(tf.square(value)) for value in tf.nest.flatten(given))
        values = {v.path: v.value for v in model.trainable_variables}
        gradients = tape.gradient(loss, values)
        found = {p: tf.convert_to_tensor(g) for p, g in gradients.items() if g is not None}
        results.append((given, found))
    assert_same(*results, TOLERANCE)
    pools = model.encoder.backbone.pooler is not None and kind != "packed"
    asked = 2 + 4 * ("span_boundaries" in inputs) + pools
    assert rows_of_last_feed_forward(model, inputs, monkeypatch) == rows * asked


def test_positions_of_the_encoder_are_checked():
    model, inputs = loaded_task("encoder"), task_inputs("encoder")
    call = functools.partial(model, inputs, positions=np.int32([[3, 16]]))
    assert_refused(call, "positions[0, 1] is 16, outside of [0, 16)")


def test_vectors_of_the_first_token_need_no_other(monkeypatch):
    model, inputs = load_task("embedding"), task_inputs("embedding")
    model.encoder.pooling = Pooling("cls", normalize=False)
    expected = model.encoder(inputs)["sequence_output"][:, 0]
    assert_same(model(inputs), expected, 1e-6)
    assert rows_of_last_feed_forward(model, inputs, monkeypatch) == len(expected)


# --- Dropout -------------------------------------------------------------------------------------


# What tasks name as global; those that read every token alike name nothing.
GLOBAL_TOKENS = dict.fromkeys({*FIRST_ONLY.split()}, "first")
GLOBAL_TOKENS |= {"question_answering": "first_text", "multiple_choice": "second_text"}


@pytest.mark.parametrize("task", sorted(TASK_CASES))
def test_a_task_names_global_tokens_to_a_backbone_that_has_them(task, monkeypatch):
    seen, call = [], TransformerBackbone.call

    def recording(self, inputs, positions=None, global_tokens=None, training=None):
        seen.append(global_tokens)
        return call(self, inputs, positions, training)

    monkeypatch.setattr(TransformerBackbone, "has_global_tokens", True)
    monkeypatch.setattr(TransformerBackbone, "call", recording)
    load_task(task)(task_inputs(task))
    assert seen == [GLOBAL_TOKENS.get(task)]


def test_dropout_acts_in_training_alone():
    model, inputs = load_task("classification"), task_inputs("classification")
    assert_same(model(inputs), model(inputs))
    first, second = (flat(model(inputs, training=True))[""] for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    silent = load_task("classification", dropout=0.0)
    # Rounding differs: in training, GELU is computed in another way.
    assert_same(silent(inputs, training=True), silent(inputs), 2e-6)


def test_dropout_on_attention_is_set_apart_from_all_other():
    for dropout, others in ((None, 0.1), (0.3, 0.3)):
        model = load_task("classification", dropout=dropout, attention_dropout=0.0)
        assert model.encoder.config.hidden_dropout == others
        assert {block.attention.dropout.rate for block in model.encoder.stack.blocks} == {0.0}
        assert {block.dropout.rate for block in model.encoder.stack.blocks} == {others}


def test_classifier_dropout_is_the_checkpoints_own():
    config = load_case("classification_dropout").encoder.config
    assert config.classifier_dropout is not None
    assert config.classifier_dropout != config.hidden_dropout
    model = load_case("classification_dropout")
    assert model.classifier.dropout.rate == config.classifier_dropout


# --- As Keras models -----------------------------------------------------------------------------


def test_encoder_is_a_layer_of_a_functional_model():
    encoder, inputs = loaded_task("encoder"), task_inputs("encoder")
    symbols = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
    outputs = encoder(symbols)
    logits = keras.layers.Dense(2)(keras.layers.Dropout(0.1)(outputs["pooled_output"]))
    model = keras.Model(symbols, logits)
    assert model(inputs).shape == (4, 2)
    assert len(model.trainable_variables) == len(encoder.trainable_variables) + 2
    model.compile("adam", "mse", jit_compile=False)
    model.predict(inputs, verbose=0)
    probe = keras.Model(symbols, outputs["sequence_output"])
    assert_same(probe(inputs), encoder(inputs)["sequence_output"], 1e-6)
