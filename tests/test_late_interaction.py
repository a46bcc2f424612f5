"""Late interaction: vectors of tokens as sentence-transformers makes them, from each program's files; saved and exported."""

import json
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    GOLDEN,
    ONE_A_TASK,
    TOLERANCE,
    change_json,
    family_of,
    has_text,
    load_case,
    read_json,
    slow_but,
    task_of,
)
from safetensors.numpy import load_file

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import DOCUMENT, QUERY, ConfigError, TokenRole, TokenVectors
from bert_zoo.embeddings import DistillKL, MarginMSE, MultipleNegativesRanking
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import maxsim
from bert_zoo.tasks import LateInteraction
from bert_zoo.text.windows import NumpyPreprocessor
from bert_zoo.weights.formats.hf_directories import SETTINGS_FILE
from bert_zoo.weights.safetensors_io import write_safetensors

STORED = ALL_GOLDEN / "late_interaction"
CASES = ("stanford", "pylate", "fixed", "least")
QUERIES = ["a cat", "The cat sat on the big tree, and she was in the old red house!", "?"]
DOCUMENTS = [
    "the cat sat on the tree.",
    "a bird!",
    "we ran to the big red house, and she saw the city: it was good, not very bad, in the night of that day.",
    "!, .",
]
TEXTS = {QUERY: QUERIES, DOCUMENT: DOCUMENTS}
TABLE = "embeddings.word_embeddings.weight"


def directory_of(name: str, tmp_path):
    """What a program wrote, with the tensors of the encoder that it stands before."""
    directory = shutil.copytree(STORED / name, tmp_path / name)
    tensors = dict(load_file(GOLDEN / "encoder" / "model.safetensors"))
    with np.load(directory / "weights.npz") as weights:
        linear = {"linear.weight": weights["linear"]}
        if "rows" in weights:
            tensors[TABLE] = np.concatenate([tensors[TABLE], weights["rows"]])
    if (directory / "1_Dense").is_dir():
        write_safetensors(directory / "1_Dense" / "model.safetensors", linear, {})
    else:
        tensors = {f"bert.{key}": tensor for key, tensor in tensors.items()} | linear
    write_safetensors(directory / "model.safetensors", tensors, {})
    return directory


def vectors_of(name: str) -> dict[str, np.ndarray]:
    with np.load(STORED / name / "vectors.npz") as file:
        return dict(file)


def assert_are_those_of(name: str, embed) -> None:
    expected = vectors_of(name)
    for role, texts in TEXTS.items():
        for number, found in enumerate(embed(texts, role=role)):
            wanted = expected[f"{role}_{number}"]
            assert found.shape == wanted.shape, (role, number)
            np.testing.assert_allclose(found, wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_vectors_are_those_of_sentence_transformers(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    assert model.task == "late_interaction"
    assert_are_those_of(name, model.embed)


@pytest.mark.parametrize("name", slow_but(CASES, "stanford", "pylate"))
@pytest.mark.usefixtures("eager")
def test_what_is_saved_is_read_again_and_what_was_read(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        assert again.token_vectors == model.token_vectors
        assert again.encoder.prompts == model.encoder.prompts
        for ours, theirs in zip(again.weights, model.weights, strict=True):
            assert np.array_equal(ours, theirs)
        assert_are_those_of(name, again.embed)


@pytest.mark.parametrize("name", slow_but(CASES, "stanford"))
def test_a_saved_model_has_a_signature_for_each_role(name, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))

    def embed(texts, role):
        found = served.signatures[role](text=tf.constant(texts))
        mask = found["vector_mask"].numpy() == 1
        return [v[m] for v, m in zip(found["vectors"].numpy(), mask, strict=True)]

    assert_are_those_of(name, embed)
    default = served.signatures["serving_default"](text=tf.constant(DOCUMENTS))
    assert default["vectors"].shape[0] == len(DOCUMENTS)


@pytest.mark.parametrize("name, format", [("pylate", "onnx"), ("fixed", "litert")])
def test_the_runtime_gives_the_same_vectors(name, format, tmp_path):
    model = bert_zoo.load(directory_of(name, tmp_path))
    bert_zoo.export(model, tmp_path / "served", format=format)
    served = runtime.load(tmp_path / "served")
    assert_are_those_of(name, served.embed)
    assert served.embed([]) == []


@pytest.mark.usefixtures("eager")
def test_keras_files_hold_everything(tmp_path):
    model = bert_zoo.load(directory_of("stanford", tmp_path))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_are_those_of("stanford", again.embed)


# --- Rows of queries and documents -----------------------------------------------------------------

FILLED = TokenRole(marker="tree", expansion="fixed", expansion_length=8)


@pytest.fixture(scope="module")
def preprocessor():
    return bert_zoo.load(GOLDEN / "encoder").preprocessor


def test_a_marker_is_one_token_and_rows_are_filled(preprocessor):
    rows = preprocessor.of_role(FILLED)(["a cat", "the cat sat on the big red bird"])
    tokenizer = preprocessor.tokenizer
    tokens = [[tokenizer.id_to_token(int(i)) for i in row] for row in rows["token_ids"]]
    assert tokens[0] == ["[CLS]", "tree", "a", "cat", "[SEP]", *["[MASK]"] * 3]
    assert tokens[1] == ["[CLS]", "tree", "the", "cat", "sat", "on", "the", "[SEP]"]
    assert np.array_equal(rows["scored_tokens"], [[1] * 5 + [2] * 3, [1] * 8])
    assert np.array_equal(rows["padding_mask"], np.ones((2, 8)))


@pytest.mark.parametrize(
    "role",
    [
        FILLED,
        TokenRole(max_length=9, marker="book", skip_words=("the", ",", "absent")),
        TokenRole(expansion="min", expansion_length=6, attends=True, expansion_token="tea"),
    ],
)
def test_rows_in_numpy_are_those_of_the_graph(role, preprocessor):
    texts = [*QUERIES, *DOCUMENTS]
    in_graph = preprocessor.of_role(role)(texts)
    in_numpy = NumpyPreprocessor(preprocessor.tokenizer, **preprocessor.get_config())
    in_numpy = in_numpy.of_role(role)(texts)
    assert in_graph.keys() == in_numpy.keys()
    for name, ids in in_numpy.items():
        assert np.array_equal(in_graph[name], ids), name


@pytest.mark.usefixtures("eager")
def test_words_to_skip_are_left_out_of_documents_alone(tmp_path):
    model = bert_zoo.load(directory_of("stanford", tmp_path))
    texts = ["a cat", "a cat!", "a, cat."]
    assert {len(vectors) for vectors in model.embed(texts, role=DOCUMENT)} == {5}
    assert {len(vectors) for vectors in model.embed(texts, role=QUERY)} == {12}


@pytest.mark.usefixtures("eager")
def test_no_role_reads_documents(tmp_path):
    model = bert_zoo.load(directory_of("stanford", tmp_path))
    for ours, theirs in zip(
        model.embed(TEXTS[QUERY]), model.embed(QUERIES, role=DOCUMENT), strict=True
    ):
        assert np.array_equal(ours, theirs)
    found = model.predict(["a bird!"], verbose=0)
    assert found["vector_mask"].sum() == 5
    with pytest.raises(ValueError, match="role is 'passage'"):
        model.embed(QUERIES, role="passage")


OF_FAMILIES = [
    case
    for case in ONE_A_TASK
    if task_of(case) == "encoder" and has_text(case)
    if LateInteraction.task in registry().families[family_of(case)].tasks
]


@pytest.mark.parametrize("case", slow_but(OF_FAMILIES, "bert/encoder", "xlnet/encoder"))
def test_encoders_of_every_family_give_a_text_alone_the_vectors_of_a_batch(case):
    vectors = TokenVectors(8, document=TokenRole(skip_words=(",",)))
    model = load_case(case, LateInteraction.task, token_vectors=vectors)
    texts = ["the cat sat on the tree, and", "a bird"]
    (alone,) = model.embed(texts[1], role=DOCUMENT)
    np.testing.assert_allclose(model.embed(texts, role=DOCUMENT)[1], alone, atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=TOLERANCE)


# --- Scores ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("eager")
def test_scores_of_a_batch_are_those_one_by_one_and_the_references(tmp_path):
    model = bert_zoo.load(directory_of("least", tmp_path))
    queries = [query for query in QUERIES for _ in DOCUMENTS]
    found = model.row_scores(queries, DOCUMENTS * len(QUERIES)).reshape(len(QUERIES), -1)
    one_by_one = [[model.row_scores([q], [d])[0] for d in DOCUMENTS] for q in QUERIES]
    np.testing.assert_allclose(found, vectors_of("least")["scores"], atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(found, one_by_one, atol=TOLERANCE, rtol=0)


@pytest.mark.usefixtures("eager")
def test_an_explanation_shows_each_querys_token_and_adds_up(tmp_path):
    model = bert_zoo.load(directory_of("stanford", tmp_path))
    matches = model.explain("a cat", "the cat sat.")
    assert [match.token for match in matches[:6]] == "[CLS] [unused0] a cat [SEP] [MASK]".split()
    assert {match.match for match in matches} <= {*"[CLS] [unused1] the cat sat [SEP]".split()}
    total = sum(match.score for match in matches)
    assert total == pytest.approx(model.row_scores(["a cat"], ["the cat sat."])[0], abs=1e-5)
    assert str(matches).splitlines()[1].split()[0] == "[unused0]"


def test_a_document_without_vectors_comes_last():
    query = np.eye(2, 4, dtype=np.float32)
    assert maxsim(query, -query, [0, 2]).tolist() == [-1e9, 0]  # its tokens meet at right angles
    # And not 0, as a vector of zeros would make it.
    assert maxsim(query[:1], -query[:1], [1]).tolist() == [-1]


# --- What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, file, changes, words",
    [
        ("stanford", "artifact.metadata", {"flipr": 1}, "has flipr, which bert_zoo does not know"),
        ("stanford", "artifact.metadata", {"relu": True}, "has relu"),
        ("stanford", "artifact.metadata", {"similarity": "l2"}, "similarity is 'l2'"),
        ("pylate", SETTINGS_FILE, {"odd": 1}, "has odd, which bert_zoo does not know"),
        ("pylate", "1_Dense/config.json", {"use_residual": True}, "has use_residual"),
        ("fixed", SETTINGS_FILE, {"similarity_fn_name": "meanmaxsim"}, "is 'meanmaxsim'"),
        ("fixed", "sentence_bert_config.json", {"query_length": 5}, "max_length is 5"),
        (
            "fixed",
            "sentence_bert_config.json",
            {"query_expansion": {"strategy": "fixed", "length": 9, "odd": 1}},
            "has odd, which bert_zoo does not know",
        ),
        ("fixed", "2_MultiVectorMask/config.json", {"keep_only_token_ids": [1]}, "keep_only_token"),
        ("fixed", "2_MultiVectorMask/config.json", {"skiplist_tasks": ["odd"]}, "skiplist_tasks"),
        (
            "fixed",
            "1_Dense/config.json",
            {"activation_function": "torch.nn.modules.activation.Tanh"},
            "the only one for bert_zoo's vectors of tokens",
        ),
    ],
)
def test_settings_that_bert_zoo_lacks_are_refused(name, file, changes, words, tmp_path):
    directory = directory_of(name, tmp_path)
    change_json(directory / file, **changes)
    with pytest.raises(ConfigError, match=re.escape(words)):
        bert_zoo.load(directory)


def test_modules_in_another_order_are_refused(tmp_path):
    directory = directory_of("fixed", tmp_path)
    modules = read_json(directory / "modules.json")
    (directory / "modules.json").write_text(json.dumps(modules[:2] + modules[1:]))
    with pytest.raises(ConfigError, match="bert_zoo reads Transformer, Dense, MultiVectorMask"):
        bert_zoo.load(directory)


def test_settings_of_token_vectors_are_for_this_task_alone():
    vectors = TokenVectors(8, use_bias=True)
    model = bert_zoo.load(GOLDEN / "encoder", "late_interaction", token_vectors=vectors)
    assert [tuple(w.shape) for w in model.projection.weights] == [(32, 8), (8,)]
    with pytest.raises(ValueError, match="token_vectors is for late-interaction models"):
        bert_zoo.load(GOLDEN / "encoder", "embedding", token_vectors=vectors)
    with pytest.raises(ValueError, match="rows are filled with both, or with neither"):
        TokenRole(expansion="fixed")


def test_a_projection_that_is_missing_is_said(caplog):
    bert_zoo.load(GOLDEN / "encoder", "late_interaction")
    assert "no trained projection; it is randomly initialised" in caplog.text


# --- Training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mini_batch_size", [None, 2])
def test_loss_and_gradients_are_those_of_sentence_transformers(mini_batch_size, tmp_path, eager):
    model, expected = (
        bert_zoo.load(directory_of("fixed", tmp_path), dropout=0.0),
        vectors_of("fixed"),
    )
    table = model.encoder.embeddings.token_embedding.weights[0]
    before = [np.array(weight) for weight in (model.projection.kernel, table)]
    model.compile(keras.optimizers.SGD(1.0), loss=MultipleNegativesRanking())
    columns = (QUERIES, DOCUMENTS[:3])
    options = {"batch_size": 3, "shuffle": False, "verbose": 0}
    history = model.fit(columns, mini_batch_size=mini_batch_size, **options)
    assert history.history["loss"][0] == pytest.approx(expected["loss"], abs=TOLERANCE)
    linear, rows = (
        b - np.array(w) for b, w in zip(before, (model.projection.kernel, table), strict=True)
    )
    np.testing.assert_allclose(linear.T, expected["gradient_linear"], atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(rows, expected["gradient_table"], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("loss", [None, DistillKL(temperature=2.0), MarginMSE()])
def test_pairs_and_a_teachers_scores_train_it(loss, tmp_path, eager):
    model = bert_zoo.load(directory_of("pylate", tmp_path), dropout=0.0)
    columns, scores = (QUERIES, DOCUMENTS[:3], DOCUMENTS[1:]), None
    if loss is not None:
        scores = np.array([[2.0, 1.2], [2.0, 1.4], [1.5, 1.0]])
    model.compile(keras.optimizers.Adam(1e-2), loss=loss or model.default_loss())
    history = model.fit(columns, scores, batch_size=3, epochs=6, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
