"""Probes of words, spans and sentences at each layer, with control tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.probing.labelled import Labelled, labelled
from bert_zoo.probing.probes import ProbeSettings, measure, train
from bert_zoo.probing.results import LayerCurve, table_by_layer
from bert_zoo.probing.vectors import LayerVectors


@dataclass(frozen=True)
class LayerProbes:
    """The scores of each layer's probe on the test split.

    Attributes:
        score: accuracy, or micro-F1 for edges, which may have several labels.
        majority: the score of always predicting the most frequent label of the training split.
        control: the accuracy on random labels by word type; None if it was not requested.
        num_train: number of labelled items in the training split.
        num_test: number of labelled items in the test split.
    """

    score: LayerCurve
    majority: float
    control: LayerCurve | None
    num_train: int
    num_test: int

    @property
    def selectivity(self) -> LayerCurve | None:
        """Accuracy minus the control task's accuracy (Hewitt and Liang 2019, arXiv:1909.03368)."""
        if self.control is None:
            return None
        return LayerCurve("selectivity", self.score.values - self.control.values)

    def __str__(self) -> str:
        curves = [self.score, self.control, self.selectivity]
        return (
            f"{table_by_layer([curve for curve in curves if curve is not None])}\n"
            f"Always guessing the most frequent label: {self.majority:.3f}. "
            f"Trained on {self.num_train:,} items, tested on {self.num_test:,}."
        )


def probe_layers(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    control: bool = False,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> LayerProbes:
    """Trains a probe on each layer, all layers side by side, and scores them on the test split.

    Args:
        vectors: vectors from `compute_vectors`.
        labels: for each sentence either a label; or a label for each word, with None for words to leave out; or
            edges (`bert_zoo.data.edges.Edge`): spans or pairs of spans, pooled by attention and with any number
            of labels (Tenney et al. 2019, arXiv:1905.06316). A labelled sentence is the mean of its words' vectors.
        splits: "train", "validation" or "test" for each sentence. By default the ninth and tenth of every ten
            sentences are for validation and test.
        control: also trains probes on random labels by word type (Hewitt and Liang 2019, arXiv:1909.03368).
            This needs labels of words.
        seeds: seeds of the runs, one each.
        settings: hidden_size=None (linear, else the units of one hidden layer), dropout=0.0, epochs=5,
            batch_size=256, learning_rate=5e-3 (`ProbeSettings`).

    Raises:
        ValueError: labels or splits do not match the sentences, a split has no labelled items, or `control` is
            true for labels of sentences or edges.
    """
    chosen, given = ProbeSettings(**settings), labelled(vectors, labels)
    parts = given.split(splits, len(vectors))
    reads = [[layer] for layer in range(vectors.num_layers)]

    def scores(what: Labelled, seed: int) -> np.ndarray:
        probes = train(reads, vectors, what, parts["train"], parts["validation"], chosen, seed)
        return measure(probes, vectors, what, parts["test"]).scores

    name = "micro-F1" if given.has_label_sets else "accuracy"
    controls = None
    if control:
        values = [
            scores(given.with_control_labels(vectors.sentences, seed), seed) for seed in seeds
        ]
        controls = LayerCurve("control accuracy", np.array(values))
    return LayerProbes(
        LayerCurve(name, np.array([scores(given, seed) for seed in seeds])),
        _majority(given, parts["train"], parts["test"]),
        controls,
        len(parts["train"]),
        len(parts["test"]),
    )


def _majority(what: Labelled, training: np.ndarray, test: np.ndarray) -> float:
    """The score on the test items of always predicting the most frequent label of the training items."""
    if not what.has_label_sets:
        most = np.bincount(what.targets[training]).argmax()
        return float(np.mean(what.targets[test] == most))
    present = what.targets[test]
    right = present[:, what.targets[training].sum(axis=0).argmax()].sum()
    return float(2 * right / (len(test) + present.sum()))
