"""Whole words: either all tokens of a word are chosen, or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from bert_zoo.tasks.objectives.masking import PLACE, Masking, numbered, shuffled


class Words(NamedTuple):
    """The words of rows, numbered from 0 in each row, without special tokens.

    A token after a special one begins a word.

    Attributes:
        of_token: int [batch, length], the word of each token; meaningless for special tokens.
        starts: int [batch, words], the first token of each word.
        lengths: int [batch, words], its number of tokens; 0 if a row has fewer words.
    """

    of_token: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, batch: Mapping[str, np.ndarray]) -> Self:
        special = batch["special"]
        is_start = batch["word_starts"].copy()
        is_start[:, 1:] |= special[:, :-1]
        is_start[:, 0] = True
        is_start &= ~special
        of_token = np.cumsum(is_start, axis=1) - 1
        rows, columns, numbers = numbered(is_start)
        most = int(numbers.max(initial=0)) + 1
        starts = np.zeros((len(special), most), np.int64)
        starts[rows, numbers] = columns
        of_any = of_token + most * np.arange(len(special))[:, None]
        lengths = np.bincount(of_any[~special], minlength=starts.size).reshape(starts.shape)
        return cls(of_token, starts, lengths)

    def tokens(self, words: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the tokens of chosen words: bool [batch, length] from bool [batch, words]."""
        return np.take_along_axis(words, np.maximum(self.of_token, 0), axis=1) & ~batch["special"]


@dataclass(frozen=True, kw_only=True)
class WholeWords(Masking):
    """BERT's whole word masking: chooses words in random order, and skips words that no longer fit.

    A word no longer fits if it has more tokens than are left to choose. Each token is replaced
    independently. Needs `word_starts`. Attributes are those of `MaskedTokens`.

    Source: google-research/bert create_pretraining_data.py, --do_whole_word_mask.
    """

    def choose(self, batch, draws):
        words = Words.of(batch)
        keys = np.sort(shuffled(words.lengths > 0, draws, "words"), axis=1)
        order = (keys & PLACE).astype(np.int64)
        # One step takes the next word of every row.
        lengths = np.ascontiguousarray(np.take_along_axis(words.lengths, order, axis=1).T)
        left = self.numbers(batch, draws)
        taken = np.zeros(lengths.shape, bool)
        for step, length in enumerate(lengths):
            taken[step] = length <= left
            left = left - length * taken[step]
            if not left.any():
                break
        chosen = np.zeros(order.shape, bool)
        np.put_along_axis(chosen, order, taken.T, axis=1)
        return words.tokens(chosen, batch)
