"""The nearest neighbours of a word in its contexts and, for comparison, without context.

Source: Table 4 of Peters et al., "Deep contextualized word representations", NAACL 2018.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data.files import lines
from bert_zoo.data.word_vectors import StaticVectors
from bert_zoo.embeddings.exact_search import directions
from bert_zoo.error_text import nearest
from bert_zoo.models.base import ZooModel
from bert_zoo.probing.occurrences import Occurrence, occurrence_at, rows_of
from bert_zoo.probing.vectors import LayerVectors, compute_vectors

_BLOCK_ROWS = 16384


@dataclass(frozen=True)
class Neighbour:
    """An occurrence in the corpus, and the cosine between its vector and that of the query."""

    similarity: float
    occurrence: Occurrence

    def __str__(self) -> str:
        return f"{self.similarity:.2f}  {self.occurrence}"


@dataclass(frozen=True)
class NeighboursInContext:
    """The neighbours of one occurrence of a word.

    Attributes:
        occurrence: the query.
        same_word: the nearest other occurrences of the same word.
        other_words: the nearest occurrences of other words, one of each word.
    """

    occurrence: Occurrence
    same_word: tuple[Neighbour, ...]
    other_words: tuple[Neighbour, ...]

    def __str__(self) -> str:
        return "\n  ".join([str(self.occurrence), *map(str, (*self.same_word, *self.other_words))])


@dataclass(frozen=True)
class WordNeighbours:
    """The neighbours of a word in several contexts and without context.

    Attributes:
        word: the word that was passed.
        layer: the layer that the vectors come from.
        in_context: the neighbours in each context.
        static: the neighbours without context, as pairs of word and cosine.
    """

    word: str
    layer: int
    in_context: tuple[NeighboursInContext, ...]
    static: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        static = ", ".join(f"{word} {similarity:.2f}" for word, similarity in self.static)
        return "\n".join([f"without context: {static}", *map(str, self.in_context)])


def neighbours(
    encoder: ZooModel | None,
    word: str,
    corpus: str | os.PathLike | Sequence | LayerVectors,
    *,
    sentences: Sequence | None = None,
    occurrences: int = 3,
    layer: int = -1,
    top_k: int = 5,
    static: StaticVectors | None = None,
    directory: str | os.PathLike | None = None,
    pooling: str = "mean",
    batch_size: int = 32,
) -> WordNeighbours:
    """Finds the occurrences in a corpus whose vectors are most similar to those of a word in its contexts.

    The search is exact, by cosine. Memory holds one block of vectors at a time if they are stored in a directory.

    Args:
        encoder: an encoder, or a model that has one. It may be None if `corpus` is vectors and `sentences` is None.
        word: the word, in any case. Forms that differ in case count as one word.
        corpus: a text file with a sentence on each line; texts or lists of words; or vectors from
            `compute_vectors`.
        sentences: your own contexts, as texts or lists of words; by default contexts from the corpus.
        occurrences: number of contexts to take from the corpus, spread evenly.
        layer: index of the layer; -1 is the last.
        top_k: number of neighbours of each kind.
        static: vectors from `read_word_vectors`, for the neighbours without context. By default these are the words
            with an occurrence in layer 0 nearest to the mean of the word's vectors there.
        directory: folder to store the corpus's vectors in; see `compute_vectors`.
        pooling, batch_size: as in `compute_vectors`. If `corpus` is vectors, pass the pooling that made them.

    Raises:
        ValueError: the word does not occur, or `static` has no vector for it; `top_k` or `occurrences` is below 1;
            or as in `compute_vectors`.
        IndexError: there is no such layer.
    """
    for name, value in {"top_k": top_k, "occurrences": occurrences}.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1.")
    if encoder is None and (sentences is not None or not isinstance(corpus, LayerVectors)):
        raise ValueError(
            "encoder is None, but vectors of sentences must be computed. Pass a model."
        )
    options: dict[str, Any] = {"pooling": pooling, "batch_size": batch_size}
    if isinstance(corpus, str | os.PathLike):
        corpus = [line for _, line in lines(Path(corpus)) if line.strip()]
    if not isinstance(corpus, LayerVectors):
        corpus = compute_vectors(encoder, corpus, directory, **options)
    same, asked = rows_of(corpus, word), corpus
    rows = np.unique(same[np.linspace(0, len(same) - 1, occurrences).round().astype(int)])
    if sentences is not None:
        asked = compute_vectors(encoder, sentences, **options)
        rows = rows_of(asked, word)
    layer = range(corpus.num_layers)[layer]
    queries = directions(asked.layer(layer, rows))
    cosines = queries @ directions(corpus.layer(layer, same)).T
    if asked is corpus:
        cosines[rows[:, None] == same] = -np.inf
    forms = [form.casefold() for form in chain.from_iterable(corpus.sentences)]
    _, kinds = np.unique(forms, return_inverse=True)
    found = []
    for number, (best, at) in enumerate(_nearest_of_each_kind(corpus, layer, queries, kinds)):
        best[kinds[same[0]]] = -np.inf
        found.append(
            NeighboursInContext(
                occurrence_at(asked, rows[number]),
                same_word=_nearest(corpus, cosines[number], same, top_k),
                other_words=_nearest(corpus, best, at, top_k),
            )
        )
    if static is None:
        mean = directions(corpus.layer(0, same)).mean(axis=0, keepdims=True)
        [(best, at)] = _nearest_of_each_kind(corpus, 0, directions(mean), kinds)
        best[kinds[same[0]]] = -np.inf
        alone = [(n.occurrence.word, n.similarity) for n in _nearest(corpus, best, at, top_k)]
    else:
        alone = nearest_words(static, word, top_k)
    return WordNeighbours(word, layer, tuple(found), tuple(alone))


def nearest_words(static: StaticVectors, word: str, top_k: int = 5) -> list[tuple[str, float]]:
    """Returns the words whose static vectors are most similar to a word's, with their cosines, best first.

    Args:
        static: vectors from `read_word_vectors`.
        word: the word; its other case forms serve if this form has no vector, and are never neighbours.
        top_k: number of words.

    Raises:
        ValueError: there is no vector of the word.
    """
    own = [n for n, other in enumerate(static.words) if other.casefold() == word.casefold()]
    if not own:
        raise ValueError(
            f"There is no static vector for {word!r}.{nearest(word, static.words)} If you read the file with "
            "words=, add the word there."
        )
    at = next((n for n in own if static.words[n] == word), own[0])
    units = directions(static.vectors)
    cosines = units @ units[at]
    cosines[own] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(top_k, len(cosines) - len(own))]
    return [(static.words[n], float(cosines[n])) for n in order]


def _nearest_of_each_kind(
    vectors: LayerVectors, layer: int, queries: np.ndarray, kinds: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each query, yields the cosine of the nearest row of each kind, and that row.

    Args:
        vectors, layer: the vectors to search, block by block.
        queries: float32 [queries, size], of length 1.
        kinds: int [words], the kind of each row, from 0.

    Yields:
        float32 [kinds] and int64 [kinds].
    """
    best = np.full((len(queries), kinds.max() + 1), -np.inf, np.float32)
    at = np.zeros(best.shape, np.int64)
    for start in range(0, vectors.num_words, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        cosines = queries @ directions(vectors.layer(layer, rows)).T
        present, own = np.unique(kinds[rows], return_inverse=True)
        top = np.empty(len(present), np.int64)
        for query, scores in enumerate(cosines):
            order = np.argsort(scores, kind="stable")
            top[own[order]] = order  # the last one assigned to a kind, its nearest row, stays
            better = scores[top] > best[query, present]
            best[query, present[better]] = scores[top[better]]
            at[query, present[better]] = start + top[better]
    yield from zip(best, at, strict=True)


def _nearest(
    vectors: LayerVectors, cosines: np.ndarray, rows: np.ndarray, top_k: int
) -> tuple[Neighbour, ...]:
    """Returns the best rows by their cosines; rows with -inf are left out."""
    order = np.argsort(-cosines, kind="stable")[:top_k]
    return tuple(
        Neighbour(float(cosines[n]), occurrence_at(vectors, int(rows[n])))
        for n in order
        if cosines[n] > -np.inf
    )
