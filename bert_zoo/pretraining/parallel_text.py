"""Text in several languages, line by line: files whose lines say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bert_zoo.data.files import lines


class ParallelLines:
    """Documents of a sentence in each language, from files whose lines i say the same.

    Lines that are blank in a language are left out in all.

    Args:
        paths: of the files, one a language; those that end in ".gz" are unpacked while they are read.
        languages: their names, for messages.

    Raises:
        ValueError: other numbers of files and languages, or of lines in two files (when it is read).
    """

    def __init__(self, paths: Sequence[str | Path], languages: Sequence[str]):
        if len(paths) != len(languages) or len(languages) < 2:
            raise ValueError(
                f"There are {len(paths)} files and {len(languages)} languages ({', '.join(languages)}). "
                "Give one file for each language, in the same order, and two languages at least."
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
                        f"The file of {ended} ends after {number:,} lines, and another one goes on. Line i "
                        "of each must say the same: check that they belong together."
                    )
                return
            number += 1
            sentences = [text.strip() for _, text in row]
            if all(sentences):
                yield sentences


class InTurn:
    """A tokenizer of sentences that come in the same order of languages, over and over.

    Args:
        tokenizer: of the first language; it has `in_language`.
        languages: names, in their order.
    """

    def __init__(self, tokenizer: Any, languages: Sequence[str]):
        self._tokenizers = [tokenizer.in_language(language) for language in languages]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizers[0], name)

    def __call__(self, texts: Sequence[str]) -> Any:
        """As a tokenizer, of whole documents: int32 [texts, (tokens)]."""
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
    """What `write_tokens` reads of a preprocessor, for documents of `ParallelLines`."""
    tokenizer = InTurn(preprocessor.tokenizer, languages)
    return SimpleNamespace(tokenizer=tokenizer, packer=preprocessor.packer)
