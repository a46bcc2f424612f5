"""Parallel text: files in several languages that are translations line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bert_zoo.data.files import lines


class ParallelLines:
    """Documents with one sentence in each language, from files that are translations line by line.

    A line that is blank in one language is left out in all.

    Args:
        paths: paths of the files, one per language; files whose names end in ".gz" are unpacked while read.
        languages: names of the languages, for messages.

    Raises:
        ValueError: the numbers of files and languages differ or, while reading, the numbers of lines.
    """

    def __init__(self, paths: Sequence[str | Path], languages: Sequence[str]):
        if len(paths) != len(languages) or len(languages) < 2:
            raise ValueError(
                f"There are {len(paths)} files and {len(languages)} languages ({', '.join(languages)}). "
                "Give one file per language, in the same order, for at least two languages."
            )
        self.paths, self.languages = tuple(map(Path, paths)), tuple(languages)

    def __iter__(self) -> Iterator[list[str]]:
        readers = [lines(path) for path in self.paths]
        number = 0
        while True:
            row = [next(reader, None) for reader in readers]
            if None in row:
                if row != [None] * len(row):
                    ended = self.languages[row.index(None)]
                    raise ValueError(
                        f"The file of {ended} ends after {number:,} lines, but another has more. The files must "
                        "be translations line by line; check that they belong together."
                    )
                return
            number += 1
            sentences = [text.strip() for _, text in row]
            if all(sentences):
                yield sentences


class InTurn:
    """A tokenizer of sentences whose languages repeat in a fixed order.

    Args:
        tokenizer: the tokenizer of the first language; it has `in_language`.
        languages: names of the languages, in order.
    """

    def __init__(self, tokenizer: Any, languages: Sequence[str]):
        self._tokenizers = [tokenizer.in_language(language) for language in languages]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizers[0], name)

    def __call__(self, texts: Sequence[str]) -> Any:
        """Tokenizes the sentences of whole documents: int32 [texts, (tokens)]."""
        import tensorflow as tf

        number = len(self._tokenizers)
        by_language = [
            tokenizer(list(texts[place::number]))
            for place, tokenizer in enumerate(self._tokenizers)
        ]
        rows = len(texts) // number
        order = [place * rows + row for row in range(rows) for place in range(number)]
        return tf.gather(tf.concat(by_language, 0), order)


def reading_in_turn(preprocessor: Any, languages: Sequence[str]) -> SimpleNamespace:
    """Returns a preprocessor's attributes that `write_tokens` uses, for documents of `ParallelLines`."""
    tokenizer = InTurn(preprocessor.tokenizer, languages)
    return SimpleNamespace(tokenizer=tokenizer, packer=preprocessor.packer)
