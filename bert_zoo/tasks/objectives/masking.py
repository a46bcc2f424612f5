"""Base class of objectives with masked tokens: from the chosen tokens of a batch to inputs and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.draws import Draws
from bert_zoo.tasks.objectives.objective import Arrays, Objective
from bert_zoo.tasks.objectives.replacement import Replacement, TokenIds

# Names in a batch that are labels -> their logits.
LABELS = {"next_sentence": "nsp_logits", "sentence_order": "sop_logits"}
# Names in a batch that objectives read and models do not.
READ_HERE = ("row", "special", "word_starts")
# The bits of a key with its position in the row, so that all keys of a row differ.
PLACE = np.uint64(2**20 - 1)


@dataclass(frozen=True, kw_only=True)
class Masking(Objective):
    """Base class of objectives that choose tokens, hide them, and have an encoder predict them.

    Subclasses: `MaskedTokens` and its variants, `WholeWords`, `NGrams`, `Spans`, `Permutations`.

    Attributes:
        rate: share of a row's tokens to choose, counting special tokens.
        max_predictions: number of predictions in every row, and so the most tokens chosen in a row.
            None for the rate times the batch's row length (19 at 128 tokens, 77 at 512).
        replacement: what the model reads in place of the chosen tokens.
        replaced: whether a discriminator reads a generator's samples there (a class variable).
    """

    rate: float = 0.15
    max_predictions: int | None = None
    replacement: Replacement = Replacement()  # noqa: RUF009 (frozen)
    tokens: TokenIds | None = None
    replaced: ClassVar[bool] = False

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is {shown(self.rate)}; it must be between 0 and 1.")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(
                f"max_predictions is {shown(self.max_predictions)}; it must be at least 1, or None."
            )

    def for_tokenizer(self, tokenizer, counts=None):
        return self.for_tokens(TokenIds.of(tokenizer, counts))

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Arrays]:
        """Hides tokens of a batch and returns the model's inputs and labels.

        Args:
            batch: arrays [batch, length]: int `token_ids`, the original ones; int `padding_mask`; bool
                `special`, true for special tokens and padding; bool `word_starts`, for objectives of
                words. Also `next_sentence` or `sentence_order`, int [batch], if there are such labels.
                Other arrays are passed on to the model.
            draws: the random numbers of the rows.

        Returns:
            The model's inputs, with `token_ids` int32 [batch, length] as the model reads them, and
            `mask_positions` int32 [batch, predictions], ascending, then 0. And the labels by logits:
            `mlm_logits` int32 [batch, predictions], the chosen tokens, then -100; `nsp_logits` or
            `sop_logits`, int [batch].

        Raises:
            ValueError: the objective has no vocabulary; call `for_tokenizer` first.
        """
        self.check_vocabulary()
        whole = np.asarray(batch["token_ids"], np.int32)
        chosen = self.choose(batch, draws)
        rows, columns, numbers = numbered(chosen)
        positions = np.zeros((len(whole), self.predictions(whole.shape[1])), np.int32)
        positions[rows, numbers] = columns
        original = np.take_along_axis(whole, positions, axis=1)
        replaced = self.replacement(original, draws, self.tokens, self.groups(chosen, positions))
        token_ids = whole.copy()
        token_ids[rows, columns] = replaced[rows, numbers]
        wanted = np.full_like(positions, IGNORED_LABEL)
        wanted[rows, numbers] = original[rows, numbers]
        passed = {n: v for n, v in batch.items() if n not in (*READ_HERE, *LABELS)}
        inputs = {**passed, "token_ids": token_ids, "mask_positions": positions}
        labels = {"mlm_logits": wanted}
        labels |= {logits: np.asarray(batch[n]) for n, logits in LABELS.items() if n in batch}
        more_inputs, more_labels = self.of_chosen(batch, chosen, draws)
        return inputs | more_inputs, labels | more_labels

    def predictions(self, length: int) -> int:
        """Returns the number of predictions in each row of `length` tokens."""
        return self.max_predictions or max(1, round(self.rate * length))

    def numbers(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """Returns how many tokens to choose in each row, int64 [batch]."""
        wanted = np.maximum(1, np.rint(self.rate * np.count_nonzero(batch["padding_mask"], axis=1)))
        return np.minimum(wanted.astype(np.int64), self.predictions(batch["token_ids"].shape[1]))

    def choose(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """Returns the chosen tokens, bool [batch, length], at most `numbers` in each row."""
        raise NotImplementedError

    def groups(self, chosen: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        """Returns the span of each prediction, int [batch, predictions]: tokens of a span are replaced alike.

        None if each token is replaced independently.
        """
        return None

    def of_chosen(
        self, batch: Mapping[str, np.ndarray], chosen: np.ndarray, draws: Draws
    ) -> tuple[Arrays, Arrays]:
        """Returns further inputs and labels of an objective."""
        return {}, {}


def shuffled(there: np.ndarray, draws: Draws, name: str) -> np.ndarray:
    """Returns keys in random order, uint64 [batch, length]; positions that are not `there` come last.

    All keys of a row differ, since the bits of `PLACE` are the position.
    """
    keys = draws.bits(name, there.shape[1])
    keys[~there] = np.iinfo(np.uint64).max
    keys &= ~PLACE
    keys |= np.arange(there.shape[1], dtype=np.uint64)
    return keys


def numbered(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns row, column and number in its row (from 0) of each true value of bool [batch, length]."""
    rows, columns = np.nonzero(chosen)
    counts = np.bincount(rows, minlength=len(chosen))
    return rows, columns, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
