"""Documents and queries for search engines: Qdrant's own client finds what `search` finds; others by their form."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from test_token_index import VOCABULARY, indexed, matrices, sparse

from bert_zoo.embeddings import engine_query, search, write_documents

NAMES = [f"term.{i}" for i in range(VOCABULARY)]
IDS = [f"d{i}" for i in range(50)]


def kinds():
    """Kind -> documents and queries."""
    dense = [np.random.default_rng(seed).normal(size=(n, 8)) for seed, n in ((0, 50), (1, 4))]
    return {
        "dense": [some.astype("float32") for some in dense],
        "sparse": [sparse(50, 0.1), sparse(4, 0.1, seed=1)],
        "tokens": [indexed(matrices(50)), matrices(4, seed=1)],
    }


def written(tmp_path, ids, vectors, engine, **options):
    write_documents(tmp_path / "documents.jsonl", ids, vectors, engine, **options)
    return [json.loads(line) for line in (tmp_path / "documents.jsonl").open(encoding="utf-8")]


# The local mode warns of many vectors.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["dense", "sparse", "tokens"])
def test_qdrant_finds_what_search_finds(kind, tmp_path):
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    documents, queries = kinds()[kind]
    points = written(tmp_path, IDS, documents, "qdrant", texts=IDS)
    client = qdrant.QdrantClient(":memory:")
    size = {"dense": 8, "tokens": 16}.get(kind)
    maxsim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    configs = (
        {"sparse_vectors_config": {"vector": models.SparseVectorParams()}, "vectors_config": {}}
        if kind == "sparse"
        else {
            "vectors_config": {
                "vector": models.VectorParams(
                    size=size,
                    distance=models.Distance.DOT,
                    multivector_config=maxsim if kind == "tokens" else None,
                )
            }
        }
    )
    client.create_collection("texts", **configs)
    client.upsert("texts", [models.PointStruct(**point) for point in points])
    hits = search(queries, documents, 5, similarity="dot" if kind == "dense" else None)
    for body, rows, scores in zip(engine_query(queries, "qdrant", 5), *hits, strict=True):
        if kind == "sparse":
            body["query"] = models.SparseVector(**body["query"])
        found = client.query_points("texts", **body).points
        assert [point.payload["id"] for point in found] == [IDS[row] for row in rows]
        assert [point.payload["text"] for point in found] == [IDS[row] for row in rows]
        np.testing.assert_allclose([point.score for point in found], scores, rtol=1e-5)


def test_qdrant_keeps_its_own_kinds_of_ids(tmp_path):
    ids = [7, "0f0c3f5e-5d3c-5b9b-9a43-2d5c7b1c2f61", "x"]
    points = written(tmp_path, ids, np.ones((3, 2), "float32"), "qdrant")
    assert [point["id"] for point in points[:2]] == ids[:2]
    assert [point["payload"] for point in points] == [{}, {}, {"id": "x"}]


def product(a: dict[str, float], b: dict[str, float]) -> float:
    return sum(weight * b.get(name, 0) for name, weight in a.items())


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch", "vespa"])
def test_products_of_named_weights_are_those_of_sparse_vectors(engine, tmp_path):
    documents, queries = kinds()["sparse"]
    options = {"vocabulary": NAMES, "collection": "faq", "field": "terms"}
    lines = written(tmp_path, IDS, documents, engine, texts=IDS, **options)
    bodies = engine_query(queries, engine, 3, **options)
    if engine == "vespa":
        assert lines[4]["put"] == "id:faq:faq::d4"
        found = [line["fields"]["terms"]["cells"] for line in lines]
        asked = [body["input.query(q)"]["cells"] for body in bodies]
        assert bodies[0]["hits"] == 3
    else:
        assert lines[8] == {"index": {"_index": "faq", "_id": "d4"}}
        assert lines[9]["text"] == "d4"
        found = [line["terms"] for line in lines[1::2]]
        assert bodies[0]["size"] == 3
        asked = [body["query"] for body in bodies]
        if engine == "opensearch":
            asked = [query["neural_sparse"]["terms"]["query_tokens"] for query in asked]
        else:
            features = [
                [clause["rank_feature"] for clause in query["bool"]["should"]] for query in asked
            ]
            assert all(feature["linear"] == {} for some in features for feature in some)
            asked = [
                {feature["field"].removeprefix("terms."): feature["boost"] for feature in some}
                for some in features
            ]
    assert not any("." in name or weight <= 0 for row in found for name, weight in row.items())
    expected = (queries @ documents.T).toarray()
    np.testing.assert_allclose([[product(q, d) for d in found] for q in asked], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("engine", "source"),
    [
        ("elasticsearch", "maxSimDotProduct(params.query_vectors, 'vector')"),
        (
            "opensearch",
            "lateInteractionScore(params.query_vectors, 'vector', params._source, 'innerproduct')",
        ),
    ],
)
def test_scripts_get_token_vectors(engine, source, tmp_path):
    documents, queries = matrices(3), matrices(2, seed=1)
    lines = written(tmp_path, [*"abc"], documents, engine)
    assert np.array_equal(np.float32(lines[3]["vector"]), documents[1])
    script = engine_query(queries, engine)[1]["query"]["script_score"]["script"]
    assert script["source"] == source
    assert np.array_equal(np.float32(script["params"]["query_vectors"]), queries[1])


def test_vespa_gets_blocks_and_values(tmp_path):
    documents = matrices(3)
    (_, line, _) = written(tmp_path, [*"abc"], documents, "vespa")
    blocks = line["fields"]["vector"]["blocks"]
    assert [*blocks] == [*map(str, range(len(documents[1])))]
    assert np.array_equal(np.float32([*blocks.values()]), documents[1])
    (line,) = written(tmp_path, ["a"], np.ones((1, 3), "float32"), "vespa")
    assert line["fields"] == {"vector": {"values": [1, 1, 1]}}


def test_dense_queries_ask_for_the_nearest():
    (body,) = engine_query(np.ones((1, 2), "float32"), "elasticsearch", 5)
    assert body["knn"] == {"field": "vector", "query_vector": [1, 1], "k": 5, "num_candidates": 50}
    (body,) = engine_query(np.ones((1, 2), "float32"), "opensearch", 5)
    assert body["query"] == {"knn": {"vector": {"vector": [1, 1], "k": 5}}}


def test_terms_without_names_have_numbers_and_zeros_are_left_out(tmp_path):
    vectors = csr_array(([0.5, 0.0], ([0, 0], [3, 4])), shape=(1, 9), dtype=np.float32)
    _, line = written(tmp_path, [1], vectors, "opensearch")
    assert line == {"vector": {"3": 0.5}}


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["a"], sparse(2), "qdrant"), {}, "1 ids and 2 vectors"),
        ((["a", "b"], sparse(2), "qdrant"), {"texts": ["a"]}, "1 texts and 2 vectors"),
        ((["a", "b"], sparse(2), "solr"), {}, "engine is 'solr'"),
        ((["a", "b"], -sparse(2), "vespa"), {}, "negative weights"),
        ((["a", "b"], sparse(2), "vespa"), {"vocabulary": ["a"]}, "vocabulary has 1 tokens"),
        (
            (["a"], csr_array(np.ones((1, 2))), "vespa"),
            {"vocabulary": ["a.", "a%2E"]},
            "same name: .'a%2E'",
        ),
    ],
)
def test_what_engines_do_not_store_is_refused(arguments, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_documents(tmp_path / "documents.jsonl", *arguments, **options)
    assert not [*tmp_path.iterdir()]
