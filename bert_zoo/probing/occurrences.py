"""Where a word occurs, and how its vectors differ between occurrences."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_zoo.error_text import nearest
from bert_zoo.probing.vectors import LayerVectors
from bert_zoo.runtime.printed import table

# Words to show on each side.
CONTEXT_WORDS = 5


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence.

    Attributes:
        words: the words of the sentence.
        position: the position of the word in it, from 0.
    """

    words: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        return self.words[self.position]

    def __str__(self) -> str:
        start, end = max(0, self.position - CONTEXT_WORDS), self.position + 1 + CONTEXT_WORDS
        shown = [*self.words[start:end]]
        shown[self.position - start] = f"[{self.word}]"
        left, right = "… " * (start > 0), " …" * (end < len(self.words))
        return f"{left}{' '.join(shown)}{right}"


def occurrence_at(vectors: LayerVectors, row: int) -> Occurrence:
    """Returns the word whose vectors are in a row."""
    number = int(np.searchsorted(vectors.splits, row, "right")) - 1
    return Occurrence(tuple(vectors.sentences[number]), int(row - vectors.splits[number]))


def rows_of(vectors: LayerVectors, word: str) -> np.ndarray:
    """Returns the rows of a word's occurrences in any case, int64.

    Raises:
        ValueError: there are none.
    """
    words = [other.casefold() for other in chain.from_iterable(vectors.sentences)]
    rows = np.flatnonzero([other == word.casefold() for other in words])
    if not len(rows):
        raise ValueError(
            f"{word!r} is not among the {len(words):,} words of the sentences.{nearest(word, dict.fromkeys(words))}"
        )
    return rows


@dataclass(frozen=True, eq=False)
class OccurrenceMap:
    """The occurrences of a word, placed by the first two principal components of their vectors.

    Attributes:
        word: the word that was passed.
        layer: the layer that the vectors come from.
        occurrences: the word in each of its sentences.
        points: float64 [occurrences, 2]: the coordinates.
        explained: float64 [2]: the share of the vectors' variance along each axis.
    """

    word: str
    layer: int
    occurrences: tuple[Occurrence, ...]
    points: np.ndarray
    explained: np.ndarray

    def __str__(self) -> str:
        rows = zip(self.points, self.occurrences, strict=True)
        return table((f"{x:7.2f}", f"{y:7.2f}", str(occurrence)) for (x, y), occurrence in rows)


def map_occurrences(
    vectors: LayerVectors, word: str, *, layer: int = -1, max_occurrences: int = 200, seed: int = 0
) -> OccurrenceMap:
    """Places a word's occurrences in the plane by the first two principal components of their vectors.

    If a layer distinguishes the senses of a word, occurrences with the same sense lie together.

    Args:
        vectors: vectors from `compute_vectors`.
        word: the word, in any case.
        layer: index of the layer; -1 is the last.
        max_occurrences: sample this many occurrences if there are more.
        seed: seed of the sample.

    Raises:
        ValueError: the word occurs fewer than three times.
        IndexError: there is no such layer.
    """
    rows = rows_of(vectors, word)
    if len(rows) < 3:
        raise ValueError(
            f"{word!r} occurs fewer than 3 times, too rarely for a map. Pass more sentences."
        )
    if len(rows) > max_occurrences:
        generator = np.random.default_rng(seed)
        rows = np.sort(generator.choice(rows, max_occurrences, replace=False))
    x = vectors.layer(layer, rows).astype(np.float64)
    x -= x.mean(axis=0)
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    # The sign of a component is arbitrary, so make its largest coordinate positive.
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    variances = values**2 / max(np.sum(values**2), np.finfo(float).tiny)
    return OccurrenceMap(
        word=word,
        layer=range(vectors.num_layers)[layer],
        occurrences=tuple(occurrence_at(vectors, row) for row in rows),
        points=(left * values * signs)[:, :2],
        explained=variances[:2],
    )
