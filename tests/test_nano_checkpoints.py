"""The checkpoints that come with the package: what they hold, that they learned, and that they are installed."""

import functools
import json
import re
import runpy
import shutil
import socket
import sys
import tomllib
import types
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import variables_of

import bert_zoo
from bert_zoo.family import Bundled
from bert_zoo.loading import locating
from bert_zoo.loading.locating import fetch_checkpoint
from bert_zoo.registry import registry
from bert_zoo.weights.files import WeightsError

ROOT = Path(__file__).parents[1]
ENTRIES = {
    checkpoint.full_name: (family, checkpoint)
    for family in registry().families.values()
    for checkpoint in family.checkpoints
    if any(isinstance(source, Bundled) for source in checkpoint.sources)
}
FOLDERS = {
    name: next(s.name for s in checkpoint.sources if isinstance(s, Bundled))
    for name, (_, checkpoint) in ENTRIES.items()
}
MASKED = [name for name, (_, checkpoint) in ENTRIES.items() if "masked_lm" in checkpoint.provides]
LANGUAGE_MODELS = [name for name, (_, c) in ENTRIES.items() if "causal_lm" in c.provides]
TEXT_TO_TEXT = [name for name, (_, c) in ENTRIES.items() if "text_to_text" in c.provides]
MOST_BYTES = 8_000_000
# Our own words: no model has read them.
TEXTS = [
    "He said that the film is one of the best of the year, and I think so too.",
    "The government will not say how many people have lost their homes in the storm.",
    "She looked at him for a long time, and then she went back to the house.",
    "It is not clear whether the company will be able to pay its debts.",
    "I was about to leave the room when he came in and sat down.",
    "The story begins in a small town, where a young man falls in love with the wrong woman.",
    "There is no reason to believe that the price of water will go up next year.",
    "In the end, this is a bad movie with a good cast and nothing to say.",
]
# As long as a model of 128 positions reads.
LONG_TEXTS = [" ".join(TEXTS), " ".join(TEXTS[::-1])]
# Every token is behind a mask once, with so many tokens from one to the next.
STRIDE = 7


@pytest.fixture(autouse=True)
def no_network_and_no_cache(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise AssertionError("A checkpoint that comes with the package asks the network.")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("BERT_ZOO_CACHE", str(tmp_path / "cache"))


@functools.cache
def loaded(name: str, task: str):
    return bert_zoo.load(name, task)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_folder_holds_a_model_of_its_card_in_a_few_megabytes(name):
    family, checkpoint = ENTRIES[name]
    directory = fetch_checkpoint(checkpoint)
    assert directory == ROOT / "checkpoints" / FOLDERS[name]
    stored = json.loads((directory / "bert_zoo.json").read_text())
    assert stored["family"] == family.name
    assert family.config_class.from_dict(stored["config"]) == family.config(checkpoint)
    assert stored["text"] == {
        "lowercase": checkpoint.text.lowercase,
        "max_length": checkpoint.text.max_length,
    }
    sizes = [file.stat().st_size for file in directory.iterdir()]
    assert sum(sizes) <= MOST_BYTES and len(sizes) >= 5
    card = (directory / "README.md").read_text(encoding="utf-8")
    written = {round(float(number), 3) for number in re.findall(r"\d+\.\d+", card)}
    assert written.issuperset(checkpoint.scores.values())


@pytest.mark.parametrize("name", ENTRIES)
def test_what_it_provides_is_loaded_without_a_network(name):
    _, checkpoint = ENTRIES[name]
    for task in checkpoint.provides:
        model = loaded(name, task)
        inputs = model.preprocessor(TEXTS[:2])
        if task == "text_to_text":
            inputs, _ = model.labelled_rows(inputs, inputs)
        outputs = keras.tree.flatten(model(inputs))
        assert all(np.isfinite(keras.ops.convert_to_numpy(output)).all() for output in outputs)
        assert {v.dtype for v in variables_of(model).values()} == {np.dtype("float32")}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_weight_is_the_stored_one(name):
    """Each head is trained: none is as it was initialised. An encoder's pooler may be, where no head read it."""
    _, checkpoint = ENTRIES[name]
    task = max(checkpoint.provides, key=lambda task: loaded(name, task).count_params())
    other = bert_zoo.load(name, task, weights=None)
    stored, made = variables_of(loaded(name, task)), variables_of(other)
    assert stored.keys() == made.keys()
    same = {path for path in stored if np.array_equal(stored[path], made[path])}
    assert same <= ({"pooler/dense/bias"} if checkpoint.provides == {"encoder"} else set())


def losses(model, inputs, labels) -> float:
    """The mean loss of masked tokens; labels are -1 where no mask is."""
    logits = keras.ops.log_softmax(model(inputs))
    log_probs = np.take_along_axis(
        keras.ops.convert_to_numpy(logits), np.maximum(labels, 0)[..., None], axis=-1
    )
    return float(-log_probs[..., 0][labels >= 0].mean())


def masked_rows(preprocessor, texts, after: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The texts, so often that each token but special ones is masked in one copy, and what it was.

    Labels of the first tokens, so many as `after` says, are left out.
    """
    inputs = {k: keras.ops.convert_to_numpy(v) for k, v in preprocessor(texts).items()}
    inputs = {name: np.tile(rows, (STRIDE, 1)) for name, rows in inputs.items()}
    ids = inputs["token_ids"]
    copy, place = np.arange(len(ids))[:, None] // len(texts), np.arange(ids.shape[1])
    tokenizer = preprocessor.tokenizer
    special = np.isin(ids, [tokenizer.cls_id, tokenizer.sep_id, preprocessor.packer.pad_id])
    chosen = (place % STRIDE == copy) & ~special
    inputs["token_ids"] = np.where(chosen, tokenizer.mask_id, ids)
    return inputs, np.where(chosen & (place >= after), ids, -1)


@pytest.mark.parametrize("name", MASKED)
def test_it_predicts_masked_tokens_better_than_their_frequency_does(name):
    """Late in a long text too, though most of the training was on short rows."""
    model = loaded(name, "masked_lm")
    new = bert_zoo.load(name, "masked_lm", weights=None)
    frequencies = np.load(ROOT / "checkpoints" / name / "log_frequencies.npy")
    for texts, after in ((TEXTS, 0), (LONG_TEXTS, 80)):
        inputs, labels = masked_rows(model.preprocessor, texts, after)
        unigram = -frequencies[labels[labels >= 0]].astype("float32").mean()
        assert losses(model, inputs, labels) < unigram < losses(new, inputs, labels) - 1


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_it_predicts_the_next_token_better_than_its_frequency_does(name):
    def loss(model) -> float:
        return float(-np.concatenate([score.log_probs for score in model.score(TEXTS)]).mean())

    model, untrained = loaded(name, "causal_lm"), bert_zoo.load(name, "causal_lm", weights=None)
    untrained.preprocessor = model.preprocessor
    tokenizer = model.preprocessor.tokenizer
    tokens = [token for score in model.score(TEXTS) for token in score.tokens]
    ids = [tokenizer.token_to_id(token) for token in tokens]
    frequencies = np.load(ROOT / "checkpoints" / name / "log_frequencies.npy")
    unigram = float(-frequencies[ids].astype("float32").mean())
    assert loss(model) + 0.5 < unigram < loss(untrained) - 0.5


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_it_writes(name):
    model = loaded(name, "causal_lm")
    prompt = "he said that the"
    text = model.generate(prompt, max_new_tokens=20, sampler="top_k", seed=0, stop=None)
    assert text.startswith(prompt) and len(set(text.removeprefix(prompt).split())) >= 4


@pytest.mark.parametrize("name", TEXT_TO_TEXT)
def test_it_fills_in_spans_by_what_stands_around_them(name):
    """Better than by the words' frequencies, and than without the text around them."""
    model, untrained = (
        bert_zoo.load(name, "text_to_text", weights=w) for w in ("pretrained", None)
    )
    untrained.preprocessor = model.preprocessor
    frequencies = np.load(ROOT / "checkpoints" / name / "log_frequencies.npy").astype("float32")
    rows = [text.split() for text in TEXTS for _ in range(3)]
    # Two words, at three places of each text.
    starts = [2 + 4 * (row % 3) for row in range(len(rows))]
    first, second = "<extra_id_0>", "<extra_id_1>"
    sources = [" ".join([*w[:at], first, *w[at + 2 :]]) for w, at in zip(rows, starts, strict=True)]
    targets = [
        " ".join([first, *w[at : at + 2], second]) for w, at in zip(rows, starts, strict=True)
    ]

    def log_probs(model, sources) -> np.ndarray:
        # Without the sentinels and the end.
        return np.concatenate([score.log_probs[1:-2] for score in model.score(sources, targets)])

    tokens = [token for score in model.score(sources, targets) for token in score.tokens[1:-2]]
    unigram = frequencies[[model.preprocessor.tokenizer.token_to_id(t) for t in tokens]].mean()
    alone = log_probs(model, [first] * len(targets)).mean()
    found, untrained = log_probs(model, sources).mean(), log_probs(untrained, sources).mean()
    assert found > max(unigram, alone) + 0.2 and min(unigram, alone) > untrained + 0.5


def test_it_tells_a_verb_from_a_noun_by_what_stands_around_it():
    model = loaded("elmo_nano", "encoder")
    verbs = ["the children play in the garden .", "he wants to play the part of a soldier ."]
    nouns = ["the play was written by a young woman .", "she saw the play at a small theatre ."]

    def cosines(features) -> np.ndarray:
        rows = model.embed_words(verbs + nouns, features=features)
        vectors = np.stack([row.vectors[row.words.index("play")] for row in rows])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors @ vectors.T

    np.testing.assert_allclose(cosines(0), 1, atol=1e-5)  # words of characters alone
    found = cosines("top")
    assert found[0, 1] > found[:2, 2:].mean() + 0.2


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        *((name, "she looked at {} face .", ("the", "his", "her", "my")) for name in MASKED),
        ("bert_nano", "he did n't want {} go home .", ("to",)),
    ],
)
def test_it_fills_in_a_word_that_fits(name, text, words):
    model = loaded(name, "masked_lm")
    tokenizer = model.preprocessor.tokenizer
    first = model.fill_mask(text.format(tokenizer.id_to_token(tokenizer.mask_id)), top_k=1)
    assert first[0][0].token.strip() in words


def test_a_changed_file_is_noticed(tmp_path, monkeypatch):
    _, checkpoint = ENTRIES["bert_nano"]
    folder = tmp_path / "checkpoints" / "bert_nano"
    folder.mkdir(parents=True)
    monkeypatch.setattr(locating, "__file__", str(tmp_path / "bert_zoo" / "loading" / "sources.py"))
    (folder / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(WeightsError, match="SHA-256"):
        fetch_checkpoint(checkpoint)
    (folder / "model.safetensors").unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError, match="install bert_zoo again"):
        fetch_checkpoint(checkpoint)


def test_they_are_installed_with_the_package(tmp_path, monkeypatch):
    """What the build is told has every file; and where it puts them they are found."""
    given = {}
    build = types.SimpleNamespace(setup=given.update, find_packages=lambda include: ["bert_zoo"])
    monkeypatch.setitem(sys.modules, "setuptools", build)
    runpy.run_path(str(ROOT / "setup.py"))
    data = {
        "bert_zoo.data.messages",
        "bert_zoo.cli.templates",
        *(f"bert_zoo.checkpoints.{folder}" for folder in FOLDERS.values()),
    }
    assert set(given["packages"]) == {"bert_zoo", *given["package_dir"], *data}
    ((package, folder),) = given["package_dir"].items()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    installed = tmp_path.joinpath(*package.split("."))
    for pattern in settings["package-data"][package]:
        for file in (ROOT / folder).glob(pattern):
            target = installed / file.relative_to(ROOT / folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    monkeypatch.setattr(locating, "__file__", str(tmp_path / "bert_zoo" / "loading" / "sources.py"))
    for name, (_, checkpoint) in ENTRIES.items():
        directory = fetch_checkpoint(checkpoint)
        assert directory == tmp_path / "bert_zoo" / "checkpoints" / FOLDERS[name]
        source_tree = (ROOT / "checkpoints" / FOLDERS[name]).iterdir()
        assert {file.name for file in directory.iterdir()} == {file.name for file in source_tree}


def test_a_checkpoint_that_was_not_trained_to_make_sentence_vectors_says_so(caplog):
    bert_zoo.load("bert_nano", "embedding")
    assert "not trained for sentence vectors" in caplog.text
    caplog.clear()
    bert_zoo.load("bert_nano", "embedding", weights=None)
    assert not caplog.text
