"""Labelled texts and pairs of texts: GLUE, TREC, tables, and the messages included in bert_zoo."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, compress, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Baseline,
    Benchmark,
    Measurement,
    commonest,
    is_test,
    one_line,
    pair_of,
    spread_rows,
    with_rows,
    write_tsv,
)
from bert_zoo.cli.benchmarks.files import own_files
from bert_zoo.data.columns import label_remarks
from bert_zoo.data.tables import LabelledTexts, read_table
from bert_zoo.error_text import quoted, shown
from bert_zoo.metrics.errors import (
    binary_cross_entropies,
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    label_set_table,
    named_set,
    per_label_table,
)
from bert_zoo.metrics.labels import class_metrics, label_set_metrics
from bert_zoo.runtime.answers import number, sigmoid, softmax
from bert_zoo.tasks import name_of

if TYPE_CHECKING:
    from bert_zoo.data.batches import Texts

Metric = Callable[[Sequence[float], np.ndarray], dict[str, float]]


class TextBenchmark(Benchmark):
    """Classification of texts or pairs of texts, `LabelledTexts` or with its attributes.

    `metric` maps (labels, class ids or scores [N]) to metrics. `label_names` are empty for scores, by default those of
    the training data. `write_official` maps (test split, class ids or scores [N], directory) to the official scorer's
    file, if there is one.
    """

    kind = name_of("Classifier")
    settings = ("contrastive_pairs",)
    has_variants = True

    def __init__(
        self,
        *args,
        metric: Metric = class_metrics,
        label_names: Sequence[str] | None = None,
        write_official: Callable[[str, np.ndarray, Path], Path] | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.metric = metric
        self._label_names = label_names
        self.write_official = write_official

    @property
    def label_names(self):
        names = self.train.label_names if self._label_names is None else self._label_names
        return tuple(names)

    @property
    def reads_pairs(self):
        return isinstance(self.train.texts, tuple)

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import text_batches

        labels = self.targets(self.train)
        return text_batches(self.train.texts, labels, model.preprocessor, recipe.batching(seed))

    def unlabelled_row(self, line):
        return pair_of(line) if self.reads_pairs else line

    def taught_texts(self, model, more):
        return with_rows(self.train.texts, more)

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.data.batches import text_batches
        from bert_zoo.distillation.losses import targets_of

        targets = targets_of(answers, self.hard_targets())
        texts = self.taught_texts(model, more)
        return text_batches(texts, targets, model.preprocessor, recipe.batching(seed))

    def hard_targets(self) -> np.ndarray:
        """The training labels in the form of the model's outputs, [N, size]."""
        return np.eye(len(self.label_names))[self.train.labels]

    def targets(self, data: LabelledTexts) -> Sequence[float] | np.ndarray:
        """Labels in the form that the loss takes."""
        return data.labels

    def predict(self, model, data, recipe):
        """Logits [N, classes]."""
        # Batches of similar length need little padding.
        order = np.argsort([len(row) for row in as_rows(data.texts)], kind="stable")
        texts = take(data.texts, order)
        found = model.predict(texts, batch_size=recipe.predicted_rows, verbose=0)
        outputs = np.empty_like(found)
        outputs[order] = found
        return outputs

    def answers(self, predictions: Any) -> np.ndarray:
        """The predicted class ids, or scores, [N]."""
        return predictions.argmax(axis=-1)

    def scores(self, data: LabelledTexts, predictions: Any) -> dict[str, float]:
        """The metrics of `predict`'s result for a split with labels."""
        return self.metric(data.labels, self.answers(predictions))

    def baseline(self, data):
        answer = commonest(self.train.labels)
        always = np.tile(np.eye(len(self.label_names))[answer], (len(data), 1))
        return Baseline(f"always {self.label_names[answer]!r}", self.scores(data, always))

    def measure(self, data, predictions):
        names, answers = self.label_names, self.answers(predictions)
        losses = cross_entropies(data.labels, predictions)
        confusion = confusion_matrix(data.labels, answers, len(names))
        truths, given = ([names[i] for i in ids] for ids in (data.labels, answers))
        return Measurement(
            {**self.scores(data, predictions), "loss": float(losses.mean())},
            confusion,
            per_label_table(confusion, names),
            hardest_examples(as_rows(data.texts), truths, given, losses),
        )

    def write_predictions(self, directory, split, data, predictions, metrics):
        """Writes a row for each text: the text, its label if known, the prediction and all probabilities."""
        path = directory / f"{self.name}-{split}.tsv"
        texts = data.texts if isinstance(data.texts, tuple) else (data.texts,)
        columns = dict(zip(("text", "text_pair"), texts, strict=False))
        if data.labels is not None:
            columns["label"] = map(self.label_cell, data.labels)
        cells = zip(count(), *columns.values(), self.answer_rows(predictions), strict=False)
        header = ("index", *columns, "prediction", *self.label_names)
        write_tsv(path, header, ([*row, *answer] for *row, answer in cells))
        if self.write_official is None or not is_test(split):
            return [path]
        return [path, self.official_file(split, data, predictions, directory)]

    def official_file(
        self, split: str, data: LabelledTexts, predictions: Any, directory: Path
    ) -> Path:
        return self.write_official(split, self.answers(predictions), directory)

    def label_cell(self, label: Any) -> str:
        """Formats a row's label for the file of predictions."""
        return self.label_names[label]

    def answer_rows(self, predictions: Any) -> Iterator[list[str]]:
        """Yields the prediction and class probabilities for each row of the file of predictions."""
        for answer, row in zip(self.answers(predictions), softmax(predictions), strict=True):
            yield [self.label_names[answer], *(f"{share:.6f}" for share in row)]

    def show(self, model, data, metrics):
        rows = spread_rows(len(data))
        chosen = take(data.texts, rows)
        labels = [data.labels[row] for row in rows]
        return "\n".join(self.lines(model, chosen, labels))

    def lines(self, model, texts: "Texts", labels: Sequence[Any]) -> Iterator[str]:
        """Yields a heading and lines to print: some texts with prediction and truth."""
        yield "Some predictions (label, probability, text):"
        width = max(map(len, self.label_names))
        for answer, text, label in zip(model.classify(texts), as_rows(texts), labels, strict=True):
            truth = self.label_names[label]
            wrong = "" if answer.label == truth else f"   (wrong: {truth})"
            yield f"  {answer.label:<{width}}  {answer.score:.3f}  {one_line(text)}{wrong}"


class GroupedBenchmark(TextBenchmark):
    """Texts whose metrics depend on more than the labels, for example on groups of texts.

    `metric` takes (data, logits [N, classes]), `write_official` takes (data, logits, directory).
    """

    def scores(self, data, predictions):
        return self.metric(data, predictions)

    def official_file(self, split, data, predictions, directory):
        return self.write_official(data, predictions, directory)


class CandidateBenchmark(GroupedBenchmark):
    """Groups of candidate texts. The one with the highest probability of the last class is chosen."""

    def baseline(self, data):
        undecided = np.zeros((len(data), len(self.label_names)))
        return Baseline("always the first candidate", self.scores(data, undecided))


class ScoreBenchmark(TextBenchmark):
    """Regression: scores of texts or pairs of texts."""

    kind = name_of("Regressor")
    settings = ()

    @property
    def label_names(self):
        return ()

    def load_options(self):
        # The name of the score, if the data have one.
        named = {"labels": self._label_names} if self._label_names else {}
        return {**super().load_options(), **named}

    def prepare(self, model):
        from bert_zoo.training.freezing import start_from_mean

        start_from_mean(model, self.train.labels)

    def hard_targets(self):
        return np.asarray(self.train.labels)[:, None]

    def predict(self, model, data, recipe):
        """Scores [N]."""
        return super().predict(model, data, recipe)[:, 0]

    def answers(self, predictions):
        return predictions

    def baseline(self, data):
        answer = float(np.mean(self.train.labels))
        always = np.full(len(data.labels), answer)
        return Baseline(f"always {answer:.4g}, the mean", self.scores(data, always))

    def measure(self, data, predictions):
        losses = (np.asarray(data.labels) - predictions) ** 2
        metrics = {**self.scores(data, predictions), "loss": float(losses.mean())}
        truths, given = (list(map(number, scores)) for scores in (data.labels, predictions))
        hardest = hardest_examples(as_rows(data.texts), truths, given, losses)
        return Measurement(metrics, hardest=hardest)

    def label_cell(self, label):
        return f"{label:.6g}"

    def answer_rows(self, predictions):
        for score in predictions:
            yield [f"{score:.6f}"]

    def lines(self, model, texts, labels):
        yield "Some predictions (score, truth, text):"
        scores = model.predict(texts, batch_size=len(labels), verbose=0)[:, 0]
        for score, text, label in zip(scores, as_rows(texts), labels, strict=True):
            yield f"  {score:6.3f}  (true: {label:.3f})  {one_line(text)}"


class MultiLabelBenchmark(TextBenchmark):
    """Multi-label classification of texts or pairs of texts. Labels are tuples of class ids.

    `metric` and `write_official` take bool arrays [N, classes]: whether each text has each class.
    """

    kind = name_of("MultiLabelClassifier")

    def prepare(self, model):
        from bert_zoo.training.freezing import start_from_frequencies

        start_from_frequencies(model, self._present(self.train.labels))

    def targets(self, data):
        return self._present(data.labels).astype(np.float32)

    def hard_targets(self):
        return self.targets(self.train)

    def predict(self, model, data, recipe):
        """Logits [N, classes] and the model's thresholds [classes]."""
        return super().predict(model, data, recipe), model.thresholds

    def answers(self, predictions):
        """Whether each text is predicted to have each class, bool [N, classes]."""
        logits, thresholds = predictions
        return sigmoid(logits) > np.asarray(thresholds)

    def _present(self, labels: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Whether each row has each class, bool [N, classes]."""
        present = np.zeros((len(labels), len(self.label_names)), bool)
        for row, ids in enumerate(labels):
            present[row, list(ids)] = True
        return present

    def baseline(self, data):
        answer = self._present([commonest(self.train.labels)])
        always = np.tile(answer, (len(data), 1))
        said = f"always {named_set(answer[0], self.label_names)}"
        return Baseline(said, self.metric(self._present(data.labels), always))

    def measure(self, data, predictions):
        logits, _ = predictions
        names = self.label_names
        present, answers = self._present(data.labels), self.answers(predictions)
        losses = binary_cross_entropies(present, logits)
        truths, given = ([named_set(row, names) for row in rows] for rows in (present, answers))
        return Measurement(
            {**self.metric(present, answers), "loss": float(losses.mean())},
            table=label_set_table(present, answers, names),
            hardest=hardest_examples(as_rows(data.texts), truths, given, losses),
        )

    def label_cell(self, label):
        return json.dumps([self.label_names[i] for i in label], ensure_ascii=False)

    def answer_rows(self, predictions):
        logits, _ = predictions
        for answer, row in zip(self.answers(predictions), sigmoid(logits), strict=True):
            names = list(compress(self.label_names, answer))
            yield [json.dumps(names, ensure_ascii=False), *(f"{share:.6f}" for share in row)]

    def lines(self, model, texts, labels):
        yield "Some predictions (labels with probabilities, text):"
        present = self._present(labels)
        for answer, truth in zip(model.classify(texts), present, strict=True):
            is_right = set(answer.labels) == set(compress(self.label_names, truth))
            wrong = "" if is_right else f"   (true: {named_set(truth, self.label_names)})"
            yield f"  {answer}{wrong}"


def as_rows(texts: "Texts") -> list[str]:
    """Texts to print, with the two texts of a pair side by side."""
    if not isinstance(texts, tuple):
        return texts
    return [f"{first} | {second}" for first, second in zip(*texts, strict=True)]


def take(texts: "Texts", rows: Iterable[int]) -> "Texts":
    """Some rows of texts, or of both sides of pairs."""
    if isinstance(texts, tuple):
        return tuple(take(column, rows) for column in texts)
    return [texts[i] for i in rows]


def squared_error(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    """Negative mean squared error, because a higher metric must be better."""
    return {"negative mean squared error": -float(np.mean((np.asarray(labels) - answers) ** 2))}


# Rows of a table that may all have different labels, as in examples that only show the format.
MOST_UNIQUE = 2


def table_benchmark(options) -> TextBenchmark:
    """The user's own labelled texts in a table; ValueError if all rows of the training file have the same label, or
    each has its own."""
    if bool(options.label_delimiter) + bool(options.label_columns) + options.regression > 1:
        raise ValueError(
            "label_delimiter, label_columns and regression exclude each other. Give only one of them."
        )
    is_multi_label = bool(options.label_delimiter or options.label_columns)

    @cache
    def whole(path: str) -> LabelledTexts:
        names = None if path == options.train_file or options.regression else task.label_names
        return read_table(
            path,
            text=options.text,
            text_pair=options.text_pair,
            label=options.label,
            label_names=names,
            label_delimiter=options.label_delimiter,
            label_columns=options.label_columns,
            regression=options.regression,
            skip_unlabelled=options.skip_unlabelled,
            **options.layout,
        )

    def read(path: str, train: LabelledTexts | None) -> LabelledTexts:
        data = whole(path)
        if train is None and len(data.label_names) == 1 and not is_multi_label:
            raise ValueError(
                f"{path}: all {len(data):,} rows have the label {shown(data.label_names[0])}, but a classifier needs at "
                f"least two labels. Is {options.label!r} the label column?"
            )
        if (
            train is None
            and len(data) == len(data.label_names) > MOST_UNIQUE
            and not is_multi_label
        ):
            raise ValueError(
                f"{path}: each of the {len(data):,} rows has a label of its own, such as "
                f"{shown(data.label_names[0])}, so a classifier has nothing to learn from. Name the label column with "
                "--label, or pass --regression if the labels are scores."
            )
        return data

    def rows_of(split: LabelledTexts, rows: Sequence[int]) -> LabelledTexts:
        labels, lines = ([column[row] for row in rows] for column in (split.labels, split.lines))
        return LabelledTexts(take(split.texts, rows), labels, split.label_names, lines)

    def groups(split: LabelledTexts) -> list[int | None]:
        return [None] * len(split) if options.regression else split.labels

    def all_remarks() -> Iterator[str]:
        for path in filter(None, (options.train_file, options.dev_file)):
            yield from label_remarks(Path(path), whole(path))
        split = task.measured[0]
        measured = set(chain(*task.data(split).classes)) if task.label_names else set()
        if names := [n for i, n in enumerate(task.label_names) if i not in measured]:
            yield (
                f"The {split} split has no row with the labels {quoted(names)}, so they are not measured."
            )

    own = own_files(options, read, rows_of, groups) | {"remarks": all_remarks}
    if is_multi_label:
        task = MultiLabelBenchmark(**own, metric=label_set_metrics)
    elif options.regression:
        names = (options.label,) if options.header else ()
        task = ScoreBenchmark(**own, metric=squared_error, label_names=names)
    else:
        task = TextBenchmark(**own)
    return task
