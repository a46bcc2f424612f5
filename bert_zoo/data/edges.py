"""Labelled spans of words and pairs of spans: the JSON lines of edge probing.

Tenney et al., "What do you learn from context? Probing for sentence structure in contextualized word
representations", ICLR 2019 (arXiv:1905.06316), in the layout of jiant 1. Nothing here imports TensorFlow.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import Table
from bert_zoo.error_text import shown
from bert_zoo.json_files import member


@dataclass(frozen=True)
class Edge:
    """A span of words, or a pair of spans, with its labels."""

    span1: tuple[int, int]  # first word and word after the last
    span2: tuple[int, int] | None  # the second span; None if there is only one
    labels: tuple[str, ...]


@dataclass(frozen=True)
class EdgeSentence:
    """A sentence with its labelled spans."""

    words: tuple[str, ...]
    edges: tuple[Edge, ...]


def read_edges(path: str | Path) -> list[EdgeSentence]:
    """Reads a file for edge probing, with a JSON object with `text` and `targets` on each line.

    Spaces separate the words of a text. A target has `span1` and optionally `span2`, each [first word, word
    after the last], and `label`, a string or a list of strings. Other members are ignored.

    Args:
        path: the file, compressed by gzip if its name ends in ".gz".

    Returns:
        The sentences, in the order of the file.

    Raises:
        ValueError: a member is missing or has another type, or a span is empty or exceeds the text.
            Names file and line.
        FileNotFoundError: the file does not exist.
    """
    table = Table(path, format="jsonl")
    return [
        _sentence(text, targets, table.place(line))
        for line, (text, targets) in table.rows(("text", "targets"))
    ]


def _sentence(text: Any, targets: Any, where: str) -> EdgeSentence:
    words = tuple(files.string(text, "text", where).split())
    if not isinstance(targets, list):
        raise ValueError(f"{where}: 'targets' is {shown(targets)}, expected a list.")
    return EdgeSentence(words, tuple(_edge(target, len(words), where) for target in targets))


def _edge(target: Any, num_words: int, where: str) -> Edge:
    span1 = _span(member(target, "span1", list, where), num_words, where)
    span2 = target.get("span2")
    labels = target.get("label")
    labels = labels if isinstance(labels, list) else [labels]
    return Edge(
        span1,
        None if span2 is None else _span(span2, num_words, where),
        tuple(files.string(label, "label", where) for label in labels),
    )


def _span(span: Any, num_words: int, where: str) -> tuple[int, int]:
    are_whole = isinstance(span, Collection) and all(type(number) is int for number in span)
    if not are_whole or len(span) != 2 or not 0 <= span[0] < span[1] <= num_words:
        raise ValueError(
            f"{where}: the span is {shown(span)}, expected [first word, word after the last] in a text "
            f"of {num_words} words."
        )
    return span[0], span[1]
