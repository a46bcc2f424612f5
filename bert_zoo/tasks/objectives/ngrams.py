"""N-grams of whole words (ALBERT, DeBERTa)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.masking import PLACE, Masking, shuffled
from bert_zoo.tasks.objectives.whole_words import Words


@dataclass(frozen=True, kw_only=True)
class NGrams(Masking):
    """ALBERT's n-grams: hides one to `longest` words in sequence, n words with probability in proportion to 1/n.

    N-grams begin at words in random order. An n-gram with more tokens than are left to choose is
    shortened, and one that overlaps chosen words is skipped. N-grams may continue after a special token.
    Each token is replaced independently. Needs `word_starts`.

    Attributes:
        rate: as in `MaskedTokens`.
        replacement: as in `MaskedTokens`.
        max_predictions: as in `MaskedTokens`, but at most 20 if None.
        longest: words of the longest n-gram.

    Raises:
        ValueError: an attribute outside its range.

    Source: Lan et al. 2019 (arXiv:1909.11942), section 4.1; google-research/albert
    create_pretraining_data.py.
    """

    longest: int = 3
    # The limit of ALBERT's program, also for rows of 512 tokens.
    most: ClassVar[float] = 20

    def __post_init__(self):
        super().__post_init__()
        if self.longest < 1:
            raise ValueError(f"longest is {shown(self.longest)}; it must be at least 1.")

    def predictions(self, length):
        return self.max_predictions or min(self.most, super().predictions(length))

    def choose(self, batch, draws):
        words = Words.of(batch)
        rows, most = words.lengths.shape
        keys = np.sort(shuffled(words.lengths > 0, draws, "words"), axis=1)
        order = np.ascontiguousarray((keys & PLACE).astype(np.int64).T)
        wanted = np.ascontiguousarray(self._lengths(draws, most).T)
        left = self.numbers(batch, draws)
        # After the last word come empty ones, so that n-grams end with the row.
        beyond = most + self.longest
        before = np.zeros((rows, beyond + 1), np.int64)
        before[:, 1 : most + 1] = words.lengths
        before = np.cumsum(before, axis=1).ravel()
        chosen = np.zeros(rows * beyond, bool)
        n = np.arange(1, self.longest + 1)[:, None]
        row = np.arange(rows)
        for first, number in zip(order, wanted, strict=True):
            # One n-gram per row: [longest, rows] for its lengths, or for its words.
            at = first + row * (beyond + 1)
            sizes = before[at + n] - before[at]
            number = np.minimum(number, np.count_nonzero(sizes <= left, axis=0))
            its_words = first + row * beyond + n - 1
            is_in = n <= number
            is_free = ~(chosen[its_words] & is_in).any(axis=0)
            is_in &= is_free
            chosen[its_words[is_in]] = True
            left = left - np.max(sizes * is_in, axis=0)
            if not left.any():
                break
        return words.tokens(chosen.reshape(rows, beyond), batch)

    def _lengths(self, draws, number: int) -> np.ndarray:
        """Returns the lengths of n-grams in words, int64 [batch, number]."""
        sums = np.cumsum(1 / np.arange(1, self.longest + 1))
        drawn = draws.uniform("n-gram lengths", number) * sums[-1]
        return 1 + np.searchsorted(sums[:-1], drawn, side="right")


@dataclass(frozen=True, kw_only=True)
class WindowedNGrams(NGrams):
    """DeBERTa's n-grams: hides one n-gram in each window of words.

    The window of an n-gram of n words has n * int(1 / rate) words: with 15%, six per word. The n-gram
    begins at any of them, and the next window begins after both. Only the row's first chosen tokens are
    hidden, up to its number of predictions, so the last word may be hidden in part, and the end of a row
    is hidden less often. Each token is replaced independently. Needs `word_starts`.

    Attributes are those of `NGrams`, without the limit of 20 predictions.
    Source: He et al. 2020 (arXiv:2006.03654), appendix A; microsoft/DeBERTa
    DeBERTa/apps/tasks/mlm_task.py, NGramMaskGenerator. Unlike here, it always hides the last word as a
    whole, and never hides an unknown token or a mask token of the text itself.
    """

    most = math.inf

    def choose(self, batch, draws):
        words = Words.of(batch)
        rows, most = words.lengths.shape
        counts = np.count_nonzero(words.lengths, axis=1)
        window = int(1 / self.rate)
        number = math.ceil(most / window)
        lengths, places = self._lengths(draws, number), draws.uniform("n-gram places", number)
        # 1 where an n-gram begins and -1 after its end; n-grams do not overlap.
        edges = np.zeros((rows, most + 1), np.int64)
        row = np.arange(rows)
        begins = np.zeros(rows, np.int64)
        for length, place in zip(lengths.T, places.T, strict=True):
            # One window per row, which is empty after the last word.
            size = np.minimum(length * window, counts - begins)
            first = begins + (place * size).astype(np.int64)
            end = np.minimum(first + length, counts)
            edges[row, first] += 1
            edges[row, end] -= 1
            begins = np.maximum(begins + size, end)
        chosen = words.tokens(np.cumsum(edges, axis=1)[:, :-1] > 0, batch)
        return chosen & (np.cumsum(chosen, axis=1) <= self.numbers(batch, draws)[:, None])
