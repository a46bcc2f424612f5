"""XLM's rows of one language, and of translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bert_zoo.data.rows import (
    FIRST,
    MIDDLE,
    SECOND,
    Runs,
    Scheme,
    Template,
    Text,
    around,
    cut,
    followed,
    separator,
)
from bert_zoo.text.layout import Layout


@dataclass(frozen=True)
class Translations(Scheme):
    """XLM's rows: sentences of one language, and sentences with their translation.

    A document of the text is one sentence in each language, in the order of `languages`. A row of one language is
    filled with its sentences, from documents in random order, with separators between them. With `pairs`, each
    document also gives a row with its sentence in two random languages. Each of the two has its own special tokens,
    and positions restart with the second. The longer text of a pair that is too long is cut at its end.

    Attributes:
        length: tokens in a row, including special ones.
        languages: the id of each language in `language_ids`.
        pairs: whether to make rows of translations.

    Source: Lample and Conneau 2019 (arXiv:1901.07291), sections 3.3 and 3.5; facebookresearch/XLM
    xlm/trainer.py, generate_batch, and xlm/utils.py, concat_batches.
    """

    length: int = 256
    languages: tuple[int, ...] = (0, 1)
    pairs: bool = True

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        number, documents = len(self.languages), text.num_documents
        if len(text.sentence_starts) != number * documents + 1:
            raise ValueError(
                f"The text has {len(text.sentence_starts) - 1:,} sentences with tokens in {documents:,} "
                f"documents; each must have one in each of {number} languages. Take lines out that have no "
                "translation."
            )
        for place, language in enumerate(self.languages):
            sentences = rng.permutation(documents) * number + place
            yield self._stream(text, sentences, language)
        if self.pairs:
            yield self._translated(text, rng)

    def _stream(self, text: Text, sentences: np.ndarray, language: int) -> Runs:
        specials = text.layout.specials(1)
        separators = len(separator(text.layout))
        starts = text.sentence_starts[sentences]
        lengths = text.sentence_starts[sentences + 1] - starts
        starts, lengths = cut(starts, lengths, self.length - specials)
        before = np.concatenate([[0], np.cumsum(lengths + separators)])
        # The last sentence's separator ends the row.
        most = self.length - specials + separators
        end = np.searchsorted(before, before[:-1] + most, side="right") - 1
        begins = np.zeros(len(starts), bool)
        begins[followed(end)] = True
        kinds = np.where(begins, FIRST, MIDDLE).astype(np.int8)
        languages = np.full(len(starts), language, np.int32)
        return Runs(np.cumsum(begins) - 1, starts, lengths, kinds=kinds, languages=languages)

    def _translated(self, text: Text, rng: np.random.Generator) -> Runs:
        number, documents = len(self.languages), text.num_documents
        first = rng.integers(number, size=documents)
        second = (first + rng.integers(1, number, size=documents)) % number
        place = np.stack([first, second], axis=1)
        sentences = np.arange(documents)[:, None] * number + place
        starts = text.sentence_starts[sentences]
        lengths = text.sentence_starts[sentences + 1] - starts
        room = self.length - 2 * text.layout.specials(1)
        kept = np.minimum(
            lengths, np.maximum(room - lengths[:, ::-1], [room - room // 2, room // 2])
        )
        return Runs(
            np.repeat(np.arange(documents), 2),
            starts.ravel(),
            kept.ravel(),
            kinds=np.tile(np.array([FIRST, SECOND], np.int8), documents),
            languages=np.array(self.languages, np.int32)[place.ravel()],
        )

    def template(self, layout: Layout) -> Template:
        alone = around(layout)
        goes_on = ([], alone[1])
        return Template(only=alone, first=alone, middle=goes_on, last=goes_on, second=alone)
