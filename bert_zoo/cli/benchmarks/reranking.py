"""Benchmarks of rerankers: labelled query-document pairs, and lists of documents with a right one."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Benchmark,
    Measurement,
    one_line,
    pair_of,
    spread_rows,
    with_rows,
    write_tsv,
)
from bert_zoo.cli.benchmarks.embeddings import column_files
from bert_zoo.data.columns import TextColumns
from bert_zoo.data.tables import Table
from bert_zoo.metrics.errors import binary_cross_entropies, cross_entropies, hardest_examples
from bert_zoo.metrics.labels import pearson, spearman
from bert_zoo.metrics.retrieval import retrieval_metrics
from bert_zoo.presets import Recipe
from bert_zoo.runtime.answers import SCORE_ACTIVATIONS
from bert_zoo.tasks import name_of

CUTOFFS = {"ndcg": (10,), "mrr": (10,), "accuracy": (1,)}


@dataclass(frozen=True)
class Judgements:
    """A reranker's predictions for documents."""

    logits: np.ndarray  # float [N] or [N, documents]
    activation: str  # the model's activation, which turns logits into scores

    @property
    def scores(self) -> np.ndarray:
        return SCORE_ACTIVATIONS[self.activation](self.logits)


class PairBenchmark(Benchmark):
    """Query-document pairs with a relevance from 0 to 1."""

    kind = name_of("Reranker")
    has_variants = True
    question = '"a query" "one document" "another one"'

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import text_batches

        train = self.train
        labels = np.asarray(train.labels, np.float32)[:, None]
        return text_batches(train.columns, labels, model.preprocessor, recipe.batching(seed))

    def unlabelled_row(self, line):
        return pair_of(line)

    def taught_texts(self, model, more):
        return with_rows(self.train.columns, more)

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.data.batches import text_batches
        from bert_zoo.distillation.losses import targets_of

        targets = targets_of(answers, np.asarray(self.train.labels)[:, None])
        texts = self.taught_texts(model, more)
        return text_batches(texts, targets, model.preprocessor, recipe.batching(seed))

    def predict(self, model, data, recipe):
        """`Judgements` of the documents, [N]."""
        rows = recipe.predicted_rows
        logits = model.predict(data.columns, batch_size=rows, verbose=0)[:, 0]
        return Judgements(logits, model.score_activation)

    def measure(self, data, predictions):
        labels, logits = np.asarray(data.labels), predictions.logits
        # Average precision needs binary relevance; grades are compared by their order.
        are_grades = bool(set(data.labels) - {0, 1})
        scores = (spearman, pearson) if are_grades else (average_precision, accuracy)
        losses = binary_cross_entropies(labels[:, None], logits[:, None])
        metrics = {score.__name__: score(labels, logits) for score in scores}
        texts = [" | ".join(row) for row in zip(*data.columns, strict=True)]
        truths, given = (
            [f"{value:.3f}" for value in values] for values in (labels, predictions.scores)
        )
        hardest = hardest_examples(texts, truths, given, losses)
        return Measurement({**metrics, "loss": float(losses.mean())}, hardest=hardest)

    def write_predictions(self, directory, split, data, predictions, metrics):
        path = directory / f"{self.name}-{split}.tsv"
        rows = zip(*data.columns, data.labels, predictions.scores, strict=True)
        cells = ((*texts, f"{label:.6g}", f"{score:.6f}") for *texts, label, score in rows)
        write_tsv(path, ("query", "document", "label", "score"), cells)
        return [path]

    def show(self, model, data, metrics):
        some = data.take(spread_rows(len(data)))
        lines = ["Some scores (truth, query and document):"]
        scores = self.predict(model, some, Recipe()).scores
        for score, label, *texts in zip(scores, some.labels, *some.columns, strict=True):
            lines.append(f"  {score:.3f}  (true: {label:.3f})  {one_line(' | '.join(texts))}")
        return "\n".join(lines)


class ListBenchmark(PairBenchmark):
    """Queries with several documents, the first of which is right, and optionally a teacher's margins.

    A margin is the first document's score minus the second document's.
    """

    has_variants = False

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import list_batches

        queries, *documents = self.train.columns
        labels, reader = self.train.labels, model.preprocessor
        return list_batches(queries, documents, labels, reader, recipe.batching(seed))

    def taught_loss(self, *, match=None, **others):
        if match not in (None, "squared_error"):
            raise ValueError(
                f"match is {match!r}, but lists of documents are distilled with the squared_error of margins. Leave it "
                "out."
            )
        from bert_zoo.tasks.reranking import MarginMSE

        return MarginMSE()

    def unlabelled_row(self, line):
        raise ValueError(
            "Lists of documents need no labels. Add them to the training file, and leave unlabelled out."
        )

    def taught_texts(self, model, more):
        queries, *documents = self.train.columns
        return [*queries] * len(documents), [*chain.from_iterable(documents)]

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.data.batches import list_batches

        queries, *documents = self.train.columns
        scores = answers.reshape(len(documents), len(queries)).T
        return list_batches(queries, documents, scores, model.preprocessor, recipe.batching(seed))

    def has_labels(self, data):
        return True

    def predict(self, model, data, recipe):
        """`Judgements` of the documents, [N, documents]."""
        queries, *documents = data.columns
        rows = recipe.predicted_rows
        logits = [model.predict((queries, d), batch_size=rows, verbose=0) for d in documents]
        return Judgements(np.concatenate(logits, axis=1), model.score_activation)

    def measure(self, data, predictions):
        (queries, *documents), logits = data.columns, predictions.logits
        # Equal scores are sorted by id. "right" is the largest id, so ties count as wrong.
        ids = ["right", *map(str, range(1, len(documents)))]
        relevant = {str(i): ["right"] for i in range(len(data))}
        found = {str(i): dict(zip(ids, row, strict=True)) for i, row in enumerate(logits.tolist())}
        losses, best = cross_entropies([0] * len(data), logits), logits.argmax(axis=1)
        nearest = [documents[i][row] for row, i in enumerate(best)]
        hardest = hardest_examples(queries, documents[0], nearest, losses)
        metrics = retrieval_metrics(relevant, found, CUTOFFS)
        return Measurement({**metrics, "loss": float(losses.mean())}, hardest=hardest)

    def write_predictions(self, directory, split, data, predictions, metrics):
        path = directory / f"{self.name}-{split}.tsv"
        queries, *documents = data.columns
        scores = predictions.scores
        rows = (
            (query, column[i], f"{scores[i, place]:.6f}")
            for i, query in enumerate(queries)
            for place, column in enumerate(documents)
        )
        write_tsv(path, ("query", "document", "score"), rows)
        return [path]

    def show(self, model, data, metrics):
        some = data.take(spread_rows(len(data)))
        queries, *documents = some.columns
        lines = ["Some queries, and the document with the highest score:"]
        logits = self.predict(model, some, Recipe()).logits
        for row, best in enumerate(logits.argmax(axis=1)):
            wrong = f"   (wrong: {one_line(documents[0][row])})" if best else ""
            lines.append(f"  {one_line(queries[row])}\n    {one_line(documents[best][row])}{wrong}")
        return "\n".join(lines)


def accuracy(labels: np.ndarray, logits: np.ndarray) -> float:
    return float(np.mean((logits > 0) == (labels > 0.5)))


def average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """The mean, over relevant documents, of the precision at their score."""
    order = np.argsort(-scores, kind="stable")
    hits, scores = labels[order] > 0.5, scores[order]
    # Equal scores are taken together, as in scikit-learn's average_precision_score.
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    right = np.cumsum(hits)[last]
    gained = np.diff(right, prepend=0)
    return float(np.sum(gained * right / (last + 1)) / max(1, right[-1]))


def reranking_benchmark(options) -> PairBenchmark:
    """Labelled pairs for two columns, with labels from 0 to 1; for more columns lists, with margins if there is a
    label."""
    columns = options.columns or ("query", "document")
    if len(columns) > 2:
        label = options.label if has_column(options, options.label) else None
        return ListBenchmark(**column_files(options, columns, label))
    files = column_files(options, columns, options.label)
    read = files["read"]

    def checked(split: str) -> TextColumns:
        data = read(split)
        if not all(0 <= label <= 1 for label in data.labels):
            raise ValueError(
                f"The labels of {files['source']} range from {min(data.labels):g} to {max(data.labels):g}, but a "
                "reranker needs labels from 0 to 1. Divide them by the highest possible label."
            )
        return data

    return PairBenchmark(**files | {"read": checked})


def has_column(options, name: str) -> bool:
    """Whether the training file has a column of this name."""
    try:
        next(Table(options.train_file, **options.layout).rows((name,)))
    except ValueError:
        # If the file cannot be read at all, reading its texts raises an error.
        return False
    return True
