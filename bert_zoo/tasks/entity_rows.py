"""Texts and named types as rows of a model that finds entities (GLiNER), and spans of words from its scores."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.buckets import Rows
from bert_zoo.data.entities import AnnotatedText, entity_types, fault_of
from bert_zoo.error_text import shown
from bert_zoo.models.direct import tokenized
from bert_zoo.models.text_rows import for_this_device
from bert_zoo.runtime.answers import TaggedSpan
from bert_zoo.text.batches import text_batch
from bert_zoo.text.numpy_packing import Slices

log = logging.getLogger("bert_zoo")

# As gliner's WhitespaceTokenSplitter: words with hyphens inside, and marks one by one.
_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
WORD_POSITIONS, TYPE_POSITIONS = "word_positions", "type_positions"
# On JAX, which compiles for each number of words, this is rounded up to a multiple.
_BUCKET = 8

Tokens = Mapping[str, np.ndarray]


def word_ranges(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a text, in characters."""
    return [match.span() for match in _WORD.finditer(text)]


def tokens_of(model, strings: Iterable[str]) -> Tokens:
    """The ids of words and names of types, each tokenized alone; one without a token is the unknown token."""
    distinct = [*dict.fromkeys(strings)]
    if not distinct:
        return {}
    unknown = np.array([getattr(model.preprocessor.tokenizer, "unk_id", 0)], np.int32)
    found = tokenized(model, text_batch(distinct))
    return {s: ids if len(ids) else unknown for s, ids in zip(distinct, found, strict=True)}


class Prompt(NamedTuple):
    """What a row begins with: a marker and the tokens of each type, and a last marker."""

    types: tuple[str, ...]
    ids: np.ndarray  # int32 [tokens]
    positions: np.ndarray  # int32 [types], which token stands for each type

    @classmethod
    def of(cls, model, types: Sequence[str], tokens: Tokens) -> "Prompt":
        marker, end = markers_of(model)
        parts = [np.append(marker, tokens[name]) for name in types]
        ends = np.cumsum([len(part) for part in parts])
        first = 0 if model.entity_head.reads_marker else 1
        starts = ends - [len(part) for part in parts] + first
        return cls((*types,), np.int32(np.concatenate([*parts, [end]])), np.int32(starts))


def markers_of(model) -> tuple[int, int]:
    """The ids of the tokens before each type and after the last one; ValueError if the vocabulary has none."""
    tokenizer, markers = model.preprocessor.tokenizer, model.own_tokens
    if missing := {*markers} - {*tokenizer.vocabulary}:
        raise ValueError(
            f"The vocabulary has no {shown(sorted(missing))}, which stand before types. Add them: "
            f"model = bert_zoo.add_tokens(model, {[*markers]})."
        )
    first, second = map(tokenizer.token_to_id, markers)
    return first, second


def budget_of(model) -> int:
    """The tokens of a row besides special ones."""
    packer = model.preprocessor.packer
    return packer.sequence_length - packer.layout.specials(1)


class Window(NamedTuple):
    """Words of a text that are read together."""

    text: int  # number of the text
    first: int  # number of the first word
    words: list[np.ndarray]  # their ids

    @property
    def length(self) -> int:
        return sum(map(len, self.words))


def windows_of(
    model, words: Sequence[Sequence[str]], tokens: Tokens, budget: int
) -> Iterator[Window]:
    """Cuts texts, [texts][words], into windows of at most `max_words` words and `budget` tokens.

    Neighbours share `max_width` words or half a window, so that each span of up to `max_width` words is in one.
    """
    head = model.entity_head
    for text, row in enumerate(words):
        ids, start = [tokens[word] for word in row], 0
        while start < len(ids):
            ends = np.cumsum([len(part) for part in ids[start : start + head.max_words]])
            number = max(1, int(np.searchsorted(ends, budget, "right")))
            yield Window(text, start, ids[start : start + number])
            if start + number >= len(ids):
                break
            start += number - min(head.max_width, number // 2)


def inputs_of(model, windows: Sequence[Window], prompts: Sequence[Prompt]) -> dict[str, np.ndarray]:
    """The inputs of a model, int32 [rows, ...], of windows with their prompts."""
    packer = for_this_device(model.preprocessor).packer.in_numpy()
    rows = [
        np.concatenate([prompt.ids, *window.words])[: budget_of(model)]
        for window, prompt in zip(windows, prompts, strict=True)
    ]
    lengths = np.array([*map(len, rows)])
    slices = Slices(np.concatenate(rows), np.cumsum(lengths) - lengths, lengths)
    inputs, (positions,) = packer.lay_out([slices])
    begin = np.int32(positions.inside.argmax(axis=1))
    starts = [
        first + len(prompt.ids) + np.cumsum([0, *map(len, window.words[:-1])])
        for window, prompt, first in zip(windows, prompts, begin, strict=True)
    ]
    width = -(-max(map(len, starts)) // _BUCKET) * _BUCKET
    inputs[WORD_POSITIONS] = _padded(starts, width)
    of_types = [p.positions + first for p, first in zip(prompts, begin, strict=True)]
    inputs[TYPE_POSITIONS] = _padded(of_types, max(map(len, of_types)))
    return inputs


def _padded(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Rows of numbers filled with 0, int32 [rows, width]."""
    found = np.zeros((len(rows), width), np.int32)
    for into, row in zip(found, rows, strict=True):
        into[: len(row)] = row
    return found


# -------------------------------------------------------------------------------------------------
# Spans from scores.
# -------------------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A span of words, without `end`, that may be an entity."""

    start: int
    end: int
    type: int  # number of the type
    score: float


def candidates(
    probabilities: np.ndarray, number: int, first: int, threshold: float
) -> Iterator[Candidate]:
    """The spans of a window's first `number` words above a threshold, of probabilities [words, max_width, types]."""
    for start, more, of_type in np.argwhere(probabilities > threshold).tolist():
        if start + more < number:
            score = float(probabilities[start, more, of_type])
            yield Candidate(first + start, first + start + more + 1, of_type, score)


def chosen(found: Iterable[Candidate], flat: bool) -> list[Candidate]:
    """The entities among the spans of a text: the likeliest first, without those that meet one before.

    Of the same span from two windows, the higher score counts. Unless `flat`, spans may lie within each other; no two
    have the same words.
    """
    best: dict[tuple[int, int, int], Candidate] = {}
    for candidate in sorted(found):
        best[candidate[:3]] = candidate  # sorted: the last one has the highest score
    kept: list[Candidate] = []
    for one in sorted(best.values(), key=lambda candidate: -candidate.score):
        if not any(_meet(one, other, flat) for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda candidate: candidate.start)


def _meet(one: Candidate, other: Candidate, flat: bool) -> bool:
    if one[:2] == other[:2]:
        return True
    do_overlap = one.start < other.end and other.start < one.end
    inner, outer = sorted((one, other), key=lambda candidate: candidate.end - candidate.start)
    is_within = outer.start <= inner.start and inner.end <= outer.end
    return do_overlap and (flat or not is_within)


def span_of(
    text: str, ranges: Sequence[tuple[int, int]], found: Candidate, types: Sequence[str]
) -> TaggedSpan:
    start, end = ranges[found.start][0], ranges[found.end - 1][1]
    name = types[found.type]
    return TaggedSpan(text[start:end], name, found.score, start, end, found.start, found.end)


# -------------------------------------------------------------------------------------------------
# Texts with entities as rows of training.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Example:
    window: Window
    # First and last word in the window, and type.
    entities: list[tuple[int, int, str]]


def training_rows(model, texts: Sequence[AnnotatedText], measures: bool) -> Rows:
    """Texts with entities as rows of a model, with labels [rows, words, max_width, types]: 1 for entities, 0 for other
    spans, -100 for those that do not exist.

    In training each text gets the types of its entities and some of its batch's others, in a random order. A text
    without entities gets one. With `measures`, all texts get all types, in alphabetical order, if there is room.
    """
    ranges = [word_ranges(text.text) for text in texts]
    words = [
        [text.text[start:end] for start, end in row]
        for text, row in zip(texts, ranges, strict=True)
    ]
    entities = _entities_of_words(texts, ranges, model.entity_head.max_width)
    types = types_of(texts)
    tokens = tokens_of(model, chain(types, *words))
    costs = sorted((1 + len(tokens[name]) for name in types), reverse=True)
    most = len(types) if measures else model.entity_head.max_types
    # Types take up to half of a row.
    room = min(1 + sum(costs[:most]), budget_of(model) // 2)
    examples = [
        _Example(window, [*_inside(window, entities[window.text])])
        for window in windows_of(model, words, tokens, budget_of(model) - room)
    ]
    lengths = np.array([example.window.length + room for example in examples])
    seed = np.random.randint(2**31)

    def gather(numbers: np.ndarray) -> tuple[Any, ...]:
        rows = [examples[number] for number in numbers]
        chooses = np.random.default_rng([seed, *numbers])
        names = [types] * len(rows) if measures else _types_of_rows(rows, types, model, chooses)
        prompts = [Prompt.of(model, _fitting(row, tokens, room), tokens) for row in names]
        inputs = inputs_of(model, [row.window for row in rows], prompts)
        labels = [
            _labels(row, prompt, model.entity_head.max_width)
            for row, prompt in zip(rows, prompts, strict=True)
        ]
        size = inputs[WORD_POSITIONS].shape[1], inputs[TYPE_POSITIONS].shape[1]
        shape = (len(rows), size[0], model.entity_head.max_width, size[1])
        y = np.full(shape, IGNORED_LABEL, np.int32)
        for into, of_row in zip(y, labels, strict=True):
            into[: len(of_row), :, : of_row.shape[2]] = of_row
        return inputs, y

    return Rows(lengths, gather, label_axes=4, source=texts)


def types_of(texts: Sequence[AnnotatedText]) -> list[str]:
    """The types of all entities, sorted; ValueError if there are none."""
    types = entity_types(texts)
    if not types:
        raise ValueError(
            f"None of the {len(texts):,} texts has an entity, so there is no type to learn. Check the entities."
        )
    return types


def _types_of_rows(
    rows: Sequence[_Example], types: Sequence[str], model, chooses: np.random.Generator
) -> list[list[str]]:
    """Of each row, its types and negatives of its batch, shuffled. Source: gliner 0.2.29, data_processing/processor.py,
    batch_generate_class_mappings."""
    head = model.entity_head
    of_batch = [*dict.fromkeys(name for row in rows for *_, name in row.entities)] or [*types]
    chooses.shuffle(of_batch)
    found = []
    for row in rows:
        number = len(row.entities) * int(chooses.integers(0, head.negatives, endpoint=True))
        own = {name for *_, name in row.entities}
        names = sorted(own | {*of_batch[: number if own else 1]})
        chooses.shuffle(names)
        found.append(names[: head.max_types])
    return found


def _fitting(types: Sequence[str], tokens: Tokens, room: int) -> list[str]:
    """The first types, at least one, whose tokens have room."""
    ends = 1 + np.cumsum([1 + len(tokens[name]) for name in types])
    return [*types[: max(1, int(np.searchsorted(ends, room, "right")))]]


def _labels(row: _Example, prompt: Prompt, max_width: int) -> np.ndarray:
    """The labels of a row, int32 [words, max_width, types]."""
    number = len(row.window.words)
    exists = np.add.outer(np.arange(number), np.arange(max_width)) < number
    labels = np.where(exists[..., None], np.int32(0), np.int32(IGNORED_LABEL))
    labels = np.repeat(labels, len(prompt.types), axis=2)
    for first, last, name in row.entities:
        if name in prompt.types:
            labels[first, last - first, prompt.types.index(name)] = 1
    return labels


def _entities_of_words(
    texts: Sequence[AnnotatedText], ranges: Sequence[Sequence[tuple[int, int]]], max_width: int
) -> list[list[tuple[int, int, str]]]:
    """First and last word and type of each entity; says which are left out. ValueError for one outside of its text."""
    found, within, longer = [], 0, 0
    for text, row in zip(texts, ranges, strict=True):
        starts = {start: number for number, (start, _) in enumerate(row)}
        ends = {end: number for number, (_, end) in enumerate(row)}
        found.append([])
        for entity in text.entities:
            start, end, name = entity
            if fault := fault_of(entity, text.text):
                raise ValueError(f"{text.place}: {tuple(entity)} {fault}. Correct or remove it.")
            if start not in starts or end not in ends:
                within += 1
            elif ends[end] - starts[start] >= max_width:
                longer += 1
            else:
                found[-1].append((starts[start], ends[end], name))
    if within or longer:
        log.warning(
            "Of %s entities, %s do not begin and end where words do, and %s have more than max_width=%d words. They are "
            "left out.",
            f"{sum(len(text.entities) for text in texts):,}",
            *(f"{within:,}", f"{longer:,}", max_width),
        )
    return found


def _inside(
    window: Window, entities: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[int, int, str]]:
    """The entities in a window, by the numbers of its words."""
    for first, last, name in entities:
        if window.first <= first and last < window.first + len(window.words):
            yield first - window.first, last - window.first, name
