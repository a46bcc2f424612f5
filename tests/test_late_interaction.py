"""Late interaction: vectors of tokens as sentence-transformers makes them, from each program's files; saved and exported."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, GOLDEN, TOLERANCE, slow_but
from safetensors.numpy import load_file

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import DOCUMENT, QUERY
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


@pytest.mark.parametrize("name", CASES)
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


def test_keras_files_hold_everything(tmp_path):
    model = bert_zoo.load(directory_of("stanford", tmp_path))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_are_those_of("stanford", again.embed)
