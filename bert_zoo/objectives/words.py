"""The words of the rows of a batch."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from bert_zoo.objectives.masking import numbered


class Words(NamedTuple):
    """Words, which are numbered from 0 in each row; special tokens are none.

    A token behind a special one begins a word.

    Attributes:
        of_token: int [batch, length], the word of each token, if it is one's.
        starts: int [batch, words], the first token of each.
        lengths: int [batch, words], its tokens; 0 where a row has fewer words.
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
        """bool [batch, length], the tokens of words that are true in bool [batch, words]."""
        return np.take_along_axis(words, np.maximum(self.of_token, 0), axis=1) & ~batch["special"]
