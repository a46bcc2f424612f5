"""Exact search of float, int8 and binary vectors."""

import h5py
import numpy as np
import pytest
from helpers import run_program

from bert_zoo.embeddings import int8_ranges, search, to_binary, to_int8

SIZE = 24


def made(rows: int, size: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, size)).astype("float32")


def best(queries, corpus, top_k, cosine=True):
    """What a plain sort gives, in float64."""
    queries, corpus = queries.astype("float64"), corpus.astype("float64")
    scores = queries @ corpus.T
    if cosine:
        lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(corpus, axis=1))
        scores = scores / np.maximum(lengths, 1e-30)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    return order, np.take_along_axis(scores, order, 1)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(
    ("rows", "top_k", "block_rows"), [(1000, 7, 64), (65, 100, 16), (33, 3, 32)]
)
def test_the_best_rows_are_those_of_a_sort(similarity, rows, top_k, block_rows):
    # Later rows are better: every block changes what was found.
    queries = made(300)
    corpus = made(rows, seed=1) + queries[0] * np.linspace(0, 3, rows)[:, None].astype("float32")
    corpus[5] = 0
    hits = search(queries, corpus, top_k, similarity=similarity, block_rows=block_rows)
    indices, scores = best(queries, corpus, top_k, similarity == "cosine")
    assert (hits.indices == indices).all()
    np.testing.assert_allclose(hits.scores, scores, atol=1e-4, rtol=1e-6)


@pytest.mark.parametrize("queries", [1, 2, 257])
def test_of_equal_rows_the_lower_one_comes_first(queries):
    # Rows that occur 41 times over all blocks, the last of which has one row.
    corpus = np.tile(made(5), (41, 1))
    rows = search(made(queries, seed=1), corpus, 60, block_rows=17).indices
    firsts = rows[:, ::41] if rows.shape[1] > 41 else rows
    assert (rows[:, :41] == firsts[:, :1] + 5 * np.arange(41)).all()
    assert (rows[:, 41:] == rows[:, 41:42] + 5 * np.arange(19)).all()


@pytest.mark.parametrize("stored", ["memory map", "HDF5", "half precision"])
def test_what_gives_rows_by_slices_is_searched(stored, tmp_path):
    corpus, queries = made(500), made(4, seed=1)
    signs = to_binary(corpus)
    if stored == "half precision":
        corpus = corpus.astype("float16")
    expected, _ = best(queries, corpus, 5)
    if stored == "memory map":
        np.save(tmp_path / "corpus.npy", corpus)
        corpus = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    elif stored == "HDF5":
        corpus = h5py.File(tmp_path / "corpus.h5", "w").create_dataset("vectors", data=corpus)
    assert (search(queries, corpus, 5, block_rows=64).indices == expected).all()
    rescored = search(queries, signs, 5, rescore_with=corpus, rescore_multiplier=100)
    assert (rescored.indices == expected).all()


class Sliced:
    """Rows that are given by slices alone."""

    def __init__(self, vectors):
        self.vectors, self.shape, self.most = vectors, vectors.shape, 0

    def __len__(self):
        return len(self.vectors)

    def __getitem__(self, rows: slice):
        rows = self.vectors[rows]
        self.most = max(self.most, len(rows))
        return rows


def test_no_more_than_a_block_of_the_corpus_is_read_at_a_time():
    corpus = Sliced(made(1000))
    search(made(300, seed=1), corpus, 5, block_rows=64)
    assert corpus.most == 64


# --- int8 and signs ---


def test_int8_and_signs_are_those_of_sentence_transformers():
    """Of `quantize_embeddings` (6.2.0): "int8" with these ranges, and "ubinary"."""
    vectors = np.array(
        [[-1.5, 0.0, 0.1, 2.0], [-1.0, 1.0, 0.5, 2.0], [1.0, -0.25, 0.3, 2.0]], "float32"
    )
    ranges = int8_ranges(vectors[1:])
    assert (ranges == np.array([[-1, -0.25, 0.3, 2], [1, 1, 0.5, 2]], "float32")).all()
    assert to_int8(vectors, ranges).tolist() == [
        [-128, -77, -128, -128],
        [-128, 126, 127, -128],
        [126, -128, -128, -128],
    ]
    assert to_binary(vectors).tolist() == [[0b00110000], [0b01110000], [0b10110000]]


def test_int8_vectors_are_compared_by_the_values_they_stand_for():
    corpus, queries = made(2000) + 3, made(20, seed=1)
    ranges = int8_ranges(corpus)
    hits = search(queries, to_int8(corpus, ranges), 10, ranges=ranges)
    indices, scores = best(queries, corpus, 10)
    np.testing.assert_allclose(hits.scores, scores, atol=2e-3)
    assert np.mean([len({*a} & {*b}) for a, b in zip(hits.indices, indices, strict=True)]) > 9


@pytest.mark.parametrize("size", [24, 70])
def test_signs_are_searched_by_bits_and_then_by_the_float_queries(size):
    corpus, queries = made(2000, size), made(9, size, seed=1)
    signs = np.where(corpus > 0, 1.0, -1.0)
    packed = to_binary(corpus)
    all_rescored = search(queries, packed, 10, rescore_multiplier=200, block_rows=300)
    indices, scores = best(queries, signs, 10)
    np.testing.assert_allclose(all_rescored.scores, scores, atol=1e-6)
    assert (all_rescored.indices == indices).all()
    few = search(queries, packed, 10, rescore_multiplier=1, block_rows=300)
    by_bits, _ = best(np.where(queries > 0, 1.0, -1.0), signs, 10)
    assert (np.sort(few.indices) == np.sort(by_bits)).all()


def test_without_numpys_count_bits_are_counted_alike(monkeypatch):
    queries, packed = made(3), to_binary(made(200, seed=1))
    expected = search(queries, packed, 5, rescore_multiplier=1)
    monkeypatch.delattr(np, "bitwise_count")
    assert (search(queries, packed, 5, rescore_multiplier=1).indices == expected.indices).all()


def test_encoded_vectors_are_written_block_by_block(tmp_path):
    vectors = made(20_000)
    ranges = int8_ranges(vectors)
    to_int8(vectors, ranges, tmp_path / "int8.npy")
    to_binary(vectors, tmp_path / "signs.npy")
    assert (np.load(tmp_path / "int8.npy") == to_int8(vectors, ranges)).all()
    assert (np.load(tmp_path / "signs.npy") == to_binary(vectors)).all()


# --- Errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": made(1)[0]}, r"shape \[24\].*pass float vectors \[queries, size\]"),
        ({"queries": np.ones((1, SIZE), int)}, "type int64; pass float vectors"),
        ({"corpus": made(3).tolist()}, r"shape \[\].*it must be \[rows, 24\]"),
        ({"corpus": made(3, 25)}, r"shape \[3, 25\].*24 dimensions, so it must be \[rows, 24\]"),
        ({"corpus": np.ones((3, SIZE), "uint8")}, r"it must be \[rows, 3\]"),
        ({"corpus": np.ones((3, SIZE), "int8")}, r"Pass the ranges \[2, 24\].*got none"),
        ({"corpus": np.ones((3, SIZE), int)}, "type int64; vectors must be floats, int8 or uint8"),
        ({"corpus": made(0)}, "no rows"),
        ({"rescore_with": made(4)}, "rescore_with has 4 rows and the corpus 3"),
        ({"top_k": 0}, "top_k is 0; it must be a whole number of at least 1"),
        ({"similarity": "l2"}, r"similarity is 'l2'; it must be one of \['cosine', 'dot'\]"),
        ({"corpus": np.where(np.eye(3, SIZE) > 0, np.nan, 1)}, "row 0 of the corpus is nan"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    arguments = {"queries": made(2), "corpus": made(3)} | arguments
    with pytest.raises(ValueError, match=message):
        search(**arguments)


def test_searching_mining_and_measuring_import_neither_tensorflow_nor_keras():
    code = (
        "import sys; from bert_zoo.embeddings import evaluate_retrieval, mine_negatives, search; "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    run_program("-c", code)
