"""Single tokens behind masks, as BERT and RoBERTa choose them; the other objectives choose otherwise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.objectives.draws import Draws
from bert_zoo.objectives.replacement import Replacement, TokenIds

Batch = Mapping[str, np.ndarray]

COUNTS = ("rounded", "random", "ceiling")
# What of a batch is labels -> the logits that they are for.
LABELS = {"next_sentence": "nsp_logits", "sentence_order": "sop_logits"}
# What of a batch objectives read and models do not.
READ_HERE = ("row", "special", "word_starts")
# Bits of a draw that hold the place in the row, so that no two draws of a row are equal.
PLACES = np.uint64(2**20 - 1)


@dataclass(frozen=True, kw_only=True)
class MaskedTokens:
    """Tokens chosen one by one, each hidden by itself.

    Attributes:
        rate: part of a row's tokens that are chosen, special tokens among those that it is a part of.
        max_predictions: the most chosen tokens a row, and the predictions of every row; by default what
            the rate says of the batch's length (BERT's program: 20 at 128 tokens, 77 at 512).
        count: "rounded", BERT's: rate * tokens, at least 1; "random", RoBERTa's: rate * tokens, rounded
            up as often as its fraction says; "ceiling", SpanBERT's: rounded up, without special tokens.
        special_tokens: whether special tokens may be chosen.
        replacement: what the model reads in their places.
        tokens: the vocabulary; see `for_tokens`.

    Source: google-research/bert create_pretraining_data.py; fairseq data/mask_tokens_dataset.py.
    """

    rate: float = 0.15
    max_predictions: int | None = None
    count: str = "rounded"
    special_tokens: bool = False
    replacement: Replacement = Replacement()  # noqa: RUF009 (frozen)
    tokens: TokenIds | None = None

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is {shown(self.rate)}; it must lie between 0 and 1.")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(
                f"max_predictions is {shown(self.max_predictions)}; it must be at least 1, or None."
            )
        if self.count not in COUNTS:
            raise ValueError(f"count is {shown(self.count)}; choose one of {COUNTS}.")

    def for_tokens(self, tokens: TokenIds) -> Self:
        """The objective for a vocabulary."""
        return replace(self, tokens=tokens)

    def predictions(self, length: int) -> int:
        """Predictions of each row of a batch whose rows have `length` tokens."""
        if self.max_predictions is not None:
            return self.max_predictions
        if self.count == "rounded":
            return max(1, round(self.rate * length))
        return math.ceil(self.rate * length)

    def __call__(self, batch: Batch, draws: Draws) -> tuple[dict[str, Any], dict[str, Any]]:
        """The inputs and labels of a batch.

        Args:
            batch: arrays [batch, length]: int `token_ids` whole, int `padding_mask`, bool `special` for
                special tokens and padding, and perhaps bool `word_starts`, int [batch] `next_sentence`
                or `sentence_order`, and what else the model reads, which is passed on.
            draws: the random numbers of its rows.

        Returns:
            The model's inputs, with `token_ids` int32 [batch, length] as it reads them and
            `mask_positions` int32 [batch, predictions], in order and then 0; and the labels by logits:
            `mlm_logits` int32 [batch, predictions], the chosen tokens and then -100, `nsp_logits` or
            `sop_logits` [batch].

        Raises:
            ValueError: it knows no vocabulary.
        """
        if self.tokens is None:
            raise ValueError(
                f"This {type(self).__name__} knows no vocabulary. Give it one: "
                "objective.for_tokens(TokenIds.of(model.preprocessor.tokenizer))."
            )
        token_ids = np.array(batch["token_ids"], np.int32)
        chosen = self.choose(batch, draws)
        rows, columns, places = numbered(chosen)
        positions = np.zeros((len(token_ids), self.predictions(token_ids.shape[1])), np.int32)
        positions[rows, places] = columns
        original = np.take_along_axis(token_ids, positions, axis=1)
        replaced = self.replacement(original, draws, self.tokens, self.groups(chosen, positions))
        token_ids[rows, columns] = replaced[rows, places]
        labels = np.full_like(positions, IGNORED_LABEL)
        labels[rows, places] = original[rows, places]
        passed = {n: v for n, v in batch.items() if n not in (*READ_HERE, *LABELS)}
        return (
            {**passed, "token_ids": token_ids, "mask_positions": positions},
            {
                "mlm_logits": labels,
                **{logits: np.asarray(batch[n]) for n, logits in LABELS.items() if n in batch},
            },
        )

    def eligible(self, batch: Batch) -> np.ndarray:
        """bool [batch, length], the tokens that may be chosen."""
        if self.special_tokens:
            return np.asarray(batch["padding_mask"]) != 0
        return ~np.asarray(batch["special"])

    def numbers(self, batch: Batch, draws: Draws) -> np.ndarray:
        """int64 [batch], how many tokens of each row are to be chosen."""
        counted = batch["padding_mask"] if self.count != "ceiling" else ~batch["special"]
        number = self.rate * np.sum(counted, axis=1, dtype=np.int64)
        if self.count == "rounded":
            number = np.maximum(1, np.rint(number))
        elif self.count == "random":
            number = np.floor(number + draws.uniform("number", 1)[:, 0])
        else:
            number = np.ceil(number)
        return np.minimum(number.astype(np.int64), self.predictions(counted.shape[1]))

    def choose(self, batch: Batch, draws: Draws) -> np.ndarray:
        """bool [batch, length], the chosen tokens: no more than `numbers` a row."""
        keys = shuffled_keys(self.eligible(batch), draws, "tokens")
        numbers = self.numbers(batch, draws)
        ordered = np.sort(keys, axis=1)
        last = np.take_along_axis(ordered, np.maximum(numbers - 1, 0)[:, None], axis=1)
        return (keys <= last) & self.eligible(batch) & (numbers > 0)[:, None]

    def groups(self, chosen: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        """int [batch, predictions], the spans that chosen tokens are in; None for tokens by themselves."""
        return None


def shuffled_keys(eligible: np.ndarray, draws: Draws, name: str) -> np.ndarray:
    """uint64 [batch, length] whose order is a random order of the eligible places; the others come last.

    No two of a row are equal; `PLACES` of one are its place.
    """
    length = eligible.shape[1]
    places = np.arange(length, dtype=np.uint64)
    keys = draws.bits(name, length)
    keys &= ~PLACES
    keys[~eligible] = ~PLACES
    keys |= places
    return keys


def numbered(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of bool [batch, length] what is true: its rows, its columns, and its numbers in its row from 0."""
    rows, columns = np.nonzero(chosen)
    before = np.cumsum(np.bincount(rows, minlength=len(chosen)))
    starts = np.concatenate([[0], before[:-1]])
    return rows, columns, np.arange(len(rows)) - starts[rows]
