"""What a model reads in the place of a chosen token: the mask, a random token, or the token itself."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.draws import Draws

DISTRIBUTIONS = ("uniform", "corpus")


@dataclass(frozen=True, kw_only=True)
class TokenIds:
    """What objectives know of a vocabulary.

    Attributes:
        mask_id: the id of the mask.
        vocab_size: how many ids there are.
        counts: int [vocab_size], how often each occurs in the corpus; None where that is not known.
    """

    mask_id: int
    vocab_size: int
    counts: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if self.counts is not None and np.shape(self.counts) != (self.vocab_size,):
            raise ValueError(
                f"counts have shape {np.shape(self.counts)}; the vocabulary has {self.vocab_size} ids."
            )

    @classmethod
    def of(cls, tokenizer, counts: np.ndarray | None = None) -> Self:
        """Those of a tokenizer.

        Raises:
            ValueError: it has no mask.
        """
        mask_id = getattr(tokenizer, "mask_id", None)
        if mask_id is None:
            raise ValueError(
                f"The {type(tokenizer).__name__} has no mask token, so no token can be hidden. Use a "
                "model of masked tokens, such as bert_base."
            )
        return cls(mask_id=mask_id, vocab_size=tokenizer.vocab_size, counts=counts)


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """Which chosen tokens become the mask, which a random token; the rest stay as they are.

    Attributes:
        mask: probability of the mask.
        random: probability of a random token.
        distribution: of random tokens: "uniform" over the vocabulary, or "corpus", as often as they
            occur in it.
        excluded_ids: ids that are no random tokens.
    """

    mask: float = 0.8
    random: float = 0.1
    distribution: str = "uniform"
    excluded_ids: tuple[int, ...] = ()

    def __post_init__(self):
        if not (0 <= self.mask <= 1 and 0 <= self.random <= 1 and self.mask + self.random <= 1):
            raise ValueError(
                f"mask is {shown(self.mask)} and random {shown(self.random)}; they are probabilities "
                "with a sum of at most 1."
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
        """What stands in the place of chosen tokens.

        Args:
            token_ids: int [batch, predictions], the chosen tokens.
            draws: of their rows.
            tokens: the vocabulary.
            groups: int [batch, predictions], numbers from 0 of spans whose tokens share one choice
                between the three; by default each token has its own.

        Returns:
            int32 [batch, predictions].

        Raises:
            ValueError: the corpus's distribution is asked for and not known.
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
        """int64 [batch, predictions], tokens that are drawn whatever stood there."""
        if self.distribution == "uniform":
            number = tokens.vocab_size - len(self.excluded_ids)
            drawn = draws.integers("random token", number, predictions)
            for excluded in sorted(self.excluded_ids):
                drawn += drawn >= excluded
            return drawn
        if tokens.counts is None:
            raise ValueError(
                "Random tokens are drawn as often as they occur in the corpus, whose counts are not "
                "known. Give them, TokenIds(counts=), or choose distribution='uniform'."
            )
        counts = np.array(tokens.counts, np.int64)
        counts[list(self.excluded_ids)] = 0
        sums = np.cumsum(counts)
        drawn = draws.integers("random token", int(sums[-1]), predictions)
        return np.searchsorted(sums, drawn, side="right")
