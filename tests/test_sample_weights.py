"""Weights of texts and of words in `fit` and `evaluate`. test_conformance.py has those of ids."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import text_results
from helpers import TEXTS, load_case, load_task, loaded_task, slow_but

pytestmark = pytest.mark.usefixtures("eager")
close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
QUICK = ("token_classification",)
WORDS = [["Ada", "left", "big", "Berlin"], ["we", "ran"]]
TAGS = [["B-PER", "O", "O", "B-LOC"], ["O", "O"]]


def loss(model, *data, **options) -> float:
    return model.evaluate(*data, **options, verbose=0, return_dict=True)["loss"]


@pytest.mark.parametrize("name", slow_but(text_results.WEIGHED, *QUICK))
def test_a_text_of_weight_0_is_left_out(name):
    text_results.check_weights(name)


def test_weights_of_words_go_to_the_tokens_with_their_tags():
    """The first pieces; other tokens have neither."""
    model, tags = loaded_task("token_classification"), [[1, 0, 0, 3], [0, 0]]
    weights = [[2.0, 3.0, 0.5, 1.0], [4.0, 5.0]]
    rows, weights = (tf.ragged.constant(values) for values in (tags, weights))
    words = tf.ragged.constant(WORDS)
    inputs, labels = model.labelled_texts_to_inputs(words, rows, model.preprocessor)
    found = model.weights_of_text_labels(words, weights, model.preprocessor)
    is_tagged = np.asarray(labels) != -100
    assert found.shape == inputs["token_ids"].shape
    assert np.asarray(found)[is_tagged].tolist() == weights.flat_values.numpy().tolist()
    assert not np.asarray(found)[~is_tagged].any() and (~is_tagged).any()


@pytest.mark.slow
def test_a_word_has_a_weight_as_it_has_a_tag():
    model = loaded_task("token_classification")
    ones, weights = [[0.0, 1, 1, 0], [0, 1]], [[0.0, 1, 2, 0], [0, 0.5]]
    some = [[-100, "O", "O", -100], [-100, "O"]]
    expected = loss(model, WORDS, some)
    close(loss(model, WORDS, TAGS, sample_weight=ones), expected)
    twice = [[2 * weight for weight in row] for row in ones]
    close(loss(model, WORDS, TAGS, sample_weight=twice), 2 * expected)
    expected, ragged = loss(model, WORDS, TAGS, sample_weight=weights), tf.ragged.constant(weights)
    close(loss(model, WORDS, TAGS, sample_weight=ragged), expected)
    columns = (tf.ragged.constant(WORDS), tf.ragged.constant(TAGS), ragged)
    close(loss(model, tf.data.Dataset.from_tensor_slices(columns).batch(2)), expected)
    with pytest.raises(ValueError, match="Row 1 has 2 words, but 3 weights"):
        loss(model, WORDS, TAGS, sample_weight=[weights[0], [1, 2, 3]])


@pytest.mark.slow
def test_datasets_and_generators_have_weights_as_lists_have():
    """Where labels are inputs, as (x, None, weights)."""
    model, weights = load_task("token_classification", dropout=0.0), np.array([1.0, 0.5])
    expected = loss(model, WORDS, TAGS, sample_weight=weights)
    columns = (tf.ragged.constant(WORDS), tf.ragged.constant(TAGS), weights)
    close(loss(model, tf.data.Dataset.from_tensor_slices(columns).batch(2)), expected)

    model = load_case("gpt2/causal_lm", dropout=0.0)
    expected = loss(model, TEXTS[:2], sample_weight=weights)
    texts = tf.data.Dataset.from_tensor_slices((TEXTS[:2], weights)).batch(2)
    texts = texts.map(lambda text, weight: (text, None, weight))
    ids = {name: value.numpy() for name, value in model.preprocessor.scored(TEXTS[:2]).items()}
    for data in (texts, iter([(ids, None, weights)])):
        close(loss(model, data), expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 5)), r"sample_weight has the shape \(2, 5\), and the labels \(2, 8\)"),
        ({"logits": np.ones(2)}, r"a dict of \['logits'\], but the labels are one array"),
    ],
)
def test_weights_that_are_neither_of_rows_nor_of_labels_are_refused(weights, message):
    ids = {"token_ids": np.full((2, 8), 5)}
    with pytest.raises(ValueError, match=message):
        loss(loaded_task("token_classification"), ids, np.zeros((2, 8)), sample_weight=weights)
