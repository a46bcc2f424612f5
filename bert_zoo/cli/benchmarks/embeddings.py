"""Benchmarks of sentence vectors: retrieval, and similarity of text pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_zoo.cli.benchmarks.base import Benchmark, Measurement, one_line, spread_rows, write_tsv
from bert_zoo.cli.benchmarks.files import own_files
from bert_zoo.data.columns import TextColumns, read_columns, remarks
from bert_zoo.data.retrieval import Retrieval, read_beir
from bert_zoo.embeddings.evaluation import DOCUMENT, QUERY, prompt_of, similarity_of
from bert_zoo.embeddings.exact_search import Hits, directions, search
from bert_zoo.metrics.errors import hardest_examples
from bert_zoo.metrics.labels import pearson, ranks, spearman
from bert_zoo.metrics.retrieval import retrieval_metrics
from bert_zoo.presets import Recipe
from bert_zoo.runtime.answers import number
from bert_zoo.tasks import name_of

if TYPE_CHECKING:
    from keras.losses import Loss

    from bert_zoo.models.base import ZooModel

# Metric -> cutoff ranks.
CUTOFFS = {"ndcg": (10,), "mrr": (10,), "accuracy": (1,), "recall": (10, 100)}
NUM_FOUND = 100


class VectorBenchmark(Benchmark):
    """Rows of texts (`TextColumns`) that are embedded separately; `prompts` names one of the model's prompts for
    each column, by default those for queries and documents, or its default prompt."""

    kind = name_of("SentenceEmbedder")
    heads = ()
    settings = ("matryoshka", "mini_batch_size")
    question = '"a query" "one document" "another one"'
    # Names of prompts for each column. The first one that the model has is used.
    roles: tuple[tuple[str, ...], ...] = ()

    def __init__(self, *args, prompts: Sequence[str] = (), **kwargs):
        super().__init__(*args, **kwargs)
        self.prompts = prompts

    def prompt(self, model: "ZooModel", column: int) -> str | None:
        """The name of a column's prompt. Further columns use the last prompt."""
        if self.prompts:
            return self.prompts[min(column, len(self.prompts) - 1)]
        role = self.roles[min(column, len(self.roles) - 1)] if self.roles else ()
        return prompt_of(model, role)

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import column_batches

        columns = []
        for i, column in enumerate(self.train.columns):
            before = model.encoder.prompts.text(self.prompt(model, i))
            columns.append([before + text for text in column])
        return column_batches(
            columns,
            self.train.labels,
            model.preprocessor,
            # Grouping by length would change how hard the texts of other rows are to tell apart.
            replace(recipe.batching(seed), group_by_length=False),
            distinct=self.loss(recipe).in_batch_negatives,
        )

    def taught_texts(self, model, more):
        prompts = model.encoder.prompts
        columns = (*self.train.columns, more)
        # Unlabelled rows belong to no column and get the first column's prompt.
        names = [self.prompt(model, i % len(self.train.columns)) for i in range(len(columns))]
        texts = (
            prompts.text(name) + text
            for name, column in zip(names, columns, strict=True)
            for text in column
        )
        return [*texts]

    def teacher_says(self, teacher, texts, batch_size, recipe):
        return teacher.embed(texts, batch_size, prompt="")

    def taught_batches(self, answers, more, model, recipe, seed):
        from bert_zoo.data.batches import text_batches
        from bert_zoo.distillation.losses import vectors_of_size

        vectors = vectors_of_size(answers, model.encoder.vector_size)
        texts = self.taught_texts(model, more)
        return text_batches(texts, vectors, model.preprocessor, recipe.batching(seed))

    def vectors(self, model: "ZooModel", texts: Sequence[str], column: int, recipe: Recipe):
        """Embeds texts after their column's prompt, float32 [texts, size]."""
        return model.embed(texts, recipe.predicted_rows, self.prompt(model, column))

    def has_labels(self, data):
        return True


def nested(loss: "Loss", recipe: Recipe) -> "Loss":
    """The loss, also over the shorter vectors that a recipe names."""
    from bert_zoo.tasks.embedding_losses import Matryoshka

    return Matryoshka(loss, recipe.matryoshka) if recipe.matryoshka else loss


class RetrievalBenchmark(VectorBenchmark):
    """Retrieval: queries find their documents among all of a split. Splits may also be `Retrieval`s."""

    settings = ("symmetric", *VectorBenchmark.settings)
    roles = (QUERY, DOCUMENT)

    def loss(self, recipe):
        from bert_zoo.tasks.embedding_losses import MultipleNegativesRanking

        return nested(MultipleNegativesRanking(symmetric=recipe.symmetric), recipe)

    def predict(self, model, data, recipe):
        """Each query's `Hits` among the documents, sorted by id, with the model's similarity."""
        judged = as_retrieval(data)
        queries = self.vectors(model, [*judged.queries.values()], 0, recipe)
        texts = [judged.corpus[id] for id in sorted(judged.corpus)]
        documents = self.vectors(model, texts, 1, recipe)
        return search(queries, documents, NUM_FOUND, similarity=similarity_of(model))

    def measure(self, data, predictions):
        judged = as_retrieval(data)
        found = found_documents(judged, predictions)
        firsts = [first_right(judged.relevant[query], ids) for query, ids in found.items()]
        hardest = hardest_examples(
            [*judged.queries.values()],
            [one_right(judged, query) for query in judged.queries],
            [judged.corpus[ids[0]] for ids in found.values()],
            np.array([1 - 1 / rank if rank else 1.0 for rank in firsts]),
        )
        return Measurement(retrieval_metrics(judged.relevant, found, CUTOFFS), hardest=hardest)

    def write_predictions(self, directory, split, data, predictions, metrics):
        """Writes a table with each query's nearest document and first relevant rank, and a trec_eval run."""
        judged, path = as_retrieval(data), directory / f"{self.name}-{split}.tsv"
        found = found_documents(judged, predictions)
        rows = (
            (
                query,
                first_right(judged.relevant[query], ids),
                f"{scores[0]:.6f}",
                text,
                judged.corpus[ids[0]],
            )
            for (query, ids), scores, text in zip(
                found.items(), predictions.scores, judged.queries.values(), strict=True
            )
        )
        write_tsv(path, ("query_id", "rank", "score", "query", "nearest"), rows)
        run = directory / f"{self.name}-{split}.trec"
        with run.open("w", encoding="utf-8") as file:
            for (query, ids), scores in zip(found.items(), predictions.scores, strict=True):
                for place, (document, score) in enumerate(zip(ids, scores, strict=True), start=1):
                    file.write(f"{query} Q0 {document} {place} {score:.6f} bert_zoo\n")
        return [path, run]

    def show(self, model, data, metrics):
        judged = as_retrieval(data)
        chosen = [[*judged.queries][row] for row in spread_rows(len(judged.queries))]
        some = replace(judged, queries={query: judged.queries[query] for query in chosen})
        found = found_documents(some, self.predict(model, some, Recipe()))
        lines = ["Some queries, and the document nearest to each:"]
        for query, (first, *_) in found.items():
            is_right = first in judged.relevant[query]
            wrong = "" if is_right else f"   (wrong: {one_line(one_right(judged, query))})"
            text = one_line(judged.queries[query])
            lines.append(f"  {text}\n    {one_line(judged.corpus[first])}{wrong}")
        return "\n".join(lines)


def as_retrieval(data: TextColumns | Retrieval) -> Retrieval:
    """Turns anchors into queries, and each distinct text of the other columns into a document.

    An anchor's relevant documents are the positives (column 1) of all its rows.
    """
    if isinstance(data, Retrieval):
        return data
    anchors, positives, *_ = data.columns
    queries = {text: str(i) for i, text in enumerate(dict.fromkeys(anchors))}
    texts = dict.fromkeys(text for column in data.columns[1:] for text in column)
    documents = {text: str(i) for i, text in enumerate(texts)}
    relevant: dict[str, dict[str, int]] = {query: {} for query in queries.values()}
    for anchor, positive in zip(anchors, positives, strict=True):
        relevant[queries[anchor]][documents[positive]] = 1
    return Retrieval(
        *({id: text for text, id in ids.items()} for ids in (queries, documents)), relevant
    )


def found_documents(judged: Retrieval, hits: Hits) -> dict[str, list[str]]:
    """Query id -> ids of the found documents, nearest first."""
    ids = sorted(judged.corpus)
    rows = zip(judged.queries, hits.indices.tolist(), strict=True)
    return {query: [ids[i] for i in found] for query, found in rows}


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
    settings = ("loss", *VectorBenchmark.settings)
    question = '--second "another text" "some text"'

    def loss(self, recipe):
        from bert_zoo.tasks.embedding_losses import CoSENT, CosineRegression

        losses = {None: CoSENT, "cosine_regression": CosineRegression}
        return nested(losses[recipe.loss](), recipe)

    def predict(self, model, data, recipe):
        """Cosines [N]."""
        vectors = [
            self.vectors(model, texts, column, recipe) for column, texts in enumerate(data.columns)
        ]
        return row_cosines(*vectors)

    def measure(self, data, predictions):
        labels = np.asarray(data.labels)
        metrics = {
            "spearman": spearman(labels, predictions),
            "pearson": pearson(labels, predictions),
        }
        apart = np.abs(ranks(labels) - ranks(predictions)) / len(labels)
        texts = [f"{first} | {second}" for first, second in zip(*data.columns, strict=True)]
        truths, given = (list(map(number, values.tolist())) for values in (labels, predictions))
        return Measurement(metrics, hardest=hardest_examples(texts, truths, given, apart))

    def write_predictions(self, directory, split, data, predictions, metrics):
        path = directory / f"{self.name}-{split}.tsv"
        cells = zip(*data.columns, data.labels, predictions, strict=True)
        rows = ((a, b, f"{label:.6g}", f"{cosine:.6f}") for a, b, label, cosine in cells)
        write_tsv(path, ("text", "text_pair", "label", "prediction"), rows)
        return [path]

    def show(self, model, data, metrics):
        some = data.take(spread_rows(len(data)))
        cosines = self.predict(model, some, Recipe())
        lines = ["Some cosines (truth, texts):"]
        for cosine, truth, *texts in zip(cosines, some.labels, *some.columns, strict=True):
            lines.append(f"  {cosine:6.3f}  (true: {truth:.3f})  {one_line(' | '.join(texts))}")
        return "\n".join(lines)


def row_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosine of each row's two vectors, [N]."""
    return np.einsum("ij,ij->i", directions(first), directions(second))


# --- Files ---


def column_files(options, columns: Sequence[str], label: str | None = None) -> dict[str, Any]:
    """Like `own_files`, for rows of texts in these columns by default, and a column of numbers, if any."""
    columns = options.columns or columns

    def read(path: str, train: TextColumns | None) -> TextColumns:
        data = read_columns(path, columns, label, **options.layout)
        if train is not None and len(train.columns) != len(data.columns):
            raise ValueError(
                f"{path} has rows of {len(data.columns)} texts, but {options.train_file} has rows of "
                f"{len(train.columns)}. Use the same columns in both."
            )
        return data

    def all_remarks():
        yield from remarks(Path(options.train_file), task["read"]("train"))

    task = own_files(options, read, TextColumns.take)
    return task | {"remarks": all_remarks}


def pairs_benchmark(options) -> RetrievalBenchmark:
    files = column_files(options, ("anchor", "positive"))
    return RetrievalBenchmark(**files, prompts=options.prompts)


def triplets_benchmark(options) -> RetrievalBenchmark:
    files = column_files(options, ("anchor", "positive", "negative"))
    return RetrievalBenchmark(**files, prompts=options.prompts)


def scores_benchmark(options) -> SimilarityBenchmark:
    files = column_files(options, ("sentence1", "sentence2"), options.label)
    return SimilarityBenchmark(**files, prompts=options.prompts)


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
        prompts=options.prompts,
    )
