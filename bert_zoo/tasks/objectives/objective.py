"""What all objectives of pretraining are: NumPy transforms of batches, for a vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bert_zoo.tasks.objectives.draws import Draws

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a model reads of a text in pretraining, and what it is asked for.

    Attributes:
        tokens: the vocabulary; see `for_tokens`.
    """

    tokens: Any = None

    def for_tokens(self, tokens: Any) -> Self:
        """The objective for a vocabulary."""
        return replace(self, tokens=tokens)

    def for_tokenizer(self, tokenizer: Any, counts: np.ndarray | None = None) -> Self:
        """The objective for a tokenizer's vocabulary.

        Args:
            tokenizer: the tokenizer.
            counts: int [vocab_size], how often each token occurs in the corpus, for objectives that draw
                random tokens accordingly.

        Raises:
            ValueError: the vocabulary lacks a token that the objective needs.
        """
        raise NotImplementedError

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Any]:
        """The inputs and labels of a batch of rows, `draws` being their random numbers."""
        raise NotImplementedError
        raise NotImplementedError

    def check_vocabulary(self) -> None:
        """Raises ValueError where the objective knows no vocabulary."""
        if self.tokens is None:
            raise ValueError(
                f"This {type(self).__name__} knows no vocabulary. Give it one: "
                "objective.for_tokenizer(model.preprocessor.tokenizer)."
            )
