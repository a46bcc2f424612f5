"""Geometry of layers: how contextual their vectors are, and how similar two models are.

Source: Kawin Ethayarajh, "How Contextual are Contextualized Word Representations?", EMNLP 2019: the measures of
section 3.3, corrected for anisotropy as in section 3.4. Where the paper and its released code (kawine/contextual,
`analyze.py`) differ, this module follows the code, with two exceptions. Self-similarity is the mean over all pairs of
occurrences; the code draws 1,000 pairs. Word vectors are pooled; the code takes BERT's pieces for words.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_zoo.embeddings.stages import directions
from bert_zoo.fields import check
from bert_zoo.printing import table
from bert_zoo.probing.vectors import LayerCurve, LayerVectors, table_by_layer


@dataclass(frozen=True, eq=False)
class LayerSimilarity:
    """The similarity between each layer of one model and each layer of another.

    Attributes:
        values: float64 [layers before, layers after], from 0 to 1.
    """

    values: np.ndarray

    def by_layer(self) -> LayerCurve:
        """Returns each layer's similarity to the same layer of the other model; 1 if fine-tuning changed nothing."""
        return LayerCurve("CKA", np.diagonal(self.values))

    def __str__(self) -> str:
        rows = [["layer", *(f"{n:5}" for n in range(self.values.shape[1]))]]
        rows += [[str(n), *(f"{x:.3f}" for x in row)] for n, row in enumerate(self.values)]
        return table(rows, ">")


def cka(
    before: LayerVectors, after: LayerVectors, *, max_words: int = 10_000, seed: int = 0
) -> LayerSimilarity:
    """Computes linear CKA (centred kernel alignment) between all pairs of layers.

    Rotating or rescaling a layer does not change its CKA. Values are too high unless there are many more words than
    dimensions. Source: Kornblith et al., "Similarity of Neural Network Representations Revisited", ICML 2019, section 3.

    Args:
        before, after: vectors of the same sentences, from two models or from one; their sizes may differ.
        max_words: sample this many words if there are more. Memory holds their vectors at all layers of one model and
            at one layer of the other.
        seed: seed of the sample.

    Raises:
        ValueError: the sentences differ, or a layer's vectors are all equal.
    """
    if [*map(tuple, before.sentences)] != [*map(tuple, after.sentences)]:
        raise ValueError(
            f"before ({len(before.sentences):,} sentences) and after ({len(after.sentences):,} sentences) have different "
            "sentences. Compute both for the same sentences."
        )
    generator = np.random.default_rng(seed)
    count = min(max_words, before.num_words)
    rows = np.sort(generator.choice(before.num_words, count, replace=False))

    def centred(vectors: LayerVectors, layer: int) -> np.ndarray:
        x = vectors.layer(layer, rows).astype(np.float64)
        if (x == x[0]).all():
            raise ValueError(f"All vectors of layer {layer} are equal; their CKA is undefined.")
        x -= x.mean(axis=0)
        return x / np.sqrt(np.linalg.norm(x.T @ x))

    others = [centred(after, layer) for layer in range(after.num_layers)]
    values = np.empty((before.num_layers, after.num_layers))
    for layer in range(before.num_layers):
        x = centred(before, layer)
        values[layer] = [np.sum((x.T @ y) ** 2) for y in others]
    return LayerSimilarity(values)


# --- Measures of given vectors ---


def self_similarity(vectors: np.ndarray) -> float:
    """The mean cosine over all pairs of different rows of float [rows, size], at least two.

    For the occurrences of a word this is its self-similarity; for random words, the baseline for anisotropy.
    """
    units = directions(np.asarray(vectors, np.float64))
    total = units.sum(axis=0)
    # The square of the sum counts each pair twice, and also each row with itself.
    return float((total @ total - np.sum(units**2)) / (len(units) * (len(units) - 1)))


def similarity_to_mean(vectors: np.ndarray) -> float:
    """The mean cosine between rows of float [rows, size] and their mean: for the words of a sentence, intra-sentence
    similarity."""
    vectors = np.asarray(vectors, np.float64)
    return float(np.mean(directions(vectors) @ directions(vectors.mean(axis=0)[None])[0]))


def explained_variance(vectors: np.ndarray, *, centred: bool = True) -> float:
    """The share of the variance of float [rows, size] along one direction; 1 if all rows are equal.

    For the occurrences of a word this is the maximum explainable variance: how well one static vector could replace
    them. The direction is the first principal component, as in the released code for the occurrences of a word; not
    `centred`, it is the first right singular vector, as in the code for random words.
    """
    vectors = np.asarray(vectors, np.float64)
    if (vectors == vectors[0]).all():
        return 1.0
    total = vectors.var(axis=0).sum()
    if centred:
        vectors = vectors - vectors.mean(axis=0)
    is_wide = len(vectors) <= vectors.shape[1]
    # Both products have the same largest eigenvalue, so use the smaller one.
    values, columns = np.linalg.eigh(vectors @ vectors.T if is_wide else vectors.T @ vectors)
    first = columns[:, -1]
    projections = first * np.sqrt(values[-1]) if is_wide else vectors @ first
    return float(projections.var() / total)


# --- Measures of the layers of an encoder ---


@dataclass(frozen=True, eq=False)
class Geometry:
    """How contextual the word vectors of each layer are.

    The attributes hold uncorrected values; `curves` and `ranked` correct them for anisotropy.

    Attributes:
        words: the words that occur often enough and contain a letter or a digit, the most frequent first.
        occurrences: int64 [words]: how often each word occurs.
        self_similarity: float64 [words, layers]: mean cosine between the occurrences of a word.
        explained_variance: float64 [words, layers]: maximum explainable variance of each word.
        intra_sentence: float64 [sentences, layers]: mean cosine between the words of a sentence and their mean.
        random_cosine: float64 [layers]: mean cosine between random words of different sentences, the baseline of both
            similarities; 0 if vectors point in all directions alike.
        random_variance: float64 [layers]: share of the variance of these random words along one direction, the
            baseline of the maximum explainable variance.
    """

    words: tuple[str, ...]
    occurrences: np.ndarray
    self_similarity: np.ndarray
    explained_variance: np.ndarray
    intra_sentence: np.ndarray
    random_cosine: np.ndarray
    random_variance: np.ndarray

    def curves(self, *, corrected: bool = True) -> list[LayerCurve]:
        """Returns the mean of each of the three measures by layer, and the cosine between random words.

        Args:
            corrected: whether to subtract the baselines.
        """
        cosine, variance = self.random_cosine * corrected, self.random_variance * corrected
        means = {
            "self-similarity": self.self_similarity.mean(axis=0) - cosine,
            "intra-sentence similarity": self.intra_sentence.mean(axis=0) - cosine,
            "explainable variance": self.explained_variance.mean(axis=0) - variance,
            "random words' cosine": self.random_cosine,
        }
        return [LayerCurve(name, values) for name, values in means.items()]

    def ranked(self, layer: int = -1) -> list[tuple[str, float]]:
        """Returns the words with their corrected self-similarity in a layer, the most contextual words first.

        Raises:
            IndexError: there is no such layer.
        """
        similarities = self.self_similarity[:, layer] - self.random_cosine[layer]
        order = np.argsort(similarities, kind="stable")
        return [(self.words[n], float(similarities[n])) for n in order]

    def __str__(self) -> str:
        return (
            f"{len(self.words):,} words in {self.occurrences.sum():,} occurrences; corrected for anisotropy\n"
            f"{table_by_layer(self.curves())}"
        )


def measure_geometry(
    vectors: LayerVectors,
    *,
    min_occurrences: int = 5,
    max_occurrences: int = 1000,
    samples: int = 1000,
    seed: int = 0,
) -> Geometry:
    """Measures how contextual word vectors are at every layer: how much they differ between a word's sentences.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", sections 3.3 and 3.4. Memory holds one layer of one word's occurrences at a time.

    Args:
        vectors: vectors from `compute_vectors`. Words that differ in case are different words.
        min_occurrences: leave out words that occur less often.
        max_occurrences: sample this many occurrences of words that occur more often.
        samples: number of sentences to sample for intra-sentence similarity. The baselines use one random word of
            each.
        seed: seed of the samples.

    Raises:
        ValueError: no word occurs often enough, there is only one sentence, or a number is below 2.
    """
    for name, value in {
        "min_occurrences": min_occurrences,
        "max_occurrences": max_occurrences,
        "samples": samples,
    }.items():
        check(name, value, int, least=2, note="because pairs are compared")
    if len(vectors.sentences) < 2:
        raise ValueError(
            "The baselines need random words of different sentences, but there is only 1 sentence. Pass more sentences."
        )
    rows = _rows_of_words(vectors, min_occurrences)
    generator = np.random.default_rng(seed)
    drawn = [
        generator.choice(some, max_occurrences, replace=False)
        if len(some) > max_occurrences
        else some
        for some in rows.values()
    ]
    count = min(samples, len(vectors.sentences))
    starts = generator.choice(len(vectors.sentences), count, replace=False)
    sentences = [slice(*vectors.splits[start : start + 2]) for start in starts]
    one_each = np.array([generator.integers(part.start, part.stop) for part in sentences])

    def by_layer(measure, parts) -> np.ndarray:
        """float64 [parts, layers]"""
        layers = range(vectors.num_layers)
        return np.array([[measure(vectors.layer(n, part)) for n in layers] for part in parts])

    return Geometry(
        words=tuple(rows),
        occurrences=np.array([*map(len, rows.values())]),
        self_similarity=by_layer(self_similarity, drawn),
        explained_variance=by_layer(explained_variance, drawn),
        intra_sentence=by_layer(similarity_to_mean, sentences),
        random_cosine=by_layer(self_similarity, [one_each])[0],
        random_variance=by_layer(lambda x: explained_variance(x, centred=False), [one_each])[0],
    )


def _rows_of_words(vectors: LayerVectors, min_occurrences: int) -> dict[str, np.ndarray]:
    """Rows of each word that occurs often enough, the most frequent word first."""
    rows = defaultdict(list)
    for row, word in enumerate(chain.from_iterable(vectors.sentences)):
        rows[word].append(row)
    kept = {
        word: np.array(found)
        for word, found in sorted(rows.items(), key=lambda item: -len(item[1]))
        if len(found) >= min_occurrences and any(map(str.isalnum, word))
    }
    if not kept:
        raise ValueError(
            f"No word occurs {min_occurrences} times among the {vectors.num_words:,} words. Pass more sentences, or a "
            "lower min_occurrences."
        )
    return kept
