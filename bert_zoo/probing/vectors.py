"""Vectors of words at every layer, stored in half precision; their occurrences and neighbours; numbers by layer."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_zoo.charts.clusters import principal_components
from bert_zoo.config import HeadSpec
from bert_zoo.data.files import lines, open_array
from bert_zoo.data.word_vectors import StaticVectors
from bert_zoo.embeddings.stages import directions
from bert_zoo.error_text import nearest
from bert_zoo.fields import check
from bert_zoo.json_files import parse_json, read_object
from bert_zoo.metrics.labels import mean_and_deviation
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.word_outputs import POOLINGS, sentences_of, word_vectors
from bert_zoo.printing import table
from bert_zoo.training.runs import finite, kept_outputs
from bert_zoo.weights.files import replacing

ALL_LAYERS = HeadSpec("concat")
DTYPE = "float16"
VECTORS, SENTENCES = "vectors.npy", "sentences.jsonl"
# Number of sentences whose float32 vectors are in memory at once.
SENTENCES_AT_ONCE = 512


@dataclass(frozen=True)
class LayerVectors:
    """The vectors of the words of some sentences, at every layer.

    Attributes:
        sentences: the words of each sentence.
        sizes: the size of each layer's vectors; layer 0 is the output of the embeddings.
        array: float16 [words, sum of sizes], the layers side by side; memory-mapped if it is stored in a file.
    """

    sentences: Sequence[Sequence[str]]
    sizes: tuple[int, ...]
    array: np.ndarray

    @cached_property
    def splits(self) -> np.ndarray:
        """int64 [sentences + 1]: sentence i has the rows splits[i] to splits[i + 1] - 1."""
        return np.cumsum([0, *map(len, self.sentences)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def num_layers(self) -> int:
        """Number of layers, including the output of the embeddings."""
        return len(self.sizes)

    @property
    def num_words(self) -> int:
        """Number of words in all sentences."""
        return len(self.array)

    def layer(self, number: int, rows: Any = slice(None)) -> np.ndarray:
        """Returns the vectors of one layer.

        Args:
            number: index of the layer; -1 is the last.
            rows: the words to return, as a slice or an array of row numbers; all by default.

        Returns:
            float32 [words, size].

        Raises:
            IndexError: there is no such layer.
        """
        number = range(self.num_layers)[number]
        start = sum(self.sizes[:number])
        return self.array[rows, start : start + self.sizes[number]].astype(np.float32)


def compute_vectors(
    encoder: ZooModel,
    sentences: Any,
    directory: str | os.PathLike | None = None,
    *,
    pooling: str = "mean",
    batch_size: int = 32,
) -> LayerVectors:
    """Computes the vectors of words at every layer of an encoder, in half precision.

    Args:
        encoder: an encoder, or a model that has one. It is not changed.
        sentences: lists of words, or texts, which are split as in `Encoder.embed_words`.
        directory: folder to store the vectors in, so that memory use does not grow with the number of sentences. The
            same call continues a stopped run and opens a finished one. By default the vectors stay in memory.
        pooling: how to pool the vectors of a word's pieces: "mean", "first" or "last".
        batch_size: rows per step.

    Raises:
        ValueError: there are no sentences, or one has no words; `pooling` is unknown; the directory holds
            vectors of another model or of other sentences; a vector is not finite in half precision.
    """
    check("batch_size", batch_size, int, least=1)
    check("pooling", pooling, str, choices=POOLINGS)
    encoder = encoder_of(encoder)
    # `sentences_of` takes a tuple for a pair of columns; here it is a sequence like any other.
    sentences = [*sentences] if isinstance(sentences, tuple) else sentences
    words = [list(sentence.words) for sentence in sentences_of(sentences)]
    lengths = [len(sentence) for sentence in words]
    if 0 in lengths:
        raise ValueError(f"sentences[{lengths.index(0)}] has no words. Remove it.")

    def compute(some: Sequence[Sequence[str]]) -> np.ndarray:
        return np.concatenate(word_vectors(encoder, some, batch_size, ALL_LAYERS, pooling))

    sizes = tuple(encoder.backbone.hidden_sizes)
    if directory is None:
        parts = []
        for first in range(0, len(words), SENTENCES_AT_ONCE):
            some = words[first : first + SENTENCES_AT_ONCE]
            parts.append(finite(compute(some), DTYPE, first, first + len(some)))
        return LayerVectors(words, sizes, np.concatenate(parts))
    path = Path(directory) / VECTORS
    array = kept_outputs(
        encoder,
        words,
        path,
        compute,
        batch_size=batch_size,
        counts=lengths,
        about={"pooling": pooling, "sizes": list(sizes)},
        dtype=DTYPE,
        title="Vectors",
    )
    with replacing(Path(directory) / SENTENCES) as part:
        part.write_text(
            "".join(json.dumps(sentence) + "\n" for sentence in words), encoding="utf-8"
        )
    return LayerVectors(words, sizes, array)


def open_vectors(directory: str | os.PathLike) -> LayerVectors:
    """Opens the vectors that `compute_vectors` stored in a directory; the array is memory-mapped.

    Raises:
        FileNotFoundError: the directory holds no vectors, or not all of them yet.
        ValueError: a file is damaged, or belongs to other vectors.
    """
    path, sentences = Path(directory) / VECTORS, Path(directory) / SENTENCES
    notes = path.with_suffix(".json")
    if not path.exists() or not sentences.exists():
        raise FileNotFoundError(
            f"{directory} holds no finished vectors. Call compute_vectors with this directory; it continues "
            "where it stopped."
        )
    remedy = f"Delete {path} and {notes}, and call compute_vectors with this directory again."
    words = [
        parse_json(line, sentences, number, remedy=remedy) for number, line in lines(sentences)
    ]
    sizes = tuple(read_object(notes, remedy).items_of("sizes", int))
    shape = (sum(map(len, words)), sum(sizes))
    return LayerVectors(words, sizes, open_array(path, shape, DTYPE, remedy))


def randomly_initialised(encoder: ZooModel, seed: int = 0) -> Encoder:
    """Returns an encoder with the same configuration and vocabulary but random weights: the baseline of every probe.

    Args:
        encoder: an encoder, or a model that has one. It is not changed.
        seed: seed of the weights. Keras's global seed is set to it.
    """
    encoder = encoder_of(encoder)
    keras.utils.set_random_seed(seed)
    return Encoder(encoder.config, encoder.family, preprocessor=encoder.preprocessor)


# --- Where a word occurs, and how its vectors differ between occurrences ---

# Words to show on each side.
CONTEXT_WORDS = 5


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence."""

    words: tuple[str, ...]
    position: int  # of the word, from 0

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
    """The word whose vectors are in a row."""
    number = int(np.searchsorted(vectors.splits, row, "right")) - 1
    return Occurrence(tuple(vectors.sentences[number]), int(row - vectors.splits[number]))


def rows_of(vectors: LayerVectors, word: str) -> np.ndarray:
    """The rows of a word's occurrences in any case, int64; ValueError if there are none."""
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
    points, explained = principal_components(x)
    return OccurrenceMap(
        word=word,
        layer=range(vectors.num_layers)[layer],
        occurrences=tuple(occurrence_at(vectors, row) for row in rows),
        points=points,
        explained=explained,
    )


# --- The nearest neighbours of a word in its contexts and, for comparison, without context ---
# Source: Table 4 of Peters et al., "Deep contextualized word representations", NAACL 2018.

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
    """The neighbours of one occurrence of a word."""

    occurrence: Occurrence
    same_word: tuple[Neighbour, ...]  # the nearest other occurrences of the same word
    other_words: tuple[Neighbour, ...]  # the nearest occurrences of other words, one of each word

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
        check(name, value, int, least=1)
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
    """For each query, float32 [queries, size] of length 1, yields the cosine of the nearest row of each kind,
    float32 [kinds], and that row, int64 [kinds]; `kinds`, int [words], are those of the rows."""
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
    """The best rows by their cosines; rows with -inf are left out."""
    order = np.argsort(-cosines, kind="stable")[:top_k]
    return tuple(
        Neighbour(float(cosines[n]), occurrence_at(vectors, int(rows[n])))
        for n in order
        if cosines[n] > -np.inf
    )


# --- Results with one number per layer ---


@dataclass(frozen=True)
class LayerCurve:
    """One number per layer, from one run or several.

    Attributes:
        name: what the number is, such as "accuracy".
        values: float64 [runs, layers], or [layers] for one run; layer 0 is the output of the embeddings.
    """

    name: str
    values: np.ndarray

    def __post_init__(self):
        self.__dict__["values"] = np.atleast_2d(np.asarray(self.values, np.float64))

    @property
    def mean(self) -> np.ndarray:
        """float64 [layers]: the mean over the runs."""
        return mean_and_deviation(self.values)[0]

    @property
    def deviation(self) -> np.ndarray:
        """float64 [layers]: the sample standard deviation over the runs; 0 for a single run."""
        return mean_and_deviation(self.values)[1]

    @property
    def best_layer(self) -> int:
        """The layer with the highest mean."""
        return int(self.mean.argmax())

    def __str__(self) -> str:
        return table_by_layer([self])


def table_by_layer(curves: Sequence[LayerCurve]) -> str:
    """Formats curves as a table with a line per layer: the mean, and the deviation if there are several runs.

    The curves may differ in their number of layers.
    """

    def cell(curve: LayerCurve, layer: int) -> str:
        if layer >= len(curve.mean):
            return ""
        mean, deviation = curve.mean[layer], curve.deviation[layer]
        return f"{mean:.3f}" + (f" ±{deviation:.3f}" if len(curve.values) > 1 else "")

    # `table` does not pad the last column, so an empty one follows.
    rows = [["layer", *(curve.name for curve in curves), ""]]
    for layer in range(max(len(curve.mean) for curve in curves)):
        rows.append([str(layer), *(cell(curve, layer) for curve in curves), ""])
    return "\n".join(line.rstrip() for line in table(rows, ">").splitlines())
