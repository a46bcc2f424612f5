"""Numbered batches for pretraining. Each depends only on seed and number, so training can resume anywhere."""

from __future__ import annotations

import bisect
import functools
import threading
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from bert_zoo.data.by_number import BatchesByNumber, numbered
from bert_zoo.data.rows import RowScheme, TooFewRows
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.pretraining.masked_rows import MaskedRows
from bert_zoo.pretraining.rows import EpochPlan
from bert_zoo.pretraining.streams import Segments
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.tasks.objectives.objective import Draws, Objective

# Batches made in parallel, and ahead of the one in training.
PARALLEL, AHEAD = 2, 8


class NumberedBatches:
    """Numbered batches; each depends only on its number."""

    starts: Sequence[int] = ()  # as for `PretrainingBatches`; empty if no epochs are planned
    tokens: float  # mean number of tokens per batch, including special tokens but not padding

    def at(self, number: int) -> Any:
        """A batch of arrays."""
        raise NotImplementedError

    def dataset(self, first: int, end: int) -> tf.data.Dataset | BatchesByNumber:
        """Returns the batches from `first` up to, but not including, `end`, with static shapes."""

        def specs():
            return tf.nest.map_structure(
                lambda array: tf.TensorSpec(array.shape, array.dtype), self.at(first)
            )

        def at(number: int) -> Any:
            return self.at(first + number)

        return numbered(at, end - first, specs, parallel=PARALLEL, ahead=AHEAD)


class ShuffledBatches(NumberedBatches):
    """Batches of numbered rows, `per_epoch` a pass, in a different order in each pass.

    The last rows of a pass are left out if they do not fill a batch; each pass leaves out different rows.
    `TooFewRows` if there are fewer rows than fill a batch.
    """

    def __init__(self, num_rows: int, batch_size: int, seed: int):
        self.num_rows, self.batch_size, self.seed = num_rows, batch_size, seed
        self.per_epoch = num_rows // batch_size
        if not self.per_epoch:
            raise TooFewRows(
                f"The text has only {num_rows:,} rows, but a batch has {batch_size}. Choose shorter rows or a "
                "smaller batch_size, or add text."
            )
        self._order = functools.lru_cache(maxsize=2)(self._order_of)

    def _order_of(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.num_rows)

    def rows(self, number: int) -> np.ndarray:
        """The numbers of a batch's rows, int64 [batch_size]."""
        epoch, step = divmod(int(number), self.per_epoch)
        return self._order(epoch)[step * self.batch_size : (step + 1) * self.batch_size]


class PretrainingBatches(NumberedBatches):
    """Numbered batches of a text. Each depends only on seed and number, so training can resume anywhere.

    Rows at the end of an epoch are left out if they do not fill a batch. The next epoch has different rows.

    Args:
        seed: seed of rows and masks.
        first_epoch: number of the first epoch; another number gives other rows.
        mlm_only: whether labels are a single array, those of the masked tokens, as for `task="masked_lm"`.

    Raises:
        TooFewRows: the text has fewer rows than fill a batch.
    """

    def __init__(
        self,
        text: TokenizedText,
        scheme: RowScheme,
        objective: Objective,
        batch_size: int,
        *,
        seed: int,
        first_epoch: int = 0,
        mlm_only: bool = False,
    ):
        self.text, self.scheme, self.objective = text, scheme, objective
        self.batch_size, self.seed, self.first_epoch = batch_size, seed, first_epoch
        self.mlm_only = mlm_only
        self._plans: dict[int, EpochPlan] = {}
        self.starts = [0]
        self._lock = threading.Lock()
        self.per_epoch = self._plan(0).num_rows // batch_size
        if not self.per_epoch:
            raise TooFewRows(
                f"The text has {self._plan(0).num_rows:,} rows of up to {scheme.length} tokens, but a "
                f"batch has {batch_size}. Lower batch_size, or add text."
            )
        self.tokens = float(self._plan(0).lengths.mean() * batch_size)

    def _plan(self, epoch: int) -> EpochPlan:
        if epoch not in self._plans:
            # Batches of the previous epoch may still be in the making.
            self._plans = {n: plan for n, plan in self._plans.items() if n >= epoch - 1}
            self._plans[epoch] = EpochPlan(
                self.text, self.scheme, self.seed, self.first_epoch + epoch
            )
        return self._plans[epoch]

    def _place(self, number: int) -> tuple[EpochPlan, int, int]:
        """The plan, the epoch and the first row of a batch."""
        with self._lock:
            while self.starts[-1] <= number:
                plan = self._plan(len(self.starts) - 1)
                self.starts.append(self.starts[-1] + plan.num_rows // self.batch_size)
            epoch = bisect.bisect_right(self.starts, number) - 1
            return self._plan(epoch), epoch, (number - self.starts[epoch]) * self.batch_size

    def at(self, number: int) -> tuple[dict[str, np.ndarray], Any]:
        plan, epoch, first = self._place(int(number))
        rows = plan.batch(range(first, first + self.batch_size))
        if "document_ids" in rows:
            # The model derives the positions in its table from these.
            del rows["position_ids"]
        draws = Draws(self.seed, self.first_epoch + epoch, rows["row"])
        inputs, labels = self.objective(rows, draws)
        return inputs, labels["mlm_logits"] if self.mlm_only else labels


class StreamBatches(NumberedBatches):
    """Numbered batches of `Segments`, `per_epoch` a pass, one pass after another."""

    def __init__(self, token_ids: np.ndarray, batch_size: int, segment_length: int):
        self._segments = Segments(token_ids, batch_size, segment_length)
        self.per_epoch = self._segments.num_steps
        self.tokens = float(batch_size * segment_length)

    def at(self, number: int) -> dict[str, np.ndarray]:
        return self._segments.at(number % self.per_epoch)

    def dataset(self, first: int, end: int) -> tf.data.Dataset | BatchesByNumber:
        if not has_tensorflow:
            return super().dataset(first, end)
        rest = self._segments.dataset(first % self.per_epoch)
        return rest.concatenate(self._segments.dataset().repeat()).take(end - first)


class StreamRowBatches(ShuffledBatches):
    """Rows of a stream, all of the same length, for a language model without a memory.

    A row's labels are the tokens that follow each of its tokens. Tokens at the stream's end are left out if they do
    not fill a row.
    """

    def __init__(self, token_ids: np.ndarray, batch_size: int, row_length: int, seed: int):
        super().__init__((len(token_ids) - 1) // row_length, batch_size, seed)
        self.token_ids, self.row_length = token_ids, row_length
        self.tokens = float(batch_size * row_length)

    def at(self, number: int) -> dict[str, np.ndarray]:
        """A batch: `token_ids` and `labels` int32 [batch_size, row_length]."""
        places = self.rows(number)[:, None] * self.row_length + np.arange(self.row_length + 1)
        tokens = self.token_ids[places].astype(np.int32)
        return {"token_ids": tokens[:, :-1], "labels": tokens[:, 1:]}


class MaskedRowBatches(ShuffledBatches):
    """Rows that were masked ahead of training.

    Args:
        inputs: names of the model's inputs.
        pair_logits: name of the logits for labels of pairs; None if the model has none.
        mlm_only: as for `PretrainingBatches`.
    """

    def __init__(
        self,
        rows: MaskedRows,
        batch_size: int,
        *,
        seed: int,
        inputs: Collection[str],
        pair_logits: str | None = None,
        mlm_only: bool = False,
    ):
        super().__init__(rows.num_rows, batch_size, seed)
        self.source, self.inputs = rows, inputs
        self.pair_logits, self.mlm_only = pair_logits, mlm_only
        self.tokens = float(np.count_nonzero(self.at(0)[0]["padding_mask"]))

    def at(self, number: int) -> tuple[dict[str, np.ndarray], Any]:
        batch = self.source.read(self.rows(number))
        labels = {"mlm_logits": batch.pop("mlm_logits")}
        pairs = batch.pop("pair_label", None)
        if pairs is not None and self.pair_logits:
            labels[self.pair_logits] = pairs
        inputs = {name: value for name, value in batch.items() if name in self.inputs}
        return inputs, labels["mlm_logits"] if self.mlm_only else labels
