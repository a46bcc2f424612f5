"""The base class of benchmarks: the data, training batches and metrics of a fine-tuning run.

Benchmarks import what needs TensorFlow or Keras where they use it, so that a mistake in the data is found at once.
"""

import csv
import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_zoo.data.buckets import Batches
from bert_zoo.error_text import shown
from bert_zoo.metrics.errors import HardExample
from bert_zoo.presets import Recipe
from bert_zoo.tasks import name_of

if TYPE_CHECKING:
    from bert_zoo.models.base import ZooModel

NUM_SHOWN = 6
SHOWN_LENGTH = 100
# Recipe settings that only some tasks read.
OF_SOME_TASKS = ("loss", "symmetric", "matryoshka", "mini_batch_size", "contrastive_pairs")


@dataclass(frozen=True)
class Baseline:
    """Scores of a constant answer, which a model must beat."""

    answer: str  # a phrase for the answer, such as "always 'no'"
    # Some of a `Measurement`'s metrics. metrics.json uses this field name.
    figures: dict[str, float]


@dataclass(frozen=True)
class Measurement:
    """Predictions compared with the labels."""

    metrics: dict[str, float]  # name -> value; the first one chooses the best weights
    # [truth, prediction] counts of classes; None for a task without classes.
    confusion: np.ndarray | None = None
    table: Sequence[Mapping[str, Any]] = ()  # rows of metrics by class or type
    hardest: Sequence[HardExample] = ()  # the examples with the highest loss, worst first


class Benchmark(ABC):
    """Labelled data for a task, with methods to train on, measure and show them.

    `read` maps the name of a split to its data, which have a length; each split is read once. `measured` splits are
    measured after every epoch; the first one chooses the weights. `source` is a phrase that says where the data come
    from, for the report. `remarks` returns sentences on suspicious data, to print before training.
    """

    kind: str  # the task, as `load` takes it
    settings: tuple[str, ...] = ()  # the settings of `OF_SOME_TASKS` that this task reads
    published_as = ""  # the name of such data in recipes; by default the benchmark's name
    has_variants = False  # whether words of the training texts can be replaced to augment them
    heads: tuple[str, ...] = ("classifier",)  # randomly initialised parts, as in `load`'s `init`
    question = '"some text"'  # example arguments for `bert_zoo predict`

    def __init__(
        self,
        name: str,
        read: Callable[[str], Any],
        *,
        measured: Sequence[str] = ("validation",),
        source: str = "",
        remarks: Callable[[], Iterable[str]] = tuple,
    ):
        self.name = name
        self.data = cache(read)
        self.measured = tuple(measured)
        self.source = source
        self._remarks = remarks

    @property
    def train(self) -> Any:
        return self.data("train")

    @property
    def num_train(self) -> int:
        return len(self.train)

    def fingerprint(self) -> str:
        """A hash of the training and measured examples."""
        digest = hashlib.sha256()
        for split in ("train", *self.measured):
            data = self.data(split)
            for values in (getattr(data, field.name) for field in fields(data) if field.compare):
                for row in values if isinstance(values, list | tuple) else [values]:
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def keeps(self) -> str:
        """Which epoch's weights are kept: "best", or "last" if only a test split is measured."""
        return "last" if is_test(self.measured[0]) else "best"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes or tags in the order of their ids; empty if there are none."""
        return ()

    @property
    def reads_pairs(self) -> bool:
        """Whether the exported model's default signature takes two texts."""
        return False

    def remarks(self) -> Sequence[str]:
        return tuple(self._remarks())

    def baseline(self, data: Any) -> Baseline | None:
        """Scores the training data's most common answer on a split; None if there is no such answer."""
        return None

    def class_weights(self, recipe: Recipe) -> dict[int, float] | None:
        """The weight of each class in the training loss, None for equal ones; ValueError if the recipe sets weights, but
        the task does not classify rows."""
        if recipe.class_weight is None:
            return None
        if self.kind != name_of("Classifier"):
            raise ValueError(
                f"class_weight is {recipe.class_weight!r}, but it is only for classification, and {self.name} is "
                f"{self.kind!r}. Leave it out."
            )
        from bert_zoo.training.freezing import class_weights

        return class_weights(recipe.class_weight, self.train.labels, self.label_names)

    def load_options(self) -> dict[str, Any]:
        """Keyword arguments of `load` for a model of this task."""
        labels = {"labels": self.label_names} if self.label_names else {}
        return {"task": self.kind, "init": self.heads, **labels}

    def check_settings(self, recipe: Recipe) -> None:
        """Raises ValueError if a recipe has settings for other tasks."""
        given = [n for n in OF_SOME_TASKS if getattr(recipe, n) != getattr(Recipe, n)]
        if unread := [name for name in given if name not in self.settings]:
            raise ValueError(
                f"The settings {unread} do not apply to the task {self.name!r} ({self.kind.replace('_', ' ')}). Leave "
                "them out."
            )

    def loss(self, recipe: Recipe) -> Any:
        """None for the default loss of the model's task."""
        return None

    def product(self, model: "ZooModel") -> "ZooModel":
        """The model to measure and keep, usually the trained model itself."""
        return model

    def prepare(self, model: "ZooModel") -> None:
        """Changes a newly loaded model before training starts."""
        return

    # --- Distillation ---

    def taught_loss(self, **how: Any) -> Any:
        """A student's loss; `how` as for `bert_zoo.distillation.losses.taught_loss`."""
        from bert_zoo.distillation.losses import taught_loss
        from bert_zoo.tasks import TASKS

        return taught_loss(TASKS[self.kind].taught_by, **how)

    def unlabelled_row(self, line: str) -> Any:
        """Parses a line of a file as an unlabelled row; raises ValueError for a malformed line."""
        return line

    def taught_texts(self, model: "ZooModel", more: Sequence[Any]) -> Any:
        """The model's input texts: the training data, then the unlabelled rows."""
        raise ValueError(
            f"Distillation does not support {self.name}, a task of kind {self.kind!r}. Fine-tune the student on it "
            "instead."
        )

    def answered_rows(
        self, teacher: "ZooModel", texts: Any, recipe: Recipe
    ) -> Sequence[int] | None:
        """The number of prediction rows of each text; None if each has one."""
        return None

    def teacher_says(
        self, teacher: "ZooModel", texts: Any, batch_size: int, recipe: Recipe
    ) -> np.ndarray:
        """The teacher's predictions, [rows, size]."""
        return teacher.answers_as_teacher(texts, batch_size)

    def taught_batches(
        self, answers: np.ndarray, more: Sequence[Any], model: "ZooModel", recipe: Recipe, seed: int
    ) -> Batches:
        """Like `batches`, with targets of `taught_loss` instead of labels."""
        raise NotImplementedError

    @abstractmethod
    def batches(self, model: "ZooModel", recipe: Recipe, seed: int) -> Batches:
        """Batches of preprocessed training data, in a new order every epoch."""

    @abstractmethod
    def predict(self, model: "ZooModel", data: Any, recipe: Recipe) -> Any:
        """The model's predictions for a split, without reading labels."""

    @abstractmethod
    def measure(self, data: Any, predictions: Any) -> Measurement:
        """Compares the result of `predict` with a split's labels."""

    @abstractmethod
    def write_predictions(
        self, directory: Path, split: str, data: Any, predictions: Any, metrics: Mapping[str, float]
    ) -> list[Path]:
        """Writes the result of `predict` as a readable file and for the official scorer, if there is one, and returns
        the files. `metrics` are those of the run's kept epoch, with a threshold if the task has one."""

    def has_labels(self, data: Any) -> bool:
        return data.labels is not None

    @abstractmethod
    def show(self, model: "ZooModel", data: Any, metrics: Mapping[str, float]) -> str:
        """Lines to print: a few predictions and the truth; `metrics` as for `write_predictions`."""


def with_rows(texts: Any, more: Sequence[Any]) -> Any:
    """Appends rows to texts, or to the two columns of text pairs."""
    if not isinstance(texts, tuple):
        return [*texts, *more]
    columns = zip(*more, strict=True) if more else [()] * len(texts)
    return tuple([*column, *others] for column, others in zip(texts, columns, strict=True))


def pair_of(line: str) -> tuple[str, str]:
    """Splits a line at its tab into two texts."""
    first, *rest = line.split("\t")
    if len(rest) != 1:
        raise ValueError(
            f"{shown(line)} has {len(rest)} tabs. Write one pair of texts per line, separated by one tab."
        )
    return first, rest[0]


def is_test(split: str) -> bool:
    """Whether a split is a test split; some data sets have several."""
    return split.startswith("test")


def commonest(labels: Iterable[int]) -> int:
    """The most frequent label; if several are, the first."""
    return Counter(labels).most_common(1)[0][0]


def one_line(text: str) -> str:
    """A text on one line, truncated if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_LENGTH else f"{line[: SHOWN_LENGTH - 1]}…"


def spread_rows(number: int) -> list[int]:
    """A few evenly spread row numbers."""
    return list(range(0, number, max(1, number // NUM_SHOWN)))[:NUM_SHOWN]


def write_tsv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
