"""Retrieval data in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.

Thakur et al., "BEIR: A Heterogenous Benchmark for Zero-shot Evaluation of Information Retrieval
Models", NeurIPS 2021. Nothing here imports TensorFlow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bert_zoo.data import files
from bert_zoo.data.tables import Table, number
from bert_zoo.error_text import quoted, shown

_QRELS_COLUMNS = ("query-id", "corpus-id", "score")


@dataclass(frozen=True)
class Retrieval:
    """Queries, documents, and the relevant documents of each query."""

    queries: dict[str, str]  # id -> text, for the queries of the split
    corpus: dict[str, str]  # id -> title and text
    # Query id -> document id -> grade, where 0 means not relevant.
    relevant: dict[str, dict[str, int]]

    def __len__(self) -> int:
        return len(self.queries)


def read_beir(directory: str | Path, split: str = "test") -> Retrieval:
    """Reads a folder in BEIR's layout.

    Args:
        directory: contains corpus.jsonl (`_id`, `title`, `text`) and queries.jsonl (`_id`, `text`), or both as
            .jsonl.gz, and qrels/SPLIT.tsv with the header `query-id corpus-id score`.
        split: split of the judgements; queries without any are left out.

    Returns:
        Queries, documents and judgements. A document is its title, a space and its text.

    Raises:
        ValueError: an id or judgement occurs twice, a judgement names an unknown query or document, or a
            grade is not a whole number. Names file and line.
        FileNotFoundError: a file is missing.
    """
    directory = Path(directory)
    corpus = dict(_texts(_json_lines(directory, "corpus")))
    texts = dict(_texts(_json_lines(directory, "queries")))
    qrels = directory / "qrels"
    path = files.require_file(
        qrels / f"{split}.tsv",
        advice=f"The splits are {quoted(sorted(file.stem for file in qrels.glob('*.tsv')))}.",
    )
    relevant: dict[str, dict[str, int]] = {}
    table = Table(path)
    for line, (query, document, score) in table.rows(_QRELS_COLUMNS):
        where = table.place(line)
        for what, id, known in (("query", query, texts), ("document", document, corpus)):
            if id not in known:
                raise ValueError(f"{where}: there is no {what} {shown(id)}.")
        grade = number(score)
        if not grade.is_integer():
            raise ValueError(f"{where}: the score is {shown(score)}; it must be a whole number.")
        grades = relevant.setdefault(query, {})
        if document in grades:
            raise ValueError(
                f"{where}: document {shown(document)} is judged a second time for query {shown(query)}."
            )
        grades[document] = int(grade)
    return Retrieval({query: texts[query] for query in relevant}, corpus, relevant)


def _json_lines(directory: Path, name: str) -> Path:
    candidates = (directory / f"{name}.jsonl", directory / f"{name}.jsonl.gz")
    return files.require_file(*candidates, advice="A folder in BEIR's layout must have it.")


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the id and text of each line."""
    seen = set()
    for where, record in files.json_lines(path):
        id, text = (files.text_member(record, key, where) for key in ("_id", "text"))
        if id in seen:
            raise ValueError(f"{where}: the id {shown(id)} occurs a second time.")
        seen.add(id)
        title = files.text_member(record, "title", where) if record.get("title") else ""
        yield id, f"{title} {text}".strip()
