"""Sparse vectors as sentence-transformers makes them: poolings, routes, files, exports; and their training."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    GOLDEN,
    TEXTS,
    TOLERANCE,
    assert_refused,
    load_case,
    loaded_task,
    read_json,
    refusals,
    slow_but,
)

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import Autoencoder, ConfigError, SparsePooling
from bert_zoo.embeddings import CoSENT, CSRLoss, MarginMSE, MultipleNegativesRanking, Splade
from bert_zoo.layers import sparse
from bert_zoo.tasks.embedding_losses import Comparison
from bert_zoo.weights.formats.hf_directories import ROUTER_FILE
from bert_zoo.weights.formats.sparse_directories import IDF_FILE, STATIC_FOLDER
from bert_zoo.weights.sources import open_weights

STORED, MODEL = ALL_GOLDEN / "sparse_encoder", GOLDEN / "masked_lm"
CASES = ("max", "sum", "log1p", "router")
CSR = "csr"  # an autoencoder after an encoder
OF_MODEL = ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json")


def directory_of(name: str, tmp_path):
    """What sentence-transformers wrote, with the model that it stands behind."""
    directory = shutil.copytree(STORED / name, tmp_path / name)
    folder = directory / "document_0_Transformer" if name == "router" else directory
    for file in OF_MODEL:
        shutil.copy((GOLDEN / "encoder" if name == CSR else MODEL) / file, folder)
    return directory


def assert_vectors(model, name: str) -> None:
    with np.load(STORED / name / "vectors.npz") as expected:
        for role in ("", "query", "document"):
            found = model.embed(TEXTS, role=role or None)
            assert found.format == "csr" and found.dtype == np.float32 and found.data.min() > 0
            np.testing.assert_allclose(found.toarray(), expected[role], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_vectors_are_those_of_sentence_transformers(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    assert model.task == "sparse_embedding"
    assert_vectors(model, name)


@pytest.mark.parametrize("name", slow_but(CASES, "max", "router"))
@pytest.mark.usefixtures("eager")
def test_directories_of_sentence_transformers_come_back(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    for fmt in ("hf", "bert_zoo"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        assert again.sparse_pooling == model.sparse_pooling
        assert_vectors(again, name)
    settings = "config_sentence_transformers.json"
    theirs, ours = (read_json(path / settings) for path in (STORED / name, tmp_path / "hf"))
    theirs.pop("__version__")
    assert ours == {**theirs, "similarity_fn_name": "dot"}
    model.save(tmp_path / "model.keras")
    assert_vectors(keras.models.load_model(tmp_path / "model.keras"), name)


@pytest.mark.usefixtures("eager")
def test_an_autoencoder_comes_back_with_its_counters(tmp_path):
    directory = directory_of(CSR, tmp_path)
    model = bert_zoo.load(directory)
    assert_vectors(model, CSR)
    counters = np.asarray(model.autoencoder.unused)
    assert counters.any()
    for fmt in ("hf", "bert_zoo"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        assert again.sparse_pooling == model.sparse_pooling
        np.testing.assert_array_equal(again.autoencoder.unused, counters)
        assert_vectors(again, CSR)
    for file in ("modules.json", "3_SparseAutoEncoder/config.json"):
        theirs, ours = (read_json(path / file) for path in (directory, tmp_path / "hf"))
        assert theirs == ours
    (term,) = model.explain(TEXTS[0], TEXTS[2], top_k=1)
    assert term.token == f"#{(model.embed(TEXTS[0]) * model.embed(TEXTS[2])).argmax()}"
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    found = served(text=tf.constant(TEXTS[:1]))
    assert found["tokens"][0, 0] == f"#{model.embed(TEXTS[0]).argmax()}"


@pytest.mark.usefixtures("eager")
def test_old_names_and_unknown_words_of_files(tmp_path):
    directory = directory_of("max", tmp_path)
    modules = read_json(directory / "modules.json")
    for module, name in zip(modules, ("MLMTransformer", "SpladePooling"), strict=True):
        module["type"] = f"sentence_transformers.sparse_encoder.models.{name}.{name}"
    (directory / "modules.json").write_text(json.dumps(modules))
    pooling = directory / "1_SpladePooling" / "config.json"
    old = {
        "pooling_strategy": "max",
        "activation_function": "relu",
        "word_embedding_dimension": None,
    }
    pooling.write_text(json.dumps(old))
    assert_vectors(bert_zoo.load(directory), "max")
    for change, said in (
        ({"chunks": 3}, "has chunks, which"),
        ({"pooling_strategy": "mean"}, "strategy is 'mean'"),
    ):
        pooling.write_text(json.dumps(old | change))
        with pytest.raises(ConfigError, match=said):
            bert_zoo.load(directory)
    (directory / "modules.json").write_text(json.dumps(modules[::-1]))
    with pytest.raises(ConfigError, match="not supported in this order"):
        bert_zoo.load(directory)


@pytest.mark.usefixtures("eager")
def test_idf_of_opensearch_weighs_queries(tmp_path, caplog):
    directory = shutil.copytree(MODEL, tmp_path / "model")
    (directory / IDF_FILE).write_text(json.dumps({"cat": 2.5, "the": 0.5, "ze": 1.0}))
    model = bert_zoo.load(directory)
    assert "weighs ze, which the vocabulary lacks" in caplog.text
    query = model.embed("the cat and the cat", role="query")
    words = dict(zip(query.indices, query.data, strict=True))
    names = model.preprocessor.tokenizer.id_to_token
    assert {names(int(i)): weight for i, weight in words.items()} == {"cat": 2.5, "the": 0.5}
    caplog.clear()
    with caplog.at_level("INFO"):
        plain = [model.embed(TEXTS), model.embed(TEXTS)]
    assert caplog.text.count("pass role='query'") == 1
    documents = loaded_task("sparse_embedding").embed(TEXTS).toarray()
    np.testing.assert_allclose(plain[1].toarray(), documents, atol=1e-6)
    bert_zoo.save(model, tmp_path / "hf", format="hf")
    assert read_json(tmp_path / "hf" / ROUTER_FILE)["structure"]["query"] == [STATIC_FOLDER]


@pytest.mark.usefixtures("eager")
def test_load_takes_a_pooling_and_makes_a_table(caplog, tmp_path):
    asked = SparsePooling("sum", "log1p_relu", static_queries=True)
    model = load_case("masked_lm", "sparse_embedding", sparse_pooling=asked)
    assert model.sparse_pooling == asked and "All are 1" in caplog.text
    assert {*model.embed(TEXTS, role="query").data} == {1.0}
    bert_zoo.save(model, tmp_path / "saved")
    assert bert_zoo.load(tmp_path / "saved").sparse_pooling == asked


@pytest.mark.parametrize("strategy", ["max", "sum"])
def test_slices_of_the_vocabulary_make_no_difference(strategy, monkeypatch):
    model = load_case("masked_lm", "sparse_embedding")
    model.sparse_pooling = SparsePooling(strategy)
    inputs = model.preprocessor(TEXTS)
    whole = keras.ops.convert_to_numpy(model(inputs))
    logits = keras.ops.convert_to_numpy(loaded_task("masked_lm")(inputs))
    mask = np.asarray(inputs["padding_mask"])[..., None]
    weights = np.log1p(np.maximum(logits * mask, 0))
    np.testing.assert_allclose(whole, getattr(weights, strategy)(axis=1), atol=TOLERANCE)
    monkeypatch.setattr(sparse, "SLICE", 17)
    np.testing.assert_allclose(model(inputs), whole, atol=1e-6)


def test_the_sparse_gradient_equals_the_plain_one(monkeypatch):
    model = load_case("masked_lm", "sparse_embedding", dropout=0.0)
    inputs = model.preprocessor(TEXTS)
    upstream = np.random.default_rng(0).normal(size=(3, model.encoder.config.vocab_size))

    def gradients(has_static_shapes: bool):
        monkeypatch.setattr(type(model), "has_static_shapes", has_static_shapes)
        with tf.GradientTape() as tape:
            vectors = model(inputs, training=True)
        return vectors, tape.gradient(
            vectors, model.trainable_variables, tf.constant(upstream, "float32")
        )

    monkeypatch.setattr(sparse, "SLICE", 50)
    (plain, expected), (vectors, found) = map(gradients, (True, False))
    np.testing.assert_allclose(vectors, plain, atol=1e-6)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs), atol=TOLERANCE
        )


def test_embed_keeps_order_limits_and_empty_lists():
    model = loaded_task("sparse_embedding")
    texts = [" ".join(TEXTS[i % 3].split()[: 1 + i % 5]) for i in range(20)]
    found = model.embed(texts, batch_size=2)
    for text, row in zip(texts, found.toarray(), strict=True):
        np.testing.assert_allclose(model.embed(text).toarray()[0], row, atol=TOLERANCE)
    few = model.embed(texts, max_active_dims=3)
    assert np.diff(few.indptr).tolist() == [3] * 20
    np.testing.assert_allclose(few.max(axis=1).toarray(), found.max(axis=1).toarray(), rtol=1e-5)
    assert model.embed([]).shape == (0, found.shape[1])


def test_explain_shows_tokens_as_the_vocabulary_writes_them():
    model = loaded_task("sparse_embedding")
    terms = model.explain(TEXTS[0], top_k=None)
    vector = model.embed(TEXTS[0])
    assert [term.weight for term in terms] == sorted(vector.data, reverse=True)
    ids = [model.preprocessor.tokenizer.token_to_id(term.token) for term in terms]
    assert sorted(ids) == vector.indices.tolist()
    shared = model.explain(TEXTS[0], TEXTS[1], top_k=None)
    score = sum(term.weight for term in shared)
    assert score == pytest.approx(model.row_scores(TEXTS[:1], TEXTS[1:2])[0], rel=1e-5)
    line = str(shared).splitlines()[0]
    assert line.split() == [
        *(f"{shared[0].weight:.3f}", f"{shared[0].of_each[0]:.3f}", "×"),
        *(f"{shared[0].of_each[1]:.3f}", shared[0].token),
    ]


@pytest.mark.parametrize("name", slow_but(["log1p", "router"], "router"))
@pytest.mark.usefixtures("eager")
def test_saved_model_serves_entries(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(tmp_path / "served")
    roles = {"serving_default": None} | dict.fromkeys(model.served_roles, "query")
    for signature, role in roles.items():
        found = served.signatures[signature](text=tf.constant(TEXTS))
        assert found.keys() == {"indices", "values", "tokens"}
        expected = model.embed(TEXTS, role=role)
        dense = np.zeros(expected.shape, np.float32)
        np.put_along_axis(dense, found["indices"].numpy(), found["values"].numpy(), axis=1)
        np.testing.assert_allclose(dense, expected.toarray(), atol=TOLERANCE)
        tokens = [[t.decode() for t in row if t] for row in found["tokens"].numpy()]
        names = model.preprocessor.tokenizer.id_to_token
        for row, vector in zip(tokens, expected, strict=True):
            assert sorted(row) == sorted(names(int(i)) for i in np.flatnonzero(vector.toarray()))


@pytest.mark.parametrize("fmt", ["onnx", pytest.param("litert", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("eager")
def test_runtime_embeds_as_the_model_does(fmt, tmp_path):
    model = bert_zoo.load(directory_of("router", tmp_path))
    bert_zoo.export(model, tmp_path / "exported", format=fmt)
    opened = runtime.load(tmp_path / "exported")
    for role in (None, "query", "document"):
        found, expected = (m.embed(TEXTS, role=role, max_active_dims=9) for m in (opened, model))
        np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=TOLERANCE)


# --- Training ------------------------------------------------------------------------------------

LOSSES = {
    "both": (MultipleNegativesRanking, {"query_weight": 0.2}),
    "documents": (MultipleNegativesRanking, {}),
    "document_only": (MultipleNegativesRanking, {"document_only": True}),
    "threshold": (MarginMSE, {"query_weight": 0.2, "threshold": 4}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_splade_equals_sentence_transformers(name):
    inner, options = LOSSES[name]
    loss = Splade(inner(), 0.3, **options)
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    loss.comparison = Comparison("dot")
    with np.load(STORED / "losses.npz") as file:
        stored = dict(file)
    vectors = tf.constant(stored["vectors"])
    texts = np.arange(vectors.shape[0] * vectors.shape[1] * 2).reshape((*vectors.shape[:2], 2))
    labels = stored["labels"] if inner is MarginMSE else np.float32(texts)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        found = loss(labels, vectors)
    np.testing.assert_allclose(found, stored[f"{name}_loss"], atol=TOLERANCE)
    gradient = tape.gradient(found, vectors)
    np.testing.assert_allclose(gradient, stored[f"{name}_gradient"], atol=TOLERANCE)


@pytest.mark.parametrize("is_normalized", [False, True])
def test_csr_loss_equals_sentence_transformers(is_normalized):
    folder = STORED / CSR / "3_SparseAutoEncoder"
    settings = read_json(folder / "config.json") | {"normalize": is_normalized}
    layer = sparse.SparseAutoencoder(
        Autoencoder(**{k: settings[k] for k in settings if k != "input_dim"})
    )
    weights = open_weights(folder)
    layer.build((None, settings["input_dim"]))
    layer.kernel.assign(weights["decoder.linear.weight"].T)
    layer.pre_bias.assign(weights["pre_bias"])
    layer.latent_bias.assign(weights["latent_bias"])
    layer.unused.assign(weights["stats_last_nonzero"].astype("int32"))
    loss = CSRLoss(MultipleNegativesRanking(), beta=0.3, gamma=0.7)
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    loss.comparison, loss.autoencoder, loss.step = Comparison("dot"), layer, 0
    with np.load(STORED / CSR / "losses.npz") as file:
        vectors = tf.constant(file["vectors"])
        expected = {k.removeprefix(f"{is_normalized}_"): file[k] for k in file if k != "vectors"}
    read = {"vectors": vectors} | {v.name: v.value for v in layer.trainable_variables}
    texts = np.arange(24, dtype="float32").reshape(4, 3, 2)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        found = loss(texts, vectors)
    np.testing.assert_allclose(found, expected["loss"], atol=TOLERANCE)
    np.testing.assert_array_equal(layer.unused, expected["unused"])
    for name, gradient in tape.gradient(found, read).items():
        np.testing.assert_allclose(gradient, expected[name], atol=TOLERANCE)
    loss.step = None
    loss(texts, vectors)
    np.testing.assert_array_equal(layer.unused, expected["unused"])


def test_factors_grow_with_the_square_of_the_step():
    loss = Splade(MultipleNegativesRanking(), 0.3, warmup_steps=4)
    shares = []
    for loss.step in (0, 2, 4, 9):
        shares.append(float(loss.growth()))
    assert shares == [0.0, 0.25, 1.0, 1.0]
    loss.warmup_steps, loss.default_warmup, loss.step = None, 8, 4
    assert float(loss.growth()) == 0.25


@pytest.mark.usefixtures("eager")
def test_training_makes_vectors_sparse_and_finds_documents():
    model = bert_zoo.load("bert_nano", "sparse_embedding", dropout=0.0, max_length=16)
    words = ["river", "music", "king", "water", "church", "army", "school", "island"]
    queries = [f"the {word}" for word in words]
    documents = [f"it was a {word} of the city" for word in words]
    before = model.embed(documents).nnz / len(documents)
    loss = Splade(MultipleNegativesRanking(), 0.02, 0.02)
    model.compile(keras.optimizers.Adam(2e-3), loss)
    history = model.fit((queries, documents), batch_size=8, epochs=8, verbose=0).history
    assert loss.default_warmup == 2
    assert history["document_dims"][0] == pytest.approx(before, rel=0.05)
    assert history["document_dims"][-1] < before / 4
    assert history["query_dims"][-1] < max(history["query_dims"]) / 2
    scores = (model.embed(queries, role="query") @ model.embed(documents).T).toarray()
    assert (scores.argmax(axis=1) == np.arange(len(words))).mean() > 0.8


@pytest.mark.usefixtures("eager")
def test_static_queries_are_trained_and_not_encoded(tmp_path):
    model = bert_zoo.load(directory_of("router", tmp_path), dropout=0.0)
    table = np.array(model.query_weights.weight)
    rows = [model.column_inputs(role, TEXTS, model.preprocessor) for role in ("query", "document")]
    vectors = keras.ops.convert_to_numpy(model(tuple(rows)))
    for column, role in enumerate(("query", "document")):
        expected = model.embed(TEXTS, role=role).toarray()
        np.testing.assert_allclose(vectors[:, column], expected, atol=TOLERANCE)
    model.compile(keras.optimizers.SGD(0.1), MultipleNegativesRanking())
    model.fit((TEXTS, TEXTS[::-1]), batch_size=3, verbose=0)
    changed = np.flatnonzero(table != np.array(model.query_weights.weight))
    assert len(changed) and {*changed} <= {*np.unique(rows[0]["token_ids"])}


def test_default_losses_stand_in_splade():
    model = load_case("masked_lm", "sparse_embedding")
    for columns, labels, inner in ((2, None, MultipleNegativesRanking), (3, [[0.5]], MarginMSE)):
        loss = model.loss_for(columns, labels)
        assert isinstance(loss, Splade) and isinstance(loss.loss, inner)


# --- Refusals ------------------------------------------------------------------------------------


def embedder():
    return loaded_task("sparse_embedding")


@refusals(
    (lambda: embedder().embed(TEXTS, prompt="a: ", role="query"), "has its own prompt"),
    (lambda: embedder().embed(TEXTS, max_active_dims=0), "max_active_dims is 0"),
    (lambda: embedder().explain(TEXTS), "explain takes single texts"),
    (lambda: load_case("encoder", sparse_pooling=SparsePooling()), "for models of sparse vectors"),
    (lambda: Splade(keras.losses.MeanSquaredError(), 1.0), "loss over vectors or over scores"),
    (lambda: Splade(Splade(CoSENT(), 1.0), 1.0), "loss over vectors or over scores"),
    (lambda: Splade(CoSENT(), 1.0, 0.1, document_only=True), "all texts are documents"),
    (lambda: Splade(CoSENT(), -1.0), "document_weight is -1.0"),
    (lambda: CSRLoss(CoSENT(), beta=-1.0), "beta is -1.0"),
    (lambda: Autoencoder(8, k=9), "k is 9, but there are 8 units"),
    (lambda: SparsePooling(static_queries=True, autoencoder=Autoencoder()), "exclude each other"),
    (lambda: bert_zoo.load(GOLDEN / "encoder", "sparse_embedding"), "has no masked_lm"),
)
def test_what_is_refused(call, words):
    assert_refused(call, words)
