"""Finds texts that a model considers similar: hard negatives for training, and paraphrases."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY
from bert_zoo.embeddings.evaluation import embedded, similarity_of
from bert_zoo.embeddings.exact_search import Hits, search
from bert_zoo.embeddings.stages import is_tokens
from bert_zoo.fields import check

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
    """Finds hard negatives: the texts most similar to an anchor that are not its positives.

    The anchor's own text, and its positives in any row, are never its negatives. Texts that say the same in
    other words can be; a margin excludes texts about as similar as a positive. A warning counts the anchors
    with fewer negatives than requested.

    Args:
        model: any object with `embed`, which takes a `role` or `prompt`.
        anchors, positives: texts [pairs], as for `fit`.
        corpus: texts to choose from, besides the positives.
        number: negatives per anchor.
        range_min: number of most similar texts to skip, as they are often right answers.
        range_max: number of most similar texts to consider; by default `range_min` plus 10 * `number` with a
            cross-encoder, plus 100 * `number` with only a margin, plus `number` with neither.
        margin: how much less similar a negative must be than the anchor's least similar positive.
        relative_margin: the same, as a fraction of that positive's similarity, such as 0.05.
        cross_encoder: a reranker. Its logits for pairs of texts replace the similarities that rank the
            considered texts and that margins apply to.
        similarity: "cosine" or "dot"; by default the model's own.
        one_row: whether to return all negatives of a pair in one row, each in its own column. Pairs with
            fewer than `number` negatives are then left out.
        query_prompt, document_prompt: prompts for `embed`; by default the model's own.
        batch_size: texts per step.

    Returns:
        Columns for `model.fit`: anchors, positives and negatives, with one row per negative; with
        `one_row`, anchors, positives and `number` columns of negatives.

    Raises:
        ValueError: there are no pairs, anchors and positives differ in number, options contradict each
            other, or no negative is left.
    """
    check("number", number, int, least=1)
    check("range_min", range_min, int, least=0)
    check("margin", margin, float | None, least=0)
    check("relative_margin", relative_margin, float | None, least=0)
    if range_max is None:
        has_margin = (margin, relative_margin) != (None, None)
        range_max = range_min + number * (10 if cross_encoder else 100 if has_margin else 1)
    if range_max < range_min + number:
        raise ValueError(
            f"range_max is {range_max}; for {number} negatives after the first {range_min} texts it must be at "
            f"least {range_min + number}."
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
    for place, ((anchor, right), (found, scores)) in enumerate(
        zip(known.items(), nearest, strict=True)
    ):
        right = sorted(right)
        if cross_encoder is None:
            some = [vectors[row] for row in right] if is_tokens(vectors) else vectors[right]
            least = compare(queries[place : place + 1], some, len(right)).scores.min()
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


def _nearest(
    compare: Callable[..., Hits],
    queries: Any,
    vectors: Any,
    left_out: Sequence[set[int | None]],
    count: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields each query's `count` most similar rows that are not in `left_out`, with their similarities."""
    most = count + max(map(len, left_out))
    for start in range(0, len(left_out), _QUERIES_AT_ONCE):
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
            f"The cross-encoder returns the shape {list(scores.shape)} for {len(documents)} pairs; it must return "
            "one number per pair. Load it with task='reranking'."
        )
    return scores.reshape(-1)


def _columns(
    anchors: Sequence[str],
    positives: Sequence[str],
    negatives: dict[str, list[str]],
    number: int,
    one_row: bool,
) -> tuple[list[str], ...]:
    """Columns for `fit`; warns about anchors with few negatives."""
    fewer = sum(len(some) < number for some in negatives.values())
    if fewer:
        none = sum(not some for some in negatives.values())
        log.warning(
            "Of %d anchors, %d have fewer than %d negatives, and %d have none. %s are left out.",
            *(len(negatives), fewer, number, none),
            "All of these" if one_row else "Those without any",
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


class Paraphrase(NamedTuple):
    """A pair of similar texts.

    Attributes:
        score: cosine of their vectors.
        first: row of one text.
        second: row of the other, greater than `first`.
    """

    score: float
    first: int
    second: int


def paraphrases(
    vectors: np.ndarray,
    *,
    top_k: int = 100,
    threshold: float = 0.0,
    max_pairs: int = 500_000,
) -> list[Paraphrase]:
    """Finds the most similar pairs of texts, best first.

    Vectors are compared block by block, so memory grows with the number of kept pairs, not with the square
    of the number of texts.

    Args:
        vectors: float [texts, size], as from `model.embed(texts)`; may be a memory map.
        top_k: pairs to consider per text.
        threshold: lowest cosine of a pair.
        max_pairs: largest number of pairs to return.

    Returns:
        Each pair once; equal cosines are ordered by row numbers.

    Raises:
        ValueError: `top_k` is below 0, or vectors have a wrong shape or type or are not finite.
    """
    number = len(vectors)
    # A pair is stored as one integer, first * number + second.
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
