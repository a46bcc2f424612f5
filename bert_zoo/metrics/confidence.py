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

    @property
    def curve(self) -> list[dict[str, float]]:
        """`answered` at the scores that leave 0.5%, 1%, ... of the texts, from the highest on."""
        scores = np.quantile(self.scores, np.linspace(0, 1, 201), method="lower")
        return [self.answered(float(score)) for score in np.unique(scores)[::-1]]

    @property
    def choices(self) -> list[dict[str, float]]:
        """`answered` at the thresholds that leave all texts, 95%, 90%, 80%, 70% and half of them, or few more."""
        last = [int(np.ceil(share * len(self.scores))) - 1 for share in SHARES]
        scores = np.sort(self.scores)[::-1][last]
        # Rounded as they are shown, so that what is shown is what was measured.
        steps = np.unique(np.floor(scores * THRESHOLD_STEPS))
        return [self.answered(float(step)) for step in steps / THRESHOLD_STEPS]
