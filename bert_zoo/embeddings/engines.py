"""Writes vectors and queries as JSON for search engines: Qdrant, Elasticsearch, OpenSearch and Vespa.

NumPy and SciPy alone: nothing here imports TensorFlow or Keras, nor an engine's client.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from bert_zoo.embeddings.stages import is_sparse, is_tokens, number_of
from bert_zoo.error_text import quoted
from bert_zoo.fields import check
from bert_zoo.weights.files import replacing


def write_documents(
    path: str | PathLike[str],
    ids: Sequence[str | int],
    vectors: Any,
    engine: str,
    *,
    vocabulary: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    collection: str = "texts",
    field: str = "vector",
) -> None:
    """Writes texts' vectors as JSON lines that a search engine reads.

    | engine | lines | sparse vectors | token vectors |
    |---|---|---|---|
    | qdrant | points; ids that are neither UUIDs nor numbers become UUIDs, and stand in the payload as `id` | indices and values | multivectors |
    | elasticsearch | of the bulk API | `rank_features` | `rank_vectors` |
    | opensearch | of the bulk API | `rank_features` | an object that is not enabled, for `lateInteractionScore` |
    | vespa | puts | cells of `tensor<float>(t{})` | blocks of `tensor<float>(t{},x[size])` |

    Zero weights are left out. `rank_features` keeps 9 significant bits of a weight, so scores differ by up to 0.4 %.

    Args:
        path: the file to write. It is replaced once all lines are written.
        ids: of the texts.
        vectors: float [texts, size], a SciPy sparse array [texts, vocabulary], or a matrix of token vectors for
            each text, in a list or a `TokenIndex`.
        engine: "qdrant", "elasticsearch", "opensearch" or "vespa".
        vocabulary: the tokens of a sparse model, which name the weights except in Qdrant; dots, which engines take
            for paths, become "%2E". By default, their numbers name them.
        texts: to store in a field `text`.
        collection: index, or document type and namespace of Vespa. Qdrant names it in the request.
        field: name of the vectors' field.

    Raises:
        ValueError: an engine is unknown, ids, vectors and texts differ in number, a weight is negative, or two
            tokens have the same name.
        DiskFullError: there is no room for the file.
    """
    check("engine", engine, str, choices=tuple(ENGINES))
    found = number_of(vectors)
    for name, number in (("ids", len(ids)), ("texts", len(texts or ids))):
        if number != found:
            raise ValueError(f"There are {number} {name} and {found} vectors; pass one for each.")
    write = ENGINES[engine].document
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row, vector in enumerate(_vectors(vectors, engine, vocabulary)):
            stored = {} if texts is None else {"text": texts[row]}
            for line in write(collection, field, ids[row], vector, stored):
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def engine_query(
    vectors: Any,
    engine: str,
    top_k: int = 10,
    *,
    vocabulary: Sequence[str] | None = None,
    collection: str = "texts",
    field: str = "vector",
) -> list[dict[str, Any]]:
    """Bodies of requests that search an engine for what `write_documents` wrote, by products or MaxSim.

    They go to Qdrant's `/collections/{collection}/points/query`, to `_search` of Elasticsearch and OpenSearch, and to
    Vespa's `/search/`, whose schema has a rank profile named as the field, with the query's input `query(q)`.

    Args:
        vectors: of queries, of a kind that `write_documents` takes.
        engine, vocabulary, collection, field: as for `write_documents`.
        top_k: documents per query.

    Returns:
        A body for each query, for JSON.

    Raises:
        ValueError: as for `write_documents`.
    """
    check("engine", engine, str, choices=tuple(ENGINES))
    kind = "sparse" if is_sparse(vectors) else "tokens" if is_tokens(vectors) else "dense"
    return [
        ENGINES[engine].query(kind, collection, field, vector, top_k)
        for vector in _vectors(vectors, engine, vocabulary)
    ]


def _vectors(vectors: Any, engine: str, vocabulary: Sequence[str] | None) -> Iterator[Any]:
    """Yields each text's vector as an engine writes it."""
    form = ENGINES[engine]
    if not is_sparse(vectors):
        write = form.tokens if is_tokens(vectors) else form.dense
        for row in range(len(vectors)):
            yield write(np.asarray(vectors[row], np.float32).tolist())
        return
    names = _names(vocabulary, vectors.shape[1])
    rows = vectors.tocsr(copy=True)
    rows.sum_duplicates()
    if (rows.data < 0).any():
        raise ValueError("Sparse vectors have negative weights, which engines do not store.")
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        terms, weights = rows.indices[start:end], rows.data[start:end].astype(np.float32)
        terms, weights = terms[weights > 0].tolist(), weights[weights > 0].tolist()
        named = {names[term]: weight for term, weight in zip(terms, weights, strict=True)}
        yield form.sparse(terms, weights, named)


def _names(vocabulary: Sequence[str] | None, size: int) -> Sequence[str]:
    """The name of each column of sparse vectors."""
    if vocabulary is None:
        return [*map(str, range(size))]
    if len(vocabulary) != size:
        raise ValueError(
            f"The vocabulary has {len(vocabulary):,} tokens and sparse vectors {size:,} columns; pass the model's own."
        )
    names = [token.replace(".", "%2E") for token in vocabulary]
    if len(set(names)) < size:
        seen: set[str] = set()
        twice = [name for name in names if name in seen or seen.add(name)]
        raise ValueError(f"Tokens of the vocabulary have the same name: {quoted(twice)}.")
    return names


# --- The engines ---


class _Engine:
    """How an engine writes vectors; by default as lists, and sparse ones by their terms' names."""

    def sparse(self, terms: list[int], weights: list[float], named: dict[str, float]) -> Any:
        return named

    def dense(self, vector: list[float]) -> Any:
        return vector

    def tokens(self, vectors: list[list[float]]) -> Any:
        return vectors


class _Qdrant(_Engine):
    """https://api.qdrant.tech/api-reference/points/upsert-points"""

    def sparse(self, terms, weights, named):
        return {"indices": terms, "values": weights}

    def document(self, collection, field, id, vector, stored) -> Iterator[dict[str, Any]]:
        if not isinstance(id, int):
            try:
                uuid.UUID(id)
            except ValueError:
                stored, id = stored | {"id": id}, str(uuid.uuid5(uuid.NAMESPACE_OID, id))
        yield {"id": id, "vector": {field: vector}, "payload": stored}

    def query(self, kind, collection, field, vector, top_k) -> dict[str, Any]:
        return {"query": vector, "using": field, "limit": top_k, "with_payload": True}


class _Elasticsearch(_Engine):
    """Documents of the bulk API; rank_feature queries, kNN, and `rank_vectors` in a script."""

    maxsim = "maxSimDotProduct(params.query_vectors, '{}')"

    def document(self, collection, field, id, vector, stored) -> Iterator[dict[str, Any]]:
        yield {"index": {"_index": collection, "_id": str(id)}}
        yield {field: vector} | stored

    def query(self, kind, collection, field, vector, top_k) -> dict[str, Any]:
        if kind == "tokens":
            # Of all documents; a first stage's query can replace match_all.
            parameters = {"query_vectors": vector}
            script = {"source": self.maxsim.format(field), "params": parameters}
            scored = {"script_score": {"query": {"match_all": {}}, "script": script}}
            return {"size": top_k, "query": scored}
        return {"size": top_k} | getattr(self, f"{kind}_query")(field, vector, top_k)

    def sparse_query(self, field, vector, top_k) -> dict[str, Any]:
        # Only a linear function makes the sum of features the product of both vectors.
        features = [
            {"rank_feature": {"field": f"{field}.{term}", "boost": weight, "linear": {}}}
            for term, weight in vector.items()
        ]
        return {"query": {"bool": {"should": features}}}

    def dense_query(self, field, vector, top_k) -> dict[str, Any]:
        knn = {"field": field, "query_vector": vector, "k": top_k, "num_candidates": 10 * top_k}
        return {"knn": knn}


class _OpenSearch(_Elasticsearch):
    """As Elasticsearch, with queries of its own."""

    maxsim = "lateInteractionScore(params.query_vectors, '{}', params._source, 'innerproduct')"

    def sparse_query(self, field, vector, top_k):
        return {"query": {"neural_sparse": {field: {"query_tokens": vector}}}}

    def dense_query(self, field, vector, top_k):
        return {"query": {"knn": {field: {"vector": vector, "k": top_k}}}}


class _Vespa(_Engine):
    """https://docs.vespa.ai/en/reference/document-json-format.html"""

    def sparse(self, terms, weights, named):
        return {"cells": named}

    def dense(self, vector):
        return {"values": vector}

    def tokens(self, vectors):
        return {"blocks": {str(token): vector for token, vector in enumerate(vectors)}}

    def document(self, collection, field, id, vector, stored) -> Iterator[dict[str, Any]]:
        yield {"put": f"id:{collection}:{collection}::{id}", "fields": {field: vector} | stored}

    def query(self, kind, collection, field, vector, top_k) -> dict[str, Any]:
        yql = f"select * from {collection} where true"
        return {"yql": yql, "hits": top_k, "ranking": field, "input.query(q)": vector}


ENGINES = {
    "qdrant": _Qdrant(),
    "elasticsearch": _Elasticsearch(),
    "opensearch": _OpenSearch(),
    "vespa": _Vespa(),
}
