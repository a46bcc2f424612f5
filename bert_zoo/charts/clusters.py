"""Main directions and clusters of vectors, and the words that tell groups of texts apart."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

MAX_ROUNDS = 50
WORD = re.compile(r"[^\W\d_][\w'’-]*\w")
# A group's telling word is at least so many times as frequent in the group as in all others.
LEAST_RATIO = 3


def principal_components(x: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Projects vectors [N, size] onto their first principal components.

    Returns:
        points: [N, count], whose largest coordinates are positive, as the sign of a component is arbitrary.
        explained: [count], the share of the variance along each, from 0 to 1.
    """
    x = x - x.mean(axis=0)
    # The triangle has the same singular values and directions, and is small however many vectors there are.
    _, values, directions = np.linalg.svd(np.linalg.qr(x, mode="r"), full_matrices=False)
    points = x @ directions[:count].T
    points *= np.sign(points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])])
    variances = values**2 / max(np.sum(values**2), np.finfo(float).tiny)
    return points, variances[:count]


def k_means(x: np.ndarray, count: int, *, seed: int = 0) -> np.ndarray:
    """Clusters vectors [N, size] by Lloyd's algorithm, from centres that k-means++ draws.

    Source: Arthur and Vassilvitskii, "k-means++: The advantages of careful seeding", SODA 2007.

    Returns:
        int [N], numbers of the clusters, of which there are fewer if fewer vectors differ.
    """
    generator = np.random.default_rng(seed)
    squares = np.einsum("ij,ij->i", x, x)

    def distances(centres: np.ndarray) -> np.ndarray:
        """Squared distances [N, centres]."""
        sums = squares[:, None] - 2 * x @ centres.T + np.einsum("ij,ij->i", centres, centres)
        return np.maximum(sums, 0)

    centres = x[generator.integers(len(x), size=1)]
    nearest = distances(centres)[:, 0].astype(np.float64)
    # Differences of squares leave a rounding error, which is no distance.
    negligible = 1e-5 * max(squares.max(), np.finfo(float).tiny)
    while len(centres) < count and nearest.max() > negligible:
        drawn = generator.choice(len(x), p=nearest / nearest.sum())
        centres = np.concatenate([centres, x[drawn : drawn + 1]])
        nearest = np.minimum(nearest, distances(centres[-1:])[:, 0])
    clusters = None
    for _ in range(MAX_ROUNDS):
        before, clusters = clusters, distances(centres).argmin(axis=1)
        if np.array_equal(before, clusters):
            break
        members = np.eye(len(centres), dtype=x.dtype)[clusters].T
        counts = members.sum(axis=1, keepdims=True)
        centres = np.where(counts > 0, members @ x / np.maximum(counts, 1), centres)
    return np.unique(clusters, return_inverse=True)[1]


def telling_words(texts: Sequence[str], groups: np.ndarray, *, count: int = 8) -> list[list[str]]:
    """The words that tell each group of texts from the others, best first, by class-based TF-IDF.

    A word's weight in a group is its frequency there times log(1 + words per group / its frequency in all).
    A text counts a word once, and words that are nearly as frequent in other groups are left out.
    Source: Grootendorst, "BERTopic", 2022 (arXiv:2203.05794), equation 2.

    Args:
        groups: int [N], the group of each text, from 0.
    """
    counts = [Counter() for _ in range(groups.max() + 1)]
    for text, group in zip(texts, groups, strict=True):
        counts[group].update(set(WORD.findall(text.lower())))
    total = sum(counts, Counter())
    num_words = max(total.total(), 1)
    named = []
    for words in counts:
        inside = words.total()
        outside = num_words - inside
        weights = {
            word: number * math.log1p(num_words / len(counts) / total[word])
            for word, number in words.items()
            if number * outside >= LEAST_RATIO * (total[word] - number) * inside
        }
        # The alphabet decides between equal weights, as the order of a set differs between runs.
        named.append(sorted(weights, key=lambda word: (-weights[word], word))[:count])
    return named
