"""XLNet's rows, which go on from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_zoo.data.rows import (
    Runs,
    Scheme,
    Template,
    Text,
)
from bert_zoo.text.layout import Layout


@dataclass(frozen=True)
class StreamedPairs(Scheme):
    """Rows that go on where those of the batch before ended, for a model with a memory: XLNet's.

    The text, one document after another, is cut into equal streams, one for each row of a batch;
    with `both_directions` into half as many, each of which is also read from its end to its beginning
    (`reads_backwards`). A row's first half is the stream's, and the next batch goes on after it. Then
    come two texts: whole sentences that follow in the stream, and those after them, or in half of
    the rows sentences from anywhere in it. They lose the end of the longer text where they are too long.

    Attributes:
        length: tokens of a row, special ones among them.
        batch_size: rows of a batch.
        both_directions: whether half of the rows are read backwards.

    Source: Yang et al. 2019 (arXiv:1906.08237), sections 2.4 to 3.1; zihangdai/xlnet data_utils.py,
    create_tfrecords and _split_a_and_b.
    """

    length: int = 512
    batch_size: int = 32
    both_directions: bool = True
    in_order: ClassVar[bool] = True

    def __post_init__(self):
        if self.both_directions and self.batch_size % 2:
            raise ValueError(
                f"batch_size is {self.batch_size}, and half of the rows are read backwards: make it even."
            )

    @property
    def reused(self) -> int:
        """Tokens of a row after which the next batch goes on: what a memory keeps of it."""
        return self.length // 2

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        tokens, ways = int(text.sentence_starts[-1]), 1 + self.both_directions
        streams = self.batch_size // ways
        size, room = tokens // streams, self.length - self.reused - text.layout.specials(2)
        if size < self.length or room < 2:
            raise ValueError(
                f"The text has {tokens:,} tokens, and {streams} streams with rows of {self.length} tokens "
                "take as many each, and rows room for two texts. Lower batch_size, or bring more text."
            )
        begins = np.arange((size - self.length) // self.reused + 1) * self.reused
        starts = np.empty((len(begins), self.batch_size, 3), np.int64)
        lengths = np.empty_like(starts)
        for stream in range(self.batch_size):
            is_backwards, first = stream >= streams, stream % streams * size
            inside = np.searchsorted(text.sentence_starts, [first, first + size], side="right")
            bounds = text.sentence_starts[inside[0] : inside[1]] - first
            bounds = bounds[bounds < size]
            bounds = size - bounds[::-1] if is_backwards else bounds
            pairs = self._pairs(begins + self.reused, bounds, size, room, rng)
            at = np.stack([begins, begins + self.reused, pairs[1]], axis=1)
            lengths[:, stream] = np.stack([np.full_like(begins, self.reused), *pairs[::2]], axis=1)
            starts[:, stream] = first + at
            if is_backwards:
                starts[:, stream] = first + size - at - lengths[:, stream]
        rows = np.arange(len(begins) * self.batch_size).repeat(3)
        backwards = np.arange(self.batch_size).repeat(3) >= streams
        yield Runs(rows, starts.ravel(), lengths.ravel(), backwards=np.tile(backwards, len(begins)))

    @staticmethod
    def _pairs(begins, bounds, size: int, room: int, rng) -> tuple[np.ndarray, ...]:
        """The tokens of first texts, where second ones begin in the stream, and their tokens.

        Args:
            begins: int64 [rows], where in the stream the first texts begin.
            bounds: int64 [n], where sentences do, but for the stream's first.
            size, room: tokens of the stream, and of both texts together.
            rng: draws.
        """
        draws = rng.random((3, len(begins)))
        ends = np.append(bounds, size)
        low = np.searchsorted(bounds, begins, side="right")
        high = np.searchsorted(bounds, begins + room, side="left")
        # The first text ends with one of the sentences that leave room, if any does.
        chosen = low + (draws[0] * (high - low)).astype(np.int64)
        is_alone = high <= low
        first_end = np.where(is_alone, ends[high], ends[chosen])
        # A second text from anywhere: whole sentences around as many tokens as there is room for.
        wanted = np.maximum(1, room - (first_end - begins))
        inside = (draws[1] * (size - wanted)).astype(np.int64)
        start = np.append(0, bounds)[np.searchsorted(bounds, inside, side="right")]
        end = ends[np.searchsorted(bounds, inside + wanted, side="left")]
        end = np.maximum(np.minimum(end, size - 1), inside + wanted)
        is_random = is_alone | (draws[2] < 0.5)
        start, end = np.where(is_random, start, first_end), np.where(is_random, end, ends[high])
        first, second = first_end - begins, end - start
        kept = np.minimum(first, np.maximum(room - second, -(-room // 2)))
        return kept, start, np.minimum(second, room - kept)

    def template(self, layout: Layout) -> Template:
        parts = layout.parts(2)
        a, b = (number for number, part in enumerate(parts) if part.is_text)
        return Template(
            first=(parts[:a], []),
            middle=([], parts[a + 1 : b]),
            last=([], parts[b + 1 :]),
            segments=(parts[a].segment, parts[b].segment),
        )
