"""Tables of token vectors: equal to sentence-transformers and model2vec, on their files and on ours."""

import shutil

import numpy as np
import pytest
from helpers import (
    TOLERANCE,
    directory_of,
    load_case,
    loaded,
)

import bert_zoo

CASES = ("static/encoder", "static/encoder_model2vec")


def expected(case: str) -> tuple[list[str], np.ndarray]:
    stored = np.load(directory_of(case) / "vectors.npz")
    return stored["texts"].tolist(), stored["vectors"]


@pytest.mark.parametrize("case", CASES)
def test_vectors_equal_the_programs(case):
    """Of unknown words, which one program counts and the other leaves out, of nothing, and of a text of 700 tokens."""
    texts, vectors = expected(case)
    np.testing.assert_allclose(loaded(case).embed(texts), vectors, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_table_in_a_folder_is_read(tmp_path):
    """As sentence-transformers wrote it before version 6."""
    copy = shutil.copytree(directory_of(CASES[0]), tmp_path / "model")
    folder = copy / "0_StaticEmbedding"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (copy / name).rename(folder / name)
    texts, vectors = expected(CASES[0])
    np.testing.assert_allclose(
        bert_zoo.load(copy).embed(texts), vectors, atol=TOLERANCE, rtol=TOLERANCE
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fmt", ["bert_zoo", "hf", "model2vec"])
def test_saved_tables_are_the_same(case, fmt, tmp_path, caplog):
    model = load_case(case)
    model.pooling = type(model.pooling)(normalize=True)
    bert_zoo.save(model, tmp_path, format=fmt)
    again = bert_zoo.load(tmp_path)
    counts = {"hf": None, "model2vec": 1}.get(fmt, model.config.unk_id)
    assert again.config.unk_id == counts
    assert ("outputs will differ" in caplog.text) == (counts != model.config.unk_id)
    texts = ["the cat sat on a tree", "", "a " * 600]
    np.testing.assert_allclose(again.embed(texts), model.embed(texts), atol=TOLERANCE)


REFUSED = (
    (
        ("modules.json", [{"type": "x.WordEmbeddings", "path": ""}]),
        "WordEmbeddings | not supported",
    ),
    (("modules.json", [{"type": "x.Transformer", "path": ""}]), "config.json is missing"),
    (("tokenizer.json", {"truncation": {"direction": "Left"}}), "direction"),
)
