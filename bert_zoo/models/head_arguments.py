"""What `load` knows about a model's head, from the user and from the checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

from bert_zoo.models.labels import Thresholds


@dataclass(frozen=True)
class Asked:
    """The head's arguments from the user; each is None by default."""

    num_classes: int | None = None
    labels: Sequence[str] | None = None
    thresholds: Thresholds | None = None

    @property
    def sizes(self) -> set[int]:
        """The numbers of classes that the arguments imply."""
        return {self.num_classes, self.labels and len(self.labels)} - {None}

    def refuse_classes(self, task: str) -> None:
        """Raises ValueError if there are classes, for a task whose classes users cannot choose."""
        if self.sizes:
            raise ValueError(
                f"Task {task!r} has no classes to name: leave num_classes={self.num_classes!r} and "
                f"labels={self.labels!r} out."
            )

    def refuse_thresholds(self, task: str) -> None:
        """Raises ValueError if there are thresholds, for a task without them."""
        if self.thresholds is not None:
            raise ValueError(
                f"Task {task!r} has no thresholds: leave thresholds={self.thresholds!r} out, or load "
                "task='multi_label_classification'."
            )


@dataclass(frozen=True)
class Told:
    """What a checkpoint says about the head to load.

    Attributes:
        name: name of the checkpoint.
        is_trained: whether the model gets the checkpoint's head and not a randomly initialised one.
        num_logits: the head's number of logits per text; None if its file does not tell.
        labels: names of its classes; empty if there are none.
        thresholds: thresholds of its labels.
        score_activation: the activation that turns its one logit into a score; None if unknown.
    """

    name: str
    is_trained: bool
    num_logits: int | None = None
    labels: tuple[str, ...] = ()
    thresholds: tuple[float, ...] = ()
    score_activation: str | None = None
