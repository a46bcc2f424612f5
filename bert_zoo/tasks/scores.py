"""How likely texts are, token by token."""

import math
from dataclasses import dataclass

import numpy as np

from bert_zoo.runtime.printed import Row, Rows, one_line, table

HEADINGS = ("perplexity", "bits/character", "tokens", "text")


@dataclass(frozen=True, eq=False)
class TextScore(Row):
    """How likely a text is.

    Attributes:
        text: the text.
        tokens: those that are scored, in their order.
        log_probs: float32 [tokens], natural logarithms of their probabilities.
        perplexity: exp of the mean negative log-probability of a token.
        bits_per_character: the sum of the negative log-probabilities, in bits, over the characters
            that are scored; over bytes where tokens are bytes.
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
    """A list of `TextScore` that prints as a table."""

    def __str__(self) -> str:
        return table([HEADINGS, *(row.cells() for row in self)], ">")


def text_score(
    tokenizer, text: str, ids: np.ndarray, log_probs: np.ndarray, characters: int
) -> TextScore:
    """The score of a text.

    Args:
        tokenizer: what reads it.
        ids, log_probs: of the tokens that are scored.
        characters: how many they are.
    """
    nats = -float(log_probs.sum(dtype=np.float64))
    tokens = tuple(tokenizer.id_to_token(int(index)) for index in ids)
    bits = nats / math.log(2) / characters if characters else math.nan
    return TextScore(text, tokens, log_probs, math.exp(nats / len(ids)), bits)
