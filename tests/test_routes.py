"""An encoder of its own for queries, beside sentence-transformers' Router."""

import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, GOLDEN, TOLERANCE, change_json, read_json
from huggingface_hub.utils import filter_repo_objects

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.models import SentenceEmbedder
from bert_zoo.weights import cache
from bert_zoo.weights.safetensors_io import write_safetensors

STORED = ALL_GOLDEN / "routes"
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house"]
# Arrays -> the role that sentence-transformers encoded the texts with; None for its plain `encode`.
ROLES = {"query": "query", "document": "document", "plain": None}


def vectors() -> dict[str, np.ndarray]:
    with np.load(STORED / "vectors.npz") as file:
        return dict(file)


@pytest.fixture
def directory(tmp_path):
    """What sentence-transformers 6.2 wrote, with the weights, which are not stored twice."""
    path = shutil.copytree(STORED, tmp_path / "router")
    documents, queries = path / "document_0_Transformer", path / "query_0_StaticEmbedding"
    shutil.copy(GOLDEN / "encoder" / "model.safetensors", documents)
    write_safetensors(queries / "model.safetensors", {"embedding.weight": vectors()["table"]}, {})
    return path


def assert_those(embed) -> None:
    expected = vectors()
    for name, role in ROLES.items():
        np.testing.assert_allclose(embed(TEXTS, role=role), expected[name], atol=TOLERANCE)


def test_each_role_has_its_route(directory):
    model = bert_zoo.load(directory)
    assert (model.task, model.similarity, model.default_role) == ("embedding", "dot", "document")
    assert_those(model.embed)
    expected = vectors()
    scores = bert_zoo.similarity(TEXTS, TEXTS, model=model)
    np.testing.assert_allclose(scores, expected["query"] @ expected["document"].T, atol=TOLERANCE)


@pytest.mark.usefixtures("eager")
def test_plain_texts_take_the_default_route(directory):
    path = directory / "router_config.json"
    change_json(path, parameters=read_json(path)["parameters"] | {"default_route": "query"})
    model = bert_zoo.load(directory)
    np.testing.assert_allclose(
        model.embed(TEXTS, prompt="query"), vectors()["query"], atol=TOLERANCE
    )


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
@pytest.mark.usefixtures("eager")
def test_what_is_saved_is_read_again(format, directory, tmp_path):
    bert_zoo.save(bert_zoo.load(directory), tmp_path / "saved", format=format)
    assert_those(bert_zoo.load(tmp_path / "saved").embed)


@pytest.mark.usefixtures("eager")
def test_keras_files_and_saved_models_have_both(directory, tmp_path):
    model = bert_zoo.load(directory)
    model.save(tmp_path / "model.keras")
    assert_those(keras.models.load_model(tmp_path / "model.keras").embed)
    bert_zoo.export(model, tmp_path / "served")
    signatures = tf.saved_model.load(str(tmp_path / "served")).signatures
    found = signatures["query"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(found, vectors()["query"], atol=TOLERANCE)
    with pytest.raises(ValueError, match=r"Export model\.encoder and model\.query_encoder"):
        bert_zoo.export(model, tmp_path / "onnx", format="onnx")


def test_fit_trains_both(directory):
    model = bert_zoo.load(directory)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = [encoder.get_weights() for encoder in (model.encoder, model.query_encoder)]
    model.fit((TEXTS, ["a cat", "it was a bird", "the city"]), verbose=0)
    for weights, encoder in zip(before, (model.encoder, model.query_encoder), strict=True):
        assert any(
            np.abs(a - b).max() > 1e-4 for a, b in zip(weights, encoder.get_weights(), strict=True)
        )


def test_other_routes_and_sizes_are_refused(directory):
    model = bert_zoo.load(directory)
    with pytest.raises(ValueError, match="of queries have 384 numbers, and those of documents 32"):
        SentenceEmbedder(model.encoder, query_encoder=bert_zoo.load("minilm_l6", weights=None))
    path = directory / "router_config.json"
    values = read_json(path)
    change_json(path, structure={"text": values["structure"]["document"]})
    with pytest.raises(ConfigError, match="a Router with the routes text"):
        bert_zoo.load(directory)


def test_all_files_of_the_routes_are_downloaded(directory, tmp_path):
    bert_zoo.save(bert_zoo.load(directory), tmp_path / "saved", format="hf")
    for path in (directory, tmp_path / "saved"):
        files = {
            file.relative_to(path).as_posix() for file in path.rglob("*.*") if file.suffix != ".md"
        }
        wanted = [*cache.MODEL_FILES, *cache._WEIGHT_FILES[0]]
        taken = {*filter_repo_objects(files, allow_patterns=wanted)}
        assert files - taken <= {"vectors.npz"}
        cache._check_snapshot(path, (), with_weights=True)
        (path / next(file for file in files if re.match("query.*safetensors", file))).unlink()
        with pytest.raises(FileNotFoundError):
            cache._check_snapshot(path, (), with_weights=True)
