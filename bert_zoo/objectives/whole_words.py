"""Whole words: all tokens of a word are chosen, or none."""

from dataclasses import dataclass

import numpy as np

from bert_zoo.objectives.masking import PLACE, Masking, shuffled
from bert_zoo.objectives.words import Words


@dataclass(frozen=True, kw_only=True)
class WholeWords(Masking):
    """Words in a random order, without those of more tokens than are left to choose.

    Each token is replaced by itself. Needs `word_starts`.

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
