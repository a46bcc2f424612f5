"""Sparse and token vectors searched, token vectors stored and pooled."""

import tracemalloc

import numpy as np
import pytest
from helpers import ALL_GOLDEN
from scipy.sparse import csr_array, random_array

from bert_zoo.embeddings import TokenIndex, int8_ranges, pool_tokens, search, to_binary

SIZE, VOCABULARY = 16, 500


def sparse(rows: int, density: float = 0.02, seed: int = 0) -> csr_array:
    return random_array(
        (rows, VOCABULARY), density=density, format="csr", dtype=np.float32, rng=seed
    )


def matrices(rows: int, most: int = 9, size: int = SIZE, seed: int = 0) -> list[np.ndarray]:
    """Vectors of length 1, as a late-interaction model gives them."""
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=(rng.integers(1, most + 1), size)) for _ in range(rows)]
    return [(m / np.linalg.norm(m, axis=1, keepdims=True)).astype("float32") for m in found]


def maxsim(queries, documents):
    """MaxSim in float64, pair by pair."""
    return np.array(
        [
            [(q.astype(float) @ d.astype(float).T).max(axis=1).sum() for d in documents]
            for q in queries
        ]
    )


def ranked(scores, top_k):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    return order, np.take_along_axis(scores, order, 1)


def assert_best(hits, scores, top_k):
    indices, expected = ranked(scores, top_k)
    assert (hits.indices == indices).all()
    np.testing.assert_allclose(hits.scores, expected, atol=1e-5, rtol=1e-6)


# --- Sparse vectors ---


@pytest.mark.parametrize("similarity", [None, "dot", "cosine"])
@pytest.mark.parametrize(
    ("rows", "top_k", "block_rows"), [(1000, 7, 64), (65, 100, 16), (33, 3, 32)]
)
def test_sparse_rows_are_those_of_a_sort(similarity, rows, top_k, block_rows):
    queries, corpus = sparse(300, 0.04, seed=1), sparse(rows)
    hits = search(queries, corpus, top_k, similarity=similarity, block_rows=block_rows)
    by_term = search(queries, corpus.tocsc(), top_k, similarity=similarity)
    np.testing.assert_allclose(by_term.scores, hits.scores, atol=1e-6)
    scores = queries.toarray().astype(float) @ corpus.toarray().astype(float).T
    if similarity == "cosine":
        lengths = [np.linalg.norm(m.toarray().astype(float), axis=1) for m in (queries, corpus)]
        scores /= np.maximum(np.outer(*lengths), 1e-30)
    _, expected = ranked(scores, top_k)
    np.testing.assert_allclose(hits.scores, expected, atol=1e-5, rtol=1e-6)
    found = np.take_along_axis(scores, hits.indices, 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("queries", [1, 257])
def test_of_equal_sparse_rows_the_lower_one_comes_first(queries):
    few = sparse(5, 0.3)
    corpus = csr_array(np.tile(few.toarray(), (41, 1)))
    rows = search(sparse(queries, 0.3, seed=1), corpus, 60, block_rows=17).indices
    assert (rows[:, :41] == rows[:, :1] + 5 * np.arange(41)).all()


def test_rows_without_a_common_term_score_zero_and_come_in_order():
    corpus = csr_array(np.eye(6, dtype=np.float32))
    hits = search(corpus[[4]], corpus, 4, block_rows=2)
    assert hits.indices.tolist() == [[4, 0, 1, 2]]
    assert hits.scores.tolist() == [[1, 0, 0, 0]]


# --- Token vectors ---


@pytest.mark.parametrize("block_rows", [1, 30, 100_000])
def test_token_vectors_are_ranked_by_maxsim(block_rows):
    queries, corpus = matrices(20, seed=1), matrices(400)
    hits = search(queries, corpus, 12, block_rows=block_rows)
    assert_best(hits, maxsim(queries, corpus), 12)


def test_negative_maxima_count():
    query, away = np.array([[1.0, 0.0]], "float32"), np.array([[-1.0, 0.0]], "float32")
    assert search([query], [away], 1).scores.tolist() == [[-1]]


@pytest.mark.parametrize("queries", [1, 257])
def test_of_equal_documents_the_lower_one_comes_first(queries):
    rows = search(matrices(queries, most=2, seed=1), matrices(5) * 9, 12, block_rows=17).indices
    assert (rows[:, :9] == rows[:, :1] + 5 * np.arange(9)).all()


def test_a_document_without_vectors_comes_last():
    corpus = matrices(4)
    corpus.insert(1, np.zeros((0, SIZE), "float32"))
    queries = matrices(3, seed=1)
    for where in (corpus, indexed(corpus)):
        hits = search(queries, where, 5)
        assert (hits.indices[:, -1] == 1).all()
        assert (hits.scores[:, -1] == -1e9).all()


@pytest.mark.parametrize("kind", ["float", "signs", "sparse"])
@pytest.mark.parametrize("stored", ["list", "index", "disk"])
def test_candidates_of_a_first_stage_are_ranked_by_maxsim(kind, stored, tmp_path):
    queries, corpus = matrices(9, seed=1), matrices(300)
    if kind == "sparse":
        first = sparse(9, 0.1, seed=1), sparse(300)
        scores = first[0].toarray() @ first[1].toarray().T
    else:
        first = [np.stack([m.sum(0) for m in some]) for some in (queries, corpus)]
        scores = search(*first, 300).scores
        if kind == "signs":
            first[1] = to_binary(first[1])
    if stored == "list":
        where = corpus
    else:
        where = indexed(corpus, directory=tmp_path / "index" if stored == "disk" else None)
    many = {"rescore_with": where, "rescore_queries": queries}
    all_of_them = search(*first, 12, **many, rescore_multiplier=300)
    assert_best(all_of_them, maxsim(queries, corpus), 12)
    few = search(*first, 3, **many, rescore_multiplier=2)
    candidates = search(*first, 6, rescore_multiplier=1).indices
    for query, rows, found in zip(queries, candidates, few.indices, strict=True):
        best = sorted(rows, key=lambda row: -maxsim([query], [corpus[row]])[0, 0])[:3]
        assert found.tolist() == best
    assert scores.shape == (9, 300)


@pytest.mark.parametrize(("kind", "block_rows"), [("sparse", 200), ("tokens", 3000)])
def test_memory_does_not_grow_with_the_corpus(kind, block_rows):
    def peak(rows: int) -> int:
        queries, corpus = (
            (sparse(50, seed=1), sparse(rows))
            if kind == "sparse"
            else (matrices(50, seed=1), indexed(matrices(rows), "float16"))
        )
        tracemalloc.start()
        search(queries, corpus, 3, block_rows=block_rows)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(300)  # imports
    assert peak(6000) < 1.3 * peak(1500)


# --- The index ---


def indexed(documents, dtype="float32", **options) -> TokenIndex:
    index = TokenIndex(dtype, **options)
    # Batches of three sizes, one of them empty.
    for batch in (documents[:1], [], documents[1:8], documents[8:]):
        index.append(batch)
    return index


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_an_index_is_written_in_batches_and_opened(dtype, tmp_path):
    documents = matrices(50)
    ranges = int8_ranges(np.concatenate(documents)) if dtype == "int8" else None
    kept = indexed(documents, dtype, ranges=ranges)
    kept.save(tmp_path / "saved")
    indexed(documents, dtype, ranges=ranges, directory=tmp_path / "batches")
    for path in (tmp_path / "saved", tmp_path / "batches"):
        opened = TokenIndex.open(path)
        assert isinstance(opened.vectors, np.memmap)
        assert opened.vectors.dtype == dtype
        np.testing.assert_array_equal(opened.vectors, kept.vectors)
        assert opened.lengths.tolist() == [len(matrix) for matrix in documents]
        assert opened.nbytes == kept.nbytes
    tolerance = {"float32": 0, "float16": 5e-4, "int8": 5e-3}[dtype]
    for row in (0, 7, -1):
        np.testing.assert_allclose(opened[row], documents[row], atol=tolerance)
    opened.append(documents[:2])
    assert len(TokenIndex.open(path)) == 52
    np.testing.assert_array_equal(TokenIndex.open(path)[51], kept[1])


def test_half_precision_ranks_as_float32():
    queries, corpus = matrices(20, most=32, size=128, seed=1), matrices(200, most=30, size=128)
    expected = search(queries, corpus, 10)
    found = search(queries, indexed(corpus, "float16"), 10)
    # Documents change places only where float32's scores are as near as float16 rounds.
    scores = np.take_along_axis(maxsim(queries, corpus), found.indices, 1)
    np.testing.assert_allclose(scores, expected.scores, rtol=2e-4)
    assert np.mean(found.indices == expected.indices) > 0.98


def test_vectors_of_a_stopped_batch_are_overwritten(tmp_path, monkeypatch):
    documents = matrices(6)
    index = indexed(documents[:3], directory=tmp_path)
    lengths = (tmp_path / "lengths.npy").read_bytes()
    index.append(documents[3:5])
    # As if the process had been killed between the two files, and one before it in the first.
    (tmp_path / "lengths.npy").write_bytes(lengths)
    with (tmp_path / "vectors.npy").open("ab") as file:
        file.write(b"part of a row")
    opened = TokenIndex.open(tmp_path)
    assert len(opened) == 3
    opened.append(documents[5:])
    again = TokenIndex.open(tmp_path)
    assert len(again) == 4
    np.testing.assert_array_equal(again[3], documents[5])
    # Killed before the first lengths were written: a new index takes the place.
    (tmp_path / "lengths.npy").unlink()
    indexed(documents, "float16", directory=tmp_path)
    assert len(TokenIndex.open(tmp_path)) == 6


# --- Pooling ---


@pytest.fixture(scope="module")
def golden():
    """What sentence-transformers 6.2.0 says: `maxsim`, and `HierarchicalTokenPooling` of the first document."""
    values = dict(np.load(ALL_GOLDEN / "token_vectors.npz"))
    for name, lengths in (("queries", "query_lengths"), ("documents", "document_lengths")):
        values[name] = np.split(values[name], np.cumsum(values[lengths])[:-1])
    return values


def test_scores_are_those_of_sentence_transformers(golden):
    hits = search(golden["queries"], golden["documents"], 4)
    expected = np.take_along_axis(golden["maxsim"], hits.indices, 1)
    np.testing.assert_allclose(hits.scores, expected, atol=1e-5)


@pytest.mark.parametrize("factor", [1, 1.5, 2, 4, 100])
def test_pooled_vectors_are_those_of_sentence_transformers(golden, factor):
    pooled = pool_tokens(golden["documents"][0], factor)
    np.testing.assert_allclose(pooled, golden[f"pooled_{factor}"], atol=1e-6)


def test_pooling_keeps_the_first_vectors_and_means_of_equal_ones():
    a, b, c = np.eye(3, dtype="float32")
    pooled = pool_tokens(np.stack([c, a, b, a, b]), 2)
    assert sorted(map(tuple, pooled[1:].tolist())) == [tuple(b), tuple(a)]
    assert (pooled[0] == c).all()
    assert len(pool_tokens(np.stack([c, a, b, a, b]), 2, kept_first=0)) == 2


# --- Errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, VOCABULARY), "float32"), sparse(3)), r"corpus is sparse, \[3, 500\]"),
        ((sparse(2)[:, :9], sparse(3)), "same number of columns"),
        ((sparse(2), np.ones((3, 4), "float32")), "pass float vectors"),
        ((np.ones((2, SIZE), "float32"), matrices(3)), r"Item 0 of queries has the shape \[16\]"),
        ((matrices(2, size=8), matrices(3)), "queries have 8 dimensions, and those of corpus 16"),
        ((matrices(2), [*matrices(3), np.ones((2, 3))]), "Item 3 of corpus"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        search(*arguments)


def test_similarities_belong_to_their_kind():
    search(matrices(2), matrices(3), similarity="maxsim")
    with pytest.raises(ValueError, match=r"similarity is 'cosine'.*maxsim"):
        search(matrices(2), matrices(3), similarity="cosine")
    with pytest.raises(ValueError, match="similarity is 'maxsim'"):
        search(sparse(2), sparse(3), similarity="maxsim")


def test_what_does_not_fit_an_index_is_refused(tmp_path):
    index = indexed(matrices(3), "float16", directory=tmp_path / "a")
    with pytest.raises(ValueError, match="Vectors have 5 dimensions and the index 16"):
        index.append(matrices(2, size=5))
    with pytest.raises(ValueError, match="finite as float16"):
        index.append([np.full((1, SIZE), 1e5, "float32")])
    with pytest.raises(ValueError, match="needs ranges"):
        TokenIndex("int8")
    with pytest.raises(TypeError, match="one document, but got a list"):
        pool_tokens(matrices(3), 2)
    with pytest.raises(ValueError, match="one vector a text, and queries are another kind"):
        search(matrices(2), np.ones((3, SIZE), "float32"))
    with pytest.raises(ValueError, match="The corpus has no rows"):
        search(matrices(2), [])
    with pytest.raises(ValueError, match="The corpus has no rows"):
        search(matrices(2), TokenIndex())
    with pytest.raises(FileExistsError, match="already has an index"):
        TokenIndex(directory=tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="directory of an index"):
        TokenIndex.open(tmp_path / "b")
    (tmp_path / "a/lengths.npy").unlink()
    np.save(tmp_path / "a/lengths.npy", np.full((3, 1), 99, "int32"))
    with pytest.raises(ValueError, match=r"is damaged: vectors\.npy has"):
        TokenIndex.open(tmp_path / "a")
    queries = [matrices(2)[0]] * 2
    with pytest.raises(ValueError, match="rescore_with has 2 queries and the corpus 1"):
        search(sparse(1), sparse(3), rescore_with=matrices(3), rescore_queries=queries)
