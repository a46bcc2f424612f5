"""Texts that a model finds alike: hard negatives to train with, and paraphrases."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.embeddings.exact_search import Hits, search
from bert_zoo.embeddings.roles import DOCUMENT, QUERY, embedded, similarity_of

log = logging.getLogger(__name__)

_QUERIES_AT_ONCE = 1024


def mine_negatives(
    model: Any,
    anchors: Sequence[str],
    positives: Sequence[str],
    corpus: Sequence[str] | None = None,
    *,
    number: int = 1,
    range_min: int = 0,
    range_max: int | None = None,
    margin: float | None = None,
    relative_margin: float | None = None,
    cross_encoder: Any = None,
    similarity: str | None = None,
    one_row: bool = False,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    batch_size: int = 32,
) -> tuple[list[str], ...]:
    """Finds hard negatives: the texts most similar to an anchor that are none of its positives.

    An anchor's positives are those of all its rows. They, and the anchor's own text, are never its
    negatives. Texts that say the same in other words may be: a margin leaves out what is
    about as similar as a positive. A warning says how many anchors got fewer negatives than asked for.

    Args:
        model: has `embed`.
        anchors, positives: texts [pairs], as `fit` takes them.
        corpus: the texts to choose from; the positives by default.
        number: negatives for each anchor.
        range_min: how many of the most similar ones are passed over, as they are often right answers.
        range_max: how many of the most similar texts are looked at; by default as many as are asked for, a
            hundred times as many with a margin, and ten times with a cross-encoder.
        margin: how much less similar a negative must be than the anchor's least similar positive.
        relative_margin: the same as a share of that positive's similarity, such as 0.05.
        cross_encoder: a reranker, whose logits for pairs of texts then replace similarities in the order of
            the texts looked at, and in margins.
        similarity: "cosine" or "dot"; by default the model's own.
        one_row: whether a pair's negatives stand in one row, each in a column of its own. Pairs with fewer
            than `number` are then left out.
        query_prompt, document_prompt: as `embed` takes them; by default the model's own.
        batch_size: texts a step.

    Returns:
        Columns for `model.fit`: anchors, positives, negatives, with a row for each negative of a pair; or,
        with `one_row`, anchors, positives and `number` columns of negatives.

    Raises:
        ValueError: there are no pairs or not as many positives as anchors, options do not fit each
            other, or no negative is left.
    """
    _check_options(number, range_min, margin, relative_margin)
    if range_max is None:
        has_margin = (margin, relative_margin) != (None, None)
        range_max = range_min + number * (10 if cross_encoder else 100 if has_margin else 1)
    if range_max < range_min + number:
        raise ValueError(
            f"range_max is {range_max}; {number} negatives after the first {range_min} texts need at least "
            f"{range_min + number}."
        )
    if len(anchors) != len(positives) or not len(anchors):
        raise ValueError(
            f"There are {len(anchors)} anchors and {len(positives)} positives; pass one positive for each anchor."
        )
    texts = list(dict.fromkeys([*(positives if corpus is None else corpus), *positives]))
    rows = {text: row for row, text in enumerate(texts)}
    known: dict[str, set[int]] = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        known.setdefault(anchor, set()).add(rows[positive])
    queries = embedded(model, [*known], query_prompt, QUERY, batch_size)
    vectors = embedded(model, texts, document_prompt, DOCUMENT, batch_size)

    compare = partial(search, similarity=similarity or similarity_of(model))
    negatives = {}
    left_out = {anchor: some | {rows.get(anchor)} for anchor, some in known.items()}
    nearest = _nearest(compare, queries, vectors, [*left_out.values()], range_max)
    for (anchor, right), query, (found, scores) in zip(
        known.items(), queries, nearest, strict=True
    ):
        right = sorted(right)
        if cross_encoder is None:
            least = compare(query[None], vectors[right], len(right)).scores.min()
        else:
            documents = [texts[row] for row in (*found, *right)]
            of_pairs = _scores_of_pairs(cross_encoder, anchor, documents, batch_size)
            scores, least = of_pairs[: len(found)], of_pairs[len(found) :].min()
            order = np.argsort(-scores, kind="stable")
            found, scores = found[order], scores[order]
        limit = np.inf if margin is None else least - margin
        if relative_margin is not None:
            limit = min(limit, least - abs(least) * relative_margin)
        chosen = found[scores <= limit][range_min : range_min + number]
        negatives[anchor] = [texts[row] for row in chosen]
    return _columns(anchors, positives, negatives, number, one_row)


def _check_options(
    number: int, range_min: int, margin: float | None, relative_margin: float | None
) -> None:
    if number < 1 or range_min < 0:
        raise ValueError(
            f"number is {number} and range_min {range_min}; they must be at least 1 and 0."
        )
    for name, value in (("margin", margin), ("relative_margin", relative_margin)):
        if value is not None and value < 0:
            raise ValueError(f"{name} is {value}; it must not be negative.")


def _nearest(
    compare: Callable[..., Hits],
    queries: np.ndarray,
    vectors: np.ndarray,
    left_out: Sequence[set[int | None]],
    count: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields, of each query, the `count` most similar rows but those left out, and their similarities."""
    most = count + max(map(len, left_out))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        hits = compare(queries[start : start + _QUERIES_AT_ONCE], vectors, most)
        for rows, scores, wrong in zip(*hits, left_out[start:], strict=False):
            kept = [place for place, row in enumerate(rows) if row not in wrong][:count]
            yield rows[kept], scores[kept]


def _scores_of_pairs(
    cross_encoder: Any, anchor: str, documents: list[str], batch_size: int
) -> np.ndarray:
    """The cross-encoder's score of each document for an anchor [documents]."""
    pairs = ([anchor] * len(documents), documents)
    scores = np.asarray(cross_encoder.predict(pairs, batch_size=batch_size, verbose=0))
    if scores.size != len(documents):
        raise ValueError(
            f"The cross-encoder gives outputs {list(scores.shape)} for {len(documents)} pairs; it must give one "
            "number for each. Load it with task='reranking'."
        )
    return scores.reshape(-1)


def _columns(
    anchors: Sequence[str],
    positives: Sequence[str],
    negatives: dict[str, list[str]],
    number: int,
    one_row: bool,
) -> tuple[list[str], ...]:
    """Columns for `fit`, and a warning of anchors with few negatives."""
    fewer = sum(len(some) < number for some in negatives.values())
    if fewer:
        none = sum(not some for some in negatives.values())
        log.warning(
            "Of %d anchors, %d have fewer than %d negatives, and %d none%s.",
            *(len(negatives), fewer, number, none),
            "; their rows are left out" if one_row else "; those without are left out",
        )
    rows = []
    for anchor, positive in zip(anchors, positives, strict=True):
        some = negatives[anchor]
        if not one_row:
            rows += [(anchor, positive, negative) for negative in some]
        elif len(some) == number:
            rows.append((anchor, positive, *some))
    if not rows:
        raise ValueError(
            "No negatives are left. Lower the margin or range_min, raise range_max, or pass a larger corpus."
        )
    return tuple(map(list, zip(*rows, strict=True)))


# --- Paraphrases ---


class Paraphrase(NamedTuple):
    """Two texts, by their numbers, and the cosine of their vectors."""

    score: float
    first: int
    second: int  # greater than `first`


def paraphrases(
    vectors: np.ndarray,
    *,
    top_k: int = 100,
    threshold: float = 0.0,
    max_pairs: int = 500_000,
) -> list[Paraphrase]:
    """The most similar pairs of texts, the best first.

    Vectors are compared block by block; memory grows with the number of pairs that are kept, and not with
    the square of that of the texts.

    Args:
        vectors: of the texts, float [texts, size], as `model.embed(texts)` gives them; a memory map too.
        top_k: pairs of each text that are considered.
        threshold: the least cosine of a pair.
        max_pairs: how many pairs are given at most.

    Returns:
        Each pair once; of equal cosines, the one with the lower numbers first.
    """
    number = len(vectors)
    # A pair is one number, first * number + second.
    pairs, scores = np.empty(0, np.int64), np.empty(0, np.float32)
    for start in range(0, number, _QUERIES_AT_ONCE):
        queries = np.asarray(vectors[start : start + _QUERIES_AT_ONCE])
        others, cosines = search(queries, vectors, top_k + 1)
        texts = np.broadcast_to(start + np.arange(len(queries))[:, None], others.shape)
        fits = (others != texts) & (cosines >= threshold)
        found = np.minimum(texts, others) * number + np.maximum(texts, others)
        pairs, places = np.unique(np.concatenate([pairs, found[fits]]), return_index=True)
        scores = np.concatenate([scores, cosines[fits]])[places]
        order = np.argsort(-scores, kind="stable")[:max_pairs]
        pairs, scores = pairs[order], scores[order]
    columns = (column.tolist() for column in (scores, *np.divmod(pairs, max(1, number))))
    return [Paraphrase(*pair) for pair in zip(*columns, strict=True)]
