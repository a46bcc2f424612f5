"""Likelihoods of texts, token by token."""

import math
from dataclasses import dataclass

import numpy as np

from bert_zoo.runtime.printed import Row, Rows, one_line, table

HEADINGS = ("perplexity", "bits/character", "tokens", "text")


@dataclass(frozen=True, eq=False)
class TextScore(Row):
    """The likelihood of a text.

    Attributes:
        text: the text.
        tokens: the scored tokens, in order.
        log_probs: natural logarithms of their probabilities, float32 [tokens].
        perplexity: exp of the mean negative log-probability per token.
        bits_per_character: sum of the negative log-probabilities in bits, divided by the number of scored
            characters; for tokens that are bytes, by the number of bytes.
    """

    text: str
    tokens: tuple[str, ...]
    log_probs: np.ndarray
    perplexity: float
    bits_per_character: float

    def cells(self) -> tuple[str, ...]:
        numbers = (f"{self.perplexity:.2f}", f"{self.bits_per_character:.3f}")
        return (*numbers, str(len(self.tokens)), one_line(self.text))


class TextScores(Rows):
    """A list of `TextScore`, which prints as a table."""

    def __str__(self) -> str:
        return table([HEADINGS, *(row.cells() for row in self)], ">")


def text_score(
    tokenizer, text: str, ids: np.ndarray, log_probs: np.ndarray, characters: int
) -> TextScore:
    """Returns the score of a text.

    Args:
        tokenizer: the text's tokenizer.
        text: the text.
        ids, log_probs: ids and log-probabilities of the scored tokens, [tokens].
        characters: number of scored characters.
    """
    nats = -float(log_probs.sum(dtype=np.float64))
    tokens = tuple(tokenizer.id_to_token(int(index)) for index in ids)
    bits = nats / math.log(2) / characters if characters else math.nan
    return TextScore(text, tokens, log_probs, math.exp(nats / len(ids)), bits)
