"""The base class of benchmarks: the data, training batches and metrics of a fine-tuning run.

Benchmarks import what needs TensorFlow or Keras where they use it, so that a mistake in the data is found at once.
"""

import csv
import hashlib
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_zoo.data.buckets import Batches, Batching
from bert_zoo.data.files import require_file
from bert_zoo.data.on_disk import StoredTexts
from bert_zoo.error_text import shown
from bert_zoo.metrics.confidence import Confidence
from bert_zoo.metrics.errors import HardExample
from bert_zoo.presets import Recipe
from bert_zoo.tasks import name_of

if TYPE_CHECKING:
    from bert_zoo.models.base import ZooModel

NUM_SHOWN = 6
SHOWN_LENGTH = 100
# Classes of a split's columns.
COLUMNS = (list, array, StoredTexts)
# Recipe settings that only some tasks read.
OF_SOME_TASKS = (
    *("loss", "symmetric", "matryoshka", "sparsity", "mini_batch_size", "contrastive_pairs"),
)


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
    confidence: Confidence | None = None  # of the answers' scores, if the task has classes


class Benchmark(ABC):
    """Labelled data for a task, with methods to train on, measure and show them.

    `read` maps the name of a split to its data, which have a length; each split is read once. `measured` splits are
    measured after every epoch; the first one chooses the weights. `source` is a phrase that says where the data come
    from, for the report. `attributes` are values of attributes of the class, such as its `metric`.
    """

    kind: str  # the task, as `load` takes it
    settings: tuple[str, ...] = ()  # the settings of `OF_SOME_TASKS` that this task reads
    published_as = ""  # the name of such data in recipes; by default the benchmark's name
    has_variants = False  # whether words of the training texts can be replaced to augment them
    heads: tuple[str, ...] = ("classifier",)  # randomly initialised parts, as in `load`'s `init`
    question = '"some text"'  # example arguments for `bert_zoo predict`
    # The classes or tags in the order of their ids; empty if there are none.
    label_names: Sequence[str] = ()
    texts: Any = None  # the training texts that a teacher can label; columns form a tuple
    reads_pairs = False  # whether the exported model's default signature takes two texts
    # (Name of a test split, its data, predictions, directory) -> the official scorer's file, if there is one.
    write_official: Callable[[str, Any, Any, Path], Path] | None = None

    def __init__(
        self,
        name: str,
        read: Callable[[str], Any],
        *,
        measured: Sequence[str] = ("validation",),
        source: str = "",
        **attributes: Any,
    ):
        self.name, self.data = name, cache(read)
        self.measured, self.source = tuple(measured), source
        vars(self).update(attributes)

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
                is_column = isinstance(values, list | tuple | StoredTexts)
                for row in values if is_column else [values]:
                    for part in _spelled(row):
                        digest.update(part.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def keeps(self) -> str:
        """Which epoch's weights are kept: "best", or "last" if only a test split is measured."""
        return "last" if is_test(self.measured[0]) else "best"

    def remarks(self) -> Iterable[str]:
        """Sentences on suspicious data, to print before training."""
        return ()

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

    def suit(self, name: str, task: str | None) -> None:
        """Changes what is trained to suit a checkpoint, which was saved with a task."""
        return

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
        if not isinstance(self.texts, tuple):
            return line
        first, *rest = line.split("\t")
        if len(rest) != 1:
            raise ValueError(
                f"{shown(line)} has {len(rest)} tabs. Write one pair of texts per line, separated by one tab."
            )
        return first, rest[0]

    def taught_texts(self, model: "ZooModel", more: Sequence[Any]) -> Any:
        """The model's input texts: the training data, then the unlabelled rows."""
        if self.texts is None:
            raise ValueError(
                f"Distillation does not support {self.name}, a task of kind {self.kind!r}. Fine-tune the student on it "
                "instead."
            )
        if not isinstance(self.texts, tuple):
            return [*self.texts, *more]
        columns = zip(*more, strict=True) if more else [()] * len(self.texts)
        rows = zip(self.texts, columns, strict=True)
        return tuple([*column, *others] for column, others in rows)

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
        from bert_zoo.distillation.losses import targets_of

        right = np.asarray(self.targets(self.train))
        if self.label_names and right.ndim == 1:
            right = np.eye(len(self.label_names))[right]  # class ids, in the form of logits
        targets = targets_of(answers, right.reshape(len(right), -1))
        return self.batches_of(
            self.taught_texts(model, more), targets, model, recipe.batching(seed)
        )

    def batches(self, model: "ZooModel", recipe: Recipe, seed: int) -> Batches:
        """Batches of preprocessed training data, in a new order every epoch."""
        return self.batches_of(self.texts, self.targets(self.train), model, recipe.batching(seed))

    def batches_of(
        self, texts: Any, targets: Any, model: "ZooModel", batching: Batching
    ) -> Batches:
        from bert_zoo.data.batches import text_batches

        return text_batches(texts, targets, model.preprocessor, batching)

    def targets(self, data: Any) -> Any:
        """A split's labels in the form that the loss takes."""
        return data.labels

    @abstractmethod
    def predict(self, model: "ZooModel", data: Any, recipe: Recipe) -> Any:
        """The model's predictions for a split, without reading labels."""

    @abstractmethod
    def measure(self, data: Any, predictions: Any) -> Measurement:
        """Compares the result of `predict` with a split's labels."""

    def write_predictions(
        self, directory: Path, split: str, data: Any, predictions: Any, metrics: Mapping[str, float]
    ) -> list[Path]:
        """Writes the result of `predict` as a readable file and for the official scorer, if there is one, and returns
        the files. `metrics` are those of the run's kept epoch, with a threshold if the task has one."""
        path = directory / f"{self.name}-{split}.tsv"
        header, rows = self.table(data, predictions)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, "excel-tab", lineterminator="\n").writerows([header, *rows])
        return [path, *self.official_files(directory, split, data, predictions)]

    def official_files(
        self, directory: Path, split: str, data: Any, predictions: Any
    ) -> Iterator[Path]:
        if self.write_official is not None and is_test(split):
            yield self.write_official(split, data, predictions, directory)

    def table(self, data: Any, predictions: Any) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Header and rows of the readable file."""
        raise NotImplementedError

    def has_labels(self, data: Any) -> bool:
        return data.labels is not None

    def show(self, model: "ZooModel", data: Any, metrics: Mapping[str, float]) -> str:
        """Lines to print: a few predictions and the truth; `metrics` as for `write_predictions`."""
        rows = range(0, len(data), max(1, len(data) // NUM_SHOWN))[:NUM_SHOWN]
        return "\n".join(self.lines(model, self.take(data, rows), metrics))

    def take(self, data: Any, rows: Sequence[int]) -> Any:
        """Some rows of a split."""
        return rows_of(data, rows)

    @abstractmethod
    def lines(self, model: "ZooModel", data: Any, metrics: Mapping[str, float]) -> Iterator[str]:
        """Yields a heading, and lines about each row of the data."""


def _spelled(value: Any) -> Iterator[str]:
    """A value's `repr`, text by text for texts on disk, which it has as a list."""
    if not isinstance(value, StoredTexts):
        yield repr(value)
        return
    yield "["
    for number, row in enumerate(value):
        yield f"{', ' if number else ''}{row!r}"
    yield "]"


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


def number_lines(
    scores: Iterable[float], labels: Iterable[float], texts: Iterable[str], width: int = 6
) -> Iterator[str]:
    """Lines that compare scores with the true ones, for `Benchmark.lines`."""
    for score, label, text in zip(scores, labels, texts, strict=True):
        yield f"  {score:{width}.3f}  (true: {label:.3f})  {one_line(text)}"


def answer_lines(asked: str, answer: str, right: Sequence[str], word: str = "wrong") -> str:
    """Two lines: what was asked and the answer, with the right ones if it is none of them."""
    wrong = "" if answer in right else f"   ({word}: {one_line(' / '.join(right))})"
    return f"  {one_line(asked)}\n    {one_line(answer)}{wrong}"


def take(column: Any, rows: Iterable[int]) -> Any:
    """Some rows of a column, or of each column in a tuple."""
    if isinstance(column, tuple):
        return tuple(take(each, rows) for each in column)
    if isinstance(column, StoredTexts):
        return column.take(rows)
    chosen = (column[row] for row in rows)
    return array("q", chosen) if isinstance(column, array) else list(chosen)


def rows_of(split: Any, rows: Sequence[int]) -> Any:
    """Some rows of a split: of its fields that are columns, or tuples of columns."""
    columns = {field.name: getattr(split, field.name) for field in fields(split)}
    chosen = {
        name: take(column, rows)
        for name, column in columns.items()
        if column and isinstance(column[0] if isinstance(column, tuple) else column, COLUMNS)
    }
    return replace(split, **chosen)


# --- The user's own files ---

# Split -> the option that names its file.
FILES = {"train": "train_file", "validation": "dev_file", "test": "test_file"}


def own_files(
    options,
    read: Callable[[str, Any], Any],
    groups: Callable[[Any], Sequence[Hashable]] = lambda split: [None] * len(split),
    take: Callable[[Any, Sequence[int]], Any] = rows_of,
    remarks: Callable[[Path, Any], Iterable[str]] | None = None,
) -> dict[str, Any]:
    """The arguments of a `Benchmark` on files: name, source, measured splits and reader.

    It measures on `dev_file`, else on `held_out` rows of the training file, else on `test_file`. `read` maps (path, the
    training file, or None for that file itself) to a split, `groups` a split to the group of each row, for example its
    class (see `spread_order`), `take` (a split, row numbers) to these rows of it, `remarks` (path, split) to sentences
    on the training and development file. ValueError if there is nothing to measure on, or no rows are left to train on.
    """
    said = [name for name in ("dev_file", "held_out") if getattr(options, name)]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} both choose what to measure on. Leave one out.")
    for name in FILES.values():
        if path := getattr(options, name):
            require_file(Path(path), advice=f"Check the name and folder of {name}.")
    if not said and not options.test_file:
        raise ValueError(
            "There is nothing to measure on. Give a dev_file or a test_file, or keep back some rows of "
            "train_file with held_out, for example held_out=0.1."
        )
    if options.train_rows < 0:
        raise ValueError(
            f"train_rows is {options.train_rows}; it must be a number of rows, or 0 for all."
        )
    train = options.train_file

    @cache
    def whole(path: str) -> Any:
        return read(path, None if path == train else whole(train))

    @cache
    def drawn() -> dict[str, np.ndarray]:
        """The splits that are a part of the training file, with their rows."""
        if not (options.held_out or options.train_rows):
            return {}
        order = spread_order(groups(whole(train)), options.split_seed)
        number = _number_held_out(options, len(order)) if options.held_out else 0
        left = order[number:]
        wanted = options.train_rows or len(left)
        if wanted > len(left):
            raise ValueError(
                f"train_rows is {wanted}, but {train} has only {len(left)} rows to train on. Choose "
                "fewer, or leave it out for all."
            )
        held_out = {"validation": np.sort(order[:number])} if number else {}
        return held_out | {"train": np.sort(left[:wanted])}

    def split_data(split: str) -> Any:
        if (rows := drawn().get(split)) is not None:
            return take(whole(train), rows)
        path = getattr(options, FILES.get(split, ""), None)
        if path is None:
            raise ValueError(
                f"There is no file for the split {split!r}. Give it as dev_file or test_file."
            )
        return whole(path)

    def all_remarks() -> Iterator[str]:
        for path in filter(None, (train, options.dev_file)):
            yield from remarks(Path(path), whole(path))

    return {
        "name": Path(train).stem,
        "read": split_data,
        "measured": ("validation" if said else "test",),
        "source": f"the file {Path(train).name}",
        **({"remarks": all_remarks} if remarks else {}),
    }


def spread_order(groups: Sequence[Hashable], seed: int) -> np.ndarray:
    """Row numbers, int [N], in a random order in which every stretch holds about the same fraction of each group.

    Equal groups [N] give a plain shuffle. Rows of a small group are evenly spaced, so a short first stretch may have none
    of them.
    """
    rng = np.random.default_rng(seed)
    numbers = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    codes = np.asarray([numbers[group] for group in groups])
    shuffled = rng.permutation(len(codes))
    by_group = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes, minlength=1)
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    shares = (ranks + 0.5) / np.repeat(sizes, sizes)
    return by_group[np.lexsort((rng.random(len(codes)), shares))]


def _number_held_out(options, count: int) -> int:
    name, held_out = options.train_file, options.held_out
    if held_out < 0 or (held_out >= 1 and held_out % 1):
        raise ValueError(
            f"held_out is {held_out}; it must be a number of rows, or a fraction of them below 1."
        )
    number = int(held_out) if held_out >= 1 else max(1, round(held_out * count))
    if number >= count:
        raise ValueError(
            f"held_out takes {number} of the {count} rows of {name}, so none is left to train on. Choose fewer."
        )
    return number
