"""What is known of a fine-tuning run when it ends, as its page and its card show it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_zoo.cli.report.analysis import HardExample
from bert_zoo.cli.report.hub import front_matter
from bert_zoo.cli.report.wording import words
from bert_zoo.registry import Card

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use

# The metric that is the loss on the measured split.
LOSS = "loss"
# A metric -> its name on Hugging Face's hub; metrics that are not there stay in the text.
HUB_METRICS = {
    **{name: name for name in ("accuracy", "f1", "precision", "recall", "matthews_correlation")},
    "exact": "exact_match",
    "exact_match": "exact_match",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
NONCOMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)


@dataclass(frozen=True)
class RunRecord:
    """A fine-tuning run: what went in, how it went, what came out."""

    model: str  # the checkpoint that the run started from: a name, or a directory
    task: str  # name of the benchmark, such as "sst2"
    kind: str  # what `load` calls the task
    use: "Use"  # what a model of this task is for
    data: str  # a sentence: what the run was trained on and where that is from
    num_train: int
    num_measured: int
    measured_on: str  # "validation" or "test", or another split's name
    seed: int
    recipe: Mapping[str, Any]  # how the model was trained: setting -> value
    versions: Mapping[str, str]
    # The metrics after each epoch; each has the same names, and the first of them says which epoch
    # is best.
    epochs: Sequence[Mapping[str, float]]
    losses: Sequence[float]  # the mean training loss of each epoch
    kept_epoch: int  # the epoch whose weights are kept, counted from 1
    steps: int
    seconds: float  # of the training and the measurements between epochs
    labels: Sequence[str]  # names of the classes; empty for a task without
    # Counts [truth, prediction] in the order of `labels`; None for a task without.
    confusion: np.ndarray | None
    # Metrics by label or by type: a row of column -> value each, the first column its name.
    table: Sequence[Mapping[str, Any]]
    hardest: Sequence[HardExample]  # the worst first
    parameters: int
    trainable_parameters: int
    # What `bert_zoo.describe` says of the model; empty where it is no registered name.
    checkpoint: Card
    reads_pairs: bool = False  # whether an example is two texts
    # Metrics of answering without reading, by the names that they have in `epochs`.
    baseline: Mapping[str, float] = field(default_factory=dict)
    baseline_answer: str = ""  # how that is answered, such as "always 'no'"
    # Of a student: its teacher, what that scores, and how it was taught, by name.
    teacher: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> Mapping[str, float]:
        """The metrics of the model that is kept, the deciding one first."""
        return {name: self.epochs[self.kept_epoch - 1][name] for name in self.epochs[0]}

    def by_epoch(self, name: str) -> list[float]:
        """A metric after each epoch."""
        return [metrics[name] for metrics in self.epochs]

    @property
    def diverged(self) -> list[int]:
        """The epochs whose training loss is infinite or no number."""
        return [n for n, loss in enumerate(self.losses, start=1) if not math.isfinite(loss)]

    @property
    def columns(self) -> list[str]:
        """The columns of `table`; a row may lack some, such as spans without a score."""
        return list(dict.fromkeys(name for row in self.table for name in row))

    def named(self, name: str) -> str:
        """A metric's name as people read it; the loss, by the split that it is of."""
        return f"{self.measured_on} loss" if name == LOSS else words(name)

    @property
    def licence(self) -> str:
        """Of the checkpoint; empty where it is not known."""
        return self.checkpoint.get("licence", "")

    @property
    def licence_warning(self) -> str:
        """What must be said loudly of a model trained from a non-commercial checkpoint; else empty."""
        if not forbids_commerce(self.licence):
            return ""
        return (
            f"Not for commercial use. The base checkpoint {self.model} is licensed under "
            f"{self.licence}, and what is trained from it may not be used commercially either."
        )

    @property
    def caution(self) -> str:
        """How choosing the epoch flatters the metrics; empty where it cannot have."""
        chosen = self.kept_epoch < len(self.epochs)
        if len(self.epochs) == 1 or (self.measured_on.startswith("test") and not chosen):
            return ""
        return (
            f"The kept epoch was chosen by its {words(next(iter(self.epochs[0])))} on the same "
            f"{self.measured_on} examples, so these figures tend to be a little better than those on "
            "new data."
        )

    def front_matter(self) -> str:
        """The head of its card."""
        results = [
            (self.task, HUB_METRICS[name], value)
            for name, value in self.kept.items()
            if name in HUB_METRICS
        ]
        name = f"{self.model} on {self.task}"
        base = [self.model, *self.checkpoint.get("sources", ())]
        return front_matter(
            name, self.use, base, results, licence=self.licence, split=self.measured_on
        )


def forbids_commerce(licence: str) -> bool:
    """Whether a licence allows no commercial use."""
    return NONCOMMERCIAL.search(licence) is not None
