"""Words with tags: chunks, entities, parts of speech."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data.files import shown
from bert_zoo.data.tagged_batches import tagged_batches
from bert_zoo.data.tagging import TaggedSplit, first_break, load_conll, read_tagging
from bert_zoo.metrics import span_report
from bert_zoo.models.tagging import word_probabilities
from bert_zoo.training.report import HardExample, confusion_matrix, per_label_table
from bert_zoo.training.tasks.base import (
    NUM_HARDEST,
    Baseline,
    Measurement,
    Task,
    commonest,
    spread_rows,
)
from bert_zoo.training.tasks.files import held_out_reader

TINY = 1e-12


class TaggingTask(Task):
    """A tag for every word; arguments as `Task`, data are `TaggedSplit`s.

    Tags of a scheme of spans (IOB1, IOB2, IOBES) are scored by spans, others by words.
    """

    kind = "token_classification"

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.train.label_names

    def remarks(self):
        train = self.train
        tags = _names(train.labels, train.label_names)
        if train.scheme is not None or (broken := first_break(tags)) is None:
            return ()
        scheme, s, w = broken
        return (
            f"The tags look like {scheme}, and sentence {s + 1:,} breaks it: {shown(train.words[s][w])} has "
            f"the tag {shown(tags[s][w])}. They are scored word by word, without F1 of spans, unless this "
            "is corrected.",
        )

    def load_options(self):
        return {**super().load_options(), "labels": self.label_names}

    def batches(self, model, recipe, seed):
        return tagged_batches(self.train, model.preprocessor, recipe.batching(seed))

    def predict(self, model, data, recipe):
        """For each sentence, the probabilities of every tag for every word, [words, tags]."""
        return word_probabilities(model, data.words, recipe.batch_size)

    def measure(self, data, predictions):
        names = self.label_names
        answers = [rows.argmax(axis=-1) for rows in predictions]
        hardest = self._hardest(data, predictions)
        loss = float(np.concatenate(list(map(_losses, predictions, data.labels))).mean())
        if data.scheme is None:
            labels, flat = np.concatenate(data.labels), np.concatenate(answers)
            confusion = confusion_matrix(labels, flat, len(names))
            figures = {"accuracy": float(np.mean(labels == flat)), "loss": loss}
            return Measurement(figures, confusion, per_label_table(confusion, names), hardest)
        report = span_report(_names(data.labels, names), _names(answers, names))
        figures = {
            "f1": report.micro.f1,
            "precision": report.micro.precision,
            "recall": report.micro.recall,
            "accuracy": report.accuracy,
            "loss": loss,
        }
        table = [
            {
                "type": type_,
                "precision": score.precision,
                "recall": score.recall,
                "f1": score.f1,
                "support": score.support,
            }
            for type_, score in report.types.items()
        ]
        return Measurement(figures, table=table, hardest=hardest)

    def _hardest(self, data: TaggedSplit, predictions: list[np.ndarray]) -> list[HardExample]:
        """The sentences whose tags are the least likely, by the mean over their words."""
        losses = [float(row.mean()) for row in map(_losses, predictions, data.labels)]
        worst = np.argsort(losses)[::-1][:NUM_HARDEST]
        return [
            HardExample(
                " ".join(data.words[i]),
                " ".join(_named(data.labels[i], self.label_names)),
                " ".join(_named(predictions[i].argmax(axis=-1), self.label_names)),
                losses[i],
            )
            for i in worst
        ]

    def baseline(self, data):
        answer = commonest(label for row in self.train.labels for label in row)
        always = np.eye(len(self.label_names))[answer]
        figures = self.measure(data, [np.tile(always, (len(row), 1)) for row in data.words]).figures
        del figures["loss"]
        return Baseline(f"always {self.label_names[answer]!r}", figures)

    def write_predictions(self, directory, split, data, predictions, figures):
        """A word, its tag where there is one, and the predicted one on each line, as conlleval reads."""
        path = directory / f"{self.name}-{split}.txt"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for i, (words, rows) in enumerate(zip(data.words, predictions, strict=True)):
                columns = [words]
                if data.labels is not None:
                    columns.append(_named(data.labels[i], self.label_names))
                columns.append(_named(rows.argmax(axis=-1), self.label_names))
                file.writelines(" ".join(line) + "\n" for line in zip(*columns, strict=True))
                file.write("\n")
        return [path]

    def show(self, model, data, figures):
        chosen = [data.words[i] for i in spread_rows(len(data.words))]
        return f"Some predictions:\n{model.tag(chosen)}"


def _losses(probabilities: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """The cross-entropy of each word's tag in nats, [words]."""
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], TINY))


def _named(labels: Any, names: tuple[str, ...]) -> list[str]:
    return [names[label] for label in labels]


def _names(rows: Any, names: tuple[str, ...]) -> list[list[str]]:
    return [_named(row, names) for row in rows]


def conll_task(name: str, data_dir: str | None = None) -> TaggingTask:
    """A shared task of CoNLL; chunking (2000) has no development split and is measured on its test."""
    return TaggingTask(
        name,
        lambda split: load_conll(name, split, data_dir),
        measured=("test",) if name == "conll2000" else ("validation",),
        source=f"the shared task of CoNLL-{name[-4:]}",
    )


def tagging_task(options) -> TaggingTask:
    """Tagged words of the user's own, or CoNLL's, in columns.

    Args:
        options: `DataOptions`: files, `held_out` sentences, and columns.
    """
    columns = {name: getattr(options, name) for name in ("word_column", "tag_column", "encoding")}

    def read(path: str, train: TaggedSplit | None) -> TaggedSplit:
        names = {} if train is None else {"label_names": train.label_names, "scheme": train.scheme}
        return read_tagging(path, **columns, **names)

    def take(split: TaggedSplit, rows: Sequence[int]) -> TaggedSplit:
        words, labels = ([column[row] for row in rows] for column in (split.words, split.labels))
        return TaggedSplit(words, labels, split.label_names, split.scheme)

    reader, measured = held_out_reader(options, read, take, lambda split: [None] * len(split))
    return TaggingTask(
        Path(options.train_file).stem,
        reader,
        measured=measured,
        source=f"the file {Path(options.train_file).name}",
    )
