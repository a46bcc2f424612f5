"""Labelled texts and pairs of texts: GLUE, TREC, tables, the messages that ship with bert_zoo."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data import glue, messages
from bert_zoo.data.files import listed, shown
from bert_zoo.data.remarks import remarks
from bert_zoo.data.tables import LabelledTexts, read_table, read_trec
from bert_zoo.data.text_batches import Texts, text_batches
from bert_zoo.models.verbs import softmax
from bert_zoo.training.class_weights import class_weights
from bert_zoo.training.report import (
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    per_label_table,
)
from bert_zoo.training.tasks.base import (
    NUM_HARDEST,
    Baseline,
    Measurement,
    Task,
    commonest,
    one_line,
    spread_rows,
)
from bert_zoo.training.tasks.files import held_out_reader

Metric = Callable[[Sequence[float], np.ndarray], dict[str, float]]
TREC_FILES = {"train": "trec_train.txt", "test": "trec_test.txt"}


class TextTask(Task):
    """Classes, or scores, of texts or of pairs of texts.

    Args:
        name, read, measured, source: as `Task`; data are `LabelledTexts` or have its attributes.
        metric: (labels, class ids or scores [N]) -> figures.
        label_names: of the classes, empty for scores; those of the training data by default.
        write_official: (split, class ids or scores [N], directory) -> the file for the official
            scorer; None where there is none.
        remarks: on the data, see `Task.remarks`.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[str], LabelledTexts],
        *,
        metric: Metric,
        label_names: Sequence[str] | None = None,
        write_official: Callable[[str, np.ndarray, Path], Path] | None = None,
        remarks: Callable[[], Iterable[str]] = tuple,
        **kwargs,
    ):
        super().__init__(name, read, **kwargs)
        self.metric = metric
        self._label_names = label_names
        self.write_official = write_official
        self._remarks = remarks

    @property
    def label_names(self) -> tuple[str, ...]:
        names = self.train.label_names if self._label_names is None else self._label_names
        return tuple(names)

    @property
    def kind(self) -> str:
        return "classification" if self.label_names else "regression"

    @property
    def reads_pairs(self) -> bool:
        return isinstance(self.train.texts, tuple)

    def load_options(self) -> dict[str, Any]:
        labels = {"labels": self.label_names} if self.label_names else {}
        return {**super().load_options(), **labels}

    def batches(self, model, recipe, seed):
        train = self.train
        return text_batches(train.texts, train.labels, model.preprocessor, recipe.batching(seed))

    def predict(self, model, data, recipe):
        """Logits [N, classes], or scores [N]."""
        return self._outputs(model, data.texts, recipe.batch_size)

    def _outputs(self, model, texts, batch_size: int) -> np.ndarray:
        # Texts of like length together need little padding.
        order = np.argsort([len(row) for row in as_rows(texts)], kind="stable")
        found = model.predict(take(texts, order), batch_size=batch_size, verbose=0)
        outputs = np.empty_like(found)
        outputs[order] = found
        return outputs if self.label_names else outputs[:, 0]

    def remarks(self):
        return tuple(self._remarks())

    def class_weights(self, recipe):
        if recipe.class_weight is None or not self.label_names:
            return super().class_weights(recipe)
        return class_weights(recipe.class_weight, self.train.labels, self.label_names)

    def baseline(self, data):
        if self.label_names:
            answer = commonest(self.train.labels)
            said = f"always {self.label_names[answer]!r}"
        else:
            answer = float(np.mean(self.train.labels))
            said = f"always {answer:.4g}, the mean"
        return Baseline(said, self.metric(data.labels, np.full(len(data.labels), answer)))

    def measure(self, data, predictions):
        answers = self._answers(predictions)
        hardest = hardest_examples(
            as_rows(data.texts), data.labels, predictions, self.label_names, NUM_HARDEST
        )
        figures = self.metric(data.labels, answers)
        if not self.label_names:
            figures["loss"] = float(np.mean((np.asarray(data.labels) - answers) ** 2))
            return Measurement(figures, hardest=hardest)
        figures["loss"] = float(cross_entropies(data.labels, predictions).mean())
        confusion = confusion_matrix(data.labels, answers, len(self.label_names))
        table = per_label_table(confusion, self.label_names)
        return Measurement(figures, confusion, table, hardest)

    def _answers(self, predictions: np.ndarray) -> np.ndarray:
        return predictions.argmax(axis=-1) if self.label_names else predictions

    def write_predictions(self, directory, split, data, predictions, figures):
        answers = self._answers(predictions)
        path = directory / f"{self.name}-{split}.tsv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            if self.label_names:
                writer.writerow(["index", "prediction", *self.label_names])
                for i, (answer, row) in enumerate(zip(answers, softmax(predictions), strict=True)):
                    shares = (f"{share:.6f}" for share in row)
                    writer.writerow([i, self.label_names[answer], *shares])
            else:
                writer.writerow(["index", "prediction"])
                writer.writerows([i, f"{answer:.6f}"] for i, answer in enumerate(answers))
        official = [self.write_official(split, answers, directory)] if self.write_official else []
        return [path, *official]

    def show(self, model, data, figures):
        rows = spread_rows(len(data.labels))
        chosen = take(data.texts, rows)
        if not self.label_names:
            scores = self._outputs(model, chosen, len(rows))
            lines = [
                f"  {score:6.3f}  (true: {data.labels[i]:.3f})  {one_line(text)}"
                for i, score, text in zip(rows, scores, as_rows(chosen), strict=True)
            ]
            return "\n".join(["Some predictions (score, truth, text):", *lines])
        lines = ["Some predictions (label, probability, text):"]
        width = max(map(len, self.label_names))
        for i, answer, text in zip(rows, model.classify(chosen), as_rows(chosen), strict=True):
            truth = self.label_names[data.labels[i]]
            line = f"  {answer.label:<{width}}  {answer.score:.3f}  {one_line(text)}"
            lines.append(line + ("" if answer.label == truth else f"   (wrong: {truth})"))
        return "\n".join(lines)


def as_rows(texts: Texts) -> list[str]:
    """Texts as people read them: the two of a pair side by side."""
    if not isinstance(texts, tuple):
        return texts
    return [f"{first} | {second}" for first, second in zip(*texts, strict=True)]


def take(texts: Texts, rows: Iterable[int]) -> Texts:
    """Some rows of texts, or of both sides of pairs."""
    if isinstance(texts, tuple):
        return tuple(take(column, rows) for column in texts)
    return [texts[i] for i in rows]


def accuracy(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    return {"accuracy": float(np.mean(np.asarray(labels) == answers))}


def class_figures(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    """Accuracy, and the mean F1 of the classes that occur or are predicted, as scikit-learn's."""
    labels = np.asarray(labels)
    scores = [
        2 * np.sum((labels == i) & (answers == i)) / (np.sum(labels == i) + np.sum(answers == i))
        for i in np.union1d(labels, answers)
    ]
    return {**accuracy(labels, answers), "macro_f1": float(np.mean(scores))}


def squared_error(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    """Negative, so that more is better, as for every figure that chooses."""
    return {"negative mean squared error": -float(np.mean((np.asarray(labels) - answers) ** 2))}


def messages_task() -> TextTask:
    """The data set that ships with the package, measured on its test split."""
    return TextTask(
        "messages",
        lambda split: LabelledTexts(*messages.load(split), messages.LABELS),
        measured=("test",),
        metric=class_figures,
        label_names=messages.LABELS,
        source="the messages that ship with bert_zoo",
    )


def glue_task(name: str, data_dir: str | None = None) -> TextTask:
    """A GLUE task, from its TSV files or TensorFlow Datasets, measured on its development set."""
    measured = glue.TASKS[name].measured_splits
    return TextTask(
        name,
        lambda split: glue.load_glue(name, split, data_dir),
        measured=measured,
        metric=lambda labels, answers: glue.metrics(name, labels, answers),
        label_names=glue.TASKS[name].label_names,
        write_official=lambda split, answers, directory: glue.write_submission(
            name, split, answers, directory
        ),
        source="GLUE (Wang et al. 2019)",
    )


def trec_task(data_dir: str, *, fine: bool = False) -> TextTask:
    """TREC's questions by the kind of answer they ask for: 6 coarse or 50 fine classes.

    The data set has no development split, so that the last epoch's weights are kept.
    """

    def read(split: str) -> LabelledTexts:
        path = Path(data_dir) / TREC_FILES[split]
        # The test file lacks some of the fine classes.
        names = None if split == "train" else task.label_names
        return read_trec(path, fine=fine, label_names=names)

    task = TextTask(
        "trec_fine" if fine else "trec",
        read,
        measured=("test",),
        metric=class_figures,
        source="TREC's questions (Li and Roth 2002)",
    )
    return task


def table_task(options) -> TextTask:
    """Labelled texts of the user's own, in a table.

    Args:
        options: `DataOptions`: files, `held_out` rows, columns, how the file is written, and whether
            labels are scores.

    Raises:
        ValueError: all rows of the training file have the same label, beside what `read_table` refuses.
    """
    reading = {
        name: getattr(options, name)
        for name in (
            *("text", "text_pair", "label", "regression"),
            *("header", "format", "encoding"),
        )
    }
    reading["delimiter"] = "\t" if options.delimiter == "tab" else options.delimiter

    @cache
    def whole(path: str) -> LabelledTexts:
        names = None if path == options.train_file or options.regression else task.label_names
        return read_table(path, **reading, label_names=names)

    def read(path: str, train: LabelledTexts | None) -> LabelledTexts:
        data = whole(path)
        if train is None and len(data.label_names) == 1:
            raise ValueError(
                f"{path}: all {len(data):,} rows have the label {shown(data.label_names[0])}, and a "
                f"classifier needs two. Is {options.label!r} the column of the labels?"
            )
        return data

    def rows_of(split: LabelledTexts, rows: Sequence[int]) -> LabelledTexts:
        labels, lines = ([column[row] for row in rows] for column in (split.labels, split.lines))
        return LabelledTexts(take(split.texts, rows), labels, split.label_names, lines)

    def groups(split: LabelledTexts) -> list[int | None]:
        return [None] * len(split) if options.regression else split.labels

    def all_remarks() -> Iterator[str]:
        for path in filter(None, (options.train_file, options.dev_file)):
            yield from remarks(Path(path), whole(path))
        yield from unmeasured(task)

    reader, measured = held_out_reader(options, read, rows_of, groups)
    task = TextTask(
        Path(options.train_file).stem,
        reader,
        measured=measured,
        metric=squared_error if options.regression else class_figures,
        source=f"the file {Path(options.train_file).name}",
        remarks=all_remarks,
    )
    return task


def unmeasured(task: TextTask) -> Iterator[str]:
    """A remark on classes of which nothing is measured."""
    split = task.measured[0]
    missing = set(range(len(task.label_names))) - set(task.data(split).labels)
    if missing and task.label_names:
        names = listed([task.label_names[i] for i in sorted(missing)])
        yield f"No {split} row has the label {names}: how these are told apart is not measured."
