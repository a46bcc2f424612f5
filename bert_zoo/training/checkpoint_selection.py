"""Which of a run's epochs are worth keeping, and when it is time to stop."""

import math
from dataclasses import dataclass

# Of an epoch, by its number from 1.
DIRECTORY = "epoch-{:02d}"


@dataclass(frozen=True)
class Verdict:
    """What to do after an epoch."""

    # The directory to save this epoch's model to; None where it is not among the best.
    save: str | None
    delete: tuple[str, ...]  # directories of epochs that no longer are
    stop: bool  # whether scores have not risen for as long as patience lasts


class KeepBest:
    """Ranks epochs by a score, keeps the best k, and stops when the score no longer rises.

    It decides and touches no files: Keras's ModelCheckpoint keeps one model or all. Of equal scores the
    earlier epoch is the better one. A score that is not a number ranks below all others.

    Args:
        k: how many epochs are kept.
        patience: epochs without a new best score after which to stop; None never stops.
    """

    def __init__(self, k: int = 1, patience: int | None = None):
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k is {k!r}; it says how many epochs are kept, at least 1.")
        if patience is not None and (not isinstance(patience, int) or patience < 1):
            raise ValueError(
                f"patience is {patience!r}; it is a number of epochs, at least 1, or None to train "
                "to the end."
            )
        self.k = k
        self.patience = patience
        self.scores: dict[int, float] = {}

    def update(self, epoch: int, score: float) -> Verdict:
        """Takes an epoch's score.

        Args:
            epoch: its number, from 1; each once, and in order.
            score: of the task's metric.
        """
        if epoch < 1 or epoch <= max(self.scores, default=0):
            raise ValueError(
                f"epoch is {epoch}, after the epochs {sorted(self.scores)}; epochs count up from 1."
            )
        before = self.kept
        self.scores[epoch] = float(score)
        return Verdict(
            save=DIRECTORY.format(epoch) if epoch in self.kept else None,
            delete=tuple(DIRECTORY.format(old) for old in before if old not in self.kept),
            stop=self.patience is not None and epoch - self.best_epoch >= self.patience,
        )

    @property
    def kept(self) -> tuple[int, ...]:
        """The epochs that are kept, best first."""
        return tuple(sorted(self.scores, key=self._rank)[: self.k])

    @property
    def best_epoch(self) -> int:
        """The epoch with the best score; raises ValueError where there is no score yet."""
        if not self.scores:
            raise ValueError("No epoch has been scored yet.")
        return self.kept[0]

    def _rank(self, epoch: int) -> tuple[float, int]:
        score = self.scores[epoch]
        return math.inf if math.isnan(score) else -score, epoch
