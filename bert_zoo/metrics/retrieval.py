"""Scores of rankings: nDCG, reciprocal rank, average precision, recall, precision and accuracy at k.

Definitions as in sentence-transformers' InformationRetrievalEvaluator 6.2; where documents have grades,
nDCG has them for gains, as in trec_eval. trec_eval's average precision is divided by the number of all
relevant documents, and not by at most k of them.

Nothing here imports TensorFlow or Keras. pytrec_eval is not a dependency, as it is compiled where it
is installed and lacks the cut of two of these; the tests compare with it.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from bert_zoo.error_text import quoted, shown

log = logging.getLogger(__name__)

# What is measured, and at which ranks, unless a caller says otherwise.
CUTOFFS: Mapping[str, Sequence[int]] = {
    "ndcg": (10,),
    "mrr": (10,),
    "map": (100,),
    "accuracy": (1, 3, 5, 10),
    "precision": (1, 3, 5, 10),
    "recall": (1, 3, 5, 10),
}


def retrieval_metrics(
    relevant: Mapping[str, Mapping[str, float] | Sequence[str] | set[str]],
    found: Mapping[str, Mapping[str, float] | Sequence[str]],
    cutoffs: Mapping[str, Sequence[int]] = CUTOFFS,
) -> dict[str, float]:
    """Scores the documents that were found for queries.

    Args:
        relevant: query id -> the ids of its relevant documents, or document id -> grade, where 0 is not
            relevant. Queries without a relevant document do not count; a warning says how many.
        found: query id -> document id -> score, or document ids, best first. Of equal scores the lesser
            id comes first. A query that is missing found nothing.
        cutoffs: metric -> the ranks k at which it is taken; some of those of `CUTOFFS`.

    Returns:
        "ndcg@10", "mrr@10", ... -> the mean over queries, from 0 to 1.

    Raises:
        ValueError: no query has a relevant document, a query found a document twice, or was not asked;
            or a metric is unknown.
    """
    if unknown := sorted(set(cutoffs) - set(CUTOFFS)):
        raise ValueError(f"There are no metrics {unknown}; choose of {list(CUTOFFS)}.")
    if unknown := [query for query in found if query not in relevant]:
        raise ValueError(
            f"Documents were found for queries of which `relevant` says nothing: {quoted(unknown)}."
        )
    gains = {query: _gains(query, documents) for query, documents in relevant.items()}
    asked = [query for query, some in gains.items() if some]
    if len(asked) < len(gains):
        log.warning(
            "Of %d queries, %d have no relevant document and do not count.",
            len(gains),
            len(gains) - len(asked),
        )
    if not asked:
        raise ValueError("No query has a relevant document, so there is nothing to measure.")
    deepest = max(max(ranks) for ranks in cutoffs.values())
    scores = []
    for query in asked:
        documents = _ranked(query, found.get(query, ()))[:deepest]
        got = np.array([gains[query].get(document, 0.0) for document in documents])
        ideal = np.sort([*gains[query].values()])[::-1]
        scores.append(
            {
                f"{name}@{k}": _METRICS[name](got[:k], ideal, k)
                for name in cutoffs
                for k in cutoffs[name]
            }
        )
    return {name: fmean(score[name] for score in scores) for name in scores[0]}


def _gains(
    query: str, documents: Mapping[str, float] | Sequence[str] | set[str]
) -> dict[str, float]:
    """The gain of each relevant document."""
    if isinstance(documents, str):
        raise ValueError(
            f"The relevant documents of query {query!r} are the string {shown(documents)}; pass a list of ids."
        )
    if isinstance(documents, Mapping):
        return {document: float(grade) for document, grade in documents.items() if grade > 0}
    return dict.fromkeys(documents, 1.0)


def _ranked(query: str, documents: Mapping[str, float] | Sequence[str]) -> Sequence[str]:
    """Document ids, best first."""
    if isinstance(documents, Mapping):
        return sorted(documents, key=lambda document: (-documents[document], document))
    if repeated := [document for document, count in Counter(documents).items() if count > 1]:
        raise ValueError(
            f"Query {query!r} found documents twice, which would count twice: {quoted(repeated)}."
        )
    return documents


# --- Of one query: gains of the first k documents found [<= k], and of all relevant ones, falling ---


def _ndcg(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    return _discounted(got) / _discounted(ideal[:k])


def _discounted(gains: np.ndarray) -> float:
    return float(np.sum(gains / np.log2(np.arange(2, len(gains) + 2))))


def _mrr(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    return 1 / (1 + int(np.argmax(got > 0))) if np.any(got > 0) else 0.0


def _map(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    hits = got > 0
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(np.sum(precisions[hits])) / min(k, len(ideal))


def _accuracy(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    return float(np.any(got > 0))


def _precision(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    return np.count_nonzero(got) / k


def _recall(got: np.ndarray, ideal: np.ndarray, k: int) -> float:
    return np.count_nonzero(got) / len(ideal)


_METRICS = {
    "ndcg": _ndcg,
    "mrr": _mrr,
    "map": _map,
    "accuracy": _accuracy,
    "precision": _precision,
    "recall": _recall,
}
