"""Sentence vectors as sentence-transformers makes them: poolings, dense layers, prompts; saved, exported and refused."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, GOLDEN, TEXTS, TOLERANCE, slow_but, tensors_of

import bert_zoo
from bert_zoo import runtime
from bert_zoo.config import ConfigError, Prompts

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


@pytest.mark.parametrize("name", slow_but(CASES, "joined", "prompts"))
def test_vectors_are_those_of_sentence_transformers(name, tmp_path):
    expected = vectors_of(name)
    encoder = bert_zoo.load(directory_of(name, tmp_path))
    assert_close(encoder.embed(TEXTS), expected.pop(""))
    for prompt, vectors in expected.items():
        assert_close(encoder.embed(TEXTS, prompt=prompt), vectors)


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
        else:
            with pytest.raises(ValueError, match="leaves none out of its vectors but those of"):
                served.embed(TEXTS, prompt=prompt)


@pytest.mark.slow
def test_layers_that_a_graph_of_hugging_faces_layout_lacks_are_said(tmp_path, caplog):
    model = bert_zoo.load(directory_of("dense", tmp_path), "embedding")
    bert_zoo.export(model, tmp_path / "served", format="onnx", layout="hf")
    assert "transformers.js does not" in caplog.text
    assert (tmp_path / "served" / "2_Dense").is_dir()


def test_a_classifier_has_no_use_for_dense_layers(tmp_path):
    model = bert_zoo.load(directory_of("dense", tmp_path), "classification")
    assert not model.encoder.pooled_layers


def test_the_name_of_a_prompt_goes_before_a_text():
    prompts = Prompts({"query": "find: ", "none": ""}, "query")
    assert [*map(prompts.text, (None, "none", "", "query", "as it is "))] == [
        *("find: ", "", "", "find: ", "as it is ")
    ]
    with pytest.raises(ValueError, match=r"no prompt 'qeury'; the model's are \['query', 'none'\]"):
        prompts.text("qeury")
    with pytest.raises(ValueError, match="default prompt is 'other'"):
        Prompts({}, "other")


def kinds(*names: str) -> list[dict[str, str]]:
    return [
        {"type": f"sentence_transformers.models.{name}", "path": f"{i}_{name}" if i else ""}
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", kinds("Transformer", "Pooling", "LSTM"), "lists the modules .*LSTM;"),
        (
            "modules.json",
            kinds("Transformer", "Pooling", "Normalize", "Dense"),
            "Normalize, Dense;",
        ),
        ("modules.json", kinds("Transformer", "WeightedLayerPooling"), "WeightedLayerPooling;"),
        ("modules.json", [{"type": "x.Dense", "path": "../2_Dense"}], r"folder '\.\./2_Dense'"),
        ("modules.json", kinds("Transformer", "Pooling", "Dense", "Dense", "Dense"), "4_Dense"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "median"]}, "mode is .*median"),
        ("1_Pooling/config.json", {"pooling_mode_median": True}, "asks for pooling_mode_median"),
        ("2_Dense/config.json", {"out_features": 16, "use_residual": True}, "has use_residual"),
        ("2_Dense/config.json", {"out_features": 0}, "units is 0"),
        (
            "2_Dense/config.json",
            {"out_features": 16, "activation_function": "os.system"},
            "has the activation 'os.system'",
        ),
        (
            "2_Dense/config.json",
            {"out_features": 16, "module_input_name": "token_embeddings"},
            "module_input_name 'token_embeddings'",
        ),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q"},
            "default prompt is 'q'",
        ),
    ],
)
def test_what_sentence_transformers_does_otherwise_is_refused_by_name(
    file, content, message, tmp_path
):
    directory = directory_of("dense", tmp_path)
    (directory / file).write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=message):
        bert_zoo.load(directory)
