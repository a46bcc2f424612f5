"""Texts in memory are read once, into rows of ids, of which `fit` and `evaluate` make their batches."""

import logging
from itertools import chain

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import CHOICES, PAIRS, TEXTS, load_task

from bert_zoo.data.buckets import Batches
from bert_zoo.models import text_rows

WORDS = [["a", "cat", "ran"], ["the", "unbelievably", "big", "red", "house"], ["no"]]
TAGS = [[0, 1, 2], [2, 1, 0, 1, -100], [1]]
SENTENCES = tf.ragged.constant(WORDS), tf.ragged.constant(TAGS)
OF_WORDS = [[1.0, 2.0, 0.5], [1.0, 0.0, 3.0, 1.0, 1.0], [2.0]]
WEIGHTS = np.float32([1.0, 0.5, 2.0])

# Task -> x, y and sample_weight in memory, and the same for tf.data.
DATA = {
    "classification": ((TEXTS, [0, 1, 2], WEIGHTS), (TEXTS, [0, 1, 2], WEIGHTS)),
    "classification of pairs": ((PAIRS, [0, 1, 2]), (PAIRS, [0, 1, 2])),
    "regression": ((TEXTS, WEIGHTS), (TEXTS, WEIGHTS)),
    "token_classification": ((WORDS, TAGS, WEIGHTS), (*SENTENCES, WEIGHTS)),
    "token_classification with weights": (
        (WORDS, TAGS, OF_WORDS),
        (*SENTENCES, tf.ragged.constant(OF_WORDS)),
    ),
    "multiple_choice": ((CHOICES, [0, 1, 0]), (CHOICES, [0, 1, 0])),
    "embedding": (((TEXTS, TEXTS[::-1]),), ((TEXTS, TEXTS[::-1]),)),
    "embedding with scores": (((TEXTS, TEXTS[::-1]), WEIGHTS), ((TEXTS, TEXTS[::-1]), WEIGHTS)),
}


def batches_of(model, *data, **options) -> Batches:
    found = model.training_arguments(*data, **options)["x"]
    assert isinstance(found, Batches)
    return found


def flat(batch) -> list[np.ndarray]:
    return [np.asarray(part) for part in tf.nest.flatten(batch)]


def assert_equal_batches(found, expected) -> None:
    for some, others in zip(map(flat, found), map(flat, expected), strict=True):
        assert [part.dtype for part in some] == [part.dtype for part in others]
        for part, other in zip(some, others, strict=True):
            np.testing.assert_array_equal(part, other)


@pytest.fixture(scope="module")
def classifier():
    model = load_task("classification", dropout=0.0)
    model.run_eagerly = True
    return model


@pytest.mark.parametrize("kind", DATA)
def test_rows_are_what_a_pipeline_reads_from_the_same_texts(kind):
    model = load_task(kind.split(" ")[0], dropout=0.0)
    model.preprocessor = model.preprocessor.with_options(bucket=1)
    in_memory, columns = DATA[kind]
    found = batches_of(model, *in_memory, batch_size=2)
    dataset = tf.data.Dataset.from_tensor_slices(columns).batch(2)
    expected = [*model.training_arguments(dataset)["x"]]
    # `evaluate` may sort rows by length.
    for rows in (slice(0, 2), slice(2, 3)):
        gathered = found.rows.gather(np.arange(3)[rows])
        assert_equal_batches([gathered], [expected[rows.start // 2]])
    for array, spec in zip(flat(found.at(0)), tf.nest.flatten(found.specs()), strict=True):
        assert spec.is_compatible_with(tf.constant(array)) and spec.shape[0] is None
    assert sum(len(flat(batch)[0]) for batch in found.epoch()) == 3


def numbers_read(model, monkeypatch, *arguments, **options) -> list[list[int]]:
    """The rows of each batch of a `fit`."""
    numbers, rows_of_texts = [], text_rows.rows_of_texts

    def watched(*given, **named):
        rows = rows_of_texts(*given, **named)
        keep = rows.gather
        return rows._replace(gather=lambda some: numbers.append(some.tolist()) or keep(some))

    monkeypatch.setattr("bert_zoo.models.base.rows_of_texts", watched)
    monkeypatch.setattr(model, "train_step", lambda batch: {"loss": 0.0})  # which rows, is asked
    model.fit(*arguments, verbose=0, **options)
    monkeypatch.undo()
    return numbers[1:]  # without that for the specs


def test_a_seed_repeats_the_order_and_a_stop_does_not_change_it(classifier, monkeypatch):
    texts, labels = [f"text {'a ' * (i % 7)}" for i in range(12)], [i % 3 for i in range(12)]

    def orders(seed: int, **options) -> list[list[int]]:
        keras.utils.set_random_seed(seed)
        options = {"batch_size": 4, **options}
        return numbers_read(classifier, monkeypatch, texts, labels, **options)

    through = orders(1, epochs=3)
    epochs = [through[:3], through[3:6], through[6:9]]
    assert all(sorted(chain(*epoch)) == [*range(12)] for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert orders(1, epochs=1)[:3] == epochs[0]
    assert orders(1, initial_epoch=2, epochs=3)[:3] == epochs[2]
    assert orders(2, epochs=1)[:3] != epochs[0]
    assert [*chain(*orders(1, shuffle=False)[:3])] == [*range(12)]
    # Epochs of another number of steps follow each other in the same order.
    assert orders(1, epochs=2, steps_per_epoch=2)[:4] == through[:4]


def test_texts_are_read_once_and_the_reading_is_traced_once(monkeypatch):
    model = load_task("classification", dropout=0.0)
    texts, labels = TEXTS * 10, [0, 1, 2] * 10
    traced, read = [], []
    texts_to_inputs, tables = model.texts_to_inputs, text_rows.token_tables
    monkeypatch.setattr(
        model, "texts_to_inputs", lambda *given: traced.append(1) or texts_to_inputs(*given)
    )
    monkeypatch.setattr(text_rows, "token_tables", lambda *given: read.append(1) or tables(*given))
    for fits in (1, 2):
        model.fit(
            texts, labels, validation_data=(TEXTS, [0, 1, 2]), epochs=3, batch_size=8, verbose=0
        )
        assert (len(traced), len(read)) == (1, 2 * fits)
    model.evaluate(texts, labels, verbose=0)
    assert len(traced) == 1


@pytest.mark.parametrize("task", ["classification", "token_classification"])
def test_batches_have_little_padding(task):
    model = load_task(task)
    rng = np.random.default_rng(0)
    texts = [["a"] * number for number in rng.integers(1, 25, 2000)]
    y = [[0] * len(words) for words in texts]
    if task == "classification":
        texts, y = [" ".join(words) for words in texts], [0] * len(texts)
    batches = batches_of(model, texts, y, batch_size=32, shuffle=True)
    masks = [batches.at(number)[0]["padding_mask"] for number in range(batches.per_epoch)]
    assert sum(mask.sum() for mask in masks) > 0.95 * sum(mask.size for mask in masks)


@pytest.mark.parametrize(
    ("labels", "groups"),
    [(None, False), (np.linspace(0, 1, 200), False), (np.arange(200) % 3, True)],
)
def test_rows_that_a_loss_compares_are_not_grouped_by_length(labels, groups):
    model = load_task("embedding")
    texts = ["a " * (1 + i % 20) + str(i) for i in range(200)]
    batches = batches_of(model, (texts, texts[::-1]), labels, batch_size=10, shuffle=True)
    assert batches.order.batching.group_by_length is groups


def test_a_loss_over_rows_of_several_lengths_is_that_of_their_order(classifier):
    texts = [f"{'a ' * (i % 7)}cat" for i in range(10)]
    labels = np.arange(10) % 3
    found = classifier.evaluate(texts, labels, batch_size=4, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(4)
    np.testing.assert_allclose(found, classifier.evaluate(dataset, verbose=0), rtol=1e-5)
    expected = [classifier(classifier.preprocessor([text]))[0] for text in texts]
    np.testing.assert_allclose(
        classifier.predict(texts, batch_size=4, verbose=0), expected, atol=1e-5
    )


def test_too_many_texts_are_read_in_each_epoch(classifier, monkeypatch, caplog):
    monkeypatch.setattr(text_rows, "MAX_BYTES", 10)
    with caplog.at_level(logging.INFO, "bert_zoo"):
        data = classifier.training_arguments(TEXTS, [0, 1, 2], shuffle=True)["x"]
    assert isinstance(data, tf.data.Dataset)
    assert "are not kept as ids, but read again in each epoch" in caplog.text
