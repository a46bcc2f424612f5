"""Scores of rankings: nDCG, reciprocal rank, average precision, recall, precision and accuracy at k.

Definitions follow sentence-transformers' InformationRetrievalEvaluator 6.2. Grades of documents are nDCG's
gains, as in trec_eval. Average precision is divided by the number of relevant documents but at most k;
trec_eval divides by all of them.

Nothing here imports TensorFlow or Keras. pytrec_eval is only used in tests: it must be compiled on
installation, and cannot cut two of these metrics at k.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from bert_zoo.error_text import quoted, shown

log = logging.getLogger(__name__)

# Default metrics and the ranks k at which they are measured.
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
    """Scores the documents found for queries.

    Args:
        relevant: query id -> ids of its relevant documents, or document id -> grade, where 0 means not
            relevant. Queries without relevant documents are left out; a warning counts them.
        found: query id -> document ids, best first, or document id -> score. Equal scores are ordered by id.
            For a missing query, nothing was found.
        cutoffs: "ndcg", "mrr", "map", "accuracy", "precision" or "recall" -> ranks k at which to measure it.

    Returns:
        "ndcg@10", "mrr@10", ... -> mean over queries, from 0 to 1.

    Raises:
        ValueError: no query has a relevant document, a document was found twice for a query, `found` has a
            query that `relevant` lacks, or a metric is unknown.
    """
    if unknown := sorted(set(cutoffs) - set(CUTOFFS)):
        raise ValueError(f"There are no metrics {unknown}; choose from {list(CUTOFFS)}.")
    if unknown := [query for query in found if query not in relevant]:
        raise ValueError(
            f"`found` has queries that `relevant` lacks: {quoted(unknown)}. Add them to `relevant`."
        )
    gains = {query: _gains(query, documents) for query, documents in relevant.items()}
    asked = [query for query, some in gains.items() if some]
    if len(asked) < len(gains):
        log.warning(
            "Of %d queries, %d have no relevant document and are left out.",
            len(gains),
            len(gains) - len(asked),
        )
    if not asked:
        raise ValueError("No query has a relevant document, so nothing can be measured.")
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
            f"Documents were found twice for query {query!r}: {quoted(repeated)}. List each once."
        )
    return documents


# --- Scores of one query, from the gains of its first k documents [<= k] and the sorted ideal gains ---


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
