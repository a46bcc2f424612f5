"""Minimum description length: how many bits a task's labels take, given a layer's vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.probing.labelled import Labelled, labelled
from bert_zoo.probing.probes import ProbeSettings, measure, train
from bert_zoo.probing.results import LayerCurve, table_by_layer
from bert_zoo.probing.vectors import LayerVectors

# The share of the training sentences that has been sent after each portion (Voita and Titov 2020,
# arXiv:2003.12298, section 2.2.2).
FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class DescriptionLengths:
    """The lengths of online codes of the labels, for every layer.

    Attributes:
        bits: the length of each layer's code.
        uniform_bits: the length of a code in which all labels are equally likely: items * log2(classes).
        control: the lengths for random labels by word type; None if they were not requested.
    """

    bits: LayerCurve
    uniform_bits: float
    control: "DescriptionLengths | None" = None

    @property
    def compression(self) -> LayerCurve:
        """How many times shorter than the uniform code each layer's code is."""
        return LayerCurve("compression", self.uniform_bits / self.bits.values)

    def __str__(self) -> str:
        named = [("", self)] if self.control is None else [("", self), ("control ", self.control)]
        curves = [
            LayerCurve(prefix + curve.name, curve.values)
            for prefix, lengths in named
            for curve in (LayerCurve("kbit", lengths.bits.values / 1000), lengths.compression)
        ]
        return table_by_layer(curves)


def description_lengths(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    control: bool = False,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> DescriptionLengths:
    """Measures the length of an online code of the training split's labels, for every layer.

    A uniform code sends the first labels. Then a probe, trained on everything sent so far, encodes the next
    portion, which is about as long as all before it (Voita and Titov 2020, arXiv:2003.12298). A short code
    means that little data is enough to find the labels in a layer. As in the original, each probe keeps the
    epoch with the lowest loss on the validation split, and sentences are shuffled.

    Args:
        vectors, labels, splits, control, seeds, settings: as in `probe_layers`. Every edge must have one label.

    Raises:
        ValueError: as in `probe_layers`, or an edge does not have exactly one label.
    """
    chosen, given = ProbeSettings(**settings), labelled(vectors, labels).with_one_label()
    parts = given.split(splits, len(vectors))
    reads = [[layer] for layer in range(vectors.num_layers)]

    def bits(what: Labelled, seed: int) -> np.ndarray:
        first, *portions = _portions(what, parts["train"], seed)
        sent, length = first, len(first) * np.log2(len(what.label_names))
        for portion in portions:
            probes = train(reads, vectors, what, sent, parts["validation"], chosen, seed)
            length = length + measure(probes, vectors, what, portion).bits
            sent = np.concatenate([sent, portion])
        return length

    def lengths(drawn: Sequence[Labelled], control: DescriptionLengths | None = None):
        values = [bits(what, seed) for what, seed in zip(drawn, seeds, strict=True)]
        uniform = len(parts["train"]) * float(np.log2(len(given.label_names)))
        return DescriptionLengths(LayerCurve("bits", np.array(values)), uniform, control)

    controls = None
    if control:
        controls = lengths([given.with_control_labels(vectors.sentences, seed) for seed in seeds])
    return lengths([given] * len(seeds), controls)


def _portions(what: Labelled, training: np.ndarray, seed: int) -> list[np.ndarray]:
    """Row numbers of the training items, in portions that end at `FRACTIONS` of the shuffled sentences."""
    sentences = np.unique(what.sentences[training])
    shuffled = np.random.default_rng(seed).permutation(sentences)
    ends = np.unique([max(1, int(fraction * len(shuffled))) for fraction in FRACTIONS])
    return [
        training[np.isin(what.sentences[training], some)] for some in np.split(shuffled, ends[:-1])
    ]
