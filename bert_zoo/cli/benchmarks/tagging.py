"""Benchmarks of tagged words: chunks, entities, parts of speech."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import Baseline, Benchmark, Measurement, commonest, own_files
from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.entities import is_entity_file, read_entities
from bert_zoo.data.tagging import TaggedSplit, first_break, read_tagging
from bert_zoo.error_text import quoted, shown
from bert_zoo.metrics import span_report
from bert_zoo.metrics.errors import TINY, confusion_matrix, hardest_examples, per_label_table
from bert_zoo.metrics.labels import SpanScore
from bert_zoo.runtime.answers import marks_spans
from bert_zoo.tasks import name_of

log = logging.getLogger("bert_zoo")

# Of the table of types.
COLUMNS = ("precision", "recall", "f1", "support")


class TaggingBenchmark(Benchmark):
    """A tag for every word. Arguments as for `Benchmark`; data are `TaggedSplit`s.

    Tags in a span scheme (IOB1, IOB2, IOBES) are scored by spans, other tags by words.
    """

    kind = name_of("TokenClassifier")

    @property
    def label_names(self):
        return self.train.label_names

    @property
    def texts(self):
        return self.train.words

    def _answers(self, predictions: Iterable[np.ndarray]) -> list[list[str]]:
        """The most probable tags, from the result of `predict`."""
        return _tags((rows.argmax(axis=-1) for rows in predictions), self.label_names)

    def remarks(self):
        train = self.train
        if train.scheme is not None or not marks_spans(train.label_names):
            return
        tags = _tags(train.labels, train.label_names)
        scheme, s, w = first_break(tags)
        yield (
            f"The tags look like {scheme}, but sentence {s + 1:,} breaks that scheme: {shown(train.words[s][w])} has "
            f"the tag {shown(tags[s][w])}. Until this is corrected, tags are scored word by word, without the F1 of "
            "spans."
        )

    def unlabelled_row(self, line):
        return line.split()

    def answered_rows(self, teacher, texts, recipe):
        return [*map(len, texts)]

    def targets(self, data):
        return np.concatenate(data.labels)

    def batches(self, model, recipe, seed):
        return self.batches_of(self.texts, None, model, recipe.batching(seed))

    def batches_of(self, texts, targets, model, batching):
        from bert_zoo.data.batches import tagged_batches

        words = replace(self.train, words=texts)
        return tagged_batches(words, model.preprocessor, batching, targets)

    def predict(self, model, data, recipe):
        """The probabilities of tags for each sentence, [words, tags]."""
        from bert_zoo.tasks.token_classification import word_probabilities

        return word_probabilities(model, data.words, recipe.predicted_rows)

    def measure(self, data, predictions):
        data, predictions = _labelled_words(data, predictions)
        # Tags missing from the training data come last and are never predicted.
        names = data.label_names
        truths, answers = _tags(data.labels, names), self._answers(predictions)
        losses = list(map(_losses, predictions, data.labels))
        loss = {"loss": float(np.concatenate(losses).mean())}
        # By the mean loss of their words.
        hardest = hardest_examples(
            [" ".join(words) for words in data.words],
            *([" ".join(tags) for tags in rows] for rows in (truths, answers)),
            [row.mean() for row in losses],
            by_word=True,
        )
        if data.scheme is None:
            labels = np.concatenate(data.labels)
            flat = np.concatenate([rows.argmax(axis=-1) for rows in predictions])
            confusion = confusion_matrix(labels, flat, len(names))
            metrics = {"accuracy": float(np.mean(labels == flat)), **loss}
            return Measurement(metrics, confusion, per_label_table(confusion, names), hardest)
        report = span_report(truths, answers)
        metrics = {name: getattr(report.micro, name) for name in ("f1", "precision", "recall")}
        metrics |= {"accuracy": report.accuracy, **loss}
        return Measurement(metrics, table=type_table(report.types), hardest=hardest)

    def baseline(self, data):
        answer = commonest(label for row in self.train.labels for label in row)
        always = np.eye(len(self.label_names))[answer]
        metrics = self.measure(data, [np.tile(always, (len(row), 1)) for row in data.words]).metrics
        del metrics["loss"]
        return Baseline(f"always {self.label_names[answer]!r}", metrics)

    def write_predictions(self, directory, split, data, predictions, metrics):
        """Writes conlleval's format: each line has a word, its tag if known, and the predicted tag."""
        path = directory / f"{self.name}-{split}.txt"
        columns = [data.words, self._answers(predictions)]
        if data.labels is not None:
            columns.insert(1, _tags(data.labels, data.label_names))
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in zip(*columns, strict=True):
                file.writelines(" ".join(line) + "\n" for line in zip(*sentence, strict=True))
                file.write("\n")
        return [path]

    def lines(self, model, data, metrics):
        yield f"Some predictions:\n{model.tag(data.words)}"


def type_table(scores: Mapping[str, SpanScore]) -> list[dict[str, Any]]:
    """The scores of spans, a row for each type."""
    return [
        {"type": type_} | {name: getattr(score, name) for name in COLUMNS}
        for type_, score in scores.items()
    ]


def _tags(sentences: Iterable[Iterable[int]], names: Sequence[str]) -> list[list[str]]:
    """The names of tag ids [sentences][words]."""
    return [[names[id] for id in sentence] for sentence in sentences]


def _labelled_words(
    data: TaggedSplit, predictions: Sequence[np.ndarray]
) -> tuple[TaggedSplit, Sequence[np.ndarray]]:
    """The words that have a label, and their predictions; sentences without any are left out."""
    kept = [np.flatnonzero(np.asarray(row) != IGNORED_LABEL) for row in data.labels]
    rows = [i for i, words in enumerate(kept) if len(words)]
    words, labels = (
        [[column[i][j] for j in kept[i]] for i in rows] for column in (data.words, data.labels)
    )
    return replace(data, words=words, labels=labels), [predictions[i][kept[i]] for i in rows]


def _losses(probabilities: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """The cross-entropy of each word's tag in nats, [words]. An unknown tag has probability TINY."""
    with_unknown = np.pad(probabilities, ((0, 0), (0, 1)))
    columns = np.minimum(labels, probabilities.shape[1])
    return -np.log(np.maximum(with_unknown[np.arange(len(columns)), columns], TINY))


def tagging_benchmark(options) -> TaggingBenchmark:
    """The user's own files: words in columns as in CoNLL's, or JSON with entities."""

    def read(path: str, train: TaggedSplit | None) -> TaggedSplit:
        names = train and train.label_names
        known = {"label_names": names, "allow_unseen": bool(train), "encoding": options.encoding}
        if is_entity_file(path):
            split = read_entities(path, **known)
        else:
            columns = {"word_column": options.word_column, "tag_column": options.tag_column}
            split = read_tagging(path, scheme=train and train.scheme, **columns, **known)
        if train and (unseen := split.label_names[len(names) :]):
            number = sum(id >= len(names) for row in split.labels for id in row)
            log.warning(
                "%s has the tags %s, which the training file does not have. The %s words with these tags "
                "count as errors.",
                path,
                quoted(unseen),
                f"{number:,}",
            )
        return split

    return TaggingBenchmark(**own_files(options, read))
