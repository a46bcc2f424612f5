"""Tagged words in columns, as in CoNLL's shared tasks, and tag schemes.

A tag scheme writes spans of words as one tag per word: "O" outside spans, otherwise a prefix, "-" and
the span's type. The schemes:

- IOB2: B begins a span, I continues it.
- IOB1: I is in a span; B begins a span only right after another one of the same type.
- IOBES: B begins a span, I continues it, E ends it; S is a span of one word.

Nothing here imports TensorFlow.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from bert_zoo.data import files
from bert_zoo.data.tables import ids_of, positions
from bert_zoo.error_text import shown

OUTSIDE = "O"


@dataclass(frozen=True)
class TaggedSplit:
    """Sentences of words with tags, in the order of their file."""

    words: list[list[str]]  # strings [N][words]
    labels: list[list[int]] | None  # ids of the tags [N][words]; None if tags were not read
    label_names: tuple[str, ...]  # tags in the order of their ids
    # The key of `SCHEMES` that the tags follow; None if they follow none, like parts of speech.
    scheme: str | None

    def __len__(self) -> int:
        return len(self.words)


# --- Tag schemes ---


@dataclass(frozen=True)
class Span:
    """A span of words from `start` to `end` (exclusive), with its type."""

    start: int
    end: int
    type: str


# Prefixes, in the order in which `scheme_names` lists them.
SCHEMES: Mapping[str, str] = {"IOB2": "BI", "IOB1": "BI", "IOBES": "BIES"}


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence's tags, in any of the schemes.

    Tags that break every scheme are read as in conlleval: an I after another type, or outside a span,
    begins a span.
    """
    found: list[Span] = []
    start, before, type_before = 0, OUTSIDE, ""
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, span_type = tag.partition("-")
        goes_on = prefix in ("I", "E") and before in ("B", "I") and span_type == type_before
        if before != OUTSIDE and not goes_on:
            found.append(Span(start, i, type_before))
        if not goes_on:
            start = i
        before, type_before = prefix, span_type
    return found


def span_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Tags of a sentence of `length` words with these spans, which are ordered by start."""
    check_scheme(scheme)
    tags = [OUTSIDE] * length
    end_before, type_before = 0, None
    for span in spans:
        touches = span.start == end_before and span.type == type_before
        inside = span.end - span.start - 1
        if scheme == "IOBES":
            prefixes = "B" + "I" * (inside - 1) + "E" if inside else "S"
        else:
            prefixes = ("I" if scheme == "IOB1" and not touches else "B") + "I" * inside
        tags[span.start : span.end] = [
            f"{prefix}-{span.type}" if span.type else prefix for prefix in prefixes
        ]
        end_before, type_before = span.end, span.type
    return tags


def convert_tags(tags: Sequence[str], scheme: str) -> list[str]:
    """Converts a sentence's tags to another of `SCHEMES`; raises ValueError for tags of no scheme."""
    for tag in tags:
        if not is_span_tag(tag):
            raise ValueError(
                f"{shown(tag)} is not a tag of a scheme. Tags must be 'O', or B, I, E or S with '-' and a "
                "type, such as 'B-PER'."
            )
    return span_tags(spans(tags), len(tags), scheme)


def first_break(sentences: Collection[Sequence[str]]) -> tuple[str, int, int] | None:
    """Where tags break the scheme that they follow longest: (scheme, sentence, word).

    None if they follow one throughout.
    """
    breaks = {scheme: _first_break(sentences, scheme) for scheme in SCHEMES}
    if None in breaks.values():
        return None
    scheme = max(breaks, key=breaks.get)
    return scheme, *breaks[scheme]


def recognise_scheme(sentences: Collection[Sequence[str]]) -> str | None:
    """The first of `SCHEMES` that all tags of all sentences follow, or None."""
    return next((name for name in SCHEMES if _first_break(sentences, name) is None), None)


def _first_break(sentences: Collection[Sequence[str]], scheme: str) -> tuple[int, int] | None:
    """Sentence and word of the first tag that differs from the scheme."""
    for s, tags in enumerate(sentences):
        right = span_tags(spans(tags), len(tags), scheme)
        for w, (tag, expected) in enumerate(zip(tags, right, strict=True)):
            if tag != expected:
                return s, w
    return None


def scheme_names(types: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Tags of a scheme for these types of spans: "O", then type by type."""
    check_scheme(scheme)
    return (OUTSIDE, *(f"{prefix}-{name}" for name in types for prefix in SCHEMES[scheme]))


def check_scheme(scheme: str) -> None:
    files.check_known("There is no tag scheme", scheme, SCHEMES)


def is_span_tag(tag: str) -> bool:
    """Whether a tag belongs to one of the schemes."""
    return tag == OUTSIDE or tag.partition("-")[0] in ("B", "I", "E", "S")


# --- Files ---


def read_tagging(
    path: str | Path,
    *,
    word_column: int = 0,
    tag_column: int | None = -1,
    scheme: str | None = None,
    label_names: Sequence[str] | None = None,
    allow_unseen: bool = False,
    encoding: str | None = None,
    max_line_bytes: int = files.MAX_LINE_BYTES,
) -> TaggedSplit:
    """Reads a file with a word and its tags on each line, and a blank line after each sentence.

    Columns are separated by tabs if the first line has one, otherwise by spaces. Lines that begin with
    -DOCSTART- end a sentence and are ignored.

    Without `label_names`, the tags are collected from the file and sorted: "O", then by type and by prefix
    (B, I, E, S), or by code point if they follow no scheme. Read the training file this way, and the task's
    other files with its `label_names`.

    Args:
        path: the file, compressed by gzip if its name ends in ".gz".
        word_column: index of the words' column, from 0, or from -1 for the last.
        tag_column: index of the tags' column; None to read words only.
        scheme: "IOB1", "IOB2" or "IOBES", to which tags are converted; None keeps them.
        label_names: tags in the order of their ids (after the conversion).
        allow_unseen: whether tags that `label_names` lacks get the following ids, which a model trained with
            `label_names` never predicts; otherwise they are an error.
        encoding, max_line_bytes: as for `bert_zoo.data.tables.read_table`.

    Returns:
        Words and tag ids of each sentence, the names of the tags, and their scheme.

    Raises:
        ValueError: a line has another number of columns, a tag is unknown or cannot be converted, a column
            does not exist, or there are no words. Names file and line.
        FileNotFoundError: the file does not exist.
    """
    path = Path(path)
    if scheme is not None:
        check_scheme(scheme)
    rows = _sentences(path, encoding, max_line_bytes)
    if not rows:
        raise ValueError(f"{path} has no words. Check that this is the right file.")

    def column(number: int) -> list[list[str]]:
        width = len(rows[0][0][1])
        if not -width <= number < width:
            raise ValueError(
                f"{path}: there is no column {number}; the file has {width} columns, numbered from 0."
            )
        return [[fields[number] for _, fields in sentence] for sentence in rows]

    if tag_column is None:
        return TaggedSplit(column(word_column), None, (), None)
    lines = [line for sentence in rows for line, _ in sentence]
    words, tags = column(word_column), column(tag_column)
    return tagged_split(
        words, tags, scheme, label_names, lambda word: f"{path}, line {lines[word]}", allow_unseen
    )


def _sentences(
    path: Path, encoding: str | None, max_line_bytes: int
) -> list[list[tuple[int, list[str]]]]:
    """Line number and fields of each word, sentence by sentence."""
    sentences: list[list[tuple[int, list[str]]]] = [[]]
    has_tabs = width = None
    for line_number, line in files.lines(path, encoding, max_line_bytes=max_line_bytes):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            sentences.append([])
            continue
        has_tabs = "\t" in line if has_tabs is None else has_tabs
        # Other spaces of Unicode are parts of words.
        fields = line.split("\t") if has_tabs else re.findall("[^ \t]+", line)
        width = width or len(fields)
        if len(fields) != width:
            raise ValueError(
                f"{path}, line {line_number}: found {len(fields)} columns in {shown(line)}, expected "
                f"{width} as on the first line. Correct the line."
            )
        if "" in fields:
            raise ValueError(
                f"{path}, line {line_number}: column {fields.index('')} of {shown(line)} is empty. "
                "Correct the line."
            )
        sentences[-1].append((line_number, fields))
    return [sentence for sentence in sentences if sentence]


def tagged_split(
    words: list[list[str]],
    tags: list[list[str]],
    scheme: str | None,
    label_names: Sequence[str] | None,
    place: Callable[[int], str],
    allow_unseen: bool = False,
) -> TaggedSplit:
    """Converts tags [N][words] to ids, in the requested scheme.

    `place` maps a word's index among the words of all sentences to its place in the file.
    """
    found = recognise_scheme(tags)
    if scheme is not None and found is None:
        likeliest, s, w = first_break(tags)
        raise ValueError(
            f"{place(sum(map(len, tags[:s])) + w)}: the tag {shown(tags[s][w])} breaks {likeliest}, and no "
            f"other scheme fits the tags before it, so they cannot be converted to {scheme}. "
            "Correct it, choose another tag_column, or leave out scheme."
        )
    if scheme is not None and scheme != found:
        tags = [convert_tags(sentence, scheme) for sentence in tags]
        found = scheme
    flat = list(chain.from_iterable(tags))
    names = _collected_names(flat, found) if label_names is None else tuple(label_names)
    if allow_unseen:
        names += tuple(sorted(set(flat) - set(names)))
    ids = iter(ids_of(flat, positions(names), place, "tag"))
    return TaggedSplit(words, [list(islice(ids, len(row))) for row in tags], names, found)


def _collected_names(tags: Iterable[str], scheme: str | None) -> tuple[str, ...]:
    def by_type(tag: str) -> tuple[bool, str, int]:
        prefix, _, span_type = tag.partition("-")
        return tag != OUTSIDE, span_type, "OBIES".index(prefix)

    return tuple(sorted(set(tags), key=None if scheme is None else by_type))


# --- The shared tasks ---


@dataclass(frozen=True)
class TaggedDataSet:
    """Files and types of a shared task."""

    files: Mapping[str, tuple[str, ...]]  # split -> names of its file, the official one first
    types: tuple[str, ...]  # types of spans


DATA_SETS: Mapping[str, TaggedDataSet] = {
    # Tjong Kim Sang and Buchholz 2000: chunks.
    "conll2000": TaggedDataSet(
        files={"train": ("train.txt",), "test": ("test.txt",)},
        types=tuple("ADJP ADVP CONJP INTJ LST NP PP PRT SBAR UCP VP".split()),
    ),
    # Tjong Kim Sang and De Meulder 2003: named entities in English.
    "conll2003": TaggedDataSet(
        files={
            "train": ("eng.train", "train.txt"),
            "validation": ("eng.testa", "valid.txt"),
            "test": ("eng.testb", "test.txt"),
        },
        types=("PER", "ORG", "LOC", "MISC"),
    ),
}


def load_conll(task: str, split: str, data_dir: str | Path, *, scheme: str = "IOB2") -> TaggedSplit:
    """Reads a split of one of CoNLL's shared tasks.

    The official files of 2003 are in IOB1, most copies in IOB2; both are converted to `scheme`. The order of
    the task's `label_names` is fixed.

    Args:
        task: "conll2000" (chunks) or "conll2003" (named entities).
        split: "train", "test", and for CoNLL-2003 "validation".
        data_dir: folder of the task's files, such as eng.train or train.txt.
        scheme: "IOB1", "IOB2" or "IOBES".

    Returns:
        Words and tag ids of each sentence.

    Raises:
        ValueError: the task, split or scheme is unknown, or as `read_tagging`.
        FileNotFoundError: `data_dir` does not contain the file.
    """
    files.check_known("There is no tagging task", task, DATA_SETS)
    row = DATA_SETS[task]
    files.check_known(f"{task} has no split", split, row.files)
    names = scheme_names(row.types, scheme)
    path = files.require_file(
        *(Path(data_dir) / name for name in row.files[split]),
        advice=f"data_dir must be the folder that contains the files of {task}. Read files with other names "
        "with read_tagging(path).",
    )
    return read_tagging(path, scheme=scheme, label_names=names)
