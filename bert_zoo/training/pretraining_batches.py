"""The batches of a pretraining: rows of token shards, with tokens hidden by an objective."""

import bisect
import threading
from typing import Any

import numpy as np
import tensorflow as tf

from bert_zoo.data.pretraining_rows import EpochPlan, Scheme
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.objectives.draws import Draws
from bert_zoo.objectives.masking import Masking
from bert_zoo.training.hidden_tokens import run_numpy

# Batches that are made at the same time, and ahead of the one that is trained on.
PARALLEL, AHEAD = 2, 8


class PretrainingBatches:
    """Batches by number: each depends on seed and number alone, so that a training goes on anywhere.

    Rows that fill no batch are left out at the end of each epoch; the next one has others.

    Args:
        shards: the text.
        scheme: what a row is.
        objective: with its vocabulary.
        batch_size: rows a batch.
        seed: of rows and masks.
        first_epoch: number of the first epoch; trainings that begin with others have other rows.
        mlm_only: whether labels are those of masked tokens alone, an array, as `task="masked_lm"` has
            it.

    Attributes:
        per_epoch: batches of the first epoch.
        tokens: of a batch on average, special ones among them and padding not.
        starts: the number of each epoch's first batch, of those that were planned and the next. Kept and
            given back, it saves planning all epochs again that are over.

    Raises:
        ValueError: the text has fewer rows than a batch.
    """

    def __init__(
        self,
        shards: TokenShards,
        scheme: Scheme,
        objective: Masking,
        batch_size: int,
        *,
        seed: int,
        first_epoch: int = 0,
        mlm_only: bool = False,
    ):
        self.shards, self.scheme, self.objective = shards, scheme, objective
        self.batch_size, self.seed, self.first_epoch = batch_size, seed, first_epoch
        self.mlm_only = mlm_only
        self._plans: dict[int, EpochPlan] = {}
        self.starts = [0]
        self._lock = threading.Lock()
        self.per_epoch = self._plan(0).num_rows // batch_size
        if not self.per_epoch:
            raise ValueError(
                f"The text has {self._plan(0).num_rows:,} rows of up to {scheme.length} tokens, and a "
                f"batch has {batch_size}. Lower batch_size, or bring more text."
            )
        self.tokens = float(self._plan(0).lengths.mean() * batch_size)

    def _plan(self, epoch: int) -> EpochPlan:
        if epoch not in self._plans:
            # Batches of the epoch before may still be made.
            self._plans = {n: plan for n, plan in self._plans.items() if n >= epoch - 1}
            self._plans[epoch] = EpochPlan(
                self.shards, self.scheme, self.seed, self.first_epoch + epoch
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
        """Inputs and labels of a batch."""
        plan, epoch, first = self._place(int(number))
        rows = plan.batch(range(first, first + self.batch_size))
        if "document_ids" in rows:
            # Positions of a model's table, which the model itself counts from these.
            del rows["position_ids"]
        draws = Draws(self.seed, self.first_epoch + epoch, rows["row"])
        inputs, labels = self.objective(rows, draws)
        return inputs, labels["mlm_logits"] if self.mlm_only else labels

    def dataset(self, first: int, end: int) -> tf.data.Dataset:
        """The batches from `first` to before `end`, of static shapes."""
        example = self.at(first)
        specs = tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), example
        )

        def batch(number):
            return run_numpy(self.at, [number], specs)

        numbers = tf.data.Dataset.range(first, end)
        return numbers.map(batch, num_parallel_calls=PARALLEL, deterministic=True).prefetch(AHEAD)
