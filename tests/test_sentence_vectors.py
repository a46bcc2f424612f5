"""Sentence vectors as sentence-transformers makes them: poolings, dense layers, prompts; saved, exported and refused."""

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
    loaded_task,
    refusals,
    slow_but,
    tensors_of,
)
from scipy.sparse import csr_array

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import ROLES, SIMILARITIES, ConfigError, Pooling, Prompts
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.weights.formats.hf_directories import MODULES, OTHER_MODULES
from bert_zoo.weights.safetensors_io import write_safetensors

STORED = ALL_GOLDEN / "sentence_transformers"
CASES = sorted(path.name for path in STORED.iterdir())


def directory_of(name: str, tmp_path):
    """What sentence-transformers wrote, with the encoder that it stands behind."""
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    return shutil.copytree(STORED / name, directory, dirs_exist_ok=True)


def vectors_of(name: str) -> dict[str, np.ndarray]:
    """By the prompt; "" without one."""
    with np.load(STORED / name / "vectors.npz") as file:
        return dict(file)


def assert_close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", slow_but(CASES, "joined", "prompts", "truncated"))
def test_vectors_are_those_of_sentence_transformers(name, tmp_path):
    expected = vectors_of(name)
    encoder = bert_zoo.load(directory_of(name, tmp_path))
    assert_close(encoder.embed(TEXTS), expected.pop(""))
    for prompt, vectors in expected.items():
        assert_close(encoder.embed(TEXTS, prompt=prompt), vectors)
        if prompt in ROLES:
            assert_close(encoder.embed(TEXTS, role=prompt), vectors)


@pytest.mark.parametrize("name", CASES)
def test_what_is_saved_is_read_again_and_what_was_read(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path), "embedding")
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "encoder")
        assert (again.pooling, again.prompts) == (model.encoder.pooling, model.encoder.prompts)
        for ours, theirs in zip(again.weights, model.weights, strict=True):
            assert np.array_equal(ours, theirs)
    for folder in STORED.glob(f"{name}/*_Dense"):
        written, read = tensors_of(tmp_path / "hf" / folder.name), tensors_of(folder)
        assert written.keys() == read.keys()
        assert all(np.array_equal(written[key], read[key]) for key in read)


@pytest.mark.slow
def test_keras_files_hold_dense_layers_and_prompts(tmp_path):
    model = bert_zoo.load(directory_of("prompts", tmp_path), "embedding")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_close(again.embed(TEXTS), vectors_of("prompts")[""])


@pytest.mark.parametrize("name", slow_but(CASES, "prompts_left_out"))
def test_a_saved_model_gives_the_same_vectors(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path), "embedding")
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    assert_close(found, vectors_of(name)[""])


@pytest.mark.parametrize("name", slow_but(CASES, "dense"))
def test_the_runtime_gives_the_same_vectors(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path), "embedding")
    bert_zoo.export(model, tmp_path / "served", format="litert")
    served = runtime.load(tmp_path / "served")
    expected = vectors_of(name)
    assert_close(served.embed(TEXTS), expected.pop(""))
    for prompt, vectors in expected.items():
        if prompt in model.encoder.prompts.texts or model.encoder.pooling.include_prompt:
            assert_close(served.embed(TEXTS, prompt=prompt), vectors)
            if prompt in ROLES:
                assert_close(served.embed(TEXTS, role=prompt), vectors)
        else:
            with pytest.raises(ValueError, match="can only leave the prompts"):
                served.embed(TEXTS, prompt=prompt)


@pytest.mark.slow
def test_layers_that_a_graph_of_hugging_faces_layout_lacks_are_said(tmp_path, caplog):
    model = bert_zoo.load(directory_of("dense", tmp_path), "embedding", truncate_dim=4)
    bert_zoo.export(model, tmp_path / "served", format="onnx", layout="hf")
    assert "(dense layers and truncate_dim)" in caplog.text
    assert "transformers.js does not" in caplog.text
    assert (tmp_path / "served" / "2_Dense").is_dir()


def test_a_layer_norm_of_vectors_with_weights_is_refused(tmp_path):
    directory = directory_of("layer_norm", tmp_path)
    file = directory / "2_LayerNorm" / "model.safetensors"
    tensors = tensors_of(file.parent)
    tensors["norm.weight"][3] = 0.5
    write_safetensors(file, tensors, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"layer norm in .* has weights"):
        bert_zoo.load(directory)


def test_a_classifier_has_no_use_for_dense_layers(tmp_path):
    model = bert_zoo.load(directory_of("dense", tmp_path), "classification")
    assert not model.encoder.pooled_layers


def test_the_name_of_a_prompt_goes_before_a_text():
    prompts = Prompts({"query": "find: ", "none": ""}, "query")
    found = [*map(prompts.text, (None, "none", "", "query", "as it is "))]
    assert found == ["find: ", "", "", "find: ", "as it is "]


def test_a_role_has_the_first_of_its_prompts_or_the_default():
    prompts = Prompts({"corpus": "in: ", "passage": "", "other": "a "}, "other")
    assert [prompts.text(role=role) for role in ROLES] == ["a ", ""]


WIDE = "truncate_dim is 33, but the model's vectors have 32"


@refusals(
    (
        lambda: Prompts({"query": "find: ", "none": ""}).text("qeury"),
        "no prompt 'qeury'; the model's are ['query', 'none']",
    ),
    (lambda: Prompts().text(role="passage"), "role is 'passage'; it must be one of"),
    (
        lambda: loaded_task("embedding").embed(TEXTS, prompt="a: ", role="query"),
        "prompt is 'a: ' and role is 'query', which has its own prompt. Pass one of them.",
    ),
    (lambda: Prompts({}, "other"), "default prompt is 'other'"),
    (lambda: Prompts().text("query"), "no prompt 'query'; the model has none"),
    (lambda: bert_zoo.load(GOLDEN / "encoder", truncate_dim=33), WIDE),
    (lambda: loaded_task("encoder").embed(TEXTS, truncate_dim=33), WIDE),
    (
        lambda: bert_zoo.load(GOLDEN / "encoder", "classification", truncate_dim=8),
        "task 'classification' gives none",
    ),
)
def test_prompts_and_sizes_that_are_not_there_are_refused(call, words):
    assert_refused(call, words)


def test_registered_sentence_encoders_have_their_prompts():
    prompts = open_checkpoint("e5_small", with_weights=False).description.prompts
    assert prompts.text() == "" and prompts.text("passage") == "passage: "
    assert "query: 'query: '" in str(bert_zoo.describe("multilingual_e5_base"))


@pytest.mark.parametrize("options", [{}, {"max_length": 6, "long_texts": "mean"}])
def test_vectors_are_cut_after_they_are_scaled(options, tmp_path):
    model = bert_zoo.load(directory_of("truncated", tmp_path), "embedding", **options)
    whole = model.embed(TEXTS, truncate_dim=12)
    assert_close(np.linalg.norm(whole, axis=1), 1)
    assert_close(model.embed(TEXTS), whole[:, :5])


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_texts_are_compared_as_the_model_says(similarity):
    model = bert_zoo.load(GOLDEN / "encoder", "embedding")
    model.encoder.pooling = Pooling(normalize=False, similarity=similarity)
    a, b = model.embed(TEXTS)[:2]
    expected = {
        "cosine": a @ b / np.linalg.norm(a) / np.linalg.norm(b),
        "dot": a @ b,
        "euclidean": -np.sqrt(((a - b) ** 2).sum()),
        "manhattan": -np.abs(a - b).sum(),
    }
    assert_close(bert_zoo.similarity(*TEXTS[:2], model=model), expected[similarity])
    assert bert_zoo.similarity(TEXTS, TEXTS[:2], model=model).shape == (3, 2)


def test_vectors_of_each_kind_are_compared_without_a_model(monkeypatch):
    monkeypatch.setattr("bert_zoo.loading.similarity.load", None)
    random = np.random.default_rng(0)
    dense = random.normal(size=(5, 8)).astype("float32")
    directions = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    assert_close(bert_zoo.similarity(dense[:2], dense[2:]), directions[:2] @ directions[2:].T)
    weights = np.maximum(dense, 0)
    sparse = csr_array(weights)
    assert_close(bert_zoo.similarity(sparse[:2], sparse[2:]), weights[:2] @ weights[2:].T)
    tokens = [random.normal(size=(number, 4)).astype("float32") for number in (2, 3, 1, 4)]
    expected = [[(q @ d.T).max(1).sum() for d in tokens[2:]] for q in tokens[:2]]
    assert_close(bert_zoo.similarity(tokens[:2], tokens[2:]), expected)
    model = loaded_task("embedding")
    monkeypatch.setattr(model.encoder, "pooling", Pooling(similarity="dot"))
    assert_close(bert_zoo.similarity(dense[:2], dense[2:], model), dense[:2] @ dense[2:].T)
    with pytest.raises(ValueError, match="a has shape"):
        bert_zoo.similarity(dense, TEXTS, model)


class Roles:
    """A model that reads queries and documents differently."""

    reads_roles, similarity = True, "maxsim"

    def embed(self, texts, role):
        sign = {"query": -1.0, "document": 1.0}[role]
        return [np.full((len(text), 1), sign * len(text), "float32") for text in texts]


def test_a_model_with_roles_reads_queries_and_documents():
    scores = bert_zoo.similarity(["ab"], ["c", "def"], Roles())
    assert scores.tolist() == [[-4.0, -12.0]]
    assert bert_zoo.similarity([], ["c"], Roles()).shape == (0, 1)


def test_the_card_says_how_vectors_are_made(tmp_path):
    bert_zoo.save(bert_zoo.load(directory_of("prompts", tmp_path)), tmp_path / "hf", format="hf")
    card = (tmp_path / "hf" / "README.md").read_text()
    for said in (
        'library_name: "sentence-transformers"',
        "pooled by mean, passed through a dense layer of 16 units (tanh). Compare them by cosine.",
        '| query (default) | "the city " |',
    ):
        assert said in card


def kinds(*names: str) -> list[dict[str, str]]:
    return [
        {"type": f"sentence_transformers.models.{name}", "path": f"{i}_{name}" if i else ""}
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize("has_config", [False, True])
@pytest.mark.parametrize(
    "modules",
    [
        *(["BoW"], ["CLIPModel"], ["X"]),
        *(["Transformer", "SparseAutoEncoder"], ["WordEmbeddings", "LSTM", "Pooling"]),
        ["Transformer", "Pooling", "WeightedLayerPooling"],
    ],
    ids=" ".join,
)
def test_modules_that_are_not_supported_are_named(modules, has_config, tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps(kinds(*modules)))
    if has_config:
        (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="not supported: ") as raised:
        bert_zoo.load(tmp_path)
    for module in set(modules) - {*MODULES}:
        what = OTHER_MODULES.get(module, "unknown to bert_zoo")
        assert f"{module} is {what}" in str(raised.value)
    assert "Remove" not in str(raised.value)


def test_modules_without_a_transformer_are_named(tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps(kinds("Transformer", "Pooling")))
    words = "lists the modules Transformer, Pooling, but a"
    assert_refused(lambda: bert_zoo.load(tmp_path), words)


def test_vectors_of_all_poolings_are_trained_in_batches_of_any_size(tmp_path, eager):
    model = bert_zoo.load(directory_of("joined", tmp_path), "embedding")
    before = model.embed(TEXTS)
    model.fit((TEXTS[:2], TEXTS[1:]), verbose=0)
    after = model.embed(TEXTS)
    assert np.isfinite(after).all() and not np.array_equal(before, after)


def test_setfits_classifier_is_named(tmp_path, caplog):
    directory = directory_of("joined", tmp_path)
    (directory / "model_head.pkl").write_bytes(b"")
    bert_zoo.load(directory)
    assert "model_head.pkl is SetFit's classifier" in caplog.text


@pytest.mark.slow
def test_a_saved_model_of_an_embedder_is_trained_further(tmp_path):
    bert_zoo.export(bert_zoo.load(directory_of("truncated", tmp_path), "embedding"), tmp_path / "s")
    layer = bert_zoo.layers.SavedModelLayer(tmp_path / "s")
    inputs = keras.Input((None,), dtype="int32", name="input_word_ids")
    model = keras.Model(inputs, layer({"input_word_ids": inputs})["default"])
    model.compile("adam", "mse", run_eagerly=True, jit_compile=False)
    ids, target = layer.preprocessor(TEXTS)["input_word_ids"], np.zeros((3, 5), "float32")
    before = {v.path: v.numpy() for v in layer.trainable_weights}
    model.fit(ids, target, verbose=0)
    same = [v.path for v in layer.trainable_weights if np.array_equal(before[v.path], v)]
    # Of a pooling by the first token; the table of segments has one row that is read.
    assert not [path for path in same if "encoder/layer" in path or "pooled" in path]


POOLED = ("Transformer", "Pooling")
# A file of a directory -> its content, and words of the message.
OTHERWISE = [
    ("modules.json", kinds(*POOLED, "LSTM"), "LSTM is not supported: LSTM is"),
    ("modules.json", kinds(*POOLED, "Normalize", "Dense"), "Normalize, Dense, which are not supported in this order"),
    ("modules.json", kinds("Transformer", "Dense"), "of late-interaction models bert_zoo reads Transformer, Dense, "),
    ("modules.json", [{"type": "x.Dense", "path": "../2_Dense"}], "folder '../2_Dense'"),
    ("modules.json", kinds(*POOLED, "Dense", "Dense", "Dense"), "4_Dense"),
    ("1_Pooling/config.json", {"pooling_mode": ["mean", "median"]}, "mode is | median"),
    ("1_Pooling/config.json", {"pooling_mode_median": True}, "has pooling_mode_median, which"),
    ("2_Dense/config.json", {"out_features": 16, "dropout": 0.1}, "has dropout, which bert_zoo"),
    ("2_Dense/config.json", {"out_features": 16, "use_residual": True}, "has use_residual"),
    ("2_Dense/config.json", {"out_features": 0}, "units is 0"),
    ("2_Dense/config.json", {"out_features": 16, "activation_function": "os.system"}, "activation_function is 'os.system'"),
    ("2_Dense/config.json", {"out_features": 16, "module_input_name": "token_embeddings"}, "module_input_name is 'token_embeddings'"),
    ("sentence_bert_config.json", {"query_length": 32}, "has query_length, of models that read queries and"),
    ("sentence_bert_config.json", {"modality_config": {"text": {"method_output_name": "pooler_output"}}},
     "method_output_name 'pooler_output'; | read last_hidden_state"),
    ("config_sentence_transformers.json", {"similarity_fn_name": "maxsim"}, "similarity is 'maxsim'"),
    ("config_sentence_transformers.json", {"default_prompt_name": "q"}, "default prompt is 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "words"), OTHERWISE)
def test_what_sentence_transformers_does_otherwise_is_refused_by_name(
    file, content, words, tmp_path
):
    directory = directory_of("dense", tmp_path)
    (directory / file).write_text(json.dumps(content))
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)
