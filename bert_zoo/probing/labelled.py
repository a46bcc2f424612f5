"""Labelled items of sentences (words, whole sentences, spans and pairs of spans) and their splits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from bert_zoo.data.edges import Edge
from bert_zoo.error_text import quoted, shown
from bert_zoo.probing.vectors import LayerVectors

SPLITS = ("train", "validation", "test")
# The number of rows is padded to a multiple of this, so that few shapes are compiled.
_ROWS = 256

Inputs = dict[str, np.ndarray]


def sentence_splits(splits: Sequence[str] | None, num_sentences: int) -> np.ndarray:
    """The split of each sentence, one of `SPLITS`. By default the ninth of every ten sentences is "validation", the
    tenth "test" and the others "train"."""
    if splits is None:
        splits = [SPLITS[max(0, number % 10 - 7)] for number in range(num_sentences)]
    _check_length("splits", splits, num_sentences)
    if unknown := sorted(set(splits) - set(SPLITS)):
        raise ValueError(f"splits contains {quoted(unknown)}; expected values from {list(SPLITS)}.")
    return np.asarray(splits)


@dataclass(frozen=True)
class Labelled:
    """Items with labels; an item is a range of words or a pair of ranges."""

    # int64 [items, 1 or 2, 2]: the first row of vectors of each range, and the row after its last.
    spans: np.ndarray
    sentences: np.ndarray  # int64 [items]: the number of each item's sentence
    # Class ids, int64 [items]; or bool [items, classes] if an item may have any number of labels.
    targets: np.ndarray
    label_names: tuple[Any, ...]  # the sorted labels; a label's position is its class id
    # How the vectors of an item's words become one: "mean", or trained "attention".
    pooling: str = "mean"

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def has_label_sets(self) -> bool:
        return self.targets.ndim == 2

    def inputs(self, vectors: LayerVectors, items: np.ndarray) -> Inputs:
        """A probe's inputs for some items: arrays for span 0 and, for pairs, span 1.

        With mean pooling: "vectors_0", float [items, sum of the layers' sizes]. With attention:
        "vectors_0", float16 [rows, sum of sizes], and "members_0", bool [items, rows]: which
        rows are words of the span.
        """
        found = {}
        for slot, spans in enumerate(self.spans[items].transpose(1, 0, 2)):
            starts, stops = spans.T
            lengths = stops - starts
            if self.pooling == "attention":
                rows = np.concatenate([np.arange(start, stop) for start, stop in spans])
                padding = -len(rows) % _ROWS
                members = np.zeros((len(items), len(rows) + padding), bool)
                members[np.repeat(np.arange(len(items)), lengths), np.arange(len(rows))] = True
                rows = np.append(rows, np.repeat(rows[:1], padding))
                found |= {f"vectors_{slot}": vectors.array[rows], f"members_{slot}": members}
            elif lengths.max() == 1:
                found[f"vectors_{slot}"] = vectors.array[starts]
            else:
                # One span at a time, because all their words together may not fit in memory.
                found[f"vectors_{slot}"] = np.stack(
                    [vectors.array[start:stop].mean(0, np.float32) for start, stop in spans]
                )
        return found

    def split(self, splits: Sequence[str] | None, num_sentences: int) -> dict[str, np.ndarray]:
        """The numbers of the items in each of `SPLITS`, int64; ValueError if there are none."""
        of_item = sentence_splits(splits, num_sentences)[self.sentences]
        found = {name: np.flatnonzero(of_item == name) for name in SPLITS}
        for name, items in found.items():
            if not len(items):
                raise ValueError(
                    f"There are no labelled items in the split {name!r}. Pass more sentences, or pass splits to "
                    "assign sentences to 'train', 'validation' and 'test'."
                )
        return found

    def with_one_label(self) -> "Labelled":
        """With class ids as targets; ValueError if an item does not have exactly one label."""
        if not self.has_label_sets:
            return self
        counts = self.targets.sum(1)
        if (counts != 1).any():
            raise ValueError(
                f"An item has {counts[counts != 1][0]} labels; expected exactly one. Choose one of them."
            )
        return replace(self, targets=self.targets.argmax(1))

    def with_control_labels(self, sentences: Sequence[Sequence[str]], seed: int) -> "Labelled":
        """A control task: every word type gets a random label, the same wherever it occurs.

        Labels are drawn with the frequencies of the task's labels (Hewitt and Liang 2019, arXiv:1909.03368,
        section 2). A probe can only memorise them, so word types that occur in the test split alone bound
        its accuracy.
        """
        starts, stops = self.spans[:, 0].T
        if self.has_label_sets or (stops - starts > 1).any():
            raise ValueError(
                "A control task labels word types. Pass control=True only with labels of words."
            )
        words = list(chain.from_iterable(sentences))
        # In the order of the text, which is the same in every process.
        types = {word: number for number, word in enumerate(dict.fromkeys(words))}
        drawn = np.random.default_rng(seed).choice(self.targets, size=len(types))
        return replace(self, targets=drawn[[types[words[row]] for row in starts]])


def labelled(vectors: LayerVectors, labels: Sequence[Any]) -> Labelled:
    """Labels of words (None for those to leave out), edges (`bert_zoo.data.edges.Edge`) or whole sentences, as
    strings or integers, as `Labelled` items."""
    _check_length("labels", labels, len(vectors))
    if any(isinstance(label, str | int | np.integer) for label in labels):
        return _labelled_sentences(vectors, labels)
    if any(isinstance(label, Edge) for label in chain.from_iterable(labels)):
        return _labelled_edges(vectors, labels)
    return _labelled_words(vectors, labels)


def _labelled_sentences(vectors: LayerVectors, labels: Sequence[Any]) -> Labelled:
    names, ids = _ids(labels)
    spans = np.stack([vectors.splits[:-1], vectors.splits[1:]], axis=-1)
    return Labelled(spans[:, None], np.arange(len(labels)), ids, names)


def _labelled_words(vectors: LayerVectors, labels: Sequence[Sequence[Any]]) -> Labelled:
    for number, (words, given) in enumerate(zip(vectors.sentences, labels, strict=True)):
        _check_length(f"labels[{number}]", given, len(words), "words")
    flat = list(chain.from_iterable(labels))
    rows = np.array([row for row, label in enumerate(flat) if label is not None], np.int64)
    names, ids = _ids([flat[row] for row in rows])
    sentences = np.searchsorted(vectors.splits, rows, side="right") - 1
    return Labelled(np.stack([rows, rows + 1], axis=-1)[:, None], sentences, ids, names)


def _labelled_edges(vectors: LayerVectors, labels: Sequence[Sequence[Edge]]) -> Labelled:
    edges = [(number, edge) for number, some in enumerate(labels) for edge in some]
    are_pairs = edges[0][1].span2 is not None
    spans = []
    for number, edge in edges:
        parts = [edge.span1] if edge.span2 is None else [edge.span1, edge.span2]
        if (len(parts) == 2) != are_pairs:
            raise ValueError(
                f"labels[{number}] has {shown(edge)} among edges of {1 + are_pairs} span(s). Probe edges of "
                "one span and edges of two spans separately."
            )
        length = len(vectors.sentences[number])
        if not all(0 <= start < stop <= length for start, stop in parts):
            raise ValueError(
                f"labels[{number}] has {shown(edge)}, but its sentence has {length} words. Pass labels of the "
                "sentences that the vectors were computed from."
            )
        spans.append(vectors.splits[number] + np.array(parts))
    names = tuple(sorted(set(chain.from_iterable(edge.labels for _, edge in edges))))
    column = {name: i for i, name in enumerate(names)}
    targets = np.zeros((len(edges), len(names)), bool)
    for row, (_, edge) in enumerate(edges):
        targets[row, [column[label] for label in edge.labels]] = True
    sentences = np.array([number for number, _ in edges])
    return Labelled(np.array(spans), sentences, targets, names, "attention")


def _ids(labels: Sequence[Any]) -> tuple[tuple[Any, ...], np.ndarray]:
    names = tuple(sorted(set(labels)))
    numbers = {name: i for i, name in enumerate(names)}
    return names, np.array([numbers[label] for label in labels], np.int64)


def _check_length(name: str, values: Sequence[Any], count: int, of: str = "sentences") -> None:
    if len(values) != count:
        raise ValueError(
            f"{name} has {len(values)} entries for {count} {of}; expected one entry each."
        )
