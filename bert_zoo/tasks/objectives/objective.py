"""The base class of pretraining objectives: NumPy transforms of batches, for a vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bert_zoo.tasks.objectives.draws import Draws

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a model reads of a text in pretraining, and what it must predict.

    Attributes:
        tokens: the vocabulary; see `for_tokens`.
    """

    tokens: Any = None

    def for_tokens(self, tokens: Any) -> Self:
        """Returns the objective for a vocabulary, `TokenIds` or `SentinelIds`."""
        return replace(self, tokens=tokens)

    def for_tokenizer(self, tokenizer: Any, counts: np.ndarray | None = None) -> Self:
        """Returns the objective for a tokenizer's vocabulary.

        Args:
            tokenizer: the tokenizer.
            counts: int [vocab_size], how often each token occurs in the corpus, for objectives that draw
                random tokens by frequency.

        Raises:
            ValueError: the vocabulary lacks a token that the objective needs.
        """
        raise NotImplementedError

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Any]:
        """Returns inputs and labels of a batch of rows with the random numbers `draws`."""
        raise NotImplementedError

    def check_vocabulary(self) -> None:
        """Raises ValueError if the objective has no vocabulary."""
        if self.tokens is None:
            raise ValueError(
                f"This {type(self).__name__} has no vocabulary. Call "
                "objective.for_tokenizer(model.preprocessor.tokenizer) first, and use its result."
            )
