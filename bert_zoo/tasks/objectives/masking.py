"""What all objectives of hidden tokens share: from the chosen tokens of a batch to inputs and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.tasks.objectives.draws import Draws
from bert_zoo.tasks.objectives.objective import Arrays, Objective
from bert_zoo.tasks.objectives.replacement import Replacement, TokenIds

# What of a batch is labels -> the logits that they are for.
LABELS = {"next_sentence": "nsp_logits", "sentence_order": "sop_logits"}
# What of a batch objectives read and models do not.
READ_HERE = ("row", "special", "word_starts")
# The bits of a key that hold its place in the row, so that no two keys of a row are equal.
PLACE = np.uint64(2**20 - 1)


@dataclass(frozen=True, kw_only=True)
class Masking(Objective):
    """Tokens that are chosen, hidden and asked for.

    Attributes:
        rate: part of a row's tokens that is chosen, special tokens counted.
        max_predictions: the most chosen tokens a row, and the predictions of every row; None for what
            the rate gives for rows of the batch's length (as BERT's README: 20 at 128 tokens, 77 at
            512).
        replacement: what the model reads in their places.
        replaced: whether a discriminator reads what a generator puts in their places.
    """

    rate: float = 0.15
    max_predictions: int | None = None
    replacement: Replacement = Replacement()  # noqa: RUF009 (frozen)
    tokens: TokenIds | None = None
    replaced: ClassVar[bool] = False

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is {shown(self.rate)}; it must lie between 0 and 1.")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(
                f"max_predictions is {shown(self.max_predictions)}; it must be at least 1, or None."
            )

    def for_tokenizer(self, tokenizer, counts=None):
        return self.for_tokens(TokenIds.of(tokenizer, counts))

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Arrays]:
        """The inputs and labels of a batch.

        Args:
            batch: [batch, length] each: int `token_ids`, whole; int `padding_mask`; bool `special`, true
                for special tokens and padding; for words, bool `word_starts`. Further `next_sentence`
                or `sentence_order`, int [batch], and what else the model reads, which is passed on.
            draws: the random numbers of its rows.

        Returns:
            The model's inputs, with `token_ids` int32 [batch, length] as it reads them and
            `mask_positions` int32 [batch, predictions], ascending and then 0; and the labels by logits:
            `mlm_logits` int32 [batch, predictions], the chosen tokens and then -100; `nsp_logits` or
            `sop_logits`, int [batch].

        Raises:
            ValueError: it knows no vocabulary.
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
        """Predictions of each row, in a batch whose rows have `length` tokens."""
        return self.max_predictions or max(1, round(self.rate * length))

    def numbers(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """int64 [batch], how many tokens of each row are to be chosen."""
        wanted = np.maximum(1, np.rint(self.rate * np.count_nonzero(batch["padding_mask"], axis=1)))
        return np.minimum(wanted.astype(np.int64), self.predictions(batch["token_ids"].shape[1]))

    def choose(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """bool [batch, length], the chosen tokens: no more than `numbers` a row."""
        raise NotImplementedError

    def groups(self, chosen: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        """int [batch, predictions], spans that are replaced alike; None for each token by itself."""
        return None

    def of_chosen(
        self, batch: Mapping[str, np.ndarray], chosen: np.ndarray, draws: Draws
    ) -> tuple[Arrays, Arrays]:
        """Inputs and labels that an objective has beside the masked tokens'."""
        return {}, {}


def shuffled(there: np.ndarray, draws: Draws, name: str) -> np.ndarray:
    """uint64 [batch, length], keys whose order is a random one; those of places not `there` come last.

    No two of a row are equal: `PLACE` of a key is where it stands.
    """
    keys = draws.bits(name, there.shape[1])
    keys[~there] = np.iinfo(np.uint64).max
    keys &= ~PLACE
    keys |= np.arange(there.shape[1], dtype=np.uint64)
    return keys


def numbered(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of bool [batch, length], what is true: its row, its column, and its number in its row from 0."""
    rows, columns = np.nonzero(chosen)
    counts = np.bincount(rows, minlength=len(chosen))
    return rows, columns, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
