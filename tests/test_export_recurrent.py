"""SavedModels of models that carry a memory: whole texts, segment by segment, and in training."""

import functools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    assert_refused,
    assert_same,
    directory_of,
    load_recurrent,
    memoized_exports,
    slow_but,
    steps_of,
)
from helpers import recurrent_arrays as golden

import bert_zoo
from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models import CausalLM, Encoder, StatefulLM
from bert_zoo.serving import HUB_NAMES

TOLERANCE = 1e-5
# Zeros, and nothing, before a text.
LM_CASES = ("hf_adaptive", "torch_same_length")
CASES = {"hf_adaptive": "causal_lm", "torch_same_length": "causal_lm", "hf_encoder": "encoder"}
ALL_CASES = slow_but(CASES, "hf_adaptive")
VOCABULARY = ["<eos>", "<unk>", *(f"w{number}" for number in range(48))]
TEXTS = ["w1 w2 w47\nw3 never", "w4", ""]
TOKENS = [["w1", "w2", "w47", "<eos>", "w3", "<unk>"], ["w4"], []]


def segments(case: str) -> list[dict[str, tf.Tensor]]:
    """The reference's consecutive segments."""
    steps = steps_of(f"transformer_xl/{case}")
    return [{name: tf.constant(value) for name, value in step.items()} for step in steps]


def with_vocabulary(case: str, directory):
    """A golden checkpoint's model that reads words, loaded from a copy in `directory`."""
    shutil.copytree(directory_of(f"transformer_xl/{case}"), directory, dirs_exist_ok=True)
    (directory / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    return bert_zoo.load(directory, CASES[case], max_length=16)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """case -> (model with a vocabulary, directory, reloaded), exported once."""
    return memoized_exports(
        lambda case: with_vocabulary(case, tmp_path_factory.mktemp(case)), tmp_path_factory
    )


def start(reloaded, batch_size: int) -> dict:
    return reloaded.signatures["initial_memory"](batch_size=tf.constant(batch_size))


def memory_in(outputs: dict) -> dict:
    return {name: value for name, value in outputs.items() if name.startswith("memory_")}


def by_layers(outputs: dict) -> dict:
    """A model's memory under the names that signatures give it."""
    layers = {f"memory_{layer}": value for layer, value in enumerate(outputs["memory"])}
    return {**layers, "memory_mask": outputs["memory_mask"]}


def close(ours, theirs) -> None:
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)


# --- Segment by segment --------------------------------------------------------------------------


@pytest.mark.parametrize("case", slow_but(LM_CASES, LM_CASES[0]))
def test_segments_are_scored_as_the_reference_does(case, exports):
    model, directory, reloaded = exports(case)
    layer = bert_zoo.layers.SavedModelLayer(directory)
    io, memory, carried = golden(case), start(reloaded, 3), {}
    for number, segment in enumerate(segments(case)):
        after = reloaded.signatures["step"](token_ids=segment["token_ids"], **memory)
        scores = reloaded.signatures["step_scores"](**segment, **memory)
        close(scores["log_probs"], io["log_probs"][number])
        close(scores["total_log_prob"], io["log_probs"][number].sum(-1))
        close(layer({**segment, **memory})["log_probs"], io["log_probs"][number])
        expected = model({"token_ids": segment["token_ids"], **carried})
        assert after["log_probs"].shape == (3, 50)
        close(after["log_probs"], expected["log_probs"][:, -1])
        if "vocab_log_probs" in io:
            close(after["log_probs"], io["vocab_log_probs"][number][:, -1])
        memory, carried = memory_in(scores), {n: expected[n] for n in expected if n != "log_probs"}
        assert_same(memory, memory_in(after), TOLERANCE)
        # That of the original grows from nothing.
        remembered = io[f"memory_{number}"]
        for layer_number, expected in enumerate(remembered):
            close(memory[f"memory_{layer_number}"][:, -remembered.shape[2] :], expected)
    rows = model.preprocessor.scored(TEXTS)
    close(layer(tf.constant(TEXTS))["log_probs"], model(rows)["log_probs"])
    assert layer.count_params() == model.count_params()


@pytest.mark.parametrize("case", ALL_CASES)
def test_a_text_begins_with_the_initial_memory(case, exports):
    model, _, reloaded = exports(case)
    memory = start(reloaded, 2)
    assert_same(memory, by_layers(model.initial_memory(2)))
    segment = {name: value[:2] for name, value in segments(case)[0].items()}
    (name,) = {"log_probs", "sequence_output"} & set(reloaded.signatures["tokens"](**segment))
    step = "step_scores" if "labels" in segment else "step"
    first = reloaded.signatures[step](**segment, **memory)[name]
    close(first, reloaded.signatures["tokens"](**segment)[name])
    close(first, model(segment)[name])


@pytest.mark.slow
def test_a_memory_of_nothing_is_carried_too(tmp_path):
    model = load_recurrent("hf_adaptive", weights=None, mem_len=0, same_length=False)
    bert_zoo.export(model, tmp_path, text=False)
    reloaded = tf.saved_model.load(str(tmp_path))
    segment = segments("hf_adaptive")[0]
    memory = start(reloaded, 3)
    assert memory["memory_0"].shape == (3, 0, 16) and memory["memory_mask"].shape == (3, 0)
    scores = reloaded.signatures["step_scores"](**segment, **memory)
    close(scores["log_probs"], model(segment)["log_probs"])
    assert_same(memory_in(scores), memory)


@pytest.mark.parametrize(
    ("signature", "name", "value"),
    [("tokens", "token_ids", 50), ("step", "token_ids", 50), ("tokens", "labels", -1)],
)
def test_ids_outside_the_vocabulary_are_errors(signature, name, value, exports):
    _, _, reloaded = exports("hf_adaptive")
    segment, memory = segments("hf_adaptive")[0], {}
    if signature == "step":
        segment, memory = {"token_ids": segment["token_ids"]}, start(reloaded, 3)
    segment[name] = tf.fill(segment[name].shape, value)
    call = functools.partial(reloaded.signatures[signature], **segment, **memory)
    assert_refused(call, f"{name} must lie in", tf.errors.InvalidArgumentError)


# --- Texts ---------------------------------------------------------------------------------------


def decoded(tokens: tf.Tensor) -> list[list[str]]:
    return [[token.decode() for token in row if token] for row in tokens.numpy()]


@pytest.mark.parametrize("signature", ["serving_default", "score"])
@pytest.mark.parametrize("case", slow_but(LM_CASES, LM_CASES[0]))
def test_texts_are_scored_token_by_token(case, signature, exports):
    model, _, reloaded = exports(case)
    served = reloaded.signatures[signature](text=tf.constant(TEXTS))
    rows = model.preprocessor.scored(TEXTS)
    log_probs = model(rows)["log_probs"]
    close(served["log_probs"], log_probs)
    close(served["total_log_prob"], tf.reduce_sum(log_probs, -1))
    # An <eos> stands before each text, so that its first token is scored too.
    assert decoded(served["tokens"]) == TOKENS
    mask = served["padding_mask"].numpy() == 1
    assert np.array_equal(mask, rows["labels"] != IGNORED_LABEL)
    assert np.array_equal(served["token_ids"].numpy()[mask], rows["labels"].numpy()[mask])
    assert not served["token_ids"].numpy()[~mask].any()
    assert (served["log_probs"].numpy() < 0).tolist() == mask.tolist()


def test_an_encoder_reads_texts_and_carries_its_memory(exports):
    model, _, reloaded = exports("hf_encoder")
    served = reloaded.signatures["serving_default"](text=tf.constant(TEXTS))
    rows = model.preprocessor(TEXTS)
    close(served["sequence_output"], model(rows)["sequence_output"])
    assert decoded(served["tokens"]) == TOKENS
    assert np.array_equal(served["padding_mask"], rows["padding_mask"])
    io, memory = golden("hf_encoder"), start(reloaded, 3)
    for number, segment in enumerate(segments("hf_encoder")):
        outputs = reloaded.signatures["step"](**segment, **memory)
        close(outputs["sequence_output"], io["sequence_output"][number])
        memory = memory_in(outputs)
        for layer, expected in enumerate(io[f"memory_{number}"]):
            close(memory[f"memory_{layer}"], expected)


@pytest.mark.parametrize("case", ALL_CASES)
def test_an_empty_batch_gives_empty_outputs(case, exports):
    _, _, reloaded = exports(case)
    served = reloaded.signatures["serving_default"](text=tf.zeros([0], tf.string))
    assert {value.shape[0] for value in served.values()} == {0}


# --- The reloaded object -------------------------------------------------------------------------


def under_hub_names(segment: dict) -> dict:
    """A segment as the reloaded object takes it."""
    ones = tf.ones_like(segment["token_ids"])
    inputs = {"padding_mask": ones, "segment_ids": 0 * ones, **segment}
    return {HUB_NAMES.get(name, name): value for name, value in inputs.items()}


@pytest.mark.parametrize("case", ALL_CASES)
def test_the_object_gives_what_its_encoder_and_task_give(case, exports):
    model, _, reloaded = exports(case)
    io, memory = golden(case), {}
    assert len(reloaded.trainable_variables) == len(model.trainable_variables)
    for number, segment in enumerate(segments(case)):
        outputs = reloaded({**under_hub_names(segment), **memory})
        for name in {"sequence_output", "log_probs"} & set(io):
            close(outputs[name], io[name][number])
        # The reference keeps the embeddings first, and its last layer's output before a last norm.
        assert len(outputs["encoder_outputs"]) == 2
        close(outputs["encoder_outputs"][0], io["hidden_states"][number][1])
        assert outputs["default"].shape == (3, 16)
        memory = memory_in(outputs)


def test_the_preprocessor_makes_what_the_object_takes(exports):
    model, _, reloaded = exports("hf_adaptive")
    inputs = reloaded.preprocessor(TEXTS)
    assert_same(inputs, under_hub_names(model.preprocessor.scored(TEXTS)))
    close(reloaded(inputs)["log_probs"], model(model.preprocessor.scored(TEXTS))["log_probs"])
    tokens = reloaded.preprocessor.tokenize(tf.constant(TEXTS))
    assert tokens.to_list() == model.preprocessor.tokenizer(TEXTS).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3).map(reloaded.preprocessor)
    assert_same(next(iter(dataset)), inputs)


def test_what_cannot_be_exported_or_called_is_named(exports, tmp_path):
    _, directory, _ = exports("hf_adaptive")
    layer, segment = bert_zoo.layers.SavedModelLayer(directory), segments("hf_adaptive")[0]
    model = load_recurrent("hf_adaptive")
    without_text = CausalLM(Encoder(model.encoder.config, "transformer_xl"))
    for call, words in (
        (lambda: bert_zoo.export(model, tmp_path, pairs=True, text=False), "single texts"),
        (lambda: bert_zoo.export(StatefulLM(model, batch_size=2), tmp_path), "language_model"),
        (lambda: bert_zoo.export(without_text, tmp_path), "text=False"),
        (lambda: layer({"token_ids": segment["token_ids"]}), "labels"),
        (lambda: layer({**segment, "memory_0": tf.zeros([3, 8, 16])}), "memory_mask"),
    ):
        assert_refused(call, words)


def test_gradients_are_the_models(exports):
    model, _, reloaded = exports("hf_adaptive")
    first, second, _ = segments("hf_adaptive")
    with tf.GradientTape() as tape:
        memory = memory_in(reloaded(under_hub_names(first)))
        loss = tf.reduce_sum(reloaded({**under_hub_names(second), **memory})["log_probs"])
    theirs = tape.gradient(loss, list(reloaded.trainable_variables))
    with tf.GradientTape() as tape:
        memory = {"memory": model(first)["memory"]}
        loss = tf.reduce_sum(model({**second, **memory})["log_probs"])
    ours = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(a), tf.convert_to_tensor(b), atol=1e-4)


# --- SavedModelLayer -----------------------------------------------------------------------------


def test_an_encoder_gets_a_new_head(exports):
    model, directory, _ = exports("hf_encoder")
    layer = bert_zoo.layers.SavedModelLayer(directory)
    texts = keras.Input((), dtype="string")
    outer = keras.Model(texts, keras.layers.Dense(2)(layer(texts)["default"]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    outer.compile("adam", loss, jit_compile=False)
    before = [variable.numpy() for variable in layer.trainable_weights]
    # Words of every cluster.
    outer.fit(tf.constant(["w1 w12 w25 w40", "w4"]), np.array([0, 1]), verbose=0)
    after = [variable.numpy() for variable in layer.trainable_weights]
    assert len(after) == len(model.trainable_variables)
    assert all(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
