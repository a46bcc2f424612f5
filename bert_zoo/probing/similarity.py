"""How similar the layers of two models are, for instance before and after fine-tuning."""

from dataclasses import dataclass

import numpy as np

from bert_zoo.probing.results import LayerCurve
from bert_zoo.probing.vectors import LayerVectors
from bert_zoo.runtime.printed import table


@dataclass(frozen=True, eq=False)
class LayerSimilarity:
    """The similarity of each layer of one model to each layer of another.

    Attributes:
        values: float64 [layers before, layers after], from 0 to 1.
    """

    values: np.ndarray

    def by_layer(self) -> LayerCurve:
        """Each layer's similarity to the same layer of the other model; 1 where fine-tuning changed nothing."""
        return LayerCurve("CKA", np.diagonal(self.values))

    def __str__(self) -> str:
        rows = [["layer", *(f"{n:5}" for n in range(self.values.shape[1]))]]
        rows += [[str(n), *(f"{x:.3f}" for x in row)] for n, row in enumerate(self.values)]
        return table(rows, ">")


def cka(
    before: LayerVectors, after: LayerVectors, *, max_words: int = 10_000, seed: int = 0
) -> LayerSimilarity:
    """Linear centred kernel alignment of all pairs of layers.

    Rotations and scales of a layer change nothing in it. Kornblith et al., "Similarity of Neural Network
    Representations Revisited", ICML 2019, section 3. It is too high where there are not many more words than
    dimensions.

    Args:
        before, after: vectors of the same sentences, by two models or by one; widths may differ.
        max_words: as many words are drawn where there are more. Memory holds their vectors of all layers of one
            model, and one layer of the other.
        seed: of the words that are drawn.

    Raises:
        ValueError: the sentences differ, or a layer's vectors are all equal.
    """
    if [*map(tuple, before.sentences)] != [*map(tuple, after.sentences)]:
        raise ValueError(
            f"before has the vectors of {len(before.sentences):,} sentences and after of {len(after.sentences):,}, "
            "which are not the same. Compute both for the same sentences."
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
