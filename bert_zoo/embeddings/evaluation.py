"""Sentence vectors measured as the field does: retrieval, and similarity against people's scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_zoo.embeddings.exact_search import checked_similarity, directions, search
from bert_zoo.embeddings.roles import DOCUMENT, QUERY, embedded, similarity_of
from bert_zoo.error_text import quoted
from bert_zoo.metrics.labels import pearson, spearman
from bert_zoo.metrics.retrieval import CUTOFFS, retrieval_metrics


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
    """How well a model finds the relevant documents of queries.

    Args:
        model: has `embed`.
        queries, corpus: id -> text, as `bert_zoo.data.retrieval.read_beir` gives them.
        relevant: query id -> ids of its relevant documents, or document id -> grade. Queries without any do
            not count; a warning says how many.
        cutoffs: metric -> the ranks at which it is taken.
        similarity: "cosine" or "dot"; by default the model's own.
        query_prompt, document_prompt: as `embed` takes them; by default the model's own for queries and
            documents, if it has such.
        batch_size: texts a step.

    Returns:
        "ndcg@10", "mrr@10", ... -> value, as `bert_zoo.metrics.retrieval_metrics`.

    Raises:
        ValueError: a query or a document that `relevant` names is not there, or none is relevant.
    """
    asked = {query: relevant.get(query, ()) for query in queries}
    for what, named, known in (
        ("queries", relevant, queries),
        (
            "documents",
            (document for documents in relevant.values() for document in documents),
            corpus,
        ),
    ):
        if unknown := [name for name in named if name not in known]:
            raise ValueError(f"`relevant` names {what} that are not there: {quoted(unknown)}.")
    # In the order of the ids, by which equal scores are ranked.
    ids = sorted(corpus)
    hits = search(
        embedded(model, [*queries.values()], query_prompt, QUERY, batch_size),
        embedded(model, [corpus[id] for id in ids], document_prompt, DOCUMENT, batch_size),
        max(max(ranks) for ranks in cutoffs.values()),
        similarity=similarity or similarity_of(model),
    )
    found = {
        query: [ids[row] for row in rows] for query, rows in zip(queries, hits.indices, strict=True)
    }
    return retrieval_metrics(asked, found, cutoffs)


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
    """How the similarities of pairs of texts agree with people's scores.

    Args:
        model: has `embed`.
        a, b: texts [pairs].
        scores: numbers [pairs] of any scale, higher for pairs of more similar meaning.
        similarity: "cosine" or "dot"; by default the model's own.
        prompt: as `embed` takes it.
        batch_size: texts a step.

    Returns:
        "spearman" and "pearson": correlations from -1 to 1; 0 where they are not defined.
    """
    if not len(a) == len(b) == len(scores) or not len(a):
        raise ValueError(
            f"There are {len(a)} first texts, {len(b)} second ones and {len(scores)} scores; pass one of "
            "each for every pair."
        )
    first, second = (model.embed(texts, batch_size=batch_size, prompt=prompt) for texts in (a, b))
    if checked_similarity(similarity or similarity_of(model)) == "cosine":
        first, second = directions(first), directions(second)
    found = np.einsum("ij,ij->i", first, second)
    expected = np.asarray(scores, float)
    return {"spearman": spearman(expected, found), "pearson": pearson(expected, found)}
