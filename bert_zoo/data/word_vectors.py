"""Static word vectors in the formats of GloVe, word2vec and fastText."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_zoo.data.files import lines, require_file
from bert_zoo.error_text import shown


class StaticVectors(NamedTuple):
    """Words and their vectors."""

    words: tuple[str, ...]  # in the file's order
    vectors: np.ndarray  # float32 [words, size]


def read_word_vectors(
    path: str | Path, *, words: Collection[str] | None = None, limit: int | None = None
) -> StaticVectors:
    """Reads a file of static word vectors: a word and its numbers on each line.

    word2vec's and fastText's files start with a header, the numbers of words and dimensions; GloVe's have
    none. A file whose name ends in ".bin" is word2vec's binary format (float32, little-endian). If a word is
    repeated, its first vector counts. Words may contain spaces. GloVe's largest file has repeated words and
    words with spaces.

    Args:
        path: the file; a text file is decompressed if its name ends in ".gz".
        words: words to keep; None for all.
        limit: number of lines to read from the start, where released files have the most frequent words.

    Returns:
        The kept words and their vectors.

    Raises:
        ValueError: a line has another number of values than the first, or a value that is not a number; or
            no word is kept.
        FileNotFoundError: the file does not exist.
    """
    path = require_file(
        Path(path), advice="Pass the path of a file of vectors, such as glove.6B.100d.txt."
    )
    read = _binary(path) if path.suffix == ".bin" else _text(path)
    kept: dict[str, np.ndarray] = {}
    for number, (word, vector) in enumerate(read):
        if number == limit:
            break
        if word not in kept and (words is None or word in words):
            kept[word] = vector
    if not kept:
        raise ValueError(f"{path} has no vector for any of the requested words.")
    return StaticVectors(tuple(kept), np.stack([*kept.values()]))


def _text(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    size = None
    for number, line in lines(path):
        values = line.rstrip().split(" ")
        if number == 1 and len(values) == 2 and all(value.isdecimal() for value in values):
            size = int(values[1])
            continue
        size = len(values) - 1 if size is None else size
        try:
            vector = np.array(values[-size:], np.float32)
        except ValueError:
            vector = ()
        if len(vector) != size or len(values) <= size:
            raise ValueError(
                f"{path}, line {number}: expected a word and {size} numbers, separated by single spaces; got "
                f"{shown(line)}."
            )
        yield " ".join(values[:-size]), vector


def _binary(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with path.open("rb") as file:
        header = file.readline(64).split()
        if len(header) != 2 or not all(value.isdigit() for value in header):
            raise ValueError(
                f"{path} begins with {shown(header)} instead of two whole numbers. Is it word2vec's format?"
            )
        count, size = map(int, header)
        for number in range(count):
            word = bytearray()
            while (byte := file.read(1)) not in (b" ", b""):
                word += byte
            vector = np.frombuffer(file.read(4 * size), "<f4")
            if len(vector) != size:
                raise ValueError(
                    f"{path} ends in word {number + 1:,} of {count:,}. Download it again."
                )
            yield word.lstrip(b"\n").decode("utf-8", "replace"), vector
