"""From texts to texts: generation, scores and training, against the whole model and transformers."""

import contextlib
import functools
import logging
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_refused, refusals

import bert_zoo
from bert_zoo.config import IGNORED_LABEL
from bert_zoo.families.t5.layers import Decoder
from bert_zoo.models import Encoder
from bert_zoo.models.losses import TokenCrossentropy, token_loss
from bert_zoo.tasks.text_to_text import TextToText

GOLDEN = Path(__file__).parent / "golden" / "t5"
SOURCES = ["the cat sat on the big tree .", "we", "a river and the house was higher"]
TARGETS = ["a cat", "the film was it in", "house"]


@functools.cache
def golden(case: str = "text_to_text_gated") -> TextToText:
    """A model that no test changes."""
    return bert_zoo.load(GOLDEN / case, task="text_to_text")


def trained(**options) -> TextToText:
    """A model of its own, compiled without dropout to train."""
    model = bert_zoo.load(GOLDEN / "text_to_text_gated", task="text_to_text", dropout=0.0)
    model.compile(keras.optimizers.Adam(0.01), **{"loss": token_loss(), **options})
    return model


def arrays(inputs) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in inputs.items()}


def source_ids(model, texts=SOURCES) -> dict[str, np.ndarray]:
    return arrays(model.preprocessor(texts))


def labels_of(model, texts=TARGETS) -> np.ndarray:
    target = arrays(model.preprocessor(texts))
    return np.where(target["padding_mask"] == 1, target["token_ids"], IGNORED_LABEL)


def log_probs_at_once(model, source, target_ids: np.ndarray) -> np.ndarray:
    """Log-probabilities [batch, length, vocabulary] of each target token, without anything kept."""
    before = np.pad(target_ids, [(0, 0), (1, 0)])[:, :-1]
    logits = model({**source, "decoder_token_ids": before}, training=False)
    return np.array(keras.ops.log_softmax(logits))


def never_chosen(model) -> list[int]:
    tokenizer = model.preprocessor.tokenizer
    table = model.encoder.config.vocab_size
    return [0, *tokenizer.sentinel_ids, *range(tokenizer.vocab_size, table)]


# --- Generating ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["text_to_text", "text_to_text_gated"])
def test_tokens_are_those_of_transformers(case):
    # Beams among texts that end at different places, of 200 sources.
    stored, model = np.load(GOLDEN / case / "generated.npz"), golden(case)
    source = {name: stored[name].astype("int32") for name in ("token_ids", "padding_mask")}
    stops = stored["stops"].tolist()
    searches = {
        "greedy": {},
        "beams": {"beams": 4},
        "long_beams": {"beams": 3, "length_penalty": 1.5},
    }
    for name in searches.keys() & set(stored):
        options = searches[name]
        found = model.generate(source, max_new_tokens=16, stop=stops, batch_size=100, **options)
        is_stop = np.isin(found, stops)
        found = np.where(np.cumsum(is_stop, axis=1) - is_stop > 0, 0, found)
        assert np.array_equal(found, stored[name][:, : found.shape[1]])
        assert not stored[name][:, found.shape[1] :].any()


def test_beams_share_their_source(monkeypatch):
    model, rows, original = golden("text_to_text"), [], Decoder.step

    def step(decoder, x, source, source_mask, *rest):
        rows.append((x.shape[0], source_mask.shape[0]))
        return original(decoder, x, source, source_mask, *rest)

    monkeypatch.setattr(Decoder, "step", step)
    with run_eagerly():
        model.generate(SOURCES, beams=3, max_new_tokens=2)
    assert set(rows) == {(9, 3)}


@pytest.mark.parametrize("options", [{}, {"beams": 3}])
def test_each_source_of_a_batch_gets_what_it_gets_alone(options):
    model = golden()
    options = {"max_new_tokens": 9, **options}
    together = model.generate(SOURCES, **options)
    assert [model.generate(source, **options) for source in SOURCES] == together
    assert model.generate(SOURCES, batch_size=2, **options) == together
    ids = model.generate(source_ids(model), **options)
    spelled = model.preprocessor.tokenizer.detokenize(ids).numpy()
    assert [text.decode() for text in spelled] == together


@pytest.mark.parametrize("options", [{}, {"top_p": 0.9, "seed": 3}])
def test_a_stream_is_the_text_of_the_same_seed(options):
    model = golden()
    options = {"max_new_tokens": 9, **options}
    whole = model.generate(SOURCES, **options)
    pieces = list(model.generate(SOURCES, stream=True, **options))
    assert ["".join(row) for row in zip(*pieces, strict=True)] == whole
    assert len(pieces) == 9
    assert "".join(model.generate("we", stream=True, **options)) == model.generate("we", **options)
    ids = source_ids(model)
    columns = list(model.generate(ids, stream=True, **options))
    assert {column.shape for column in columns} == {(3, 1)}
    assert np.array_equal(np.concatenate(columns, axis=1), model.generate(ids, **options))


def test_texts_end_before_the_end_token():
    model = golden()
    stop = model.generate(SOURCES[0], max_new_tokens=4, stop=None).split()[2]
    found = model.generate(SOURCES, max_new_tokens=9, stop=[f"▁{stop}", "</s>"])
    free = model.generate(SOURCES, max_new_tokens=9, stop=None)
    wanted = [text.split(f" {stop}")[0].removeprefix(stop) for text in free]
    assert found == wanted and found[0] != free[0]


def test_padding_sentinels_and_rows_beyond_the_vocabulary_are_never_chosen():
    model = golden()
    source, never = source_ids(model), never_chosen(model)
    assert len(never) == 1 + 5 + 3
    free = {"sampler": "random", "temperature": 50.0, "stop": None, "max_new_tokens": 200}
    found = model.generate(source, seed=1, **free)
    assert not np.isin(found, never).any()
    found = model.generate(source, seed=1, sentinels=True, **free)
    assert set(model.preprocessor.tokenizer.sentinel_ids) <= set(found.ravel().tolist())


def test_a_model_without_vocabulary_generates_from_ids():
    model = bert_zoo.load(GOLDEN / "text_to_text_gated", task="text_to_text")
    source = source_ids(model)
    wanted = model.generate(source, max_new_tokens=5, sentinels=True, stop=None)
    model.preprocessor = None
    found = model.generate(source, max_new_tokens=5)
    log_probs = log_probs_at_once(model, source, found)
    assert found.shape == wanted.shape and np.array_equal(log_probs.argmax(axis=-1), found)


def test_the_encoder_runs_once_and_the_vocabulary_at_one_position_a_step(monkeypatch):
    model = trained()
    read, steps = [], []
    encode, step = model.encoder.call, model.decoder.step
    monkeypatch.setattr(model.encoder, "call", lambda *a, **k: read.append(1) or encode(*a, **k))
    monkeypatch.setattr(
        model.decoder, "step", lambda x, *a: steps.append(x.shape[1]) or step(x, *a)
    )
    with run_eagerly():
        model.generate(SOURCES, max_new_tokens=4, stop=None)
    assert len(read) == 1 and steps == [1] * 4


@contextlib.contextmanager
def run_eagerly():
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


# What a language model refuses too stands in test_generation.py.
@refusals(
    (lambda: golden().generate("a", batch_size=0), "batch_size"),
    (lambda: golden().generate(["a", 3]), "sources[1] is 3"),
    (lambda: golden().generate({"ids": [[1]]}), "A source of ids must be a dict"),
    (
        lambda: golden().generate({"token_ids": [[1]], "padding_mask": [[0]]}),
        "Row 0 of the source",
    ),
    (lambda: golden().score(SOURCES, TARGETS[:2]), "3 sources and 2 targets"),
    (lambda: golden().predict(SOURCES, verbose=0), "pass (sources, targets)"),
    (lambda: TokenCrossentropy(z_loss=-1), "z_loss is -1"),
)
def test_what_does_not_fit_is_refused(call, words):
    assert_refused(call, words)


# --- Scoring -------------------------------------------------------------------------------------


def test_scores_are_the_log_softmax_at_the_targets_tokens():
    model = golden()
    scores = model.score(SOURCES, TARGETS, batch_size=2)
    assert [row.text for row in scores] == TARGETS
    tokenizer = model.preprocessor.tokenizer
    for source, target, row in zip(SOURCES, TARGETS, scores, strict=True):
        ids = np.append(tokenizer([target]).numpy()[0], tokenizer.eos_id)[None]
        log_probs = log_probs_at_once(model, source_ids(model, [source]), ids)[0]
        wanted = log_probs[np.arange(ids.size), ids[0]]
        np.testing.assert_allclose(row.log_probs, wanted, atol=1e-5)
        assert row.tokens == tuple(map(tokenizer.id_to_token, ids[0])) and row.tokens[-1] == "</s>"
        assert row.perplexity == pytest.approx(np.exp(-wanted.mean()), rel=1e-5)
        bits = -wanted.sum() / np.log(2) / len(target)
        assert row.bits_per_character == pytest.approx(bits, rel=1e-5)
    assert len(model.score("we", "it")) == 1


# --- Training ------------------------------------------------------------------------------------


def test_texts_and_ids_of_every_shape_are_the_same_data():
    model = trained(metrics=["accuracy"])
    source, labels = source_ids(model), labels_of(model)
    before = np.pad(np.maximum(labels, 0), [(0, 0), (1, 0)])[:, :-1]
    with_decoder = {**source, "decoder_token_ids": before}
    slices = tf.data.Dataset.from_tensor_slices
    data = {
        "lists": (SOURCES, TARGETS),
        "a tuple": ((SOURCES, TARGETS),),
        "arrays": (np.array(SOURCES), np.array(TARGETS)),
        "a dataset of texts": (slices((SOURCES, TARGETS)).batch(3),),
        "ids": (source, labels),
        "a dataset of ids": (slices((source, labels)).batch(3),),
        "the decoder's ids": (with_decoder, labels),
    }
    results = {name: model.evaluate(*given, verbose=0) for name, given in data.items()}
    log_probs = log_probs_at_once(model, source, np.maximum(labels, 0))
    is_real = labels != IGNORED_LABEL
    picked = np.take_along_axis(log_probs, np.maximum(labels, 0)[..., None], 2)[..., 0]
    right = (log_probs.argmax(-1) == labels)[is_real].mean()
    for result in results.values():
        np.testing.assert_allclose(result, [-picked[is_real].mean(), right], rtol=1e-5)


def test_fit_learns_to_copy():
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["cat", "film", "house", "river"], 2)) for _ in range(64)]
    small = {"num_layers": 1, "num_decoder_layers": 1, "hidden_dropout": 0.0}
    config = golden().encoder.config.replace(attention_dropout=0.0, **small)
    model = TextToText(Encoder(config, "t5", preprocessor=golden().preprocessor))
    model.compile(keras.optimizers.Adam(0.02), token_loss(), metrics=["accuracy"])
    history = model.fit(texts, texts, batch_size=16, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 5
    assert history["accuracy"][-1] > 0.8


def test_predict_gives_the_logits_that_fit_learns_by():
    model = golden()
    labels = labels_of(model)
    wanted = model(
        {
            **source_ids(model),
            "decoder_token_ids": np.pad(np.maximum(labels, 0), [(0, 0), (1, 0)])[:, :-1],
        }
    )
    is_real = labels != IGNORED_LABEL
    dataset = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(2)
    pairs = (SOURCES, TARGETS)
    for found in (
        model.predict(pairs, verbose=0),
        model.predict(pairs, batch_size=2, verbose=0),
        model.predict(dataset, verbose=0),
    ):
        found = found[:, : labels.shape[1]][is_real]
        np.testing.assert_allclose(found, np.asarray(wanted)[is_real], atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_cut_targets_are_counted_and_said(caplog):
    model = trained()
    model.preprocessor = model.preprocessor.with_options(sequence_length=4)
    with caplog.at_level(logging.WARNING, logger="bert_zoo.text.preprocessor"):
        model.evaluate(["we", "it"], ["a", "the big city was it in a tree"], verbose=0)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "1 of the 4 texts exceed the model's limit of 4 tokens" in said


def test_z_loss_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 7)).astype("float32") * 3
    labels = np.array([[1, 6, IGNORED_LABEL], [0, IGNORED_LABEL, IGNORED_LABEL]])
    log_z = np.log(np.exp(logits).sum(-1))
    is_real = labels != IGNORED_LABEL
    picked = np.take_along_axis(logits, np.maximum(labels, 0)[..., None], 2)[..., 0]
    plain, extra = (log_z - picked)[is_real], np.square(log_z)[is_real]
    assert float(TokenCrossentropy()(labels, logits)) == pytest.approx(plain.mean(), rel=1e-5)
    assert float(token_loss()(labels, logits)) == pytest.approx(plain.mean(), rel=1e-5)
    loss = TokenCrossentropy(z_loss=0.01)
    wanted = (plain + 0.01 * extra).mean()
    assert float(loss(labels, logits)) == pytest.approx(wanted, rel=1e-5)
    again = TokenCrossentropy.from_config(loss.get_config())
    assert float(again(labels, logits)) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.usefixtures("eager")
def test_accuracy_and_labels_are_read_with_z_loss_too():
    model = trained(loss=TokenCrossentropy(1e-4), metrics=["accuracy"])
    results = model.evaluate(SOURCES, TARGETS, verbose=0, return_dict=True)
    assert results["accuracy"] <= 1
    labels = labels_of(model)
    labels[0, 0] = model.encoder.config.vocab_size
    with pytest.raises(ValueError, match=r"label\[0, 0\] is 98"):
        model.evaluate(source_ids(model), labels, verbose=0)
