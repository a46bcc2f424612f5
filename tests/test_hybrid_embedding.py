"""BGE-M3: three kinds of vectors beside a NumPy computation from the facts; its files; their scores; training."""

import functools
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, GOLDEN, TOLERANCE, directory_of

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import ConfigError, SparsePooling
from bert_zoo.embeddings import HybridRanking, HybridVectors, MarginMSE, search
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.torch_bin import TorchSource

# torch.save of Linear(32, 24) and Linear(32, 1), torch 2.13.
LAYERS = ALL_GOLDEN / "bge_m3"
TEXTS = ["the cat sat on the tree, the cat!", "a bird", "zzz", ""]
DOCUMENTS = ["the cat was in the house", "a bird sat on a tree", "we ran"]
SPECIAL = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("m3") / "m3"
    shutil.copytree(directory_of("xlm_roberta/encoder"), path)
    return shutil.copytree(LAYERS, path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def model(directory):
    return bert_zoo.load(directory)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@functools.cache
def encoder_of(directory):
    return bert_zoo.load(directory, task="encoder")


@functools.cache
def expected(directory, text: str) -> tuple[np.ndarray, dict[int, float], np.ndarray]:
    """The three kinds of one text, float64, from the hidden states of the encoder."""
    encoder = encoder_of(directory)
    ids = encoder.preprocessor([text])
    states = np.asarray(encoder(ids)["sequence_output"][0], np.float64)
    states = states[np.asarray(ids["padding_mask"][0]) == 1]
    colbert, sparse = (TorchSource(directory / f"{n}_linear.pt") for n in ("colbert", "sparse"))
    weights = states @ np.float64(sparse["weight"][0]) + np.float64(sparse["bias"][0])
    lexical: dict[int, float] = {}
    for index, weight in zip(np.asarray(ids["token_ids"][0])[: len(states)], weights, strict=True):
        if int(index) not in SPECIAL and weight > 0:
            lexical[int(index)] = max(lexical.get(int(index), 0.0), weight)
    tokens = states[1:] @ np.float64(colbert["weight"]).T + np.float64(colbert["bias"])
    return unit(states[0]), lexical, unit(tokens)


def assert_expected(found: HybridVectors, directory, texts=TEXTS) -> None:
    assert len(found) == len(texts)
    for number, text in enumerate(texts):
        dense, lexical, tokens = expected(directory, text)
        np.testing.assert_allclose(found.dense[number], dense, atol=TOLERANCE)
        row = found.sparse[[number]].tocoo()
        assert dict(zip(row.coords[1].tolist(), row.data, strict=True)) == pytest.approx(
            lexical, abs=TOLERANCE
        )
        np.testing.assert_allclose(found.tokens[number], tokens, atol=TOLERANCE)


def score(query, document, weights=(1, 1, 1)) -> float:
    (d, s, t), (dd, ss, tt) = query, document
    lexical = sum(weight * ss.get(index, 0.0) for index, weight in s.items())
    return float(
        np.dot(weights, [d @ dd, lexical, (t @ tt.T).max(1).sum() / len(t)]) / sum(weights)
    )


def test_one_pass_gives_the_three_kinds_of_vectors(model, directory):
    assert model.task == "hybrid_embedding"
    found = model.embed(TEXTS, batch_size=2)
    assert found.dense.dtype == found.sparse.dtype == found.tokens[0].dtype == np.float32
    assert_expected(found, directory)
    assert not found.sparse[:, [*SPECIAL]].count_nonzero()
    nothing = model.embed([])
    assert nothing.dense.shape == (0, 32) and nothing.sparse.shape == (0, 92)
    assert nothing.tokens == []


@pytest.mark.usefixtures("eager")
def test_each_kind_loads_alone(model, directory):
    found = model.embed(TEXTS)
    load = bert_zoo.load
    np.testing.assert_allclose(
        load(directory, task="embedding").embed(TEXTS), found.dense, atol=TOLERANCE
    )
    sparse = load(directory, task="sparse_embedding")
    assert abs(sparse.embed(TEXTS) - found.sparse).max() < TOLERANCE
    late = load(directory, task="late_interaction")
    for ours, theirs in zip(late.embed(TEXTS), found.tokens, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
@pytest.mark.usefixtures("eager")
def test_what_is_saved_is_read_again(format, model, directory, tmp_path):
    bert_zoo.save(model, tmp_path / "saved", format=format)
    again = bert_zoo.load(tmp_path / "saved")
    assert again.task == model.task
    assert (again.token_vectors, again.sparse_pooling) == (
        model.token_vectors,
        model.sparse_pooling,
    )
    assert_expected(again.embed(TEXTS), directory)
    sparse = bert_zoo.load(tmp_path / "saved", task="sparse_embedding")
    assert abs(sparse.embed(TEXTS) - model.embed(TEXTS).sparse).max() < TOLERANCE


@pytest.mark.parametrize("task", ["sparse_embedding", "late_interaction"])
@pytest.mark.usefixtures("eager")
def test_one_kind_alone_is_saved_and_read_again(task, directory, tmp_path):
    model = bert_zoo.load(directory, task=task)
    bert_zoo.save(model, tmp_path / "saved")
    model.save(tmp_path / "model.keras")
    for again in (
        bert_zoo.load(tmp_path / "saved"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert again.task == task
        ours, theirs = again.embed(TEXTS[:1]), model.embed(TEXTS[:1])
        np.testing.assert_array_equal(
            *(x[0].toarray() if task[0] == "s" else x[0] for x in (ours, theirs))
        )
    if task == "sparse_embedding":
        with pytest.raises(ValueError, match="No program has files"):
            bert_zoo.save(model, tmp_path / "hf", format="hf")


@pytest.mark.usefixtures("eager")
def test_keras_files_hold_everything(model, directory, tmp_path):
    model.save(tmp_path / "model.keras")
    assert_expected(keras.models.load_model(tmp_path / "model.keras").embed(TEXTS), directory)


def test_a_saved_model_serves_all_three(model, directory, tmp_path):
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["query"](text=tf.constant(TEXTS))
    ours = model.embed(TEXTS, role="query")
    np.testing.assert_allclose(found["embedding"], ours.dense, atol=TOLERANCE)
    vectors = found["vectors"].numpy()[found["vector_mask"].numpy() == 1]
    np.testing.assert_allclose(vectors, np.concatenate(ours.tokens), atol=TOLERANCE)
    assert np.array_equal(found["weighted_ids"], found["token_ids"])
    weights = np.zeros((len(TEXTS), 92), np.float32)
    rows = np.arange(len(TEXTS))[:, None]
    np.maximum.at(weights, (rows, found["token_ids"].numpy()), found["token_weights"].numpy())
    np.testing.assert_allclose(weights, ours.sparse.toarray(), atol=TOLERANCE)


@pytest.mark.parametrize("format", ["onnx", pytest.param("litert", marks=pytest.mark.slow)])
def test_the_runtime_gives_the_same_vectors(format, model, directory, tmp_path):
    bert_zoo.export(model, tmp_path / "served", format=format)
    served = runtime.load(tmp_path / "served")
    assert_expected(served.embed(TEXTS), directory)
    assert len(served.embed([])) == 0


def test_exported_sparse_vectors_are_the_same(model, directory, tmp_path):
    sparse = bert_zoo.load(directory, task="sparse_embedding")
    bert_zoo.export(sparse, tmp_path / "served", format="onnx")
    found = runtime.load(tmp_path / "served").embed(TEXTS)
    assert abs(found - model.embed(TEXTS).sparse).max() < TOLERANCE


# --- Files ---


def test_one_of_the_layers_without_the_other_is_refused(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    (copy / "sparse_linear.pt").unlink()
    with pytest.raises(ConfigError, match=re.escape("colbert_linear.pt alone")):
        bert_zoo.load(copy)


def test_the_layers_beside_a_family_with_other_special_tokens_are_refused(tmp_path):
    copy = shutil.copytree(GOLDEN / "encoder", tmp_path / "copy")
    shutil.copytree(LAYERS, copy, dirs_exist_ok=True)
    with pytest.raises(ConfigError, match="beside a model of the family bert"):
        bert_zoo.load(copy)


def test_pickles_that_call_functions_are_refused(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    (copy / "sparse_linear.pt").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(WeightsError):
        bert_zoo.load(copy)


# --- Scores ---


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 0.3, 1), (0, 2, 0)])
def test_scores_are_weighted_means(weights, model, directory):
    queries, documents = model.embed(TEXTS, role="query"), model.embed(DOCUMENTS, role="document")
    wanted = [
        [score(expected(directory, a), expected(directory, b), weights) for b in DOCUMENTS]
        for a in TEXTS
    ]
    dense, sparse, tokens = map(float, weights)
    queries = queries.weighted(dense, sparse, tokens)
    np.testing.assert_allclose(bert_zoo.similarity(queries, documents), wanted, atol=TOLERANCE)
    hits = search(queries, documents, 2, block_rows=2)
    assert np.array_equal(hits.indices, np.argsort(-np.array(wanted), axis=1, kind="stable")[:, :2])
    np.testing.assert_allclose(hits.scores, -np.sort(-np.array(wanted))[:, :2], atol=TOLERANCE)
    if weights == (1, 1, 1):
        found = bert_zoo.similarity(TEXTS, DOCUMENTS, model=model)
        np.testing.assert_allclose(found, wanted, atol=TOLERANCE)
        rows = model.row_scores(TEXTS[:3], DOCUMENTS)
        np.testing.assert_allclose(rows, np.diag(np.array(wanted)), atol=TOLERANCE)


def test_kinds_of_vectors_are_not_mixed(model):
    found = model.embed(TEXTS)
    with pytest.raises(ValueError, match="three kinds, and queries are ndarray"):
        search(found.dense, found)
    with pytest.raises(ValueError, match="all 0"):
        found.weighted(0.0, 0.0, 0.0)


def test_retrieval_is_measured(model):
    texts = {str(i): text for i, text in enumerate(DOCUMENTS)}
    found = bert_zoo.embeddings.evaluate_retrieval(model, texts, texts, {i: [i] for i in texts})
    assert found["ndcg@10"] == 1.0
    assert found["document_bytes"] > 4 * 32


# --- Training ---


def softmax(x):
    x = np.exp(x - x.max(axis=1, keepdims=True))
    return x / x.sum(axis=1, keepdims=True)


def losses_of(directory, distill: bool) -> float:
    """FlagEmbedding's loss of rows of a query, a document and another one, in float64."""
    queries = [expected(directory, text) for text in TEXTS[:2]]
    documents = [
        expected(directory, text) for text in [*DOCUMENTS[:2], DOCUMENTS[2], "it was good"]
    ]
    kinds = [
        50 * np.array([[score(q, d, weights) for d in documents] for q in queries])
        for weights in np.eye(3)
    ]
    total = kinds[0] + 0.3 * kinds[1] + kinds[2]

    def ranked(scores):
        return -np.log(softmax(scores)[[0, 1], [0, 1]]).mean()

    loss = (ranked(kinds[0]) + 0.1 * ranked(kinds[1]) + ranked(kinds[2]) + ranked(total)) / 4
    if not distill:
        return loss
    taught = [-(softmax(total) * np.log(softmax(scores))).sum(1).mean() for scores in kinds]
    return (loss + (taught[0] + 0.1 * taught[1] + taught[2]) / 3) / 2


COLUMNS = (TEXTS[:2], DOCUMENTS[:2], [DOCUMENTS[2], "it was good"])


@pytest.mark.parametrize("distill", [False, True])
def test_the_loss_is_that_of_its_authors(distill, directory):
    model = bert_zoo.load(directory, dropout=0.0)
    model.compile("sgd", HybridRanking(distill=distill), run_eagerly=True)
    found = model.evaluate((COLUMNS), return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(losses_of(directory, distill), rel=1e-5)


@pytest.mark.slow
def test_mini_batches_and_groups_train_alike(directory):
    trained = []
    for options in ({}, {"mini_batch_size": 1}, {"jit_compile": True}):
        model = bert_zoo.load(directory, dropout=0.0)
        jit = options.pop("jit_compile", False)
        model.compile(keras.optimizers.SGD(0.1), jit_compile=jit)
        model.fit((TEXTS, [*DOCUMENTS, "it"]), shuffle=False, verbose=0, **options)
        assert isinstance(model.loss_in_use, HybridRanking)
        trained.append(model.get_weights())
    before = bert_zoo.load(directory).get_weights()
    for values, *others in zip(*trained, strict=True):
        for other in others:
            np.testing.assert_allclose(other, values, atol=TOLERANCE)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(before, trained[0], strict=True))


def test_a_teachers_scores_train_the_mean(directory):
    model = bert_zoo.load(directory, dropout=0.0)
    model.compile("sgd", MarginMSE(), run_eagerly=True)
    teacher = np.float32([[3, 1], [2, 2.5]])
    found = model.evaluate(COLUMNS, teacher, return_dict=True, verbose=0)["loss"]
    wanted = []
    for query, first, second, (a, b) in zip(*COLUMNS, teacher, strict=True):
        one, other = (
            score(expected(directory, query), expected(directory, text)) for text in (first, second)
        )
        wanted.append(((one - other) - (a - b)) ** 2)
    assert found == pytest.approx(np.mean(wanted), rel=1e-5)


def test_losses_of_one_kind_of_vectors_are_refused(directory):
    model = bert_zoo.load(directory)
    with pytest.raises(ValueError, match="the model has three"):
        model.fit((TEXTS, [*DOCUMENTS, "it"]), np.float32([1, 0, 1, 0]), verbose=0)


@pytest.mark.usefixtures("eager")
def test_any_encoder_of_the_family_can_be_trained_to_have_them():
    model = bert_zoo.load(directory_of("xlm_roberta/encoder"), task="hybrid_embedding")
    assert model.token_vectors.size == 1024
    assert model.embed(["the cat"]).tokens[0].shape[1] == 1024


def test_settings_do_not_change_the_layers(directory):
    for source in (directory, directory_of("xlm_roberta/masked_lm")):
        asked = SparsePooling(of_tokens=source != directory)
        with pytest.raises(ValueError, match=f"of_tokens={asked.of_tokens}"):
            bert_zoo.load(source, task="sparse_embedding", sparse_pooling=asked)
