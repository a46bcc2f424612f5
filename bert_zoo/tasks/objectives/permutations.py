"""Permutation language modelling: tokens are predicted in a random order, from those before them (XLNet)."""

import itertools
from dataclasses import dataclass

import numpy as np

from bert_zoo.fields import setting
from bert_zoo.tasks.objectives.masking import PLACE, Masking, Replacement, shuffled


@dataclass(frozen=True, kw_only=True)
class Permutations(Masking):
    """XLNet's permutation language modelling: predicts spans of tokens, which come last in a random order.

    A span has n tokens (1 to `longest`) with probability in proportion to 1/n. It begins with a word, in a
    context of n * `context` tokens. If there are too few spans, single tokens are drawn too. Special tokens may
    be drawn, but are not predicted. Tokens are not replaced, since the stream that predicts a token does not
    read it. Needs `word_starts`.

    All tokens that are not drawn come first in the order, and every token sees them. Special tokens have a place
    in the order, too. A row is cut into `parts`, each with its own order. An earlier part sees nothing of a later
    one.

    There is one more input than with `MaskedTokens`: `perm_mask` int8 [batch, length, length], 1 where the row's
    token must not see the column's token. If the batch has `reads_backwards` int [batch], rows with 1 hold their
    tokens from last to first; their spans are drawn in the original order.

    Attributes:
        rate: share of a row's tokens to draw.
        longest: tokens of the longest span.
        context: tokens of context for each token of a span (the original's mask_alpha / mask_beta).
        parts: number of parts of a row; in the original, the part that the memory keeps and the rest.

    Raises:
        ValueError: an attribute outside its range.

    Source: Yang et al. 2019 (arXiv:1906.08237), sections 2.2, 2.3 and 3.1; zihangdai/xlnet data_utils.py,
    _sample_mask and _local_perm.
    """

    rate: float = 1 / 6
    replacement: Replacement = Replacement(mask=0.0, random=0.0)  # noqa: RUF009 (frozen)
    longest: int = setting(5, least=1)
    context: int = setting(6, least=1)
    parts: int = setting(2, least=1)

    def of_chosen(self, batch, chosen, draws):
        return {"perm_mask": self.hidden(batch, chosen, draws).astype(np.int8)}, {}

    def choose(self, batch, draws):
        numbers = self.numbers(batch, draws)
        # The first parts have one more if the number is not divisible.
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
        """bool [batch, length, length], true where a row's token must not see a column's; `chosen` are to predict."""
        part_of, order = np.zeros(chosen.shape, np.int64), np.zeros(chosen.shape, np.int64)
        for number, (columns, is_in) in enumerate(self._parts(batch["padding_mask"])):
            keys = shuffled(is_in, draws, f"part {number}: order")
            places = (np.sort(keys, axis=1) & PLACE).astype(np.int64)
            ranks = np.empty(places.shape, np.int64)
            np.put_along_axis(ranks, places, np.arange(places.shape[1])[None], axis=1)
            rows, at = np.nonzero(is_in)
            part_of[rows, columns[rows, at]] = number
            order[rows, columns[rows, at]] = ranks[rows, at]
        # The original's "masked or functional" tokens. All others come first.
        comes_late = chosen | batch["special"]
        order = np.where(comes_late, order, -1)
        # A target does not see itself; a special token does.
        seen_from = np.where(chosen, order, order + 1)
        hidden = (seen_from[:, :, None] <= order[:, None, :]) & comes_late[:, None, :]
        hidden &= part_of[:, :, None] == part_of[:, None, :]
        return hidden | (part_of[:, :, None] < part_of[:, None, :])

    def _parts(self, padding_mask, backwards=None) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each part its columns, int [batch, width], and which of them belong to it.

        Columns of rows with 1 in `backwards`, int [batch], are in reverse order.
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
        """Draws the `wanted` tokens in a part of each row, bool [batch, width]."""
        batch, width = is_in.shape
        sizes = np.count_nonzero(is_in, axis=1)
        wanted = np.minimum(wanted, sizes)
        most = max(int(wanted.max(initial=0)), 1)
        spans = self._sizes(draws.uniform(f"{name}: sizes", most))
        places = draws.uniform(f"{name}: places", most)
        # The next start of a word from each place on, or `width` if there is none.
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
            # As in the original, no span ends with the text.
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
        """Lengths of spans in tokens, from numbers in [0, 1)."""
        sums = np.cumsum(1 / np.arange(1, self.longest + 1))
        return 1 + np.searchsorted(sums[:-1], drawn * sums[-1], side="right")
