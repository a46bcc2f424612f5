"""Dependency trees as distances and depths, spanning trees, and the scores of the structural probe's paper.

Source: Hewitt and Manning 2019, "A Structural Probe for Finding Syntax in Word Representations", section 3, and
their released code: `task.py` (distances, depths) and `reporter.py` (spanning trees, scores).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bert_zoo.data.treebanks import ParsedSentence
from bert_zoo.metrics.labels import accuracy, spearman

# Tags of words that are left out of spanning trees and roots: from the released code and Universal Dependencies.
PUNCTUATION = frozenset(["''", ",", ".", ":", "``", "-LRB-", "-RRB-", "PUNCT"])
# Correlations are averaged over sentences of these lengths, in words.
LENGTHS = range(5, 51)

Edge = tuple[int, int]


def tree_depths(heads: Sequence[int]) -> np.ndarray:
    """Counts the edges between each word and the root of its tree.

    Args:
        heads: the number of each word's head, counted from 1; 0 for a root.

    Returns:
        int64 [words].

    Raises:
        ValueError: a head is not a word of the sentence, or the heads form a cycle.
    """
    if outside := [head for head in heads if not 0 <= head <= len(heads)]:
        raise ValueError(
            f"Heads are numbers from 0 (for a root) to {len(heads)} (the last word), not {outside[0]}."
        )
    parents = np.array([0, *heads])
    depths = np.zeros(len(heads), np.int64)
    ancestors = parents[1:]
    while ancestors.any():
        depths += ancestors > 0
        if depths.max() >= len(heads):
            raise ValueError(
                f"The heads {list(heads)} form a cycle; every word must lead to a root."
            )
        ancestors = parents[ancestors]
    return depths


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Counts the edges between each pair of words of a sentence.

    Several roots count as dependents of one extra node: two roots are 2 apart.

    Args:
        heads: as in `tree_depths`.

    Returns:
        int64 [words, words].

    Raises:
        ValueError: as in `tree_depths`.
    """
    distances = np.zeros((len(heads) + 1, len(heads) + 1), np.int64)
    seen = [0]
    # A head comes before its dependents, so its distances to all words seen so far are known.
    for word in 1 + np.argsort(tree_depths(heads), kind="stable"):
        distances[word, seen] = distances[seen, word] = distances[heads[word - 1], seen] + 1
        seen.append(word)
    return distances[1:, 1:]


def minimum_spanning_tree(distances: np.ndarray) -> list[Edge]:
    """Finds the tree over all words whose edges have the smallest sum of distances (Kruskal's algorithm).

    Among equal distances, the pair with the lower numbers comes first.

    Args:
        distances: [words, words], symmetric.

    Returns:
        The words - 1 edges as pairs of word numbers from 0, the lower number first; the shortest edge first.
    """
    first, second = np.triu_indices(len(distances), 1)
    closest = np.argsort(distances[first, second], kind="stable")
    component = list(range(len(distances)))
    edges = []
    for i, j in zip(first[closest].tolist(), second[closest].tolist(), strict=True):
        joined, other = component[i], component[j]
        if joined != other:
            component = [joined if c == other else c for c in component]
            edges.append((i, j))
            if len(edges) == len(component) - 1:
                break
    return edges


@dataclass(frozen=True)
class ComparedTree:
    """The gold tree of a sentence and a predicted one, both undirected and without punctuation.

    Attributes:
        words: the words of the sentence, including punctuation.
        gold: edges as pairs of word numbers from 0, the lower number first.
        predicted: the same for the predicted tree.
    """

    words: tuple[str, ...]
    gold: frozenset[Edge]
    predicted: frozenset[Edge]

    def __str__(self) -> str:
        def pairs(edges: frozenset[Edge]) -> str:
            return ", ".join(f"{self.words[i]}-{self.words[j]}" for i, j in sorted(edges)) or "none"

        missed, wrong = self.gold - self.predicted, self.predicted - self.gold
        return (
            f"{' '.join(self.words)}\n  {len(self.gold) - len(missed)} of {len(self.gold)} edges found; "
            f"missed: {pairs(missed)}; wrong: {pairs(wrong)}"
        )


def compare_trees(
    distances: np.ndarray,
    sentence: ParsedSentence,
    punctuation: Collection[str] = PUNCTUATION,
) -> ComparedTree:
    """Compares the minimum spanning tree of predicted distances with the gold tree of a sentence.

    Args:
        distances: predicted distances [words, words].
        sentence: the sentence, with tags and heads.
        punctuation: tags of words to leave out of both trees. The gold tree is the minimum spanning tree of the gold
            distances between the other words, also if a word that is left out was a head.
    """
    kept = _words(sentence, punctuation)

    def edges(matrix: np.ndarray) -> frozenset[Edge]:
        tree = minimum_spanning_tree(matrix[np.ix_(kept, kept)])
        return frozenset((int(kept[i]), int(kept[j])) for i, j in tree)

    return ComparedTree(sentence.words, edges(tree_distances(sentence.heads)), edges(distances))


def attachment_score(trees: Iterable[ComparedTree]) -> float:
    """Returns UUAS, the undirected unlabelled attachment score: the share of all gold edges that are predicted."""
    trees = list(trees)
    return sum(len(t.gold & t.predicted) for t in trees) / max(1, sum(len(t.gold) for t in trees))


def root_accuracy(
    depths: Sequence[np.ndarray],
    sentences: Sequence[ParsedSentence],
    punctuation: Collection[str] = PUNCTUATION,
) -> float:
    """The share of sentences whose root (the first of several) has the smallest predicted depth, [words] each.

    Words with tags of `punctuation` cannot be roots, unless a sentence has no others.
    """
    found = []
    for predicted, sentence in zip(depths, sentences, strict=True):
        kept = _words(sentence, punctuation)
        kept = kept if len(kept) else np.arange(len(sentence.words))
        found.append(kept[np.argmin(predicted[kept])])
    return accuracy([sentence.heads.index(0) for sentence in sentences], found)


def correlations_by_length(
    predicted: Sequence[np.ndarray], gold: Sequence[np.ndarray]
) -> np.ndarray:
    """Mean Spearman correlation for sentences of 5, 6, ... 50 words, float64 [46]; NaN for lengths that do not occur.

    Depths [words] have one correlation per sentence; distances [words, words] one per word. The paper's DSpr. and NSpr.
    are the means of these without NaN.
    """
    found: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for values, expected in zip(predicted, gold, strict=True):
        if len(values) in found:
            rows = zip(np.atleast_2d(expected), np.atleast_2d(values), strict=True)
            found[len(values)] += [spearman(*row) for row in rows]
    return np.array([np.mean(values) if values else np.nan for values in found.values()])


def _words(sentence: ParsedSentence, punctuation: Collection[str]) -> np.ndarray:
    """Numbers, from 0, of the words that are not punctuation."""
    return np.flatnonzero([tag not in punctuation for tag in sentence.tags])
