"""Measures vectors of texts: retrieval, sizes, and similarity against people's scores."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY
from bert_zoo.embeddings.exact_search import search
from bert_zoo.embeddings.stages import SIMILARITIES, directions, is_hybrid, is_sparse, is_tokens
from bert_zoo.embeddings.token_index import TokenIndex
from bert_zoo.error_text import quoted
from bert_zoo.fields import check
from bert_zoo.metrics.labels import pearson, spearman
from bert_zoo.metrics.retrieval import CUTOFFS, retrieval_metrics


def embedded(
    model: Any, texts: Sequence[str], prompt: str | None, role: str, batch_size: int
) -> Any:
    """Vectors of texts with a prompt, by default in the role: float32 [texts, size], sparse, or a matrix for each."""
    how = {"role": role} if prompt is None else {"prompt": prompt}
    vectors = model.embed(texts, batch_size=batch_size, **how)
    is_array = not (is_sparse(vectors) or is_tokens(vectors) or is_hybrid(vectors))
    return np.asarray(vectors) if is_array else vectors


def similarity_of(model: Any) -> str:
    """The model's similarity: "maxsim", "hybrid", or one of `bert_zoo.config.SIMILARITIES`; cosine if it has no pooling."""
    if own := getattr(model, "similarity", None):
        return own
    pooling = getattr(getattr(model, "encoder", model), "pooling", None)
    return "cosine" if pooling is None else pooling.similarity


def vector_sizes(vectors: Any) -> dict[str, float]:
    """Measures how large vectors of texts are.

    Args:
        vectors: float [texts, size], int8 or signs; a SciPy sparse array [texts, vocabulary]; or a matrix of token
            vectors for each text, in a list or a `TokenIndex`; or `HybridVectors`, which have all of their numbers.

    Returns:
        Means of the texts. "bytes": as stored, without the place of each text's vectors; a sparse vector's entry
        has 4 bytes for its term and those of its weight. For sparse vectors also "active_dims", the number of
        weights that are not 0, and "sparsity", the ratio of those that are. For token vectors also "vectors",
        their number.
    """
    if is_hybrid(vectors):
        found = [vector_sizes(kind) for kind in vectors.kinds]
        total = sum(sizes["bytes"] for sizes in found)
        return {name: size for sizes in found for name, size in sizes.items()} | {"bytes": total}
    if is_sparse(vectors):
        (texts, size), active = vectors.shape, int(vectors.count_nonzero())
        return {
            "bytes": active * (4 + vectors.dtype.itemsize) / texts,
            "active_dims": active / texts,
            "sparsity": 1 - active / (texts * size),
        }
    if is_tokens(vectors):
        listed = not isinstance(vectors, TokenIndex)
        lengths = [len(matrix) for matrix in vectors] if listed else vectors.lengths
        stored = sum(matrix.nbytes for matrix in vectors) if listed else vectors.vectors.nbytes
        return {"bytes": stored / len(lengths), "vectors": float(np.mean(lengths))}
    return {"bytes": vectors.nbytes / len(vectors)}


def evaluate_retrieval(
    model: Any,
    queries: Mapping[str, str],
    corpus: Mapping[str, str],
    relevant: Mapping[str, Mapping[str, float] | Sequence[str] | set[str]],
    *,
    cutoffs: Mapping[str, Sequence[int]] = CUTOFFS,
    similarity: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    """Measures how well a model finds the relevant documents for queries.

    Args:
        model: any object with `embed`, which takes a `role` or `prompt`.
        queries, corpus: id -> text, as `bert_zoo.data.retrieval.read_beir` returns them.
        relevant: query id -> ids of its relevant documents, or document id -> grade. Queries without relevant
            documents are left out; a warning counts them.
        cutoffs: "ndcg", "mrr", "map", "accuracy", "precision" or "recall" -> ranks k at which to measure it.
        similarity: "cosine" or "dot"; by default the model's own.
        query_prompt, document_prompt: prompts for `embed`, instead of its roles "query" and "document".
        batch_size: texts per step.

    Returns:
        "ndcg@10", "mrr@10", ... -> mean over queries, from 0 to 1, as `bert_zoo.metrics.retrieval_metrics`. For
        sparse and token vectors also their `vector_sizes`, as "query_active_dims", "document_vectors" and so on.

    Raises:
        ValueError: `relevant` names a query or document that does not exist, or names no relevant document.
    """
    asked = {query: relevant.get(query, ()) for query in queries}
    documents = dict.fromkeys(chain.from_iterable(relevant.values()))
    for what, named, known in (("queries", relevant, queries), ("documents", documents, corpus)):
        if unknown := [name for name in named if name not in known]:
            raise ValueError(
                f"`relevant` names {what} that do not exist: {quoted(unknown)}. Add them or remove these names."
            )
    # Sorted, as equal scores are ranked by id.
    ids = sorted(corpus)
    vectors = {
        QUERY: embedded(model, [*queries.values()], query_prompt, QUERY, batch_size),
        DOCUMENT: embedded(
            model, [corpus[id] for id in ids], document_prompt, DOCUMENT, batch_size
        ),
    }
    hits = search(
        *vectors.values(),
        max(max(ranks) for ranks in cutoffs.values()),
        similarity=similarity or similarity_of(model),
    )
    found = {
        query: [ids[row] for row in rows] for query, rows in zip(queries, hits.indices, strict=True)
    }
    scores = retrieval_metrics(asked, found, cutoffs)
    for role, some in vectors.items():
        if not isinstance(some, np.ndarray):
            scores |= {f"{role}_{name}": size for name, size in vector_sizes(some).items()}
    return scores


def evaluate_similarity(
    model: Any,
    a: Sequence[str],
    b: Sequence[str],
    scores: Sequence[float],
    *,
    similarity: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    """Correlates a model's similarities of text pairs with people's scores.

    Args:
        model: any object with `embed`.
        a, b: texts [pairs].
        scores: numbers [pairs] on any scale, higher for pairs of more similar meaning.
        similarity: "cosine" or "dot"; by default the model's own.
        prompt: prompt for `embed`.
        batch_size: texts per step.

    Returns:
        "spearman" and "pearson": correlations from -1 to 1, or 0 where undefined.

    Raises:
        ValueError: there are no pairs, or `a`, `b` and `scores` differ in length.
    """
    if not len(a) == len(b) == len(scores) or not len(a):
        raise ValueError(
            f"There are {len(a)} first texts, {len(b)} second ones and {len(scores)} scores; pass one of "
            "each for every pair."
        )
    similarity = similarity or similarity_of(model)
    check("similarity", similarity, str, choices=SIMILARITIES)
    first, second = (model.embed(texts, batch_size=batch_size, prompt=prompt) for texts in (a, b))
    if similarity == "cosine":
        first, second = directions(first), directions(second)
    found = np.einsum("ij,ij->i", first, second)
    expected = np.asarray(scores, float)
    return {"spearman": spearman(expected, found), "pearson": pearson(expected, found)}
