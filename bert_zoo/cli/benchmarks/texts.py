"""Labelled texts, pairs of texts, and prompts with choices: GLUE, SuperGLUE, TREC, SWAG, RACE, tables, and the messages
included in bert_zoo."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, compress, count
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Baseline,
    Benchmark,
    Measurement,
    answer_lines,
    commonest,
    number_lines,
    one_line,
    own_files,
    take,
)
from bert_zoo.data.on_disk import folder_of
from bert_zoo.data.tables import LabelledTexts, label_remarks, read_table
from bert_zoo.error_text import quoted, shown
from bert_zoo.metrics.confidence import Confidence
from bert_zoo.metrics.errors import (
    binary_cross_entropies,
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    label_set_table,
    named_set,
    per_label_table,
)
from bert_zoo.metrics.labels import accuracy, class_metrics, label_set_metrics
from bert_zoo.presets import Recipe
from bert_zoo.printing import number
from bert_zoo.runtime.answers import sigmoid, softmax
from bert_zoo.tasks import name_of


class TextBenchmark(Benchmark):
    """Classification of texts or pairs of texts, `LabelledTexts` or with its attributes.

    `metric` maps (labels, class ids or scores [N]) to metrics. `label_names` are by default those of the training data.
    """

    kind = name_of("Classifier")
    settings = ("contrastive_pairs",)
    has_variants = True
    metric = staticmethod(class_metrics)

    @cached_property
    def label_names(self):
        return tuple(self.train.label_names)

    @property
    def texts(self):
        return self.train.texts

    @property
    def reads_pairs(self):
        return isinstance(self.texts, tuple)

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
            Confidence(
                softmax(predictions).max(axis=-1).astype(float), answers == np.asarray(data.labels)
            ),
        )

    def table(self, data, predictions):
        """A row for each text: the text, its label if known, the prediction and all probabilities."""
        texts = data.texts if isinstance(data.texts, tuple) else (data.texts,)
        columns = dict(zip(("text", "text_pair"), texts, strict=False))
        if data.labels is not None:
            columns["label"] = map(self.label_cell, data.labels)
        cells = zip(count(), *columns.values(), self.answer_cells(predictions), strict=False)
        header = ("index", *columns, "prediction", *self.label_names)
        return header, ([*row, *answer] for *row, answer in cells)

    def label_cell(self, label: Any) -> str:
        """Formats a row's label for the file of predictions."""
        return self.label_names[label]

    def answer_cells(self, predictions: Any) -> Iterator[list[str]]:
        """Yields the prediction and class probabilities for each row of the file of predictions."""
        for answer, row in zip(self.answers(predictions), softmax(predictions), strict=True):
            yield [self.label_names[answer], *(f"{share:.6f}" for share in row)]

    def lines(self, model, data, metrics):
        yield "Some predictions (label, probability, text):"
        width, rows = max(map(len, self.label_names)), as_rows(data.texts)
        for answer, text, label in zip(model.classify(data.texts), rows, data.labels, strict=True):
            truth = self.label_names[label]
            wrong = "" if answer.label == truth else f"   (wrong: {truth})"
            yield f"  {answer.label:<{width}}  {answer.score:.3f}  {one_line(text)}{wrong}"


class GroupedBenchmark(TextBenchmark):
    """Texts whose metrics depend on more than the labels, for example on groups of texts.

    `metric` takes (data, logits [N, classes]).
    """

    def scores(self, data, predictions):
        return self.metric(data, predictions)


class CandidateBenchmark(GroupedBenchmark):
    """Groups of candidate texts. The one with the highest probability of the last class is chosen."""

    def baseline(self, data):
        undecided = np.zeros((len(data), len(self.label_names)))
        return Baseline("always the first candidate", self.scores(data, undecided))


def squared_error(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    """Negative mean squared error, because a higher metric must be better."""
    return {"negative mean squared error": -float(np.mean((np.asarray(labels) - answers) ** 2))}


class ScoreBenchmark(TextBenchmark):
    """Regression: scores of texts or pairs of texts."""

    kind = name_of("Regressor")
    settings = ()
    label_names = ()
    score_name = ""  # the name of the score, if the data have one
    metric = staticmethod(squared_error)

    def load_options(self):
        named = {"labels": (self.score_name,)} if self.score_name else {}
        return {**super().load_options(), **named}

    def prepare(self, model):
        from bert_zoo.training.freezing import start_from_mean

        start_from_mean(model, self.train.labels)

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

    def answer_cells(self, predictions):
        return ([f"{score:.6f}"] for score in predictions)

    def lines(self, model, data, metrics):
        yield "Some predictions (score, truth, text):"
        yield from number_lines(
            self.predict(model, data, Recipe()), data.labels, as_rows(data.texts)
        )


class MultiLabelBenchmark(TextBenchmark):
    """Multi-label classification of texts or pairs of texts. Labels are tuples of class ids.

    `metric` takes bool arrays [N, classes]: whether each text has each class.
    """

    kind = name_of("MultiLabelClassifier")
    metric = staticmethod(label_set_metrics)

    def prepare(self, model):
        from bert_zoo.training.freezing import start_from_frequencies

        start_from_frequencies(model, self._present(self.train.labels))

    def targets(self, data):
        return self._present(data.labels).astype(np.float32)

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

    def answer_cells(self, predictions):
        logits, _ = predictions
        for answer, row in zip(self.answers(predictions), sigmoid(logits), strict=True):
            names = list(compress(self.label_names, answer))
            yield [json.dumps(names, ensure_ascii=False), *(f"{share:.6f}" for share in row)]

    def lines(self, model, data, metrics):
        yield "Some predictions (labels with probabilities, text):"
        for answer, ids in zip(model.classify(data.texts), self._present(data.labels), strict=True):
            is_right = set(answer.labels) == set(compress(self.label_names, ids))
            wrong = "" if is_right else f"   (true: {named_set(ids, self.label_names)})"
            yield f"  {answer}{wrong}"


def as_rows(texts: list[str] | tuple[list[str], ...]) -> list[str]:
    """Texts to print, with the two texts of a pair side by side."""
    if not isinstance(texts, tuple):
        return texts
    return [f"{first} | {second}" for first, second in zip(*texts, strict=True)]


# Rows of a table that may all have different labels, as in examples that only show the format.
MOST_UNIQUE = 2


def table_benchmark(options) -> TextBenchmark:
    """The user's own labelled texts in a table; ValueError if all rows of the training file have the same label, or
    each has its own."""
    is_multi_label = bool(options.label_delimiter or options.label_columns)
    if bool(options.label_delimiter) + bool(options.label_columns) + options.regression > 1:
        raise ValueError(
            "label_delimiter, label_columns and regression exclude each other. Give only one of them."
        )

    def read(path: str, train: LabelledTexts | None) -> LabelledTexts:
        data = read_table(
            path,
            text=options.text,
            text_pair=options.text_pair,
            label=options.label,
            label_names=None if train is None or options.regression else train.label_names,
            label_delimiter=options.label_delimiter,
            label_columns=options.label_columns,
            regression=options.regression,
            skip_unlabelled=options.skip_unlabelled,
            **options.layout,
            folder=folder_of(path, options.token_dir) if train is None else None,
        )
        if train is not None or is_multi_label:
            return data
        if len(data.label_names) == 1:
            raise ValueError(
                f"{path}: all {len(data):,} rows have the label {shown(data.label_names[0])}, but a classifier needs at "
                f"least two labels. Is {options.label!r} the label column?"
            )
        if len(data) == len(data.label_names) > MOST_UNIQUE:
            raise ValueError(
                f"{path}: each of the {len(data):,} rows has a label of its own, such as "
                f"{shown(data.label_names[0])}, so a classifier has nothing to learn from. Name the label column with "
                "--label, or pass --regression if the labels are scores."
            )
        return data

    def all_remarks() -> Iterable[str]:
        yield from files["remarks"]()
        split = task.measured[0]
        measured = set(chain(*task.data(split).classes)) if task.label_names else set()
        if names := [n for i, n in enumerate(task.label_names) if i not in measured]:
            yield (
                f"The {split} split has no row with the labels {quoted(names)}, so they are not measured."
            )

    by_class = {} if options.regression else {"groups": lambda split: split.labels}
    files = own_files(options, read, remarks=label_remarks, **by_class)
    about: dict[str, Any] = files | {"remarks": all_remarks}
    if options.regression:
        task = ScoreBenchmark(**about, score_name=options.label if options.header else "")
    else:
        task = (MultiLabelBenchmark if is_multi_label else TextBenchmark)(**about)
    return task


# --- Multiple choice ---

LETTERS = "ABCDEFGHIJ"


class ChoiceBenchmark(Benchmark):
    """Choosing one of several texts for a prompt, of `ChoiceSplit`s."""

    kind = name_of("MultipleChoice")
    question = '"some prompt" "one choice" "another one"'

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import choice_batches

        train = self.train
        return choice_batches(
            train.prompts, train.choices, train.labels, model.preprocessor, recipe.batching(seed)
        )

    def predict(self, model, data, recipe):
        """Logits [N, choices]."""
        return model.predict(
            (data.prompts, data.choices), batch_size=recipe.micro_batch_size, verbose=0
        )

    def measure(self, data, predictions):
        shown = [
            "\n".join([prompt, *(f"{LETTERS[i]}. {text}" for i, text in enumerate(choices))])
            for prompt, choices in zip(data.prompts, data.choices, strict=True)
        ]
        losses, answers = cross_entropies(data.labels, predictions), predictions.argmax(axis=-1)
        letters = ([LETTERS[i] for i in ids] for ids in (data.labels, answers))
        metrics = {"accuracy": accuracy(data.labels, answers), "loss": float(losses.mean())}
        return Measurement(metrics, hardest=hardest_examples(shown, *letters, losses))

    def baseline(self, data):
        answer = commonest(self.train.labels)
        figures = {"accuracy": accuracy(data.labels, np.full(len(data.labels), answer))}
        return Baseline(f"always choice {LETTERS[answer]}", figures)

    def write_predictions(self, directory, split, data, predictions, metrics):
        path = directory / f"{self.name}-{split}.json"
        answers = dict(zip(data.ids, predictions.argmax(axis=-1).tolist(), strict=True))
        path.write_text(json.dumps(answers, indent=1) + "\n")
        return [path, *self.official_files(directory, split, data, predictions)]

    def lines(self, model, data, metrics):
        yield "Some predictions:"
        answers = self.predict(model, data, Recipe()).argmax(axis=-1)
        for prompt, texts, *ids in zip(
            data.prompts, data.choices, answers, data.labels, strict=True
        ):
            answer, truth = (texts[i] for i in ids)
            yield answer_lines(prompt, answer, [truth])
