"""Cross-encoders: files of sentence-transformers, ranking, and training by the shape of the data."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers import ALL_GOLDEN, GOLDEN, TEXTS, load_task, loaded_task

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.models import Reranker

STORED = ALL_GOLDEN / "cross_encoder"
SCORES = np.load(STORED / "scores.npz")
QUERY = "the big city"
IDENTITY = "torch.nn.modules.linear.Identity"


def cross_encoder(directory: Path, beside: bool, **config) -> Path:
    """The golden head's directory as sentence-transformers writes it: since version 6 with files beside it."""
    shutil.copytree(GOLDEN / "regression", directory)
    if beside:
        for file in STORED.glob("*.json"):
            shutil.copy(file, directory)
    values = json.loads((directory / "config.json").read_text())
    del values["problem_type"]
    (directory / "config.json").write_text(json.dumps(values | config))
    return directory


# --- Files and scores ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beside", "config", "activation"),
    [
        (True, {}, "linear"),
        (False, {"sentence_transformers": {"activation_fn": IDENTITY, "version": "5.1"}}, "linear"),
        (False, {"sbert_ce_default_activation_function": None}, "sigmoid"),
    ],
)
def test_a_cross_encoders_directory_is_a_reranker_with_its_scores(
    beside, config, activation, tmp_path
):
    directory = cross_encoder(tmp_path / "theirs", beside, **config)
    saved = (tmp_path / "hf", tmp_path / "bert_zoo")
    for place in (directory, *saved):
        model = bert_zoo.load(place)
        for path in () if place in saved else saved:
            bert_zoo.save(model, path, format=path.name)
        assert isinstance(model, Reranker) and model.score_activation == activation
        scores = [row.score for row in sorted(model.rank(QUERY, TEXTS), key=lambda row: row.index)]
        np.testing.assert_allclose(scores, SCORES[activation], atol=1e-5)


def test_what_is_written_says_what_sentence_transformers_reads(tmp_path):
    bert_zoo.save(load_task("reranking"), tmp_path, format="hf")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["sentence_transformers"]["activation_fn"].startswith("torch.nn.")
    assert config["id2label"] == {"0": "LABEL_0"}


def test_an_unknown_activation_is_an_error_that_says_which_there_are(tmp_path):
    saying = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}
    directory = cross_encoder(tmp_path / "tanh", False, **saying)
    with pytest.raises(ConfigError, match=r"Tanh.*Identity.*Sigmoid"):
        bert_zoo.load(directory)


def test_heads_of_other_sizes_are_told_apart(tmp_path):
    directory = cross_encoder(tmp_path / "one", True)
    with pytest.raises(ValueError, match="task='reranking'"):
        bert_zoo.load(directory, "classification")
    with pytest.raises(ValueError, match=r"3 logits.*init="):
        bert_zoo.load(GOLDEN / "classification", "reranking")
    fresh = bert_zoo.load(GOLDEN / "classification", "reranking", init=["classifier"])
    assert fresh.score_activation == "sigmoid"
    # Of classes, a cross-encoder is a classifier of pairs.
    shutil.copytree(GOLDEN / "classification", tmp_path / "classes")
    shutil.copy(STORED / "config_sentence_transformers.json", tmp_path / "classes")
    assert bert_zoo.load(tmp_path / "classes", "classification").num_classes == 3


# --- Ranking -------------------------------------------------------------------------------------


def test_documents_are_ranked_and_printed():
    model = loaded_task("reranking")
    found = model.rank(QUERY, TEXTS, top_k=2)
    logits = model.predict(([QUERY] * 3, TEXTS), verbose=0)[:, 0]
    assert [row.index for row in found] == np.argsort(-logits)[:2].tolist()
    assert [row.document for row in found] == [TEXTS[row.index] for row in found]
    np.testing.assert_allclose(found[0].score, 1 / (1 + np.exp(-logits.max())), atol=1e-6)
    assert str(found).splitlines()[0] == f"{found[0].score:.3f}  1  a bird"
    # All of them, equal ones in the order given.
    assert [row.index for row in model.rank(QUERY, ["a bird"] * 3, top_k=None)] == [0, 1, 2]
    with pytest.raises(ValueError, match="top_k is 0"):
        model.rank(QUERY, TEXTS, top_k=0)
    with pytest.raises(TypeError, match="pairs of texts"):
        model.predict(TEXTS)
