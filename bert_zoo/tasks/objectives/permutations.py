"""Tokens that are predicted in a random order, each from those before it in that order (XLNet)."""

import itertools
from dataclasses import dataclass

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.masking import PLACE, Masking, shuffled
from bert_zoo.tasks.objectives.replacement import Replacement


@dataclass(frozen=True, kw_only=True)
class Permutations(Masking):
    """Permutation language modelling: spans of tokens are the last ones in a random order of a row.

    A span has n of 1 to `longest` tokens with a probability in proportion to 1/n, and begins with a word,
    in a context of n * `context` tokens; where spans leave too few, single tokens are drawn besides. All
    others come first in the order and are seen by all; special tokens have places in the order too, and
    are not predicted though they may be drawn. A row is cut into `parts`, each with an order of its own,
    of which an earlier one sees nothing of a later one. Tokens stay as they are, since the stream that
    predicts one does not read it. Needs `word_starts`. Where there is `reads_backwards` int [batch], rows
    with 1 hold their tokens last to first, and spans are drawn as if they did not.

    Beside what `Masking` gives, there is the input `perm_mask` int8 [batch, length, length], 1 where the
    token of a row must not see that of a column.

    Attributes:
        rate: part of a row's tokens that is drawn.
        longest: tokens of the longest span.
        context: tokens of a span's context for each of its own (the original's mask_alpha / mask_beta).
        parts: of a row; the original's are what a memory keeps of it, and the rest.

    Source: Yang et al. 2019 (arXiv:1906.08237), sections 2.2, 2.3 and 3.1; zihangdai/xlnet data_utils.py,
    _sample_mask and _local_perm.
    """

    rate: float = 1 / 6
    replacement: Replacement = Replacement(mask=0.0, random=0.0)  # noqa: RUF009 (frozen)
    longest: int = 5
    context: int = 6
    parts: int = 2

    def __post_init__(self):
        super().__post_init__()
        for name in ("longest", "context", "parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {shown(getattr(self, name))}; it must be at least 1.")

    def of_chosen(self, batch, chosen, draws):
        return {"perm_mask": self.hidden(batch, chosen, draws).astype(np.int8)}, {}

    def choose(self, batch, draws):
        numbers = self.numbers(batch, draws)
        # The first parts have one more where the number does not divide.
        shares = -(-numbers[:, None] * np.arange(self.parts + 1) // self.parts)
        drawn = np.zeros(batch["special"].shape, bool)
        parts = self._parts(batch["padding_mask"], batch.get("reads_backwards"))
        for number, (columns, is_in) in enumerate(parts):
            starts = np.take_along_axis(batch["word_starts"], columns, axis=1) & is_in
            wanted = shares[:, number + 1] - shares[:, number]
            found = self._draw(is_in, starts, wanted, draws, f"part {number}")
            rows, places = np.nonzero(found)
            drawn[rows, columns[rows, places]] = True
        return drawn & ~batch["special"]

    def hidden(self, batch, chosen, draws) -> np.ndarray:
        """bool [batch, length, length], whether the token of a row must not see that of a column.

        Args:
            batch: as objectives are given it.
            chosen: bool [batch, length], the tokens to predict.
            draws: of the rows.
        """
        part_of, order = np.zeros(chosen.shape, np.int64), np.zeros(chosen.shape, np.int64)
        for number, (columns, is_in) in enumerate(self._parts(batch["padding_mask"])):
            keys = shuffled(is_in, draws, f"part {number}: order")
            places = (np.sort(keys, axis=1) & PLACE).astype(np.int64)
            ranks = np.empty(places.shape, np.int64)
            np.put_along_axis(ranks, places, np.arange(places.shape[1])[None], axis=1)
            rows, at = np.nonzero(is_in)
            part_of[rows, columns[rows, at]] = number
            order[rows, columns[rows, at]] = ranks[rows, at]
        # The original's "masked or functional" tokens; all others come first.
        comes_late = chosen | batch["special"]
        order = np.where(comes_late, order, -1)
        # A target does not see itself; a special token does.
        seen_from = np.where(chosen, order, order + 1)
        hidden = (seen_from[:, :, None] <= order[:, None, :]) & comes_late[:, None, :]
        hidden &= part_of[:, :, None] == part_of[:, None, :]
        return hidden | (part_of[:, :, None] < part_of[:, None, :])

    def _parts(self, padding_mask, backwards=None) -> list[tuple[np.ndarray, np.ndarray]]:
        """The columns of each part of the rows, int [batch, width], and which of them are part of it.

        Those of rows with 1 in `backwards`, int [batch], come last to first.
        """
        is_token = np.asarray(padding_mask) != 0
        first, number = np.argmax(is_token, axis=1), np.count_nonzero(is_token, axis=1)
        cuts = [first + number * part // self.parts for part in range(self.parts + 1)]
        parts = []
        for start, end in itertools.pairwise(cuts):
            offsets = np.arange(max(int((end - start).max(initial=0)), 1))
            columns = start[:, None] + offsets
            if backwards is not None:
                turned = (end - 1)[:, None] - offsets
                columns = np.where(backwards[:, None] == 1, turned, columns)
            is_in = offsets < (end - start)[:, None]
            parts.append((np.clip(columns, 0, is_token.shape[1] - 1), is_in))
        return parts

    def _draw(self, is_in, starts, wanted, draws, name: str) -> np.ndarray:
        """bool [batch, width], the `wanted` tokens of a part of each row."""
        batch, width = is_in.shape
        sizes = np.count_nonzero(is_in, axis=1)
        wanted = np.minimum(wanted, sizes)
        most = max(int(wanted.max(initial=0)), 1)
        spans = self._sizes(draws.uniform(f"{name}: sizes", most))
        places = draws.uniform(f"{name}: places", most)
        # The next start of a word from each place on; after the last one there is none.
        following = np.where(starts, np.arange(width), width)
        following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
        following = np.pad(following, ((0, 0), (0, 1)), constant_values=width)
        drawn = np.zeros((batch, width), bool)
        at, left, goes_on = np.zeros(batch, np.int64), wanted.copy(), wanted > 0
        for size, place in zip(spans.T, places.T, strict=True):
            if not goes_on.any():
                break
            size = np.minimum(size, left)
            before = (place * size * self.context).astype(np.int64)
            first = following[np.arange(batch), np.minimum(at + before, width)]
            # The original draws no span that ends with the text.
            goes_on = goes_on & (first + size < sizes)
            for step in range(self.longest):
                (row,) = np.nonzero(goes_on & (step < size))
                drawn[row, first[row] + step] = True
            left = left - np.where(goes_on, size, 0)
            at = first + size + size * self.context - before
            goes_on = goes_on & (left > 0) & (at < sizes)
        free = is_in & ~drawn
        keys = shuffled(free, draws, f"{name}: single tokens")
        last = np.take_along_axis(np.sort(keys, axis=1), np.maximum(left - 1, 0)[:, None], axis=1)
        return drawn | ((keys <= last) & free & (left > 0)[:, None])

    def _sizes(self, drawn: np.ndarray) -> np.ndarray:
        """Tokens of spans, from numbers in [0, 1)."""
        sums = np.cumsum(1 / np.arange(1, self.longest + 1))
        return 1 + np.searchsorted(sums[:-1], drawn * sums[-1], side="right")
