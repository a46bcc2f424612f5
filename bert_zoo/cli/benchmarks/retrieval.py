"""Sentence vectors and rerankers: texts that are compared with others, by retrieval, similarity or relevance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Benchmark,
    Measurement,
    answer_lines,
    number_lines,
    own_files,
)
from bert_zoo.config import ROLES
from bert_zoo.data.on_disk import StoredTexts, folder_of
from bert_zoo.data.retrieval import Retrieval, read_beir
from bert_zoo.data.tables import Table, TextColumns, read_columns, remarks
from bert_zoo.embeddings.evaluation import similarity_of, vector_sizes
from bert_zoo.embeddings.exact_search import search
from bert_zoo.metrics.errors import binary_cross_entropies, cross_entropies, hardest_examples
from bert_zoo.metrics.labels import pearson, ranks, spearman
from bert_zoo.metrics.retrieval import retrieval_metrics
from bert_zoo.presets import Recipe
from bert_zoo.printing import number
from bert_zoo.runtime.answers import SCORE_ACTIVATIONS
from bert_zoo.tasks import name_of

# Metric -> cutoff ranks.
CUTOFFS = {"ndcg": (10,), "mrr": (10,), "accuracy": (1,), "recall": (10, 100)}
CUTOFFS_OF_LISTS = {"ndcg": (10,), "mrr": (10,), "accuracy": (1,)}
NUM_FOUND = 100
DENSE, SPARSE = name_of("SentenceEmbedder"), name_of("SparseEmbedder")
# Kind of vectors, by its task -> the settings that only it reads.
KINDS = {DENSE: ("matryoshka",), SPARSE: ("sparsity",), name_of("LateInteraction"): ()}


class VectorBenchmark(Benchmark):
    """Rows of texts (`TextColumns`) that are embedded separately; `prompts` names one of the model's prompts for
    each column, by default those for queries and documents, or its default prompt."""

    kind = DENSE
    has_kind = False  # whether the user asked for this kind; by default it is that of the model
    heads = ()
    own_settings: tuple[str, ...] = ()
    question = '"a query" "one document" "another one"'
    roles: tuple[str, ...] = ()  # of the columns, which choose prompts
    usual_loss: str  # a class of `embedding_losses`
    prompts: Sequence[str] = ()

    @property
    def settings(self):
        return (*self.own_settings, "mini_batch_size", *KINDS[self.kind])

    def suit(self, name, task):
        from bert_zoo.loading.load import missing_parts

        if task in KINDS and not self.has_kind:
            self.kind = task
        if self.kind == SPARSE:
            # Any encoder can learn a head for masked tokens.
            self.heads = tuple(missing_parts(name, SPARSE))

    def asked(self, column: int) -> dict[str, str]:
        """A column's prompt or role, as an option of `embed`. Further columns use the last one."""
        name, of_columns = ("prompt", self.prompts) if self.prompts else ("role", self.roles)
        return {name: of_columns[min(column, len(of_columns) - 1)]} if of_columns else {}

    def prompted(self, model, texts: Sequence[str], column: int) -> list[str]:
        before = model.encoder.prompts.text(**self.asked(column))
        return [before + text for text in texts]

    def loss(self, recipe):
        """The usual loss or the recipe's, also over the shorter vectors that a recipe names."""
        from bert_zoo.tasks import embedding_losses as losses

        name = "CosineRegression" if recipe.loss == "cosine_regression" else self.usual_loss
        loss = getattr(losses, name)(**({"symmetric": True} if recipe.symmetric else {}))
        if self.kind == SPARSE:
            from bert_zoo.tasks.sparse_embedding import DEFAULT_WEIGHTS
            from bert_zoo.tasks.sparse_losses import Splade

            return Splade(loss, *(recipe.sparsity or DEFAULT_WEIGHTS))
        return losses.Matryoshka(loss, recipe.matryoshka) if recipe.matryoshka else loss

    def batches(self, model, recipe, seed):
        from bert_zoo.models.text_columns import column_batches

        columns, labels = self.train.columns, self.train.labels
        prompts = model.encoder.prompts
        with model.prompting([prompts.text(**self.asked(i)) for i in range(len(columns))]):
            return column_batches(
                model,
                tuple(c if isinstance(c, StoredTexts) else np.array(c, object) for c in columns),
                *(() if labels is None else (np.asarray(labels, np.float32),)),
                # Grouping by length would change how hard the texts of other rows are to tell apart.
                batching=replace(recipe.batching(seed), group_by_length=False),
                distinct=self.loss(recipe).in_batch_negatives,
            )

    def taught_texts(self, model, more):
        # Unlabelled rows belong to no column and get the first column's prompt.
        columns = [*enumerate(self.train.columns), (0, more)]
        return [*chain(*(self.prompted(model, texts, column) for column, texts in columns))]

    def teacher_says(self, teacher, texts, batch_size, recipe):
        if self.kind != DENSE:
            raise ValueError(
                f"Distillation teaches one vector a text, but this is {self.kind!r}. Fine-tune the student instead."
            )
        return teacher.embed(texts, batch_size, prompt="")

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.distillation.losses import vectors_of_size

        vectors = vectors_of_size(answers, model.encoder.vector_size)
        return self.batches_of(
            self.taught_texts(model, more), vectors, model, recipe.batching(seed)
        )

    def has_labels(self, data):
        return True


class RetrievalBenchmark(VectorBenchmark):
    """Retrieval: queries find their documents among all of a split. Splits may also be `Retrieval`s."""

    own_settings = ("symmetric",)
    usual_loss = "MultipleNegativesRanking"
    roles = ROLES

    def predict(self, model, data, recipe):
        """Query id -> {document id: score} of the found documents, nearest first, by the model's similarity; and the sizes
        of vectors that are sparse or of tokens, as for `Measurement.table`."""
        judged = as_retrieval(data)
        ids = sorted(judged.corpus)
        columns = [*judged.queries.values()], [judged.corpus[id] for id in ids]
        vectors = [
            model.embed(texts, recipe.predicted_rows, **self.asked(i))
            for i, texts in enumerate(columns)
        ]
        hits = search(*vectors, NUM_FOUND, similarity=similarity_of(model))
        found = {
            query: {ids[i]: score for i, score in zip(*row, strict=True)}
            for query, *row in zip(
                judged.queries, hits.indices.tolist(), hits.scores.tolist(), strict=True
            )
        }
        if isinstance(vectors[0], np.ndarray):
            return found, ()
        names = zip(("queries", "documents"), vectors, strict=True)
        return found, [{"texts": name} | vector_sizes(some) for name, some in names]

    def measure(self, data, predictions):
        judged, (scored, sizes) = as_retrieval(data), predictions
        found = {query: [*documents] for query, documents in scored.items()}
        firsts = [first_right(judged.relevant[query], ids) for query, ids in found.items()]
        hardest = hardest_examples(
            [*judged.queries.values()],
            [one_right(judged, query) for query in judged.queries],
            [judged.corpus[ids[0]] for ids in found.values()],
            np.array([1 - 1 / rank if rank else 1.0 for rank in firsts]),
        )
        metrics = retrieval_metrics(judged.relevant, found, CUTOFFS)
        return Measurement(metrics, table=sizes, hardest=hardest)

    def table(self, data, predictions):
        """Each query with its first relevant rank and its nearest document."""
        judged = as_retrieval(data)
        header = ("query_id", "rank", "score", "query", "nearest")
        return header, (
            (
                query,
                first_right(judged.relevant[query], [*found]),
                f"{max(found.values()):.6f}",
                judged.queries[query],
                judged.corpus[next(iter(found))],
            )
            for query, found in predictions[0].items()
        )

    def official_files(self, directory, split, data, predictions):
        """A run of trec_eval."""
        path = directory / f"{self.name}-{split}.trec"
        with path.open("w", encoding="utf-8") as file:
            for query, found in predictions[0].items():
                for place, (document, score) in enumerate(found.items(), start=1):
                    file.write(f"{query} Q0 {document} {place} {score:.6f} bert_zoo\n")
        yield path

    def show(self, model, data, metrics):
        return super().show(model, as_retrieval(data), metrics)

    def take(self, data, rows):
        queries = [*data.queries.items()]
        return replace(data, queries=dict(queries[row] for row in rows))

    def lines(self, model, data, metrics):
        yield "Some queries, and the document nearest to each:"
        found, _ = self.predict(model, data, Recipe())
        for query, (first, *_) in found.items():
            nearest = data.corpus[first]
            right = nearest if first in data.relevant[query] else one_right(data, query)
            yield answer_lines(data.queries[query], nearest, [right])


def as_retrieval(data: TextColumns | Retrieval) -> Retrieval:
    """Turns anchors into queries, and each distinct text of the other columns into a document.

    An anchor's relevant documents are the positives (column 1) of all its rows.
    """
    if isinstance(data, Retrieval):
        return data
    anchors, positives, *_ = data.columns
    queries, documents = (
        {text: str(i) for i, text in enumerate(dict.fromkeys(texts))}
        for texts in (anchors, chain(*data.columns[1:]))
    )
    relevant: dict[str, dict[str, int]] = {query: {} for query in queries.values()}
    for anchor, positive in zip(anchors, positives, strict=True):
        relevant[queries[anchor]][documents[positive]] = 1
    return Retrieval(
        *({id: text for text, id in ids.items()} for ids in (queries, documents)), relevant
    )


def first_right(relevant: Mapping[str, int], found: Sequence[str]) -> int:
    """The rank, from 1, of the first relevant document; 0 if none was found."""
    return next((rank for rank, id in enumerate(found, start=1) if relevant.get(id)), 0)


def one_right(judged: Retrieval, query: str) -> str:
    """The text of the most relevant document."""
    grades = judged.relevant[query]
    return judged.corpus[max(grades, key=grades.get)]


class SimilarityBenchmark(VectorBenchmark):
    """Pairs of texts with similarity scores."""

    published_as = "scores"
    own_settings = ("loss",)
    usual_loss = "CoSENT"
    question = '--second "another text" "some text"'

    def predict(self, model, data, recipe):
        """Cosines [N]."""
        prompts = [self.asked(column).get("prompt") for column in range(2)]
        return model.row_scores(*data.columns, recipe.predicted_rows, prompts)

    def measure(self, data, predictions):
        labels = np.asarray(data.labels)
        metrics = {score.__name__: score(labels, predictions) for score in (spearman, pearson)}
        apart = np.abs(ranks(labels) - ranks(predictions)) / len(labels)
        truths, given = (list(map(number, values.tolist())) for values in (labels, predictions))
        return Measurement(metrics, hardest=hardest_examples(joined(data), truths, given, apart))

    def table(self, data, predictions):
        return number_table(("text", "text_pair", "label", "prediction"), data, predictions)

    def lines(self, model, data, metrics):
        yield "Some cosines (truth, texts):"
        yield from number_lines(self.predict(model, data, Recipe()), data.labels, joined(data))


def joined(data: TextColumns) -> list[str]:
    """The texts of each row side by side."""
    return [" | ".join(row) for row in zip(*data.columns, strict=True)]


def number_table(
    header: Sequence[str], data: TextColumns, scores: np.ndarray
) -> tuple[Sequence[str], Iterator[Sequence[str]]]:
    """Texts with true and predicted scores, as for `Benchmark.table`."""
    rows = zip(*data.columns, data.labels, scores, strict=True)
    return header, ((*texts, f"{label:.6g}", f"{score:.6f}") for *texts, label, score in rows)


# --- Rerankers ---


class PairBenchmark(Benchmark):
    """Query-document pairs with a relevance from 0 to 1."""

    kind = name_of("Reranker")
    has_variants = True
    question = VectorBenchmark.question

    @property
    def texts(self):
        return self.train.columns

    def targets(self, data):
        return np.asarray(data.labels, np.float32)[:, None]

    def predict(self, model, data, recipe):
        """The documents' logits and scores, [N, documents] each."""
        (queries, *columns), size = data.columns, recipe.predicted_rows
        logits = [model.predict((queries, c), batch_size=size, verbose=0) for c in columns]
        logits = np.concatenate(logits, axis=1)
        return logits, SCORE_ACTIVATIONS[model.score_activation](logits)

    def measure(self, data, predictions):
        labels, (logits, given) = np.asarray(data.labels), predictions
        # Average precision needs binary relevance; grades are compared by their order.
        are_grades = bool(set(data.labels) - {0, 1})
        scores = (spearman, pearson) if are_grades else (average_precision, accuracy)
        losses = binary_cross_entropies(labels[:, None], logits)
        metrics = {score.__name__: score(labels, logits[:, 0]) for score in scores}
        truths, given = ([f"{value:.3f}" for value in values] for values in (labels, given[:, 0]))
        hardest = hardest_examples(joined(data), truths, given, losses)
        return Measurement({**metrics, "loss": float(losses.mean())}, hardest=hardest)

    def table(self, data, predictions):
        header = ("query", "document", "label", "score")
        return number_table(header, data, predictions[1][:, 0])

    def lines(self, model, data, metrics):
        yield "Some scores (truth, query and document):"
        _, scores = self.predict(model, data, Recipe())
        yield from number_lines(scores[:, 0], data.labels, joined(data), width=0)


class ListBenchmark(PairBenchmark):
    """Queries with several documents, the first of which is right, and optionally a teacher's margins.

    A margin is the first document's score minus the second document's.
    """

    has_variants = False

    def targets(self, data):
        return data.labels

    def batches_of(self, texts, targets, model, batching):
        from bert_zoo.data.batches import list_batches

        queries, *documents = self.train.columns
        return list_batches(queries, documents, targets, model.preprocessor, batching)

    def taught_loss(self, *, match=None, **others):
        if match not in (None, "squared_error"):
            raise ValueError(
                f"match is {match!r}, but lists of documents are distilled with the squared_error of margins. Leave it "
                "out."
            )
        from bert_zoo.tasks.list_losses import MarginMSE

        return MarginMSE()

    def unlabelled_row(self, line):
        raise ValueError(
            "Lists of documents need no labels. Add them to the training file, and leave unlabelled out."
        )

    def taught_texts(self, model, more):
        queries, *documents = self.texts
        return [*queries] * len(documents), [*chain(*documents)]

    def taught_batches(self, answers, more, model, recipe, seed):
        scores = answers.reshape(-1, len(self.train)).T
        return self.batches_of(None, scores, model, recipe.batching(seed))

    def has_labels(self, data):
        return True

    def measure(self, data, predictions):
        (queries, *documents), (logits, _) = data.columns, predictions
        # Equal scores are sorted by id. "right" is the largest id, so ties count as wrong.
        ids = ["right", *map(str, range(1, len(documents)))]
        relevant = {str(i): ["right"] for i in range(len(data))}
        found = {str(i): dict(zip(ids, row, strict=True)) for i, row in enumerate(logits.tolist())}
        losses = cross_entropies([0] * len(data), logits)
        nearest = [documents[i][row] for row, i in enumerate(logits.argmax(axis=1))]
        metrics = retrieval_metrics(relevant, found, CUTOFFS_OF_LISTS)
        metrics["loss"] = float(losses.mean())
        hardest = hardest_examples(queries, documents[0], nearest, losses)
        return Measurement(metrics, hardest=hardest)

    def table(self, data, predictions):
        return ("query", "document", "score"), (
            (query, document, f"{score:.6f}")
            for (query, *documents), scores in zip(
                zip(*data.columns, strict=True), predictions[1], strict=True
            )
            for document, score in zip(documents, scores, strict=True)
        )

    def lines(self, model, data, metrics):
        yield "Some queries, and the document with the highest score:"
        logits, _ = self.predict(model, data, Recipe())
        rows = zip(*data.columns, strict=True)
        for (query, *documents), best in zip(rows, logits.argmax(axis=1), strict=True):
            yield answer_lines(query, documents[best], documents[:1])


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


# --- Files ---


def column_files(options, columns: Sequence[str], label: str | None = None) -> dict[str, Any]:
    """Like `own_files`, for rows of texts in these columns by default, and a column of numbers, if any."""

    def read(path: str, train: TextColumns | None) -> TextColumns:
        folder = folder_of(path, options.token_dir) if train is None else None
        names = options.columns or columns
        data = read_columns(path, names, label, folder=folder, **options.layout)
        if train is not None and len(train.columns) != len(data.columns):
            raise ValueError(
                f"{path} has rows of {len(data.columns)} texts, but {options.train_file} has rows of "
                f"{len(train.columns)}. Use the same columns in both."
            )
        return data

    def all_remarks() -> Iterator[str]:
        yield from remarks(Path(options.train_file), files["read"]("train"))

    files = own_files(options, read)
    return files | {"remarks": all_remarks}


def pairs_benchmark(options, columns: Sequence[str] = ("anchor", "positive")) -> RetrievalBenchmark:
    return RetrievalBenchmark(**column_files(options, columns), **vector_options(options))


def vector_options(options) -> dict[str, Any]:
    kind = {} if options.vectors is None else {"kind": options.vectors, "has_kind": True}
    return {"prompts": options.prompts, **kind}


def scores_benchmark(options) -> SimilarityBenchmark:
    files = column_files(options, ("sentence1", "sentence2"), options.label)
    return SimilarityBenchmark(**files, **vector_options(options))


def beir_benchmark(options) -> RetrievalBenchmark:
    """A folder in BEIR's layout. It trains on train and measures on dev or test."""
    directory = Path(options.data_dir)
    has_dev = (directory / "qrels" / "dev.tsv").is_file()

    def read(split: str) -> TextColumns | Retrieval:
        judged = read_beir(directory, "dev" if split == "validation" else split)
        if split != "train":
            return judged
        pairs = [
            (judged.queries[query], judged.corpus[document])
            for query, grades in judged.relevant.items()
            for document, grade in grades.items()
            if grade > 0
        ]
        return TextColumns(tuple(map(list, zip(*pairs, strict=True))))

    return RetrievalBenchmark(
        directory.name,
        read,
        measured=("validation" if has_dev else "test",),
        source=f"the folder {directory.name}, in BEIR's layout (Thakur et al. 2021, arXiv:2104.08663)",
        **vector_options(options),
    )


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
