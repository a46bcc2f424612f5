"""Results with one number per layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_zoo.metrics.labels import mean_and_deviation
from bert_zoo.runtime.answers import table


@dataclass(frozen=True)
class LayerCurve:
    """One number per layer, from one run or several.

    Attributes:
        name: what the number is, such as "accuracy".
        values: float64 [runs, layers], or [layers] for one run; layer 0 is the output of the embeddings.
    """

    name: str
    values: np.ndarray

    def __post_init__(self):
        self.__dict__["values"] = np.atleast_2d(np.asarray(self.values, np.float64))

    @property
    def mean(self) -> np.ndarray:
        """float64 [layers]: the mean over the runs."""
        return mean_and_deviation(self.values)[0]

    @property
    def deviation(self) -> np.ndarray:
        """float64 [layers]: the sample standard deviation over the runs; 0 for a single run."""
        return mean_and_deviation(self.values)[1]

    @property
    def best_layer(self) -> int:
        """The layer with the highest mean."""
        return int(self.mean.argmax())

    def __str__(self) -> str:
        return table_by_layer([self])


def table_by_layer(curves: Sequence[LayerCurve]) -> str:
    """Formats curves as a table with a line per layer: the mean, and the deviation if there are several runs.

    The curves may differ in their number of layers.
    """

    def cell(curve: LayerCurve, layer: int) -> str:
        if layer >= len(curve.mean):
            return ""
        mean, deviation = curve.mean[layer], curve.deviation[layer]
        return f"{mean:.3f}" + (f" ±{deviation:.3f}" if len(curve.values) > 1 else "")

    # `table` does not pad the last column, so an empty one follows.
    rows = [["layer", *(curve.name for curve in curves), ""]]
    for layer in range(max(len(curve.mean) for curve in curves)):
        rows.append([str(layer), *(cell(curve, layer) for curve in curves), ""])
    return "\n".join(line.rstrip() for line in table(rows, ">").splitlines())
