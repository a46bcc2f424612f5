"""Cross-encoders: files of sentence-transformers, ranking, and training by the shape of the data."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers import ALL_GOLDEN, GOLDEN, TEXTS, arrays, inputs_of, load_case, load_task, loaded_task

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.embeddings import ListwiseSoftmax, MarginMSE
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.models import Reranker

STORED = ALL_GOLDEN / "cross_encoder"
SCORES = np.load(STORED / "scores.npz")
QUERY = "the big city"
# The arguments that its losses were computed with.
QUERIES = [QUERY, "a tree", "the red house"]
LISTS = (QUERIES, TEXTS, [*TEXTS[1:], TEXTS[0]])
LABELS, MARGINS, SCALE = [1.0, 0.0, 0.25], [0.5, -1.0, 2.0], 3.0
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


@pytest.mark.parametrize(
    ("name", "activation"),
    [("ms_marco_tinybert_l2", "linear"), ("gte_reranker_modernbert", "sigmoid")],
)
def test_a_registered_cross_encoder_is_a_reranker_with_its_scores(name, activation):
    opened = open_checkpoint(name, with_weights=False)
    assert (opened.description.task, opened.trained_task) == ("reranking", "reranking")
    assert opened.description.score_activation == activation
    assert bert_zoo.describe(name)["provides"] == ["encoder", "reranking"]


def test_a_registered_rerankers_scores_need_no_weights():
    assert bert_zoo.load("ms_marco_tinybert_l2", weights=None).score_activation == "linear"


def test_an_unknown_activation_is_an_error_that_says_which_there_are(tmp_path):
    saying = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}
    directory = cross_encoder(tmp_path / "tanh", False, **saying)
    with pytest.raises(ConfigError, match=r"Tanh.*Identity.*Sigmoid"):
        bert_zoo.load(directory)


@pytest.mark.parametrize("case", ["bert/classification_dropout", "electra/classification_relu"])
def test_two_logits_become_their_difference(case, tmp_path, caplog):
    """Its sigmoid is the softmax's probability of the second class, as `apply_softmax` gives it."""
    model, io = load_case(case, "reranking"), arrays(case)
    assert "of its second class, 'yes'" in caplog.text
    expected = io["logits"][:, 1:] - io["logits"][:, :1]
    np.testing.assert_allclose(model(inputs_of(io)), expected, atol=1e-5)
    bert_zoo.save(model, tmp_path, format="hf")
    again = bert_zoo.load(tmp_path, "reranking")
    np.testing.assert_allclose(again(inputs_of(io)), expected, atol=1e-5)
    with pytest.raises(ValueError, match="3 logits, but a reranker has one"):
        load_case("bert/classification", "reranking")


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
    with pytest.raises(ValueError, match=r"query is \['a', 'b'\], but rank\(\) takes one query"):
        model.rank(["a", "b"], TEXTS)
    with pytest.raises(TypeError, match="pairs of texts"):
        model.predict(TEXTS)


# --- Training ------------------------------------------------------------------------------------


def pairs_of(model, queries: list[str], *columns: list[str]) -> tuple[dict, ...]:
    """Ids of pairs, for each column of documents."""
    pairs = model.columns_to_inputs((queries, *columns), model.preprocessor)
    return tuple({name: np.asarray(ids) for name, ids in of.items()} for of in pairs)


@pytest.fixture
def model(eager):
    return load_task("reranking", dropout=0.0)


TEACHER = np.transpose([LABELS, MARGINS])


@pytest.mark.parametrize(
    ("data", "loss", "expected"),
    [
        ((LISTS[:2], LABELS), None, "pairs"),
        ((LISTS,), ListwiseSoftmax(SCALE), "softmax"),
        ((LISTS, MARGINS), None, "margins"),
        ((LISTS, TEACHER), MarginMSE(), "teacher"),
    ],
)
def test_losses_are_those_of_sentence_transformers(data, loss, expected, model):
    labels = np.reshape(data[1], (len(TEXTS), -1)) if len(data) > 1 else np.zeros((3, 0))
    logits = SCORES["logits"][:, : len(data[0]) - 1]
    exact = (loss or model.loss)(labels, logits)
    np.testing.assert_allclose(exact, SCORES[expected], rtol=1e-6)
    if loss is not None:
        model.compile(loss=loss)
    np.testing.assert_allclose(model.evaluate(*data, verbose=0), SCORES[expected], rtol=2e-5)


def test_the_loss_of_lists_without_labels_is_a_softmax(model):
    expected = -np.log(1 / (1 + np.exp(SCORES["logits"][:, 1] - SCORES["logits"][:, 0]))).mean()
    np.testing.assert_allclose(model.evaluate(LISTS, verbose=0), expected, rtol=2e-5)
    found = model.evaluate(pairs_of(model, *LISTS), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_lists_are_learned_and_kinds_of_data_may_be_mixed(model):
    model.optimizer.learning_rate = 3e-3
    lists, labelled = pairs_of(model, *LISTS), (*pairs_of(model, *LISTS[:2]), LABELS)
    history = model.fit(lists, epochs=5, verbose=0, validation_data=labelled).history
    assert history["loss"][-1] < 0.5 * history["loss"][0] and len(history["val_loss"]) == 5


@pytest.mark.parametrize(("columns", "pairs"), [(2, 3), (3, 6)])
def test_pairs_that_are_cut_are_counted_as_pairs(columns, pairs, eager, caplog):
    model = load_task("reranking", max_length=6)
    model.evaluate(LISTS[:columns], LABELS, verbose=0)
    assert f"of the {pairs} texts" in caplog.text


@pytest.mark.parametrize(
    ("data", "loss", "message"),
    [
        ((LISTS[:2], [1, 5, 0]), None, r"label\[1\] is 5.* \[0, 1\]"),
        ((LISTS[:2],), None, "no labels"),
        (((*LISTS, TEXTS), np.ones((3, 4))), None, r"\(3, 4\).*\[batch, 3\].*\[batch, 2\]"),
        ((LISTS, MARGINS), ListwiseSoftmax(), "reads no labels"),
        ((LISTS,), MarginMSE(), "y is None"),
        ((LISTS[:2], LABELS), MarginMSE(), "Pass lists"),
    ],
)
def test_data_that_fit_no_loss_are_refused(data, loss, message, model):
    if loss is not None:
        model.compile(loss=loss)
    with pytest.raises(ValueError, match=message):
        model.fit(*data, verbose=0)
