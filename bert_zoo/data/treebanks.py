"""Sentences with dependency trees, from CoNLL-U or columns of word, part of speech and head.

Nothing here imports TensorFlow.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bert_zoo.data import files
from bert_zoo.error_text import shown

# Number of columns -> indices of word, part of speech, head and relation.
_COLUMNS = {10: (1, 3, 6, 7), 4: (0, 1, 2, 3), 3: (0, 1, 2, None)}


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence with its dependency tree."""

    words: tuple[str, ...]  # [words]
    tags: tuple[str, ...]  # parts of speech [words]
    heads: tuple[int, ...]  # number of each word's head, from 1; 0 for the root [words]
    # Relation of each word to its head [words]; None if the file has none.
    relations: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.words)


def read_treebank(path: str | Path, *, encoding: str | None = None) -> list[ParsedSentence]:
    """Reads a file with a word on each line and a blank line after each sentence.

    In CoNLL-U (10 columns), tags are the universal parts of speech. Comments, multiword tokens ("1-2") and
    empty nodes ("1.1") are skipped, as the tree connects words. Other files have 3 or 4 columns separated by
    tabs: word, part of speech, head and optionally relation.

    Args:
        path: the file, compressed by gzip if its name ends in ".gz".
        encoding: of the file; by default determined by its byte order mark, or UTF-8.

    Returns:
        The sentences, in the order of the file.

    Raises:
        ValueError: a line has another number of columns, or the heads of a sentence do not form a tree.
            Names file and line.
        FileNotFoundError: the file does not exist.
    """
    path = Path(path)
    sentences: list[ParsedSentence] = []
    width = None
    for is_text, block in groupby(files.lines(path, encoding), lambda line: bool(line[1].strip())):
        rows: dict[int, list[str]] = {}
        for number, line in block if is_text else ():
            # A line that starts with "#" and a tab has the word "#".
            if line.startswith("#") and not line.startswith("#\t"):
                continue
            fields = line.split("\t")
            width = width or len(fields)
            if len(fields) != width or width not in _COLUMNS:
                wanted = f"{width} as above" if width in _COLUMNS else "10 (CoNLL-U), 4 or 3"
                raise ValueError(
                    f"{path}, line {number}: found {len(fields)} columns in {shown(line)}, expected {wanted}, "
                    "separated by tabs."
                )
            if width != 10 or fields[0].isdigit():
                rows[number] = fields
        if rows:
            sentences.append(_sentence([*rows.values()], f"{path}, line {min(rows)}"))
    if not sentences:
        raise ValueError(f"{path} has no sentences. Check that this is the right file.")
    return sentences


def _sentence(rows: list[list[str]], place: str) -> ParsedSentence:
    words, tags, heads, relations = (
        None if column is None else tuple(row[column] for row in rows)
        for column in _COLUMNS[len(rows[0])]
    )
    for word, head in zip(words, heads, strict=True):
        if not head.isdecimal() or int(head) > len(rows):
            raise ValueError(
                f"{place}: the head of {shown(word)} is {shown(head)}; expected the number of a word of the "
                f"sentence, 1 to {len(rows)}, or 0 for the root."
            )
    numbers = tuple(map(int, heads))
    _check_tree(numbers, place)
    return ParsedSentence(words, tags, numbers, relations)


def _check_tree(heads: tuple[int, ...], place: str) -> None:
    """Raises ValueError unless every word leads to one root."""
    roots = heads.count(0)
    if roots != 1:
        raise ValueError(
            f"{place}: the sentence has {roots} roots (head 0); it must have exactly one."
        )
    for word in range(1, len(heads) + 1):
        at, steps = word, 0
        while at and steps <= len(heads):
            at, steps = heads[at - 1], steps + 1
        if at:
            raise ValueError(f"{place}: the heads of the sentence form a cycle at word {word}.")
