"""What `load` knows of a model's head: what the user asks for, and what the checkpoint says."""

from collections.abc import Sequence
from dataclasses import dataclass

from bert_zoo.models.labels import Thresholds


@dataclass(frozen=True)
class Asked:
    """What the user asks for; each None by default."""

    num_classes: int | None = None
    labels: Sequence[str] | None = None
    thresholds: Thresholds | None = None

    @property
    def sizes(self) -> set[int]:
        """The numbers of classes that these speak of."""
        return {self.num_classes, self.labels and len(self.labels)} - {None}

    def refuse_classes(self, task: str) -> None:
        """Raises ValueError where a task without classes of the user's is given some."""
        if self.sizes:
            raise ValueError(
                f"Task {task!r} has no classes to name: leave num_classes={self.num_classes!r} and "
                f"labels={self.labels!r} out."
            )

    def refuse_thresholds(self, task: str) -> None:
        """Raises ValueError where a task whose labels need none is given thresholds."""
        if self.thresholds is not None:
            raise ValueError(
                f"Task {task!r} has no thresholds: leave thresholds={self.thresholds!r} out, or load "
                "task='multi_label_classification'."
            )


@dataclass(frozen=True)
class Told:
    """What a checkpoint says of the head that is loaded.

    Attributes:
        name: of the checkpoint.
        is_trained: whether the model gets the checkpoint's head, and not a randomly initialised one.
        num_logits: of that head, for a text; None where its file does not tell.
        labels: the names of its classes; empty where it has none.
        thresholds: of its labels.
        score_activation: what makes a score of its one logit; None where it does not say.
    """

    name: str
    is_trained: bool
    num_logits: int | None = None
    labels: tuple[str, ...] = ()
    thresholds: tuple[float, ...] = ()
    score_activation: str | None = None
