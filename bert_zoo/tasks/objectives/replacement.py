"""What a model reads in place of a chosen token: the mask, a random token, or the token itself."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.draws import Draws

DISTRIBUTIONS = ("uniform", "corpus")


@dataclass(frozen=True, kw_only=True)
class TokenIds:
    """The ids that objectives of masked tokens need.

    Attributes:
        mask_id: id of the mask token.
        vocab_size: number of ids.
        counts: int [vocab_size], how often each token occurs in the corpus; None if unknown.

    Raises:
        ValueError: `counts` has another shape.
    """

    mask_id: int
    vocab_size: int
    counts: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if self.counts is not None and np.shape(self.counts) != (self.vocab_size,):
            raise ValueError(
                f"counts has shape {np.shape(self.counts)}; it must be [{self.vocab_size}], one count per id."
            )

    @classmethod
    def of(cls, tokenizer, counts: np.ndarray | None = None) -> Self:
        """Returns the ids of a tokenizer.

        Raises:
            ValueError: the tokenizer has no mask token.
        """
        mask_id = getattr(tokenizer, "mask_id", None)
        if mask_id is None:
            raise ValueError(
                f"The {type(tokenizer).__name__} has no mask token to hide tokens. Use a model of masked "
                "tokens, such as bert_base."
            )
        return cls(mask_id=mask_id, vocab_size=tokenizer.vocab_size, counts=counts)


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """Replaces chosen tokens by the mask or by random tokens; the rest stay as they are.

    Attributes:
        mask: probability of the mask.
        random: probability of a random token.
        distribution: of random tokens: "uniform" over the vocabulary, or "corpus", by their frequency
            in the corpus.
        excluded_ids: ids that are never random tokens.

    Raises:
        ValueError: an attribute outside its range.
    """

    mask: float = 0.8
    random: float = 0.1
    distribution: str = "uniform"
    excluded_ids: tuple[int, ...] = ()

    def __post_init__(self):
        if not (0 <= self.mask <= 1 and 0 <= self.random <= 1 and self.mask + self.random <= 1):
            raise ValueError(
                f"mask is {shown(self.mask)} and random {shown(self.random)}. Both are probabilities, and "
                "their sum must be at most 1."
            )
        if self.distribution not in DISTRIBUTIONS:
            raise ValueError(
                f"distribution is {shown(self.distribution)}; choose one of {DISTRIBUTIONS}."
            )

    def __call__(
        self,
        token_ids: np.ndarray,
        draws: Draws,
        tokens: TokenIds,
        groups: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns what the model reads in place of chosen tokens.

        Args:
            token_ids: int [batch, predictions], the chosen tokens.
            draws: the random numbers of their rows.
            tokens: the vocabulary.
            groups: int [batch, predictions], the span of each token, from 0. Tokens of a span share one
                choice between mask, random and unchanged; by default each token has its own.

        Returns:
            int32 [batch, predictions].

        Raises:
            ValueError: `distribution` is "corpus", and the vocabulary has no counts.
        """
        predictions = token_ids.shape[1]
        choice = draws.uniform("replacement", predictions)
        if groups is not None:
            choice = np.take_along_axis(choice, groups, axis=1)
        replaced = np.where(choice < self.mask, tokens.mask_id, token_ids).astype(np.int32)
        if self.random:
            is_random = (self.mask <= choice) & (choice < self.mask + self.random)
            replaced[is_random] = self._random_ids(draws, tokens, predictions)[is_random]
        return replaced

    def _random_ids(self, draws: Draws, tokens: TokenIds, predictions: int) -> np.ndarray:
        """Draws random tokens for all positions, int64 [batch, predictions]."""
        if self.distribution == "uniform":
            number = tokens.vocab_size - len(self.excluded_ids)
            drawn = draws.integers("random token", number, predictions)
            for excluded in sorted(self.excluded_ids):
                drawn += drawn >= excluded
            return drawn
        if tokens.counts is None:
            raise ValueError(
                "Random tokens are drawn by their frequency in the corpus, but there are no counts. Pass "
                "TokenIds(counts=...), or choose distribution='uniform'."
            )
        counts = np.array(tokens.counts, np.int64)
        counts[list(self.excluded_ids)] = 0
        sums = np.cumsum(counts)
        drawn = draws.integers("random token", int(sums[-1]), predictions)
        return np.searchsorted(sums, drawn, side="right")
