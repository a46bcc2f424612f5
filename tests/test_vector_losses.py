"""Losses over sparse vectors, token vectors and lists of documents: those of sentence-transformers, in models of each kind."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, assert_refused, load_case, refusals, slow_but, variables_of
from keras import ops

from bert_zoo.embeddings import (
    CoSENT,
    DistillKL,
    ListwiseSoftmax,
    MarginMSE,
    MultipleNegativesRanking,
)
from bert_zoo.layers.heads import normalized
from bert_zoo.tasks import embedding_losses
from bert_zoo.tasks.embedding_losses import Comparison, scores_of_all, scores_of_rows
from bert_zoo.tasks.vectors import VectorModel

with np.load(ALL_GOLDEN / "vector_losses.npz") as file:
    REFERENCE = dict(file)
SIMILARITIES = {"dense": "dot", "sparse": "dot", "tokens": "maxsim"}
SCORES = REFERENCE["scores"]
MARGINS = SCORES[:, :1] - SCORES[:, 1:]
# Name -> the loss, its columns and labels; None for fingerprints of texts that all differ.
LOSSES = {
    "ranking": (MultipleNegativesRanking(), 2, None),
    "ranking_negatives": (MultipleNegativesRanking(), 4, None),
    "margins": (MarginMSE(), 4, MARGINS),
    "margins_of_scores": (MarginMSE(), 4, SCORES),
    "divergence": (DistillKL(), 4, SCORES),
    "divergence_at_2": (DistillKL(temperature=2.0), 4, SCORES),
}


def value_and_gradient(loss, vectors, labels, how: Comparison):
    """Of a loss as files keep it, with respect to vectors that are compared as `how` says."""
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    if labels is None:
        rows, columns = REFERENCE["dense"].shape[0], vectors.shape[1]
        labels = np.arange(rows * columns * 2, dtype="float32").reshape(rows, columns, 2)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        read = vectors
        if isinstance(loss, MultipleNegativesRanking):
            loss.comparison = how
        else:
            read = scores_of_rows(vectors, how)
        value = loss(labels, read)
    return value, tape.gradient(value, vectors)


def without_masks(kind: str, gradient):
    """The gradient of vectors, not of the masks beside token vectors."""
    return gradient[..., :-1] if kind == "tokens" else gradient


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_losses_and_gradients_are_those_of_sentence_transformers(kind, name):
    loss, columns, labels = LOSSES[name]
    vectors = tf.constant(REFERENCE[kind][:, :columns])
    value, gradient = value_and_gradient(loss, vectors, labels, Comparison(SIMILARITIES[kind]))
    np.testing.assert_allclose(value, REFERENCE[f"{kind}/{name}"], rtol=1e-5)
    expected = without_masks(kind, REFERENCE[f"{kind}/{name}/gradient"])
    atol = 1e-6 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(without_masks(kind, gradient), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("name", ["ranking_negatives", "margins"])
def test_token_vectors_are_compared_in_parts_and_without_padding(name, monkeypatch):
    loss, columns, labels = LOSSES[name]
    padded = np.pad(REFERENCE["tokens"][:, :columns], [(0, 0), (0, 0), (0, 3), (0, 0)])
    expected = value_and_gradient(loss, tf.constant(padded), labels, Comparison("maxsim"))
    for products in (1, 1000, 2**25):
        monkeypatch.setattr(embedding_losses, "MOST_PRODUCTS", products)
        for is_compiled in (False, True):
            how = Comparison("maxsim", is_compiled)
            step = tf.function(
                lambda vectors, how=how: value_and_gradient(loss, vectors, labels, how),
                jit_compile=is_compiled,
                input_signature=None if is_compiled else [tf.TensorSpec([None, columns, None, 6])],
            )
            value, gradient = step(tf.constant(padded))
            np.testing.assert_allclose(value, expected[0], rtol=1e-6)
            np.testing.assert_allclose(gradient[..., :-1], expected[1][..., :-1], atol=1e-6)


def test_maxsim_is_its_formula_also_of_documents_without_tokens():
    tokens = REFERENCE["tokens"].copy()
    tokens[2, 1, :, -1] = 0
    queries, documents = tokens[:, 0], tokens[:, 1]
    found = scores_of_all(tokens[:, :2], Comparison("maxsim", False))
    for query, row in zip(queries, np.array(found), strict=True):
        for document, score in zip(documents, row, strict=True):
            kept = [part[part[:, -1] > 0, :-1].astype("float64") for part in (query, document)]
            if len(kept[1]):
                expected = sum(max(q @ d for d in kept[1]) for q in kept[0])
                np.testing.assert_allclose(score, expected, atol=1e-6)
            else:
                assert score == embedding_losses.EXCLUDED


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_rows_of_sentence_vectors_are_compared_as_their_formulas_say(similarity):
    vectors = REFERENCE["dense"].astype("float64")
    queries, documents = vectors[:, :1], vectors[:, 1:]
    products, apart = (queries * documents).sum(-1), queries - documents
    lengths = np.linalg.norm(queries, axis=-1) * np.linalg.norm(documents, axis=-1)
    expected = {
        "cosine": products / lengths,
        "dot": products,
        "euclidean": -np.linalg.norm(apart, axis=-1),
        "manhattan": -np.abs(apart).sum(-1),
    }
    found = scores_of_rows(ops.convert_to_tensor(REFERENCE["dense"]), Comparison(similarity))
    np.testing.assert_allclose(found, expected[similarity], atol=1e-5)


# --- Models --------------------------------------------------------------------------------------


class Sparse(VectorModel):
    """A vector of the largest hidden states, never negative."""

    task = "sparse"
    similarity = "dot"

    def head_outputs(self, encoded, inputs, training=None):
        mask = ops.cast(inputs["padding_mask"], "float32")[..., None]
        return ops.max(ops.relu(encoded["sequence_output"]) * mask, axis=1)


class Tokens(VectorModel):
    """A vector for each token, other ones for queries."""

    task = "tokens"
    similarity = "maxsim"
    reads_roles = True

    def head_outputs(self, encoded, inputs, training=None):
        mask = ops.cast(inputs["padding_mask"], "float32")[..., None]
        return ops.concatenate([normalized(encoded["sequence_output"]), mask], axis=-1)

    def read_column(self, role, rows, training=None):
        vectors = super().read_column(role, rows, training)
        sign = 1.0 if role == "document" else -1.0
        return ops.concatenate([sign * vectors[..., :-1], vectors[..., -1:]], axis=-1)


def columns_of(number: int, seed: int = 0) -> tuple[dict, ...]:
    """Ids of texts of several lengths; columns have widths of their own."""
    random = np.random.default_rng(seed)
    columns = []
    for width in range(5, 5 + number):
        ids = random.integers(5, 80, (4, width)).astype("int32")
        mask = np.arange(width) < random.integers(2, width + 1, (4, 1))
        columns.append({"token_ids": ids * mask, "padding_mask": mask.astype("int32")})
    return tuple(columns)


def fitted(kind, columns, labels, loss, size=None, **options):
    model = kind(load_case("encoder", dropout=0.0))
    model.compile(keras.optimizers.SGD(0.02), loss, **options)
    history = model.fit(columns, labels, epochs=2, shuffle=False, mini_batch_size=size, verbose=0)
    return history.history["loss"], variables_of(model)


@pytest.fixture(scope="module")
def learned():
    """Of each kind of model, what it learns at once, step by step."""
    kinds = {Sparse: (DistillKL(), SCORES[:, :2]), Tokens: (MultipleNegativesRanking(), None)}
    return {
        kind: (how, fitted(kind, columns_of(3), *how[::-1], run_eagerly=True))
        for kind, how in kinds.items()
    }


WAYS = {
    "mini_batches": (2, {"run_eagerly": True}),
    "graph": (None, {}),
    "mini_batches_in_a_graph": (2, {}),
    "compiled": (None, {"jit_compile": True}),
    "mini_batches_compiled": (2, {"jit_compile": True}),
}


@pytest.mark.parametrize("kind", [Sparse, Tokens])
@pytest.mark.parametrize("way", slow_but(WAYS, "mini_batches"))
def test_models_of_other_vectors_learn_the_same_in_every_way(way, kind, learned):
    (loss, labels), (expected, weights) = learned[kind]
    size, options = WAYS[way]
    found, variables = fitted(kind, columns_of(3), labels, loss, size, **options)
    assert expected[1] < expected[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for path, value in weights.items():
        np.testing.assert_allclose(variables[path], value, atol=1e-5, err_msg=path)


def of_kind(kind, columns: int, labels=None, loss="auto"):
    def evaluate():
        model = kind(load_case("encoder"))
        model.compile("sgd", model.default_loss() if loss == "auto" else loss, run_eagerly=True)
        return model.evaluate(columns_of(columns), labels, verbose=0)

    return evaluate


def test_the_data_choose_the_loss_of_lists():
    kl, margin = (of_kind(Sparse, 4, SCORES, loss)() for loss in (DistillKL(), MarginMSE()))
    assert of_kind(Sparse, 4, SCORES)() == pytest.approx(margin) != pytest.approx(kl)
    assert of_kind(Sparse, 4, MARGINS)() == pytest.approx(margin, rel=1e-5)
    assert np.isfinite(of_kind(Tokens, 3, loss=ListwiseSoftmax())())


@refusals(
    (of_kind(Tokens, 2, [0.5] * 4, CoSENT()), "but the model has one for each token"),
    (of_kind(Sparse, 2, loss=MultipleNegativesRanking(similarity="maxsim")), "only by it"),
    (of_kind(Tokens, 2, loss=MultipleNegativesRanking(similarity="dot")), "only by it"),
    (of_kind(Sparse, 2, [0, 1, 0, 1]), "No loss fits rows of 2 texts with classes"),
    (of_kind(Sparse, 2, SCORES[:, :1], DistillKL()), "compares several documents of a query"),
    (of_kind(Sparse, 3, loss=DistillKL()), "needs labels, but y is None"),
    (of_kind(Sparse, 3, SCORES[:, :2], ListwiseSoftmax()), "reads no labels"),
    (of_kind(Sparse, 4, MARGINS, DistillKL()), "a teacher's score for each of the 3 documents"),
    (lambda: DistillKL(temperature=0.0), "temperature is 0.0"),
    (lambda: MultipleNegativesRanking(similarity="maxim"), "similarity is 'maxim'"),
)
def test_losses_that_do_not_fit_are_refused(call, words):
    assert_refused(call, words)
