"""How far the scores of answers can be trusted: calibration, and accuracy by the share of texts that are answered."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

NUM_BINS = 15
# Shares of texts for which `Confidence.choices` finds thresholds.
SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
THRESHOLD_STEPS = 10_000  # thresholds have four digits


@dataclass(frozen=True)
class Confidence:
    """The scores of answers, probabilities float [N], and whether each answer is right, bool [N].

    Source: Guo et al. 2017 (arXiv:1706.04599), section 2: the bins and the expected calibration error.
    """

    scores: np.ndarray
    right: np.ndarray

    @cached_property
    def bins(self) -> list[dict[str, float]]:
        """A row for each of 15 equally wide bins of scores, (0, 1/15] to (14/15, 1], that has answers: its limits `from`
        and `to`, the number of `texts`, their mean `score`, and the share that is `right`."""
        edges = np.arange(NUM_BINS + 1) / NUM_BINS
        bins = np.maximum(np.searchsorted(edges, self.scores) - 1, 0)
        return [
            {
                "from": float(edges[i]),
                "to": float(edges[i + 1]),
                "texts": int(np.sum(bins == i)),
                "score": float(self.scores[bins == i].mean()),
                "right": float(self.right[bins == i].mean()),
            }
            for i in np.unique(bins)
        ]

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean difference between score and share of right answers, over the bins
        weighted by their answers."""
        gaps = sum(row["texts"] * abs(row["right"] - row["score"]) for row in self.bins)
        return gaps / len(self.scores)

    def answered(self, threshold: float) -> dict[str, float]:
        """What remains if only scores of at least `threshold` are answers: the share of texts that is `answered`, and the
        share of these that is `right`; NaN if there are none."""
        kept = self.scores >= threshold
        right = float(self.right[kept].mean()) if kept.any() else np.nan
        return {"threshold": threshold, "answered": float(kept.mean()), "right": right}

    @cached_property
    def curve(self) -> list[dict[str, float]]:
        """`answered` at each score, from the highest on."""
        scores = np.sort(self.scores)[::-1]
        right = np.cumsum(self.right[np.argsort(-self.scores, kind="stable")])
        number = np.arange(1, len(scores) + 1)
        ends = np.flatnonzero(np.diff(scores, append=-1))  # equal scores are kept together
        rows = zip(
            scores[ends], number[ends] / len(scores), right[ends] / number[ends], strict=True
        )
        return [
            dict(zip(("threshold", "answered", "right"), map(float, r), strict=True)) for r in rows
        ]

    @property
    def choices(self) -> list[dict[str, float]]:
        """`answered` at the thresholds that leave all texts, 95%, 90%, 80%, 70% and half of them, or few more."""
        scores = np.sort(self.scores)[::-1]
        last = [int(np.ceil(share * len(scores))) - 1 for share in SHARES]
        steps = np.floor(scores[last] * THRESHOLD_STEPS)  # what is shown must be what was measured
        return [self.answered(float(step)) for step in np.unique(steps) / THRESHOLD_STEPS]
