"""What is known of a fine-tuning run when it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bert_zoo.registry import Card
from bert_zoo.training.report.wording import words

# The figure that is the loss on the measured split.
LOSS = "loss"
KINDS = (
    "classification",
    "multi_label_classification",
    "regression",
    "token_classification",
    "question_answering",
    "multiple_choice",
)


@dataclass(frozen=True)
class HardExample:
    """An example that the model does badly on.

    Attributes:
        text: what the model read; of a token classification, words with blanks between them.
        truth: the label, score or answer it should have given; the tags, with blanks between them.
        prediction: what it gave instead.
        loss: how bad that is; within a run the highest is the worst.
    """

    text: str
    truth: str
    prediction: str
    loss: float


@dataclass(frozen=True)
class RunRecord:
    """A fine-tuning run: what went in, how it went, what came out.

    Attributes:
        model: the checkpoint that the run started from: a name, or a directory.
        task: name of the task, such as "sst2".
        kind: what `load` calls the task; one of `KINDS`.
        data: a sentence: what the run was trained on and where that is from.
        num_train, num_measured: numbers of examples.
        measured_on: "validation" or "test", or another split's name.
        seed: of fresh weights, order and dropout.
        recipe: how the model was trained: setting -> value.
        versions: package -> version.
        epochs: the figures after each epoch; each has the same names, and the first of them says which
            epoch is best.
        losses: the mean training loss of each epoch.
        kept_epoch: the epoch whose weights are kept, counted from 1.
        steps: updates of the weights.
        seconds: of the training and the measurements between epochs.
        labels: names of the classes; empty for a task without.
        confusion: counts [truth, prediction] in the order of `labels`; None for a task without.
        table: figures by label or by type: a row of column -> value each, the first column its name.
        hardest: the worst first.
        parameters, trainable_parameters: numbers of weights.
        checkpoint: what `bert_zoo.describe` says of the model; None where it is no registered name.
        reads_pairs: whether an example is two texts.
        baseline: figures of answering without reading, by the names that they have in `epochs`.
        baseline_answer: how that is answered, such as "always 'no'".

    Raises:
        ValueError: the parts do not fit together; the message names the one that does not.
    """

    model: str
    task: str
    kind: str
    data: str
    num_train: int
    num_measured: int
    measured_on: str
    seed: int
    recipe: Mapping[str, Any]
    versions: Mapping[str, str]
    epochs: Sequence[Mapping[str, float]]
    losses: Sequence[float]
    kept_epoch: int
    steps: int
    seconds: float
    labels: Sequence[str]
    confusion: np.ndarray | None
    table: Sequence[Mapping[str, Any]]
    hardest: Sequence[HardExample]
    parameters: int
    trainable_parameters: int
    checkpoint: Card | None
    reads_pairs: bool = False
    baseline: Mapping[str, float] = field(default_factory=dict)
    baseline_answer: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}; it is one of {', '.join(KINDS)}.")
        self._check_epochs()
        if self.confusion is not None:
            check_confusion(self.confusion, self.labels)

    def _check_epochs(self) -> None:
        if not self.epochs or not self.epochs[0]:
            raise ValueError(
                "epochs is empty; give the figures that were measured after each epoch."
            )
        if len(self.losses) != len(self.epochs):
            raise ValueError(
                f"losses has {len(self.losses)} values and epochs has {len(self.epochs)}; give one "
                "training loss for each epoch."
            )
        names = list(self.epochs[0])
        for number, figures in enumerate(self.epochs, start=1):
            if set(figures) != set(names):
                raise ValueError(
                    f"Epoch {number} has the figures {sorted(figures)} and epoch 1 has "
                    f"{sorted(names)}; measure the same after every epoch."
                )
        if not 1 <= self.kept_epoch <= len(self.epochs):
            raise ValueError(
                f"kept_epoch is {self.kept_epoch}; epochs are counted from 1, here to "
                f"{len(self.epochs)}."
            )

    @property
    def kept(self) -> Mapping[str, float]:
        """The figures of the model that is kept, the deciding one first."""
        return {name: self.epochs[self.kept_epoch - 1][name] for name in self.epochs[0]}

    @property
    def measured_losses(self) -> list[float]:
        """The loss on the measured split after each epoch; none where it was not measured."""
        return [figures[LOSS] for figures in self.epochs if LOSS in figures]

    def named(self, name: str) -> str:
        """A figure's name as people read it; the loss, by the split that it is of."""
        return f"{self.measured_on} loss" if name == LOSS else words(name)

    @property
    def caution(self) -> str:
        """How choosing the epoch flatters the figures; empty where it cannot have."""
        chosen = self.kept_epoch < len(self.epochs)
        if len(self.epochs) == 1 or (self.measured_on.startswith("test") and not chosen):
            return ""
        return (
            f"The kept epoch was chosen by its {words(next(iter(self.epochs[0])))} on the same "
            f"{self.measured_on} examples, so these figures tend to be a little better than those on "
            "new data."
        )


def check_confusion(confusion: np.ndarray, labels: Sequence[str]) -> None:
    """Raises ValueError unless there is a whole count for each pair of labels."""
    counts = np.asarray(confusion)
    if counts.shape != (len(labels), len(labels)):
        raise ValueError(
            f"confusion has the shape {counts.shape} and there are {len(labels)} labels; it needs "
            f"{(len(labels), len(labels))}, truth by prediction."
        )
    if not np.issubdtype(counts.dtype, np.number) or np.any((counts < 0) | (counts % 1 != 0)):
        raise ValueError(
            "confusion holds values that are no counts; it needs whole numbers from 0."
        )
