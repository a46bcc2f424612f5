"""The record of a fine-tuning run, which its page and card show."""

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

# The name of the loss on the measured split.
LOSS = "loss"
# A metric -> its name on Hugging Face's hub. Other metrics appear only in the text of the card.
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
    """A fine-tuning run: its data, its settings and its results."""

    model: str  # name or directory of the checkpoint that was fine-tuned
    task: str  # name of the benchmark, such as "sst2"
    kind: str  # what `load` calls the task
    use: "Use"  # what a model of this task is for
    data: str  # a sentence on the training data and its source
    num_train: int
    num_measured: int
    measured_on: str  # "validation" or "test", or another split's name
    seed: int
    recipe: Mapping[str, Any]  # setting -> value
    versions: Mapping[str, str]
    # The metrics after each epoch, under the same names. The first one decides which epoch is best.
    epochs: Sequence[Mapping[str, float]]
    losses: Sequence[float]  # mean training loss of each epoch
    kept_epoch: int  # the epoch whose weights are kept, counted from 1
    steps: int
    seconds: float  # of training, including measurements between epochs
    labels: Sequence[str]  # names of the classes; empty if the task has none
    # Counts [truth, prediction] in the order of `labels`; None if the task has none.
    confusion: np.ndarray | None
    # Metrics by label or by type: rows of column -> value. The first column has the name.
    table: Sequence[Mapping[str, Any]]
    hardest: Sequence[HardExample]  # worst first
    parameters: int
    trainable_parameters: int
    # The card from `bert_zoo.describe`; empty if `model` is not a registered name.
    checkpoint: Card
    reads_pairs: bool = False  # whether an example is two texts
    # Metrics of answers given without reading the text, under the names in `epochs`.
    baseline: Mapping[str, float] = field(default_factory=dict)
    baseline_answer: str = ""  # those answers, such as "always 'no'"
    # Of a student: its teacher, the teacher's score and the settings of the distillation, by name.
    teacher: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> Mapping[str, float]:
        """The metrics of the kept model, the deciding one first."""
        return {name: self.epochs[self.kept_epoch - 1][name] for name in self.epochs[0]}

    def by_epoch(self, name: str) -> list[float]:
        """Returns a metric after each epoch."""
        return [metrics[name] for metrics in self.epochs]

    @property
    def diverged(self) -> list[int]:
        """The epochs whose training loss is infinite or NaN."""
        return [n for n, loss in enumerate(self.losses, start=1) if not math.isfinite(loss)]

    @property
    def columns(self) -> list[str]:
        """The columns of `table`. A row may lack some, for example spans without a score."""
        return list(dict.fromkeys(name for row in self.table for name in row))

    def named(self, name: str) -> str:
        """A metric's readable name. The loss is named after its split."""
        return f"{self.measured_on} loss" if name == LOSS else words(name)

    @property
    def licence(self) -> str:
        """The checkpoint's licence; empty if it is not known."""
        return self.checkpoint.get("licence", "")

    @property
    def licence_warning(self) -> str:
        """The warning for a model trained from a non-commercial checkpoint; else empty."""
        if not forbids_commerce(self.licence):
            return ""
        return (
            f"Not for commercial use. The licence of the base checkpoint {self.model}, {self.licence}, "
            "also applies to models trained from it."
        )

    @property
    def caution(self) -> str:
        """The warning that choosing the epoch flatters the metrics; empty if it cannot."""
        chosen = self.kept_epoch < len(self.epochs)
        if len(self.epochs) == 1 or (self.measured_on.startswith("test") and not chosen):
            return ""
        return (
            f"The kept epoch was chosen by its {words(next(iter(self.epochs[0])))} on the same "
            f"{self.measured_on} examples, so expect slightly lower figures on new data."
        )

    def front_matter(self) -> str:
        """Returns the YAML head of its card."""
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
    """Whether a licence forbids commercial use."""
    return NONCOMMERCIAL.search(licence) is not None
