"""Training data of a student: a teacher's predictions for a benchmark's texts and for unlabelled texts."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_zoo
from bert_zoo.cli.benchmarks.base import Benchmark
from bert_zoo.data.buckets import Batches
from bert_zoo.data.files import lines
from bert_zoo.distillation.augmentation import augment
from bert_zoo.distillation.losses import BATCH_SIZE, teacher_answers
from bert_zoo.error_text import quoted
from bert_zoo.models.base import ZooModel
from bert_zoo.presets import Recipe
from bert_zoo.pretraining.corpus import files_of
from bert_zoo.tasks import MaskedLM
from bert_zoo.training.runs import read_json
from bert_zoo.weights.files import write_json

ANSWERS = "answers.npy"
METRICS = "metrics.json"
VARIANTS = "variants.json"


@dataclass(frozen=True)
class Lesson:
    """A teacher's predictions for a benchmark's training texts and for unlabelled texts."""

    task: Benchmark
    teacher: str  # its name
    # The teacher's predictions, float32 [rows, size]: training texts first, then `more`.
    answers: np.ndarray
    more: Sequence[Any]  # unlabelled rows, as `Benchmark.unlabelled_row` returns them
    metrics: Mapping[str, float]  # the teacher's metrics on the first measured split
    # How the student is compared with the teacher: arguments of `bert_zoo.distillation.losses.taught_loss`.
    teaching: Mapping[str, Any]
    # Origin of rows in `more` -> their number.
    sources: Mapping[str, int] = field(default_factory=dict)
    makes_student: bool = False  # whether the student is made from the teacher and keeps its head

    @property
    def num_train(self) -> int:
        return len(self.task.train) + len(self.more)

    def about(self) -> dict[str, Any]:
        """The lesson's entry in `config.json`."""
        more = repr([*self.more]).encode("utf-8", "surrogatepass")
        return {
            "teacher": self.teacher,
            **self.teaching,
            "more": dict(self.sources),
            "more_sha256": hashlib.sha256(more).hexdigest(),
            "answers_sha256": hashlib.sha256(np.ascontiguousarray(self.answers)).hexdigest(),
        }

    def class_weights(self, recipe: Recipe) -> None:
        return None

    @property
    def heads(self) -> tuple[str, ...]:
        """The randomly initialised parts; none for a student made from its teacher."""
        return () if self.makes_student else self.task.heads

    def load_options(self) -> dict[str, Any]:
        return self.task.load_options() | {"init": self.heads}

    def prepare(self, model: ZooModel) -> None:
        if self.heads:
            self.task.prepare(model)

    def loss(self, recipe: Recipe) -> Any:
        return self.task.taught_loss(**self.teaching)

    def batches(self, model: ZooModel, recipe: Recipe, seed: int) -> Batches:
        return self.task.taught_batches(self.answers, self.more, model, recipe, seed)

    def record(self, kept: Mapping[str, float]) -> dict[str, Any]:
        """The lesson's rows in a report, name -> value, with the student's metrics."""
        name, score = next(iter(self.metrics.items()))
        rows: dict[str, Any] = {
            "teacher": self.teacher,
            f"teacher's {name.replace('_', ' ')}": score,
        }
        # A score of 0 or below has no ratio.
        if score > 0:
            rows["retained"] = f"{kept[name] / score:.1%}"
        rows |= {f"unlabelled texts: {source}": n for source, n in self.sources.items()}
        loss, *_ = keras.tree.flatten(self.task.taught_loss(**self.teaching))
        settings = ("kind", "match", "temperature", "hard_weight")
        return rows | {k: getattr(loss, k) for k in settings if hasattr(loss, k)}


def learn_from(
    teacher: ZooModel,
    name: str,
    task: Benchmark,
    directory: Path,
    *,
    more: Mapping[str, Sequence[Any]],
    teaching: Mapping[str, Any],
    recipe: Recipe,
    makes_student: bool = False,
) -> Lesson:
    """Predicts all texts once with a teacher and measures it. Keeps both results in a directory.

    `more` maps origins to unlabelled rows. The student's `recipe` sets the rows per prediction step. ValueError if
    teacher and task have different classes, or `teacher_answers` fails.
    """
    task.taught_loss(**teaching)  # raises early for settings that do not fit
    if recipe.class_weight is not None or recipe.contrastive_pairs:
        raise ValueError(
            "class_weight and contrastive_pairs need labels, but a student learns from its teacher's predictions. "
            "Leave them out."
        )
    order = columns_of(teacher, task)
    rows = [row for some in more.values() for row in some]
    texts = task.taught_texts(teacher, rows)
    answers = teacher_answers(
        teacher,
        texts,
        directory / ANSWERS,
        answer=lambda some: task.teacher_says(teacher, some, BATCH_SIZE, recipe),
        counts=task.answered_rows(teacher, texts, recipe),
    )
    if order is not None:
        answers = answers[:, order]
    split, path, examples = task.measured[0], directory / METRICS, task.fingerprint()
    measured = read_json(path) if path.is_file() else {}
    if measured.get("examples") != examples:
        data = task.data(split)
        metrics = task.measure(data, task.predict(teacher, data, recipe)).metrics
        measured = {"examples": examples, "metrics": metrics}
        write_json(path, measured)
    metrics = measured["metrics"]
    shown = ", ".join(f"{metric} {value:.4f}" for metric, value in metrics.items())
    print(f"The teacher, {name}, on {task.name} ({split}): {shown}")
    sources = {source: len(some) for source, some in more.items()}
    return Lesson(task, name, answers, rows, metrics, teaching, sources, makes_student)


def columns_of(teacher: ZooModel, task: Benchmark) -> list[int] | None:
    """The teacher's columns in the order of the task's classes, None if the order is the same; ValueError if the
    classes differ."""
    names, known = [*map(str, task.label_names)], [*map(str, teacher.labels)]
    if names == known or not names:
        return None
    if sorted(names) != sorted(known):
        raise ValueError(
            f"The teacher's classes are {quoted(known)}, but {task.name} has the classes {quoted(names)}. Choose a "
            "teacher that was fine-tuned on these data, or the data that it was fine-tuned on."
        )
    return [known.index(name) for name in names]


def unlabelled(
    task: Benchmark, patterns: Sequence[str], encoding: str | None = None
) -> dict[str, list[Any]]:
    """Pattern -> unlabelled rows of the matching files, without duplicate lines; ValueError names file and line."""
    seen: set[str] = set()

    def rows(path: Path) -> Iterator[Any]:
        for number, line in lines(path, encoding):
            line = line.strip("\n\r ")
            if not line.strip() or line in seen:
                continue
            seen.add(line)
            try:
                yield task.unlabelled_row(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None

    return {pattern: [*chain.from_iterable(map(rows, files_of(pattern)))] for pattern in patterns}


def varied(
    task: Benchmark, model: str, number: int, directory: Path, seed: int
) -> dict[str, list[Any]]:
    """A description -> a number of variants of each training text as unlabelled rows, kept in a directory;
    ValueError if the texts cannot be varied, or it holds variants of others."""
    if not task.has_variants:
        raise ValueError(
            f"augment does not support {task.name}, a task of kind {task.kind!r}: variants would lose its labels for "
            "parts of texts or its groups of texts. Leave augment out."
        )
    source, path = f"variants by {model}", directory / VARIANTS
    about = {"model": model, "number": number, "seed": seed}
    made_from = {"examples": task.fingerprint(), **about}
    if not path.is_file():
        proposing = bert_zoo.load(model, task=MaskedLM.task)
        found = augment(task.taught_texts(proposing, ()), proposing, number, seed=seed)
        # The first of each is the text itself.
        rows = dict.fromkeys(row for of_text in found for row in of_text[1:])
        directory.mkdir(parents=True, exist_ok=True)
        write_json(path, {**made_from, "rows": [*rows]})
    written = read_json(path)
    rows = [tuple(row) if isinstance(row, list) else row for row in written.pop("rows")]
    if written != made_from:
        raise ValueError(
            f"{path} holds variants of other texts or with other settings: {written}. Name another directory "
            "(--output_dir), or delete the file."
        )
    return {source: rows}
