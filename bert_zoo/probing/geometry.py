"""How contextual vectors are, layer by layer.

Kawin Ethayarajh, "How Contextual are Contextualized Word Representations?", EMNLP 2019: the measures of
section 3.3, corrected for anisotropy as in section 3.4. Where the paper and its released code (kawine/contextual,
`analyze.py`) differ, the numbers are the code's; but self-similarity is the mean over all pairs of occurrences,
of which the code draws 1,000, and the vectors of a word are pooled ones, where the code takes BERT's pieces for words.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_zoo.embeddings.exact_search import directions
from bert_zoo.probing.results import LayerCurve, table_by_layer
from bert_zoo.probing.vectors import LayerVectors

# --- Measures of given vectors ---


def self_similarity(vectors: np.ndarray) -> float:
    """The mean cosine of all pairs of different rows.

    Of a word's occurrences it is the word's self-similarity, of random words the baseline for anisotropy.

    Args:
        vectors: float [rows, size], at least two rows.
    """
    units = directions(np.asarray(vectors, np.float64))
    total = units.sum(axis=0)
    # The square of the sum holds each pair twice, and each row with itself.
    return float((total @ total - np.sum(units**2)) / (len(units) * (len(units) - 1)))


def similarity_to_mean(vectors: np.ndarray) -> float:
    """The mean cosine of rows and their mean: the intra-sentence similarity of a sentence's words.

    Args:
        vectors: float [rows, size].
    """
    vectors = np.asarray(vectors, np.float64)
    return float(np.mean(directions(vectors) @ directions(vectors.mean(axis=0)[None])[0]))


def explained_variance(vectors: np.ndarray, *, centred: bool = True) -> float:
    """The share of the rows' variance that lies along one direction; 1 where all rows are equal.

    Of a word's occurrences it is the maximum explainable variance: how well one static vector could replace them.

    Args:
        vectors: float [rows, size].
        centred: whether the direction is the first principal component, which the released code takes for the
            occurrences of a word; otherwise it is the first right singular vector of the rows as they are, which
            the code takes for random words.
    """
    vectors = np.asarray(vectors, np.float64)
    if (vectors == vectors[0]).all():
        return 1.0
    total = vectors.var(axis=0).sum()
    if centred:
        vectors = vectors - vectors.mean(axis=0)
    is_wide = len(vectors) <= vectors.shape[1]
    # Both products have the same largest eigenvalue; the smaller one is taken.
    values, columns = np.linalg.eigh(vectors @ vectors.T if is_wide else vectors.T @ vectors)
    first = columns[:, -1]
    projections = first * np.sqrt(values[-1]) if is_wide else vectors @ first
    return float(projections.var() / total)


# --- Of an encoder's layers ---


@dataclass(frozen=True, eq=False)
class Geometry:
    """How contextual the words' vectors of each layer are.

    Cosines and shares are raw; `curves` corrects them.

    Attributes:
        words: those that occur often enough, the most frequent first; none without a letter or a digit.
        occurrences: int64 [words], how often each occurs.
        self_similarity: float64 [words, layers], the mean cosine of a word's occurrences.
        explained_variance: float64 [words, layers], the maximum explainable variance of each word.
        intra_sentence: float64 [sentences, layers], the mean cosine of a sentence's words and their mean.
        random_cosine: float64 [layers], the mean cosine of random words of different sentences: 0 for vectors
            that point everywhere, and the baseline of the two similarities.
        random_variance: float64 [layers], the share of these words' variance along one direction, the baseline of
            the maximum explainable variance.
    """

    words: tuple[str, ...]
    occurrences: np.ndarray
    self_similarity: np.ndarray
    explained_variance: np.ndarray
    intra_sentence: np.ndarray
    random_cosine: np.ndarray
    random_variance: np.ndarray

    def curves(self, *, corrected: bool = True) -> list[LayerCurve]:
        """The means of the three measures by layer, and the cosine of random words.

        Args:
            corrected: whether the baselines are subtracted (section 3.4).
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
        """Words with their corrected self-similarity in a layer, the most contextual words first.

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
    """Measures how contextual words' vectors are at every layer.

    Memory holds one layer of one word's occurrences at a time.

    Args:
        vectors: of `compute_vectors`. Words that differ in case are different words.
        min_occurrences: words that occur less often are left out.
        max_occurrences: of a word that occurs more often, as many occurrences are drawn.
        samples: sentences that are drawn for intra-sentence similarity, and, with one word of each, for the
            baselines.
        seed: of what is drawn.

    Raises:
        ValueError: no word occurs often enough, there is only one sentence, or a number is too small.
    """
    for name, value in {
        "min_occurrences": min_occurrences,
        "max_occurrences": max_occurrences,
        "samples": samples,
    }.items():
        if value < 2:
            raise ValueError(f"{name} is {value}; it must be at least 2, since pairs are compared.")
    if len(vectors.sentences) < 2:
        raise ValueError("Random words of different sentences need at least 2 sentences, got 1.")
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
    """Words that occur often enough, the most frequent first, and the rows of each."""
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
            f"No word occurs {min_occurrences} times in the {vectors.num_words:,} words. Take more sentences, or a "
            "lower min_occurrences."
        )
    return kept
