"""The structural probe: do distances between word vectors encode a syntax tree?

A linear map B is trained so that |B(h_i - h_j)|^2 is the distance between two words in their dependency tree, or
|B h_i|^2 a word's depth in it. Source: Hewitt and Manning 2019, "A Structural Probe for Finding Syntax in Word
Representations", sections 2 and 3; training and scores follow their released code (`regimen.py`, `loss.py`).

Everything is NumPy, with the gradients of the two losses written out.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from tqdm import tqdm

from bert_zoo.data.treebanks import ParsedSentence
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.metrics.labels import accuracy, spearman
from bert_zoo.probing.probes import SPLITS, sentence_splits
from bert_zoo.probing.vectors import LayerCurve, LayerVectors, table_by_layer

# --- Dependency trees as distances and depths, spanning trees, and the scores of the structural probe's paper ---

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


# From the released code. Initial weights are uniform between -INITIAL and INITIAL.
INITIAL = 0.05
LEARNING_RATE, DECAY = 1e-3, 0.1
# Gains in validation loss. Below the relative gain the learning rate falls. Training ends after PATIENCE epochs below
# the absolute gain.
RELATIVE_GAIN = ABSOLUTE_GAIN = 1e-4
PATIENCE = 5
BETAS, EPSILON = (0.9, 0.999), 1e-8


def squared_distances(projected: np.ndarray) -> np.ndarray:
    """Squared distances between the projected word vectors of a sentence, [words, rank] -> [words, words]."""
    # Computed from differences, so that equal vectors have exactly equal distances to any third one.
    return np.stack([np.square(projected - row).sum(-1) for row in projected])


def squared_norms(projected: np.ndarray) -> np.ndarray:
    """Squared norms of the projected word vectors of a sentence, [words, rank] -> [words]."""
    return np.square(projected).sum(-1)


def _distance_loss(projected: np.ndarray, gold: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean error |predicted - gold| over pairs of a sentence's words, and its gradient [words, rank]."""
    norms = squared_norms(projected)
    error = norms[:, None] + norms - 2 * projected @ projected.T - gold
    slope = np.sign(error) / error.size
    gradient = 4 * (slope.sum(-1, keepdims=True) * projected - slope @ projected)
    return float(np.vdot(slope, error)), gradient


def _depth_loss(projected: np.ndarray, gold: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean error |predicted - gold| over a sentence's words, and its gradient [words, rank]."""
    error = squared_norms(projected) - gold
    slope = np.sign(error) / error.size
    return float(np.vdot(slope, error)), 2 * slope[:, None] * projected


def _distance_score(predicted: Sequence[np.ndarray], treebank: Sequence[ParsedSentence]) -> float:
    return attachment_score(map(compare_trees, predicted, treebank))


@dataclass(frozen=True)
class _Quantity:
    """A quantity of a tree that a probe predicts."""

    gold: Callable[[Sequence[int]], np.ndarray]  # heads -> the quantity in the tree
    predict: Callable[[np.ndarray], np.ndarray]  # projected vectors [words, rank] -> the quantity
    # Projected vectors, gold -> the loss of a sentence and its gradient.
    loss: Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]
    # Number of words -> the quantity if each word depended on the one before it.
    baseline: Callable[[int], np.ndarray]
    # Predictions, sentences -> `score_name`.
    score: Callable[[Sequence[np.ndarray], Sequence[ParsedSentence]], float]
    # Names in the paper's tables.
    score_name: str
    correlation_name: str


QUANTITIES: dict[str, _Quantity] = {
    "distance": _Quantity(
        tree_distances,
        squared_distances,
        _distance_loss,
        lambda length: tree_distances(range(length)),
        _distance_score,
        "UUAS",
        "DSpr.",
    ),
    "depth": _Quantity(
        tree_depths, squared_norms, _depth_loss, np.arange, root_accuracy, "root accuracy", "NSpr."
    ),
}


@dataclass(frozen=True)
class StructuralProbe:
    """The structural probes of every layer, and their scores on the test split.

    Attributes:
        quantity: "distance" or "depth".
        weights: for each layer float32 [size, rank], from the first run.
        score: for distances, UUAS without punctuation; for depths, how often the predicted depth of the root is the
            smallest.
        correlation: Spearman correlation ("DSpr." or "NSpr."): the mean over sentence lengths of 5 to 50 words.
        by_length: float64 [runs, layers, 46]: correlations for sentences of 5, 6, ... 50 words; NaN for lengths
            that do not occur.
        baseline: score and correlation if each word depended on the one before it.
        epochs: int64 [runs, layers]: number of epochs trained.
    """

    quantity: str
    weights: tuple[np.ndarray, ...] = field(repr=False)
    score: LayerCurve
    correlation: LayerCurve
    by_length: np.ndarray = field(repr=False)
    baseline: tuple[float, float]
    epochs: np.ndarray

    def predict(self, vectors: LayerVectors, sentence: int, layer: int) -> np.ndarray:
        """Returns the predicted distances [words, words] or depths [words] of one sentence, float64."""
        return _predict(QUANTITIES[self.quantity], vectors, sentence, layer, self.weights[layer])

    def trees(
        self,
        vectors: LayerVectors,
        treebank: Sequence[ParsedSentence],
        sentences: Sequence[int],
        layer: int | None = None,
    ) -> list[ComparedTree]:
        """Returns the predicted and the gold trees of some sentences.

        Args:
            vectors, treebank: vectors and trees of the same sentences.
            sentences: numbers of the sentences to compare.
            layer: index of the layer; by default the layer with the best score.

        Raises:
            ValueError: the probe predicts depths.
        """
        if self.quantity != "distance":
            raise ValueError(
                f"This probe predicts {self.quantity}; trees need a probe trained with quantity='distance'."
            )
        layer = self.score.best_layer if layer is None else layer
        return [
            compare_trees(self.predict(vectors, number, layer), treebank[number])
            for number in sentences
        ]

    def __str__(self) -> str:
        curves = (self.score, self.correlation)
        baseline = ", ".join(
            f"{curve.name} {value:.3f}" for curve, value in zip(curves, self.baseline, strict=True)
        )
        return f"{table_by_layer(curves)}\nLinking each word to the one before it: {baseline}"


def structural_probe(
    vectors: LayerVectors,
    treebank: Sequence[ParsedSentence],
    quantity: str = "distance",
    *,
    rank: int | None = None,
    splits: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    max_epochs: int = 40,
    batch_size: int = 20,
) -> StructuralProbe:
    """Trains a structural probe on each layer: do its vectors encode syntax trees? Scores it on the test split.

    The probe is a linear map B: |B(h_i - h_j)|^2 predicts the distance of two words in the tree, or |B h_i|^2 the
    depth of a word.

    All layers are trained side by side, each with its own learning rate and end. The rate falls to a tenth after
    an epoch that does not lower the loss on the validation split. A layer stops five epochs after its best one,
    and keeps the weights of that epoch.

    Args:
        vectors, treebank: vectors and trees of the same sentences, in the same order.
        quantity: "distance" (between each pair of words in the tree) or "depth" (of each word).
        rank: rank of the linear map; by default the size of the layer, as in the paper. On MiniLM, with size 384,
            rank 64 scores as well in less than half the time.
        splits: "train", "validation" or "test" for each sentence. By default the ninth and tenth of every ten
            sentences are for validation and test.
        seeds: seeds of the initial weights and of the order of sentences, one run each.
        max_epochs: most epochs to train.
        batch_size: sentences per step.

    Raises:
        ValueError: vectors and treebank have different sentences, a split has no sentences, or a number is not
            positive.

    Source: Hewitt and Manning 2019, "A Structural Probe for Finding Syntax in Word Representations".
    """
    check("quantity", quantity, str, choices=QUANTITIES)
    for name, value in (("rank", rank), ("max_epochs", max_epochs), ("batch_size", batch_size)):
        check(name, value, int | None, least=1)
    _check_sentences(vectors, treebank)
    split_names = sentence_splits(splits, len(treebank))
    train, validation, test = (np.flatnonzero(split_names == name) for name in SPLITS)
    if not (len(train) and len(validation) and len(test)):
        raise ValueError(
            f"{len(train)} of the {len(treebank)} sentences are for training, {len(validation)} for validation and "
            f"{len(test)} for testing. Every split needs some: pass more sentences, or splits."
        )
    kind = QUANTITIES[quantity]
    gold = [kind.gold(sentence.heads).astype(np.float32) for sentence in treebank]
    data = _SentenceBatches(vectors, gold, kind.loss, batch_size)
    runs = []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        layers = [
            _LayerTraining(
                generator.uniform(-INITIAL, INITIAL, (size, rank or size)).astype(np.float32)
            )
            for size in vectors.sizes
        ]
        _train(layers, data, train, validation, generator, max_epochs)
        runs.append(layers)
    tested = [treebank[number] for number in test]
    expected = [gold[number] for number in test]

    def measured(predicted: list[np.ndarray]) -> tuple[float, np.ndarray]:
        return kind.score(predicted, tested), correlations_by_length(predicted, expected)

    found = [
        [
            measured([_predict(kind, vectors, number, layer, trained.best) for number in test])
            for layer, trained in enumerate(run)
        ]
        for run in runs
    ]
    by_length = np.array([[lengths for _, lengths in run] for run in found])
    score, lengths = measured([kind.baseline(len(sentence)) for sentence in tested])
    return StructuralProbe(
        quantity,
        tuple(trained.best for trained in runs[0]),
        LayerCurve(kind.score_name, np.array([[score for score, _ in run] for run in found])),
        LayerCurve(kind.correlation_name, np.nanmean(by_length, axis=-1)),
        by_length,
        (score, float(np.nanmean(lengths))),
        np.array([[trained.epochs for trained in run] for run in runs]),
    )


def _check_sentences(vectors: LayerVectors, treebank: Sequence[ParsedSentence]) -> None:
    if len(vectors) != len(treebank):
        raise ValueError(
            f"There are vectors of {len(vectors)} sentences, but {len(treebank)} trees. Compute the vectors of "
            "[sentence.words for sentence in treebank]."
        )
    for number, (words, sentence) in enumerate(zip(vectors.sentences, treebank, strict=True)):
        if tuple(words) != tuple(sentence.words):
            raise ValueError(
                f"Sentence {number} has the vectors of {shown(' '.join(words))}, but the tree of "
                f"{shown(' '.join(sentence.words))}. Pass both in the same order."
            )


def _predict(
    kind: _Quantity, vectors: LayerVectors, sentence: int, layer: int, weights: np.ndarray
) -> np.ndarray:
    rows = slice(*vectors.splits[sentence : sentence + 2])
    return kind.predict(vectors.layer(layer, rows).astype(np.float64) @ weights)


@dataclass(frozen=True)
class _SentenceBatches:
    """Batches of sentences, and the losses of a layer's projection on them."""

    vectors: LayerVectors
    gold: Sequence[np.ndarray]
    loss: Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]
    batch_size: int

    def batches(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        for first in range(0, len(numbers), self.batch_size):
            yield numbers[first : first + self.batch_size]

    def losses(
        self, numbers: Sequence[int], layer: int, weights: np.ndarray
    ) -> tuple[list[float], np.ndarray, np.ndarray]:
        """Returns the losses of sentences, their vectors [words, size], and the gradient of the summed losses with
        respect to the projected vectors [words, rank]."""
        splits = self.vectors.splits
        rows = np.concatenate([np.arange(*splits[number : number + 2]) for number in numbers])
        inputs = self.vectors.layer(layer, rows)
        losses, gradients = [], []
        projected = np.split(inputs @ weights, np.cumsum([len(self.gold[n]) for n in numbers])[:-1])
        for number, words in zip(numbers, projected, strict=True):
            loss, gradient = self.loss(words, self.gold[number])
            losses.append(loss)
            gradients.append(gradient)
        return losses, inputs, np.concatenate(gradients)


class _LayerTraining:
    """Trains the projection of one layer by Adam, with its own learning rate schedule."""

    def __init__(self, weights: np.ndarray):
        self.weights = weights
        self.moments = np.zeros((2, *weights.shape), weights.dtype)
        self.steps = self.epochs = 0
        self.learning_rate = LEARNING_RATE
        self.lowest_loss = self.best_loss = np.inf
        self.best, self.best_epoch = weights.copy(), 0

    @property
    def is_finished(self) -> bool:
        return self.epochs - self.best_epoch >= PATIENCE

    def update(self, gradient: np.ndarray) -> None:
        self.steps += 1
        for moment, beta, value in zip(
            self.moments, BETAS, (gradient, gradient * gradient), strict=True
        ):
            moment += (1 - beta) * (value - moment)
        mean, square = (
            moment / (1 - beta**self.steps)
            for moment, beta in zip(self.moments, BETAS, strict=True)
        )
        self.weights -= self.learning_rate * mean / (np.sqrt(square) + EPSILON)

    def end_epoch(self, loss: float) -> None:  # the mean on the validation split
        self.epochs += 1
        if loss < self.best_loss - ABSOLUTE_GAIN:
            self.best_loss, self.best_epoch, self.best = loss, self.epochs, self.weights.copy()
        if loss < self.lowest_loss * (1 - RELATIVE_GAIN):
            self.lowest_loss = loss
        else:
            self.learning_rate *= DECAY


def _train(
    layers: Sequence[_LayerTraining],
    data: _SentenceBatches,
    train: Sequence[int],
    validation: Sequence[int],
    generator: np.random.Generator,
    max_epochs: int,
) -> None:
    """Trains every layer until it stops; the order of sentences changes each epoch."""
    for _ in tqdm(range(max_epochs), desc="Structural probe", unit=" epochs", disable=None):
        active = [pair for pair in enumerate(layers) if not pair[1].is_finished]
        if not active:
            break
        for batch in data.batches(generator.permutation(train)):
            for number, layer in active:
                _, inputs, gradient = data.losses(batch, number, layer.weights)
                layer.update(inputs.T @ gradient / len(batch))
        for number, layer in active:
            losses = [
                loss
                for batch in data.batches(validation)
                for loss in data.losses(batch, number, layer.weights)[0]
            ]
            layer.end_epoch(float(np.mean(losses)))
