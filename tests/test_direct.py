"""Verbs on texts in memory: the same results as through a pipeline, from graphs that are traced once."""

import copy
import json
import pickle
import shutil
import string
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    CHOICES,
    GOLDEN,
    PAIRS,
    TASK_CASES,
    TEXTS,
    assert_same,
    load_task,
    loaded_task,
    slow_but,
)

import bert_zoo
from bert_zoo.family import Pooling
from bert_zoo.layers.common import ACTIVATIONS
from bert_zoo.models import graphs
from bert_zoo.registry import registry
from bert_zoo.tasks import SentenceEmbedder
from bert_zoo.text import LanguageModelPreprocessor, WordLevelTokenizer
from bert_zoo.training import add_lora

TOLERANCE = 1e-5  # of logits; vectors have length 1
LONG = " ".join(TEXTS * 20)
MANY = [f"{TEXTS[i % 3]} {'cat ' * (i % 7)}" for i in range(33)]


def repeated(texts, number: int):
    if isinstance(texts, tuple):
        return tuple(repeated(part, number) for part in texts)
    return (texts * number)[:number]


@pytest.mark.parametrize("task", slow_but(TASK_CASES, "embedding", "classification", "masked_lm"))
def test_predict_gives_what_the_model_gives_for_all_texts_at_once(task):
    model = loaded_task(task)
    kinds = {"multiple_choice": [CHOICES], "question_answering": [PAIRS], "reranking": [PAIRS]}
    for texts in kinds.get(task, [MANY, PAIRS]):
        for number in (1, 5):
            x = repeated(texts, number)
            inputs = model.texts_to_inputs(model.as_text_rows(x), model.preprocessor)
            assert_same(model.predict(x, 4, verbose=0), model(inputs, training=False), TOLERANCE)


def test_predict_gives_what_the_pipeline_gives():
    model = loaded_task("classification")
    piped = model.predict(MANY, verbose=0, callbacks=[keras.callbacks.Callback()])
    assert_same(model.predict(MANY, verbose=0), piped, TOLERANCE)


def test_embed_gives_each_text_its_own_vector_whatever_the_batch():
    encoder = loaded_task("encoder")
    texts = [*MANY, LONG, ""]
    alone = np.concatenate([encoder.embed([text]) for text in texts])
    np.testing.assert_allclose(encoder.embed(texts, batch_size=4), alone, atol=TOLERANCE)
    predicted = loaded_task("embedding").predict(texts, verbose=0)
    np.testing.assert_allclose(predicted, alone, atol=TOLERANCE)


def test_one_trace_serves_all_lengths_and_batches_without_a_word_about_it(monkeypatch, caplog):
    traced = []
    trace = graphs._traced

    def counted(*arguments):
        traced.append(arguments[1])
        return trace(*arguments)

    monkeypatch.setattr(graphs, "_traced", counted)
    model = load_task("classification")
    with caplog.at_level("WARNING", logger="tensorflow"):
        for number in (1, 2, 3, 33, 5, 40):
            model.classify([text[:number] for text in repeated(MANY, number)])
            model.encoder.embed(repeated(MANY, number))
        model.classify(PAIRS)
    # Texts, pairs, and the encoder's texts.
    assert len(traced) == 3
    assert not caplog.records


def test_threads_share_one_graph():
    encoder, threads = load_task("encoder"), 4
    start = threading.Barrier(threads)

    def embed(number):
        start.wait()
        return [encoder.embed([text]) for text in MANY[number : number + 3]]

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(embed, range(threads)))
    for number, vectors in enumerate(found):
        for text, vector in zip(MANY[number:], vectors, strict=False):
            np.testing.assert_allclose(vector, encoder.embed([text]), atol=TOLERANCE)
    assert len(encoder.graphs._graphs) == 1


def _with_lora(model):
    add_lora(model, rank=2)
    for weight in model.encoder.weights:
        if "lora" in weight.name:
            weight.assign(np.full(weight.shape, 0.3))


def _with_other_head(model):
    model.classifier = model.tuned_head(model.num_classes, "classifier")
    model.classifier.build((None, model.encoder.config.hidden_size))


def _to_bfloat16(model):
    for layer in model._flatten_layers():
        layer.dtype_policy = keras.dtype_policies.get("mixed_bfloat16")


def _shortened(model):
    model.preprocessor = model.preprocessor.with_options(sequence_length=6)


# What is changed about a classifier after its first call.
CHANGES = {
    "weights": lambda model: [w.assign(w * 1.5) for w in model.encoder.weights],
    "lora": _with_lora,
    "head": _with_other_head,
    "dtype": _to_bfloat16,
    "preprocessor": _shortened,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_read_anew(change):
    model = load_task("classification")
    before = model.predict(MANY[:4], verbose=0)
    model._tracker.unlock()  # Keras's own LoRA does so to change a layer that is built
    CHANGES[change](model)
    after = model.predict(MANY[:4], verbose=0)
    assert np.abs(np.asarray(before - after, "float32")).max() > 1e-4
    assert_same(after, model(model.preprocessor(MANY[:4]), training=False), 0.05)


def test_changed_pooling_changes_vectors():
    encoder = load_task("encoder")
    mean = encoder.embed(TEXTS)
    encoder.pooling = Pooling("max")
    largest = encoder.embed(TEXTS)
    assert (largest >= mean).all() and (largest > mean).any()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_models_that_were_called_are_copied(copied):
    model = load_task("classification")
    before = model.predict(TEXTS, verbose=0)
    assert_same(copied(model).predict(TEXTS, verbose=0), before)


def test_functions_run_eagerly_where_that_is_asked_for():
    model = load_task("classification")
    tf.config.run_functions_eagerly(True)
    try:
        eager = model.predict(TEXTS, verbose=0)
    finally:
        tf.config.run_functions_eagerly(False)
    assert not model.graphs._graphs
    assert_same(model.predict(TEXTS, verbose=0), eager, TOLERANCE)


def test_graphs_with_other_options_make_room_for_each_other():
    model = load_task("classification")
    shared = tf.constant([1.0])
    for number in range(graphs.MAX_GRAPHS + 3):
        assert graphs.in_graph(model, _scaled, shared, by=number) == [number]
    assert len(model.graphs._graphs) == graphs.MAX_GRAPHS


def _scaled(model, values, *, by):
    return values * by


def test_many_models_in_turn_give_no_warning(caplog):
    with caplog.at_level("WARNING", logger="tensorflow"):
        for number in range(6):
            model = load_task("encoder")
            model.preprocessor(TEXTS)
            graphs.in_graph(model, _scaled, tf.zeros([number + 1]), by=1)
    assert not caplog.records


@pytest.mark.parametrize("family", slow_but(registry().families, "bert", "roberta", "albert"))
def test_every_family_gives_sentence_vectors(family):
    names = ("encoder", "hf_encoder", "masked_lm")
    directory = next(d for n in names if (d := GOLDEN.parent / family / n).is_dir())
    encoder = bert_zoo.load(directory, task="encoder")
    letters = WordLevelTokenizer(["<eos>", "<unk>", *string.ascii_lowercase, " "], unit="character")
    if encoder.backbone.main_input == "token_ids":
        options = {"sequence_length": 16, "report_truncation": False}
        encoder.preprocessor = LanguageModelPreprocessor(letters, **options)
    inputs = encoder.preprocessor(TEXTS)
    tokens = keras.ops.convert_to_numpy(encoder(inputs)["sequence_output"])
    mask = inputs["padding_mask"].numpy()[:, :, None]
    wanted = {"cls": tokens[:, 0], "mean": (tokens * mask).sum(axis=1) / mask.sum(axis=1)}
    for mode, vectors in wanted.items():
        encoder.pooling = Pooling(mode, normalize=False)
        np.testing.assert_allclose(encoder.embed(TEXTS), vectors, atol=TOLERANCE)
        if "embedding" in registry().families[family].tasks:
            embedder = SentenceEmbedder(encoder)
            for found in (embedder.predict(TEXTS, verbose=0), embedder(inputs)):
                np.testing.assert_allclose(found, vectors, atol=TOLERANCE)
    scores = bert_zoo.similarity(TEXTS[0], TEXTS, encoder)
    assert scores.shape == (1, 3)
    assert scores[0, 0] == pytest.approx(1, abs=1e-5)


def test_texts_are_taken_in_every_form():
    encoder = loaded_task("encoder")
    wanted = encoder.embed(TEXTS)
    as_bytes = [text.encode() for text in TEXTS]
    for texts in (np.array(TEXTS), np.array(as_bytes), as_bytes, tf.constant(TEXTS), iter(TEXTS)):
        assert_same(encoder.embed(texts), wanted)
    for text in (TEXTS[0], as_bytes[0], np.array(TEXTS)[0]):
        assert_same(encoder.embed(text), encoder.embed(TEXTS[:1]))
        score = bert_zoo.similarity(text, as_bytes[1], encoder)
        assert isinstance(score, float)
        row = bert_zoo.similarity(text, np.array(TEXTS), encoder)
        assert row.shape == (1, 3)
        assert row[0, 1] == pytest.approx(score, abs=1e-5)
    assert bert_zoo.similarity(tf.constant(TEXTS), TEXTS[:2], encoder).shape == (3, 2)
    with pytest.raises(TypeError, match=r"^b is 3"):
        bert_zoo.similarity("a", 3, encoder)


@pytest.mark.parametrize("name", ["silu", "swish"])
def test_silu_is_x_times_its_sigmoid_and_read_from_hugging_faces_files(name, tmp_path):
    x = np.linspace(-30, 30, 601, dtype="float32")
    np.testing.assert_allclose(ACTIVATIONS["silu"](x), x / (1 + np.exp(-x)), atol=1e-6)
    shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hidden_act": name}))
    encoder = bert_zoo.load(tmp_path / "model")
    assert encoder.config.activation == "silu"
    assert np.abs(encoder.embed(TEXTS) - loaded_task("encoder").embed(TEXTS)).max() > 1e-3
    bert_zoo.save(encoder, tmp_path / "saved", format="hf")
    saved = tmp_path / "saved" / "config.json"
    assert json.loads(saved.read_text())["hidden_act"] == "silu"
    assert_same(bert_zoo.load(tmp_path / "saved").embed(TEXTS), encoder.embed(TEXTS))


def test_threads_wait_for_the_first_call_of_a_graph():
    running, most, calls = 0, 0, []

    def graph(value):
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.05)
        running -= 1
        calls.append(value)
        return value

    call = graphs.with_first_call_locked(graph)
    threads = [threading.Thread(target=call, args=(1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while not calls:
        time.sleep(0.001)
    assert most == 1
    for thread in threads:
        thread.join()
    assert len(calls) == 4 and call(2) == 2
