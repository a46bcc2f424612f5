"""How contextual vectors are, nearest neighbours in context, and the similarity of two models' layers."""

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, refusals

import bert_zoo
from bert_zoo import probing
from bert_zoo.data.word_vectors import StaticVectors
from bert_zoo.probing import vectors as vectors_module
from bert_zoo.probing.geometry import explained_variance, self_similarity

# Made with `analyze.py` of kawine/contextual.
GOLDEN = np.load(Path(__file__).parent / "golden" / "contextual_geometry.npz")
SENTENCES = [sentence.split() for sentence in GOLDEN["sentences"]]


def layers_of(*layers, sentences=SENTENCES):
    sizes = tuple(layer.shape[1] for layer in layers)
    return probing.LayerVectors(sentences, sizes, np.concatenate(layers, axis=1))


@pytest.fixture(scope="module")
def vectors():
    return layers_of(*GOLDEN["vectors"])


def random_layer(size, seed=0, rows=50):
    return np.random.default_rng(seed).normal(size=(rows, size)).astype(np.float16)


# --- Geometry ---


def test_measures_are_those_of_the_original_code(vectors):
    found = probing.measure_geometry(vectors)
    order = [found.words.index(word) for word in GOLDEN["words"]]
    assert len(found.words) == len(order)
    for measure, given in (
        (found.self_similarity[order], GOLDEN["self_similarity"]),
        # The code leaves layer 0 out.
        (found.explained_variance[order, 1:], GOLDEN["explained_variance"]),
        (found.intra_sentence.mean(axis=0), GOLDEN["intra_sentence"]),
    ):
        np.testing.assert_allclose(measure, given, atol=1e-6, rtol=0)


def test_baselines_are_those_of_the_original_code(vectors):
    last_words = [vectors.layer(layer, vectors.splits[1:] - 1) for layer in range(3)]
    found = [self_similarity(x) for x in last_words]
    np.testing.assert_allclose(found, GOLDEN["random_cosine"], atol=1e-6, rtol=0)
    found = [explained_variance(x, centred=False) for x in last_words]
    np.testing.assert_allclose(found, GOLDEN["random_variance"], atol=1e-6, rtol=0)


def test_the_share_of_one_direction_does_not_depend_on_which_side_is_longer():
    long = random_layer(4)
    for centred in (True, False):
        padded = np.pad(long, [(0, 0), (0, 60)])
        expected = explained_variance(padded, centred=centred)
        assert explained_variance(long, centred=centred) == pytest.approx(expected, abs=1e-9)


def test_curves_subtract_the_baselines(vectors):
    found = probing.measure_geometry(vectors, samples=4, seed=1)
    assert found.intra_sentence.shape == (4, 3)
    raw, corrected = found.curves(corrected=False), found.curves()
    baselines = [found.random_cosine] * 2 + [found.random_variance, np.zeros(3)]
    for before, after, baseline in zip(raw, corrected, baselines, strict=True):
        np.testing.assert_allclose(before.mean - after.mean, baseline, atol=1e-12)
    assert "self-similarity" in str(found)
    similarities = dict(zip(found.words, found.self_similarity[:, 1], strict=True))
    ranked = found.ranked(1)
    assert [word for word, _ in ranked] == sorted(found.words, key=similarities.get)
    expected = similarities[ranked[0][0]] - found.random_cosine[1]
    assert ranked[0][1] == pytest.approx(expected)


def test_static_vectors_are_as_similar_to_themselves_as_can_be():
    words = [word for sentence in SENTENCES for word in sentence]
    kinds = np.unique(words, return_inverse=True)[1]
    found = probing.measure_geometry(layers_of(random_layer(30)[kinds]), max_occurrences=4)
    np.testing.assert_allclose(found.self_similarity, 1, atol=1e-9)
    np.testing.assert_array_equal(found.explained_variance, 1)
    assert dict(zip(found.words, found.occurrences, strict=True)) == {"the": 11, "play": 6}
    assert abs(found.random_cosine[0]) < 0.5


# --- Neighbours ---


def test_neighbours_are_the_most_similar_of_all_rows(vectors, monkeypatch):
    monkeypatch.setattr(vectors_module, "_BLOCK_ROWS", 7)
    found = probing.neighbours(None, "Play", vectors, occurrences=99, top_k=4, layer=1)
    words = [word for sentence in SENTENCES for word in sentence]
    places = [(s, p) for s, words in enumerate(SENTENCES) for p in range(len(words))]
    x = vectors.layer(1) / np.linalg.norm(vectors.layer(1), axis=1, keepdims=True)
    own = [row for row, word in enumerate(words) if word == "play"]
    assert len(found.in_context) == len(own) == 6
    for row, context in zip(own, found.in_context, strict=True):
        others = [other for other in np.argsort(-(x @ x[row])) if other != row]
        again = [other for other in others if other in own][:4]
        nearest = {}
        for other in others:
            if other not in own:
                nearest.setdefault(words[other], other)
        for expected, listed in (
            (again, context.same_word),
            ([*nearest.values()][:4], context.other_words),
        ):
            found_there = [(each.occurrence.position, each.occurrence.word) for each in listed]
            assert found_there == [(places[other][1], words[other]) for other in expected]
            cosines = [each.similarity for each in listed]
            np.testing.assert_allclose(cosines, (x @ x[row])[expected], atol=1e-6)
    mean = vectors.layer(0)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    order = np.argsort(-(mean @ mean[own].mean(axis=0)))
    expected = [*dict.fromkeys(words[row] for row in order if row not in own)][:4]
    assert [word for word, _ in found.static] == expected


def test_neighbours_of_a_text_file_in_contexts_of_ones_own(tmp_path):
    encoder = bert_zoo.load("bert_nano")
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(GOLDEN["sentences"]))
    static = StaticVectors(("play", "Play", "game", "rain"), np.array([[1, 0], [1, 0], [1, 1], [0, 1.0]]))  # fmt: skip
    given = ["She will play the new play.", *GOLDEN["sentences"][1:2]]
    options = {"sentences": given, "static": static, "top_k": 2}
    found = probing.neighbours(encoder, "play", path, directory=tmp_path / "kept", **options)
    assert found.static == (("game", pytest.approx(0.5**0.5)), ("rain", pytest.approx(0)))
    assert len(found.in_context) == 4
    # A context that is in the corpus too finds itself there.
    last = found.in_context[-1]
    assert last.same_word[0].similarity == pytest.approx(1, abs=1e-3)
    assert last.same_word[0].occurrence == last.occurrence
    kept = probing.open_vectors(tmp_path / "kept")
    assert probing.neighbours(encoder, "play", kept, **options) == found
    assert "without context: game 0.71, rain 0.00\nShe will [play] the new play" in str(found)


# --- The map of a word's occurrences ---


def test_a_map_keeps_distances_that_lie_in_a_plane():
    flat = np.zeros((50, 20))
    flat[:, :2] = random_layer(2) * [4, 1]
    rotation = np.linalg.qr(random_layer(20, rows=20).astype(float))[0]
    vectors = layers_of((flat @ rotation + 1).astype(np.float32))
    found = probing.map_occurrences(vectors, "THE")
    rows = [row for row, word in enumerate(w for s in SENTENCES for w in s) if word == "the"]

    def distances(x):
        return np.linalg.norm(x[:, None] - x, axis=-1)

    np.testing.assert_allclose(distances(found.points), distances(flat[rows]), atol=1e-5)
    assert found.explained.sum() == pytest.approx(1)
    assert found.explained[0] > found.explained[1]
    assert [o.words[o.position] for o in found.occurrences] == ["the"] * len(rows)
    assert str(found.occurrences[-1]) == "in the year of [the] new game"
    assert len(probing.map_occurrences(vectors, "the", max_occurrences=3).points) == 3


# --- Similarity of layers ---


def test_cka_is_that_of_the_centred_kernels(vectors):
    others = layers_of(random_layer(30), random_layer(12, 1))
    found = probing.cka(vectors, others)
    centring = np.eye(50) - 1 / 50

    def kernel(x):
        return centring @ (x.astype(float) @ x.T.astype(float)) @ centring

    for one in range(3):
        for two in range(2):
            k, m = kernel(vectors.layer(one)), kernel(others.layer(two))
            expected = np.sum(k * m) / np.sqrt(np.sum(k * k) * np.sum(m * m))
            assert found.values[one, two] == pytest.approx(expected, abs=1e-9)
    assert str(found).splitlines()[0].split() == ["layer", "0", "1"]


def test_cka_does_not_change_with_rotation_and_scale(vectors):
    rotation = np.linalg.qr(random_layer(104, rows=104).astype(float))[0]
    turned = [(3 * vectors.layer(n) @ rotation + 1).astype(np.float32) for n in range(3)]
    found = probing.cka(vectors, layers_of(*turned), max_words=30)
    np.testing.assert_allclose(found.by_layer().mean, 1, atol=1e-6)
    assert (found.values[0, 1:] < 0.95).all()


# --- What is refused ---

ONE_SENTENCE = layers_of(random_layer(3, rows=2), sentences=[["a", "a"]])
OTHER_SENTENCES = layers_of(random_layer(3), sentences=[["a"] * 50])
PLAYER = StaticVectors(("player",), np.ones((1, 2)))
OF_50 = "'plays' is not among the 50 words | Did you mean 'play'"


@refusals(
    (lambda v: probing.measure_geometry(v, min_occurrences=12), "No word occurs 12 times among"),
    (lambda v: probing.measure_geometry(v, samples=1), "samples is 1"),
    (lambda v: probing.measure_geometry(ONE_SENTENCE), "there is only 1 sentence"),
    (lambda v: probing.neighbours(None, "plays", v), OF_50),
    (lambda v: probing.neighbours(None, "play", v, top_k=0), "top_k is 0"),
    (lambda v: probing.neighbours(None, "play", v, static=PLAYER), "no static vector for 'play'"),
    (lambda v: probing.neighbours(None, "play", SENTENCES), "encoder is None"),
    (lambda v: probing.map_occurrences(v, "boys"), "'boys' occurs fewer than 3 times"),
    (lambda v: probing.cka(v, OTHER_SENTENCES), "have different sentences"),
    (lambda v: probing.cka(v, layers_of(np.ones((50, 3)))), "layer 0 are equal"),
)
def test_what_cannot_be_measured_is_refused(call, words, vectors):
    assert_refused(lambda: call(vectors), words)
