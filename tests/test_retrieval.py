"""Rankings and similarities measured, files in BEIR's layout, hard negatives and paraphrases."""

import gzip
import json
from functools import partial

import numpy as np
import pytest
from helpers import TEXTS, assert_refused, loaded_task, refusals
from scipy.sparse import csr_array

from bert_zoo.config import Pooling, Prompts
from bert_zoo.data.glue import metrics as glue_metrics
from bert_zoo.data.retrieval import read_beir
from bert_zoo.embeddings import (
    TokenIndex,
    evaluate_retrieval,
    evaluate_similarity,
    mine_negatives,
    paraphrases,
    vector_sizes,
)
from bert_zoo.metrics import retrieval_metrics


class Angles:
    """A model that gives a text the vector of an angle, in degrees, that the text is."""

    def __init__(self, similarity="cosine", **prompts):
        self.prompts, self.asked = Prompts(prompts), []
        self.pooling = Pooling(similarity=similarity)

    def embed(self, texts, batch_size=32, prompt=None, role=None):
        self.asked.append(self.prompts.text(prompt, role))
        angles = np.radians([float(text.split()[0]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")


# --- Metrics ---


def run_of(queries: int, documents: int):
    """Random grades from 0 to 3, and random scores of some documents, no two of them equal."""
    rng = np.random.default_rng(0)
    relevant, found = {}, {}
    for query in range(queries):
        judged, grades = rng.choice(documents, 20, replace=False), rng.integers(0, 4, 20)
        relevant[f"q{query}"] = {f"d{d}": int(g) for d, g in zip(judged, grades, strict=True)}
        ranked, scores = rng.choice(documents, 40, replace=False), rng.permutation(40)
        found[f"q{query}"] = {f"d{d}": float(s) for d, s in zip(ranked, scores, strict=True)}
    return relevant, found


def test_scores_are_those_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    relevant, found = run_of(30, 60)
    # Our name -> the library's, and cutoffs.
    measures = {
        "ndcg": ("ndcg_cut", [3, 10]),
        "map": ("map_cut", [100]),
        "precision": ("P", [1, 5]),
        "recall": ("recall", [5, 10]),
        "accuracy": ("success", [1, 5]),
    }
    cutoffs = {name: ranks for name, (_, ranks) in measures.items()}
    ours = retrieval_metrics(relevant, found, cutoffs | {"mrr": [40]})
    asked = {f"{theirs}.{','.join(map(str, ranks))}" for theirs, ranks in measures.values()}
    scores = pytrec_eval.RelevanceEvaluator(relevant, asked | {"recip_rank"}).evaluate(found)
    expected = {"mrr@40": "recip_rank"}
    for name, (theirs, ranks) in measures.items():
        expected |= {f"{name}@{k}": f"{theirs}_{k}" for k in ranks}
    for name, measure in expected.items():
        mean = np.mean([of_query[measure] for of_query in scores.values()])
        assert ours[name] == pytest.approx(mean, abs=1e-9), name


def test_what_trec_eval_lacks_is_cut_at_k_as_sentence_transformers_does():
    relevant = {"q": {f"r{i}" for i in range(4)}}
    scores = retrieval_metrics(relevant, {"q": ["x", "r3", "y", "r1"]}, {"map": [2], "mrr": [1, 2]})
    assert scores == {"map@2": 0.25, "mrr@1": 0, "mrr@2": 0.5}


def test_of_equal_scores_the_lesser_id_comes_first():
    scores = retrieval_metrics({"q": ["b"]}, {"q": {"c": 1.0, "b": 1.0, "a": 0.5}}, {"mrr": [10]})
    assert scores == {"mrr@10": 1}


def test_queries_without_relevant_documents_are_dropped_and_said(caplog):
    relevant = {"q": ["a"], "none": [], "zero": {"a": 0}, "finds nothing": ["a"]}
    scores = retrieval_metrics(relevant, {"q": ["a"], "none": ["a"]}, {"recall": [1]})
    assert scores == {"recall@1": 0.5}
    assert "Of 4 queries, 2 have no relevant document" in caplog.text


# --- Models measured ---


def test_a_model_is_measured_by_what_it_finds():
    queries = {"q1": "10", "q2": "50", "q3": "90"}
    corpus = {"b": "20", "a": "20 again", "c": "52", "d": "130"}
    relevant = {"q1": {"b": 1}, "q2": ["c"], "q3": {"d": 2}}
    cutoffs = {"mrr": [2], "recall": [1]}
    scores = evaluate_retrieval(Angles(), queries, corpus, relevant, cutoffs=cutoffs)
    # "a" is as near to q1 as "b", and has the lesser id; q3 finds "c" first.
    assert scores == {"mrr@2": pytest.approx(2 / 3), "recall@1": pytest.approx(1 / 3)}


def test_queries_and_documents_get_the_models_prompts():
    arguments = {"q": "1"}, {"d": "1"}, {"q": ["d"]}
    named = {"query": "find: ", "passage": "found: "}
    for prompts, expected in ((named, ["find: ", "found: "]), ({}, [""] * 2)):
        model = Angles(**prompts)
        evaluate_retrieval(model, *arguments)
        assert model.asked == expected
    evaluate_retrieval(model, *arguments, query_prompt="x: ", document_prompt="")
    assert model.asked[2:] == ["x: ", ""]


class Lengths(Angles):
    """A text's vector is as long as the text says."""

    def embed(self, texts, **options):
        lengths = np.array([[float(text.split()[1])] for text in texts], "float32")
        return super().embed(texts, **options) * lengths


def test_vectors_are_compared_as_the_model_says():
    queries, corpus, relevant = {"q": "0 1"}, {"near": "5 1", "long": "20 9"}, {"q": ["long"]}
    of_model = partial(evaluate_retrieval, queries=queries, corpus=corpus, relevant=relevant)
    assert of_model(Lengths("dot"))["accuracy@1"] == 1
    assert of_model(Lengths("cosine"))["accuracy@1"] == 0
    assert of_model(Lengths("dot"), similarity="cosine")["accuracy@1"] == 0
    assert mine_negatives(Lengths("dot"), ["0 1"], ["1 1"], ["5 1", "20 9"])[2] == ["20 9"]
    pairs = ["0 1", "0 1"], ["5 1", "20 9"], [0.0, 1.0]
    assert evaluate_similarity(Lengths("dot"), *pairs)["spearman"] == pytest.approx(1)
    assert evaluate_similarity(Lengths("cosine"), *pairs)["spearman"] == pytest.approx(-1)


class Terms:
    """A sparse model whose text's weights are 1 for the numbers that the text has."""

    similarity = "dot"

    def embed(self, texts, batch_size=32, role=None):
        rows = np.zeros((len(texts), 200), "float32")
        for row, text in zip(rows, texts, strict=True):
            row[[*map(int, text.split())]] = 1
        return csr_array(rows)


class Tokens:
    """A late-interaction model whose text has a vector for each angle that the text has."""

    similarity = "maxsim"

    def embed(self, texts, batch_size=32, role=None):
        angles = [np.radians([float(word) for word in text.split()]) for text in texts]
        return [np.stack([np.cos(a), np.sin(a)], axis=1).astype("float32") for a in angles]


@pytest.mark.parametrize("model", [Terms(), Tokens()])
def test_sparse_and_token_vectors_are_measured_and_mined(model):
    queries = {"q1": "10 40", "q2": "90 99 170"}
    corpus = {"a": "10 40 150", "b": "40 99", "c": "90 170"}
    relevant = {"q1": ["a"], "q2": ["c"]}
    scores = evaluate_retrieval(model, queries, corpus, relevant, cutoffs={"mrr": [2]})
    assert scores["mrr@2"] == 1
    sizes = vector_sizes(model.embed([*corpus.values()], role="document"))
    assert {name: scores[f"document_{name}"] for name in sizes} == sizes
    anchors, positives, negatives = mine_negatives(
        model, [*queries.values()], ["10 40 150", "90 170"], [*corpus.values()], margin=0.01
    )
    assert negatives == ["40 99"] * len(anchors)
    assert (anchors[0], positives[0]) == ("10 40", "10 40 150")


def test_sizes_of_each_kind():
    texts = ["1 2", "3", "5 6 7"]
    sparse = vector_sizes(Terms().embed(texts))
    assert sparse == {"bytes": 16, "active_dims": 2, "sparsity": pytest.approx(0.99)}
    late = Tokens().embed(texts)
    assert vector_sizes(late) == {"bytes": 16, "vectors": 2}
    index = TokenIndex("float16")
    index.append(late)
    assert vector_sizes(index) == {"bytes": 8, "vectors": 2}
    assert vector_sizes(np.zeros((3, 4), "float32")) == {"bytes": 16}


def test_similarities_are_compared_with_peoples_scores():
    model = loaded_task("embedding")
    others, scores = [*TEXTS[1:], TEXTS[0]], [1.0, 4.5, 2.0]
    cosines = [
        np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)
        for a, b in zip(model.embed(TEXTS), model.embed(others), strict=True)
    ]
    expected = glue_metrics("stsb", scores, cosines)
    assert evaluate_similarity(model, TEXTS, others, scores) == pytest.approx(expected, abs=1e-5)


# --- Files ---


@pytest.fixture
def beir(tmp_path):
    corpus = [
        {"_id": "d1", "title": "Hops", "text": "Bitter flowers.", "metadata": {}},
        {"_id": "d2", "title": "", "text": "Malt is barley."},
        {"_id": "d3", "text": "No title."},
    ]
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in corpus)
    queries = [{"_id": "q1", "text": "what is bitter"}, {"_id": "q2", "text": "unused"}]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (tmp_path / "qrels").mkdir()
    return tmp_path


def judged(directory, *rows: str) -> None:
    lines = ["query-id\tcorpus-id\tscore", *(row.replace(" ", "\t") for row in rows)]
    (directory / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")


def test_beirs_layout_is_read(beir):
    judged(beir, "q1 d1 2", "q1 d2 0")
    data = read_beir(beir)
    assert data.queries == {"q1": "what is bitter"}
    assert data.corpus == {"d1": "Hops Bitter flowers.", "d2": "Malt is barley.", "d3": "No title."}
    assert data.relevant == {"q1": {"d1": 2, "d2": 0}}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["q1 d9 1"], "test.tsv, line 2: there is no document 'd9'"),
        (["q3 d1 1"], "there is no query 'q3'"),
        (["q1 d1 1", "q1 d1 0"], "line 3: document 'd1' is judged a second time for query 'q1'"),
        (["q1 d1 high"], "the score is 'high'; it must be a whole number"),
    ],
)
def test_judgements_that_do_not_fit_name_their_line(beir, rows, words):
    judged(beir, *rows)
    assert_refused(lambda: read_beir(beir), words)


def test_ids_that_occur_twice_and_splits_that_are_not_there_are_named(beir):
    judged(beir, "q1 d1 1")
    assert_refused(lambda: read_beir(beir, "dev"), "dev.tsv | The splits are ['test']")
    (beir / "queries.jsonl").write_text('{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n')
    words = "queries.jsonl, line 2: the id 'q1' occurs a second time"
    assert_refused(lambda: read_beir(beir), words)


# --- Hard negatives ---

ANCHORS, POSITIVES = ["0", "0", "90"], ["5", "20", "100"]
CORPUS = ["0", "10", "30", "40", "95", "120"]


def test_negatives_are_the_nearest_texts_that_are_no_positive_of_the_anchor():
    found = mine_negatives(Angles(), ANCHORS, POSITIVES, CORPUS, number=2)
    assert found == (
        ["0", "0", "0", "0", "90", "90"],
        ["5", "5", "20", "20", "100", "100"],
        ["10", "30", "10", "30", "95", "120"],
    )
    assert mine_negatives(Angles(), ANCHORS, POSITIVES, CORPUS, number=2, one_row=True) == (
        *(ANCHORS, POSITIVES),
        *(["10", "10", "95"], ["30", "30", "120"]),
    )
    # Without a corpus they are the positives of others.
    assert mine_negatives(Angles(), ANCHORS, POSITIVES)[2] == ["100", "100", "20"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"range_min": 1}, ["30", "30", "120"]),
        # What is as near as the farther of two positives, at 20 degrees, may be one too.
        ({"margin": 0.0}, ["30", "30", "120"]),
        ({"margin": 0.1}, ["40", "40", "120"]),
        ({"relative_margin": 0.1}, ["40", "40", "120"]),
        ({"margin": 0.1, "range_min": 1}, ["95", "95", "40"]),
    ],
)
def test_ranges_and_margins_pass_over_what_may_be_right(options, expected):
    assert mine_negatives(Angles(), ANCHORS, POSITIVES, CORPUS, **options)[2] == expected


class Reranking:
    """Scores a document by its number, whatever the query."""

    def predict(self, pairs, batch_size, verbose):
        return np.array([[float(document)] for document in pairs[1]])


def test_a_cross_encoder_orders_what_the_model_finds():
    options = {"cross_encoder": Reranking(), "range_max": 4}
    found = mine_negatives(Angles(), ["0"], ["35"], CORPUS, number=2, **options)
    assert found[2] == ["95", "40"]
    found = mine_negatives(Angles(), ["0"], ["35"], CORPUS, number=2, margin=5, **options)
    assert found[2] == ["30", "10"]


def test_anchors_with_few_negatives_are_said(caplog):
    mine_negatives(Angles(), ANCHORS, POSITIVES, CORPUS, number=2)
    assert not caplog.text
    found = mine_negatives(Angles(), ANCHORS, POSITIVES, ["30", "0"], number=2, margin=0.5)
    assert found == (["0", "0", "90", "90"], ["5", "20", "100", "100"], ["100", "100", "20", "5"])
    assert "Of 2 anchors, 1 have fewer than 2 negatives, and 0 have none" in caplog.text


# --- What is refused ---


def mine(**arguments):
    arguments = {"anchors": ANCHORS, "positives": POSITIVES, "corpus": CORPUS} | arguments
    return lambda: mine_negatives(Angles(), **arguments)


def evaluate(relevant, model=None):
    return lambda: evaluate_retrieval(model or Angles(), {"q": "1"}, {"d": "1"}, relevant)


@refusals(
    (mine(positives=["5"]), "3 anchors and 1 positives"),
    (mine(number=0), "number is 0; it must be a whole number of at least 1"),
    (mine(range_min=3, range_max=3), "range_max is 3; for 1 negatives after | must be at least 4"),
    (mine(margin=-1), "margin is -1; it must be a number of at least 0"),
    (mine(margin=3.0), "No negatives are left. Lower the margin"),
    (evaluate({"q": ["e"]}), "names documents that do not exist: ['e']"),
    (evaluate({"q": ["d"], "p": ["d"]}), "names queries that do not exist: ['p']"),
    (evaluate({"q": ["d"]}, Angles("euclidean")), "similarity is 'euclidean'; it must be one of"),
    (lambda: retrieval_metrics({"q": ["a"]}, {"q": [*"aba"]}), "found twice for query 'q' | ['a']"),
    (lambda: retrieval_metrics({"q": ["a"]}, {"q": ["a"], "p": []}), "`relevant` lacks: ['p']"),
    (lambda: retrieval_metrics({"q": "ab"}, {}), "are the string 'ab'; pass a list of ids"),
    (lambda: retrieval_metrics({"q": []}, {}), "No query has a relevant document"),
)
def test_what_cannot_be_measured_or_mined_is_refused(call, words):
    assert_refused(call, words)


# --- Paraphrases ---


def test_paraphrases_are_all_pairs_best_first(monkeypatch):
    monkeypatch.setattr("bert_zoo.embeddings.mining._QUERIES_AT_ONCE", 2)
    angles = np.radians([0, 50, 53, 1, 120])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")
    found = paraphrases(vectors, threshold=0.5)
    assert [pair[1:] for pair in found] == [(0, 3), (1, 2), (1, 3), (0, 1), (2, 3), (0, 2)]
    assert [pair.score for pair in found] == pytest.approx(
        np.cos(np.radians([1, 3, 49, 50, 52, 53])), abs=1e-6
    )
    assert [pair[1:] for pair in paraphrases(vectors, top_k=1, max_pairs=2)] == [(0, 3), (1, 2)]
