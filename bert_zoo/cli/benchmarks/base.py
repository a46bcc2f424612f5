"""What a fine-tuning run trains on and is measured by, whatever the task."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.report import HardExample
from bert_zoo.data.buckets import Batches
from bert_zoo.distillation.losses import taught_loss
from bert_zoo.error_text import shown
from bert_zoo.models.base import ZooModel
from bert_zoo.tasks import TASKS, Classifier
from bert_zoo.training.class_weights import class_weights
from bert_zoo.training.presets import Recipe

NUM_SHOWN = 6
SHOWN_LENGTH = 100
# Settings of recipes that only some tasks read.
OF_SOME_TASKS = ("loss", "symmetric", "matryoshka", "mini_batch_size", "contrastive_pairs")


@dataclass(frozen=True)
class Baseline:
    """What answering without reading would score, which a model must beat."""

    answer: str  # a clause that says how, such as "always 'no'"
    # Some of a `Measurement`'s metrics; metrics.json calls them so.
    figures: dict[str, float]


@dataclass(frozen=True)
class Measurement:
    """What comes out when predictions are compared with the truth."""

    metrics: dict[str, float]  # name -> value; the first one says which weights are best
    # [truth, prediction] counts of classes; None for a task without.
    confusion: np.ndarray | None = None
    table: Sequence[Mapping[str, Any]] = ()  # rows of metrics by class or type
    hardest: Sequence[HardExample] = ()  # the examples that the model does worst on, worst first


class Benchmark(ABC):
    """Labelled data for a task, with how they are trained on, measured and shown.

    Args:
        name: for titles and files.
        read: split name -> its data, which has a length; read once each.
        measured: splits that are measured after every epoch; the first chooses the weights.
        source: a clause on where the data is from, for the report.

    Attributes:
        kind: what `load` takes as its task.
        heads: parts of the model that are randomly initialised, as `load` names them in `init`.
        question: arguments of the program predict, for an example.
        settings: those of `OF_SOME_TASKS` that the task's training reads.
        has_variants: whether training texts are strings, or pairs, whose words can be replaced by others.
        published_as: what recipes call data like it; its name if empty.
    """

    kind: str
    settings: tuple[str, ...] = ()
    published_as = ""
    has_variants = False
    heads: tuple[str, ...] = ("classifier",)
    question = '"some text"'

    def __init__(
        self,
        name: str,
        read: Callable[[str], Any],
        *,
        measured: Sequence[str] = ("validation",),
        source: str = "",
    ):
        self.name = name
        self.data = cache(read)
        self.measured = tuple(measured)
        self.source = source

    @property
    def train(self) -> Any:
        return self.data("train")

    @property
    def num_train(self) -> int:
        return len(self.train)

    def fingerprint(self) -> str:
        """A hash of the examples that are trained on and measured."""
        digest = hashlib.sha256()
        for split in ("train", *self.measured):
            data = self.data(split)
            for values in (getattr(data, field.name) for field in fields(data) if field.compare):
                for row in values if isinstance(values, list | tuple) else [values]:
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def keeps(self) -> str:
        """Which epoch's weights are kept: "best", or "last" where a test split would choose them."""
        return "last" if is_test(self.measured[0]) else "best"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes, or tags, in the order of their ids; empty where there are none."""
        return ()

    @property
    def reads_pairs(self) -> bool:
        """Whether the exported model's default signature takes two texts."""
        return False

    def remarks(self) -> Sequence[str]:
        """Sentences on what in the data looks as if it were not meant, to be said before training."""
        return ()

    def baseline(self, data: Any) -> Baseline | None:
        """What the training data's commonest answer scores on a split; None where there is no such."""
        return None

    def class_weights(self, recipe: Recipe) -> dict[int, float] | None:
        """The weight of each class in the training loss, as a recipe asks; None for equal ones.

        Raises:
            ValueError: the recipe asks for weights, and the task has no classes of rows.
        """
        if recipe.class_weight is None:
            return None
        if self.kind != Classifier.task:
            raise ValueError(
                f"class_weight is {recipe.class_weight!r}, and {self.name} is of the kind {self.kind!r}; "
                "weights are for classification. Leave it out."
            )
        return class_weights(recipe.class_weight, self.train.labels, self.label_names)

    def load_options(self) -> dict[str, Any]:
        """Keyword arguments of `load` for a model of this task."""
        labels = {"labels": self.label_names} if self.label_names else {}
        return {"task": self.kind, "init": self.heads, **labels}

    def check_settings(self, recipe: Recipe) -> None:
        """Raises ValueError where a recipe has settings that are for other tasks."""
        given = [n for n in OF_SOME_TASKS if getattr(recipe, n) != getattr(Recipe, n)]
        if unread := [name for name in given if name not in self.settings]:
            raise ValueError(
                f"The settings {unread} are not for the task {self.name!r}, a {self.kind.replace('_', ' ')}. Leave "
                "them out."
            )

    def loss(self, recipe: Recipe) -> Any:
        """The loss; None for the one of the model's task."""
        return None

    def product(self, model: ZooModel) -> ZooModel:
        """The model that is measured and kept, from the one that is trained: as a rule, the same."""
        return model

    def prepare(self, model: ZooModel) -> None:
        """Changes what a newly loaded model begins with, before it is trained."""
        return

    # --- What a student learns from a teacher ---

    def taught_loss(self, **how: Any) -> Any:
        """The loss of a student; `how` as `bert_zoo.distillation.losses.taught_loss` takes it."""
        return taught_loss(TASKS[self.kind].taught_by, **how)

    def unlabelled_row(self, line: str) -> Any:
        """A row without a label, from a line of a file; ValueError says what is wrong with it."""
        return line

    def taught_texts(self, model: ZooModel, more: Sequence[Any]) -> Any:
        """What a model reads of the training data, and after that of rows without labels."""
        raise ValueError(
            f"{self.name}, of the kind {self.kind!r}, is not distilled. Fine-tune the student on it instead."
        )

    def answered_rows(self, teacher: ZooModel, texts: Any, recipe: Recipe) -> Sequence[int] | None:
        """How many rows of answers each of these texts has; None for one."""
        return None

    def teacher_says(
        self, teacher: ZooModel, texts: Any, batch_size: int, recipe: Recipe
    ) -> np.ndarray:
        """What the teacher says of them, [rows, size]."""
        return teacher.answers_as_teacher(texts, batch_size)

    def taught_batches(
        self, answers: np.ndarray, more: Sequence[Any], model: ZooModel, recipe: Recipe, seed: int
    ) -> Batches:
        """As `batches`, with targets of `taught_loss` in place of labels."""
        raise NotImplementedError

    @abstractmethod
    def batches(self, model: ZooModel, recipe: Recipe, seed: int) -> Batches:
        """Training data as the model's preprocessor reads them, in a new order every epoch."""

    @abstractmethod
    def predict(self, model: ZooModel, data: Any, recipe: Recipe) -> Any:
        """What the model says of a split; labels are not read."""

    @abstractmethod
    def measure(self, data: Any, predictions: Any) -> Measurement:
        """Compares what `predict` gave with a split's labels."""

    @abstractmethod
    def write_predictions(
        self, directory: Path, split: str, data: Any, predictions: Any, metrics: Mapping[str, float]
    ) -> list[Path]:
        """Writes what `predict` gave for people and, where there is one, for the official scorer.

        `metrics` are those of the run's kept epoch, a threshold among them where the task has one.
        Gives the files.
        """

    def has_labels(self, data: Any) -> bool:
        """Whether a split can be measured."""
        return data.labels is not None

    @abstractmethod
    def show(self, model: ZooModel, data: Any, metrics: Mapping[str, float]) -> str:
        """A few predictions beside the truth, as lines to print; `metrics` as above."""


def with_rows(texts: Any, more: Sequence[Any]) -> Any:
    """Texts, or the two columns of pairs, and after them more rows."""
    if not isinstance(texts, tuple):
        return [*texts, *more]
    columns = zip(*more, strict=True) if more else [()] * len(texts)
    return tuple([*column, *others] for column, others in zip(texts, columns, strict=True))


def pair_of(line: str) -> tuple[str, str]:
    """The two texts of a line, with a tab between them."""
    first, *rest = line.split("\t")
    if len(rest) != 1:
        raise ValueError(
            f"{shown(line)} has {len(rest)} tabs. A line is a pair of texts, with one tab between them."
        )
    return first, rest[0]


def is_test(split: str) -> bool:
    """Whether a split is one that data sets test with; some have several."""
    return split.startswith("test")


def commonest(labels: Iterable[int]) -> int:
    """The most frequent label; of several, the first."""
    return Counter(labels).most_common(1)[0][0]


def one_line(text: str) -> str:
    """A text as it is printed beside others: on one line, the rest of a long one left out."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else f"{line[: SHOWN_LENGTH - 1]}…"


def spread_rows(number: int) -> list[int]:
    """Some row numbers, evenly spread, to show."""
    return list(range(0, number, max(1, number // NUM_SHOWN)))[:NUM_SHOWN]
