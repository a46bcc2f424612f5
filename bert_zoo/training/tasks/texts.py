"""Labelled texts and pairs of texts: GLUE, TREC, tables, the messages that ship with bert_zoo."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data import glue, messages
from bert_zoo.data.files import listed, shown
from bert_zoo.data.remarks import remarks
from bert_zoo.data.tables import LabelledTexts, read_table, read_trec
from bert_zoo.data.text_batches import Texts, text_batches
from bert_zoo.models.verbs import sigmoid, softmax
from bert_zoo.training.class_weights import class_weights
from bert_zoo.training.label_frequencies import start_from_frequencies
from bert_zoo.training.report import (
    binary_cross_entropies,
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    hardest_label_sets,
    label_set_table,
    named_set,
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
            writer.writerows(self.answer_rows(predictions))
        official = [self.write_official(split, answers, directory)] if self.write_official else []
        return [path, *official]

    def answer_rows(self, predictions: np.ndarray) -> Iterator[list[Any]]:
        """The rows of the file of predictions, its header first."""
        answers = self._answers(predictions)
        if not self.label_names:
            yield ["index", "prediction"]
            yield from ([i, f"{answer:.6f}"] for i, answer in enumerate(answers))
            return
        yield ["index", "prediction", *self.label_names]
        for i, (answer, row) in enumerate(zip(answers, softmax(predictions), strict=True)):
            yield [i, self.label_names[answer], *(f"{share:.6f}" for share in row)]

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


class MultiLabelTask(TextTask):
    """Any number of classes of texts or of pairs of texts; labels are tuples of class ids.

    `metric` and `write_official` take whether a text has each class, bool [N, classes].
    """

    kind = "multi_label_classification"

    def prepare(self, model):
        start_from_frequencies(model, self._present(self.train))

    def batches(self, model, recipe, seed):
        train = self.train
        labels = self._present(train).astype(np.float32)
        return text_batches(train.texts, labels, model.preprocessor, recipe.batching(seed))

    def predict(self, model, data, recipe):
        """Logits [N, classes], and the model's thresholds [classes]."""
        return super().predict(model, data, recipe), model.thresholds

    def class_weights(self, recipe):
        return Task.class_weights(self, recipe)

    def baseline(self, data):
        answer = commonest(self.train.labels)
        answers = np.tile(_has_class([answer], len(self.label_names)), (len(data), 1))
        said = f"always {named_set(answers[0], self.label_names)}"
        return Baseline(said, self.metric(self._present(data), answers))

    def measure(self, data, predictions):
        logits, _ = predictions
        present, answers = self._present(data), self._answers(predictions)
        losses = binary_cross_entropies(present, logits)
        figures = {**self.metric(present, answers), "loss": float(losses.mean())}
        table = label_set_table(present, answers, self.label_names)
        hardest = hardest_label_sets(
            as_rows(data.texts), present, answers, losses, self.label_names, NUM_HARDEST
        )
        return Measurement(figures, table=table, hardest=hardest)

    def _present(self, data: LabelledTexts) -> np.ndarray:
        return _has_class(data.labels, len(self.label_names))

    def _answers(self, predictions):
        logits, thresholds = predictions
        return sigmoid(logits) > np.asarray(thresholds)

    def answer_rows(self, predictions):
        logits, _ = predictions
        yield ["index", "prediction", *self.label_names]
        for i, (answer, row) in enumerate(
            zip(self._answers(predictions), sigmoid(logits), strict=True)
        ):
            names = [name for name, given in zip(self.label_names, answer, strict=True) if given]
            yield [i, json.dumps(names, ensure_ascii=False), *(f"{share:.6f}" for share in row)]

    def show(self, model, data, figures):
        rows = spread_rows(len(data))
        lines = ["Some predictions (labels with probabilities, text):"]
        present = self._present(data)
        for i, answer in zip(rows, model.classify(take(data.texts, rows)), strict=True):
            truth = {name for name, has in zip(self.label_names, present[i], strict=True) if has}
            wrong = f"   (true: {named_set(present[i], self.label_names)})"
            lines.append(f"  {answer}" + ("" if truth == set(answer.labels) else wrong))
        return "\n".join(lines)


def _has_class(labels: Sequence[tuple[int, ...]], number: int) -> np.ndarray:
    """Whether rows have each class, bool [N, classes]."""
    present = np.zeros((len(labels), number), bool)
    for row, ids in enumerate(labels):
        present[row, list(ids)] = True
    return present


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


def label_set_figures(present: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Micro and macro F1 of sets of labels, as `LabelF1` and scikit-learn; bool [N, classes]."""
    found = 2 * (present & answers).sum(axis=0)
    others = present.sum(axis=0) + answers.sum(axis=0)
    return {
        "micro_f1": float(found.sum() / max(1, others.sum())),
        "macro_f1": float(np.mean(found / np.maximum(1, others))),
    }


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
            *("text", "text_pair", "label", "label_delimiter", "label_columns", "regression"),
            *("header", "format", "encoding"),
        )
    }
    kinds = [name for name in ("label_delimiter", "label_columns", "regression") if reading[name]]
    if len(kinds) > 1:
        raise ValueError(f"{' and '.join(kinds)} all say what labels are; give one of them.")
    is_multi_label = bool(options.label_delimiter or options.label_columns)
    reading["delimiter"] = "\t" if options.delimiter == "tab" else options.delimiter

    @cache
    def whole(path: str) -> LabelledTexts:
        names = None if path == options.train_file or options.regression else task.label_names
        return read_table(path, **reading, label_names=names)

    def read(path: str, train: LabelledTexts | None) -> LabelledTexts:
        data = whole(path)
        if train is None and len(data.label_names) == 1 and not is_multi_label:
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
    make, metric = TextTask, squared_error if options.regression else class_figures
    if is_multi_label:
        make, metric = MultiLabelTask, label_set_figures
    task = make(
        Path(options.train_file).stem,
        reader,
        measured=measured,
        metric=metric,
        source=f"the file {Path(options.train_file).name}",
        remarks=all_remarks,
    )
    return task


def unmeasured(task: TextTask) -> Iterator[str]:
    """A remark on classes of which nothing is measured."""
    split = task.measured[0]
    if not task.label_names:
        return
    missing = set(range(len(task.label_names))) - set(chain(*task.data(split).classes))
    if missing:
        names = listed([task.label_names[i] for i in sorted(missing)])
        yield f"No {split} row has one of the labels {names}, of which nothing is measured then."
