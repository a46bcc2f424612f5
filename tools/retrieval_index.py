"""Measures indices of texts: seconds to build, bytes a text, milliseconds a query, and what they find.

    python tools/retrieval_index.py                                     # 100,000 texts, drawn vectors
    python tools/retrieval_index.py --squad dev-v1.1.json --models minilm_l6,my_sparse,my_late

Without --models, vectors are drawn with the sizes of usual models: dense ones of 384 numbers, sparse ones with
about 90 of 30,522 weights a text and 30 a query, and 10 to 40 token vectors of 128 numbers a text and 32 a query.
With --models, names or directories, texts are embedded, which `embed` times apart. With --squad, queries are its
questions and texts its paragraphs, and nDCG@10 is measured.

Token vectors are searched for all texts, and as the second stage of each other index. BM25 needs `pip install bm25s`.
"""

import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from scipy.sparse import csr_array

from bert_zoo.embeddings import Hits, TokenIndex, pool_tokens, search, to_binary, vector_sizes
from bert_zoo.metrics import retrieval_metrics

_TEXTS = flags.DEFINE_integer("texts", 100_000, "Texts of the index, without --squad.")
_QUERIES = flags.DEFINE_integer("queries", 256, "Queries, without --squad.", lower_bound=1)
_SINGLE = flags.DEFINE_integer("single_queries", 10, "Of them, timed one by one.", lower_bound=1)
_SQUAD = flags.DEFINE_string("squad", None, "A file of SQuAD.")
_ARTICLES = flags.DEFINE_integer("articles", None, "Of SQuAD, the last ones; by default all.")
_MODELS = flags.DEFINE_list("models", [], "Checkpoints or directories, at most one of a kind.")
_CANDIDATES = flags.DEFINE_integer("candidates", 10, "Of a first stage, for each hit.")
_OUTPUT = flags.DEFINE_string("output", None, "Where to write the figures as JSON.")
TOP_K = 10
BATCH = 4096
DENSE, SPARSE, TOKENS = "dense", "sparse", "tokens"
VOCABULARY = 30_522


@dataclass
class Index:
    """Attributes: build() makes what `find` gets, with a slice of the queries; size(it) is its bytes a text."""

    build: Callable[[], Any]
    find: Callable[[Any, slice], Hits]
    size: Callable[[Any], float]


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}. Flags begin with --.")
    rng = np.random.default_rng(0)
    questions, texts, relevant = of_squad(_SQUAD.value) if _SQUAD.value else drawn_texts(rng)
    print(f"{len(texts):,} texts, {len(questions):,} queries", flush=True)
    if _MODELS.value:
        vectors = dict(embedded(name, questions, texts) for name in _MODELS.value)
    else:
        vectors = drawn_vectors(rng, len(questions), len(texts))
    rows = {
        name: measured(name, index, len(questions), relevant)
        for name, index in indices(vectors, questions, texts)
    }
    if _OUTPUT.value:
        Path(_OUTPUT.value).write_text(json.dumps(rows, indent=2), encoding="utf-8")


def measured(name: str, index: Index, queries: int, relevant: dict | None) -> dict[str, float]:
    start = time.perf_counter()
    built = index.build()
    row = {"build_seconds": time.perf_counter() - start, "bytes_a_text": index.size(built)}
    single = []
    for number in range(1 + min(_SINGLE.value, queries)):
        start = time.perf_counter()
        index.find(built, slice(max(0, number - 1), max(1, number)))
        single.append(time.perf_counter() - start)
    # The first one warms up.
    row["ms_single_query"] = 1000 * statistics.median(single[1:])
    start = time.perf_counter()
    hits = index.find(built, slice(0, queries))
    row["ms_query_of_all"] = 1000 * (time.perf_counter() - start) / queries
    if relevant is not None:
        found = {str(query): [*map(str, some)] for query, some in enumerate(hits.indices.tolist())}
        row["ndcg@10"] = retrieval_metrics(relevant, found, {"ndcg": (10,)})["ndcg@10"]
    print(f"{name:<24}", *(f"{key} {value:,.3f}" for key, value in row.items()), flush=True)
    return row


# --- Texts ---


def of_squad(path: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Questions, distinct paragraphs, and each question's paragraph, by numbers as strings."""
    articles = json.loads(Path(path).read_text(encoding="utf-8"))["data"]
    asked = [
        (question["question"], paragraph["context"])
        for article in articles[-(_ARTICLES.value or 0) :]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if not question.get("is_impossible")
    ]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(text for _, text in asked))}
    relevant = {str(i): [str(numbers[text])] for i, (_, text) in enumerate(asked)}
    return [question for question, _ in asked], [*numbers], relevant


def drawn_texts(rng: np.random.Generator) -> tuple[list[str], list[str], None]:
    """Texts of 8 to 24 words, as frequent as in the messages of the package."""
    from bert_zoo.data import messages

    words = np.array(" ".join(messages.load("train")[0]).split())

    def drawn(number: int) -> list[str]:
        lengths = rng.integers(8, 25, number)
        return [" ".join(words[rng.integers(0, len(words), length)]) for length in lengths]

    return drawn(_QUERIES.value), drawn(_TEXTS.value), None


# --- Vectors: kind -> those of queries and of documents ---


def embedded(name: str, questions: list[str], texts: list[str]) -> tuple[str, tuple[Any, Any]]:
    import bert_zoo
    from bert_zoo.embeddings.stages import is_sparse, is_tokens

    model = bert_zoo.load(name)
    queries = model.embed(questions, role="query")
    start = time.perf_counter()
    kind = SPARSE if is_sparse(queries) else TOKENS if is_tokens(queries) else DENSE
    if kind == TOKENS:
        batches = (
            model.embed(texts[i : i + BATCH], role="document") for i in range(0, len(texts), BATCH)
        )
        documents = token_index(batches)
    else:
        documents = model.embed(texts, role="document")
    print(f"{kind}: {name}, embed {time.perf_counter() - start:,.1f} s", flush=True)
    return kind, (queries, documents)


def drawn_vectors(rng: np.random.Generator, queries: int, texts: int) -> dict[str, tuple]:
    def dense(number: int, size: int = 384) -> np.ndarray:
        vectors = rng.standard_normal((number, size), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    # Terms are as frequent as words.
    chances = 1 / np.arange(5, VOCABULARY + 5) ** 0.8
    chances /= chances.sum()

    def sparse(number: int, terms: int) -> csr_array:
        columns = rng.choice(VOCABULARY, number * terms, p=chances)
        rows = np.repeat(np.arange(number), terms)
        weights = rng.gamma(1, 0.5, len(rows)).astype(np.float32)
        return csr_array((weights, (rows, columns)), shape=(number, VOCABULARY))

    def tokens(number: int, least: int, most: int) -> list[np.ndarray]:
        lengths = rng.integers(least, most + 1, number)
        return np.split(dense(lengths.sum(), 128), np.cumsum(lengths)[:-1])

    batches = (tokens(min(BATCH, texts - i), 10, 40) for i in range(0, texts, BATCH))
    return {
        DENSE: (dense(queries), dense(texts)),
        SPARSE: (sparse(queries, 30), sparse(texts, 90)),
        TOKENS: (tokens(queries, 32, 32), token_index(batches)),
    }


def token_index(batches: Iterable[list[np.ndarray]]) -> TokenIndex:
    index = TokenIndex("float16")
    for batch in batches:
        index.append(batch)
    return index


# --- Indices ---


def indices(vectors: dict, questions: list[str], texts: list[str]) -> Iterator[tuple[str, Index]]:
    if importlib.util.find_spec("bm25s"):
        yield "BM25", bm25(questions, texts)
    # Name -> queries, and what makes the index.
    firsts: dict[str, tuple[Any, Callable[[], Any]]] = {}
    if DENSE in vectors:
        queries, dense = vectors[DENSE]
        firsts |= {"dense": (queries, lambda: dense), "binary": (queries, lambda: to_binary(dense))}
        yield "binary, then dense", searched(*firsts["binary"], rescored=(queries, dense))
    if SPARSE in vectors:
        queries, sparse = vectors[SPARSE]
        firsts["sparse"] = queries, sparse.tocsc
    second = vectors.get(TOKENS)
    for name, first in firsts.items():
        yield name, searched(*first)
        if second:
            yield f"{name}, then tokens", searched(*first, rescored=second)
    if second:
        queries, tokens = second

        def pooled() -> TokenIndex:
            batches = (range(i, min(i + BATCH, len(tokens))) for i in range(0, len(tokens), BATCH))
            return token_index([pool_tokens(tokens[i], 2) for i in batch] for batch in batches)

        yield "tokens", searched(queries, lambda: tokens)
        yield "tokens, half as many", searched(queries, pooled)


def searched(
    queries: Any, build: Callable[[], Any], rescored: tuple[Any, Any] | None = None
) -> Index:
    """An index for `search`; `rescored` has the queries and documents of a second stage."""

    def find(built: Any, rows: slice) -> Hits:
        if rescored is None:
            return search(queries[rows], built, TOP_K)
        more, documents = rescored
        return search(
            queries[rows],
            built,
            TOP_K,
            rescore_with=documents,
            rescore_queries=more[rows],
            rescore_multiplier=_CANDIDATES.value,
        )

    def size(built: Any) -> float:
        stages = [built] if rescored is None else [built, rescored[1]]
        return sum(vector_sizes(vectors)["bytes"] for vectors in stages)

    return Index(build, find, size)


def bm25(questions: list[str], texts: list[str]) -> Index:
    """bm25s with its defaults: Lucene's formula, English stop words, no stemmer."""
    import bm25s

    def build() -> bm25s.BM25:
        index = bm25s.BM25()
        index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
        return index

    def find(index: bm25s.BM25, rows: slice) -> Hits:
        asked = bm25s.tokenize(questions[rows], show_progress=False, return_ids=False)
        return Hits(*index.retrieve(asked, k=TOP_K, show_progress=False))

    def size(index: bm25s.BM25) -> float:
        return sum(
            array.nbytes for array in index.scores.values() if hasattr(array, "nbytes")
        ) / len(texts)

    return Index(build, find, size)


if __name__ == "__main__":
    app.run(main)
