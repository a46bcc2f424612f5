"""Which layers a task draws on: probes on weighted mixtures of layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from bert_zoo.probing.labelled import labelled
from bert_zoo.probing.probes import ProbeSettings, measure, train
from bert_zoo.probing.results import LayerCurve, table_by_layer
from bert_zoo.probing.vectors import LayerVectors


@dataclass(frozen=True)
class LayerMixes:
    """The weights and scores of probes on trained mixtures of layers.

    Attributes:
        weights: the weight of each layer in the mixture of all layers; weights sum to 1.
        cumulative: at layer l, the score of a probe that mixes layers 0 to l: accuracy, or micro-F1 for edges.
    """

    weights: LayerCurve
    cumulative: LayerCurve

    @property
    def centre_of_gravity(self) -> np.ndarray:
        """The mean layer, weighted by `weights`: float64 [runs] (Tenney et al. 2019, arXiv:1905.05950, equation 2)."""
        return self.weights.values @ np.arange(len(self.weights.mean))

    @property
    def expected_layer(self) -> np.ndarray:
        """The mean layer, weighted by how much each layer adds to the score: float64 [runs] (equation 4 there).

        NaN if the mixture of all layers scores as layer 0 alone does.
        """
        gains = np.diff(self.cumulative.values, axis=1)
        total = gains.sum(axis=1)
        moments = gains @ np.arange(1, gains.shape[1] + 1)
        return np.divide(moments, total, out=np.full_like(total, np.nan), where=total != 0)

    def __str__(self) -> str:
        return (
            f"{table_by_layer([self.weights, self.cumulative])}\n"
            f"Centre of gravity {self.centre_of_gravity.mean():.2f}, "
            f"expected layer {self.expected_layer.mean():.2f}."
        )


def mix_layers(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> LayerMixes:
    """Trains a probe on a mixture of all layers, and for each layer a probe on a mixture of the layers up to it.

    The weights of a mixture are a softmax, and equal at first. Tenney et al.'s edge probes
    have hidden_size=256.

    Args:
        vectors, labels, splits, seeds, settings: as in `probe_layers`.

    Raises:
        ValueError: as in `probe_layers`, or the layers differ in size and cannot be mixed.
    """
    if len({*vectors.sizes}) > 1:
        raise ValueError(
            f"The layers have sizes {list(vectors.sizes)}, and only layers of one size can be mixed. Use "
            "probe_layers, which probes each layer alone."
        )
    chosen, given = ProbeSettings(**settings), labelled(vectors, labels)
    parts = given.split(splits, len(vectors))
    reads = [range(layer + 1) for layer in range(vectors.num_layers)]
    weights, scores = [], []
    for seed in seeds:
        probes = train(reads, vectors, given, parts["train"], parts["validation"], chosen, seed)
        weights.append(ops.convert_to_numpy(ops.softmax(probes.probes[-1].mix.scalars)))
        scores.append(measure(probes, vectors, given, parts["test"]).scores)
    name = "micro-F1" if given.has_label_sets else "accuracy"
    return LayerMixes(
        LayerCurve("weight", np.array(weights)), LayerCurve(f"{name} up to it", np.array(scores))
    )
