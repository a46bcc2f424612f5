"""How similar the layers of two models are, for example before and after fine-tuning."""

from dataclasses import dataclass

import numpy as np

from bert_zoo.probing.results import LayerCurve
from bert_zoo.probing.vectors import LayerVectors
from bert_zoo.runtime.printed import table


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
