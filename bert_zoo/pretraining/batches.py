"""Numbered batches for pretraining. Each depends only on seed and number, so training can resume anywhere."""

from __future__ import annotations

import bisect
import functools
import hashlib
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data import tfrecords
from bert_zoo.data.by_number import BatchesByNumber, numbered
from bert_zoo.data.rows import RowScheme, TooFewRows
from bert_zoo.fields import check
from bert_zoo.graph import tf
from bert_zoo.pretraining.rows import EpochPlan
from bert_zoo.pretraining.tokens import AnyText, TokenizedText
from bert_zoo.tasks.objectives.objective import Draws, Objective

# Batches made in parallel, and ahead of the one in training.
PARALLEL, AHEAD = 2, 8


class NumberedBatches:
    """Numbered batches; each depends only on its number."""

    starts: Sequence[int] = ()  # as for `BatchesInTurn`; empty for batches without parts
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


class BatchesInTurn(NumberedBatches):
    """The batches of one part of a text after another; a text that is not in shards is its own part each time.

    Args:
        part: number of a part -> its batches; `per_epoch` of them, from `number * per_epoch`, are used.

    Attributes:
        starts: number of the first batch of each part so far and of the next one. Kept with a checkpoint, they save
            planning the finished parts again.
    """

    def __init__(self, part: Callable[[int], Any]):
        self._part_of, self._parts, self.starts = part, {}, [0]
        self._lock = threading.Lock()
        first = self._part(0)
        self.per_epoch, self.tokens = first.per_epoch, first.tokens

    def _part(self, number: int) -> Any:
        if number not in self._parts:
            # Batches of the previous part may still be in the making.
            self._parts = {n: part for n, part in self._parts.items() if n >= number - 1}
            self._parts[number] = self._part_of(number)
        return self._parts[number]

    def at(self, number: int) -> Any:
        number = int(number)
        with self._lock:
            while self.starts[-1] <= number:
                part = self._part(len(self.starts) - 1)
                self.starts.append(self.starts[-1] + part.per_epoch)
            place = bisect.bisect_right(self.starts, number) - 1
            part = self._part(place)
        return part.at(place * part.per_epoch + number - self.starts[place])


class PretrainingBatches(BatchesInTurn):
    """Numbered batches of a text. Each depends only on seed and number, so training can resume anywhere.

    An epoch is a pass over the text or, for `TokenShards`, over a part of it, whose rows are shuffled. Rows at the end
    of an epoch are left out if they do not fill a batch. The next epoch has different rows.

    Args:
        seed: seed of rows and masks.
        first_epoch: number of the first epoch; another number gives other rows.
        mlm_only: whether labels are a single array, those of the masked tokens, as for `task="masked_lm"`.

    Raises:
        TooFewRows: the text has fewer rows than fill a batch.
    """

    def __init__(
        self,
        text: AnyText,
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
        super().__init__(self._epoch)
        if not self.per_epoch:
            raise TooFewRows(
                f"The text has {self._part(0).plan.num_rows:,} rows of up to {scheme.length} tokens, but a "
                f"batch has {batch_size}. Lower batch_size, or add text."
            )

    def _epoch(self, number: int) -> EpochBatches:
        text = self.text.part(number, (self.seed, self.first_epoch))
        return EpochBatches(text, self.first_epoch + number, self)


class EpochBatches(NumberedBatches):
    """The batches of one epoch of `PretrainingBatches`."""

    def __init__(self, text: TokenizedText, epoch: int, source: PretrainingBatches):
        self.epoch, self.source = epoch, source
        self.plan = EpochPlan(text, source.scheme, source.seed, epoch)
        self.per_epoch = self.plan.num_rows // source.batch_size
        self.tokens = float(self.plan.lengths.mean() * source.batch_size)

    def at(self, number: int) -> tuple[dict[str, np.ndarray], Any]:
        source, first = self.source, number % self.per_epoch * self.source.batch_size
        rows = self.plan.batch(range(first, first + source.batch_size))
        if "document_ids" in rows:
            # The model derives the positions in its table from these.
            del rows["position_ids"]
        inputs, labels = source.objective(rows, Draws(source.seed, self.epoch, rows["row"]))
        return inputs, labels["mlm_logits"] if source.mlm_only else labels


class StreamBatches(NumberedBatches):
    """Batches of a stream, which is divided into contiguous rows, and each row into segments; one pass after another.

    Row r of each batch continues where row r of the previous batch ended, so that a model can carry its
    memory. Each token except the stream's first is a label exactly once: the last label of a row is the
    first input of the next row. Row lengths differ by at most one token. The missing token and the rest of
    the last segment are padded with token id 0 and label -100. A pass has `per_epoch` batches.

    The original (LMOrderedIterator) differs. Its rows do not share that token, so it loses one label per
    row, and up to `batch_size` - 1 tokens at the end of the stream. Its last segment is shorter, or dropped
    on TPUs.
    """

    def __init__(self, token_ids: np.ndarray, batch_size: int, segment_length: int):
        token_ids = np.asarray(token_ids)
        if token_ids.ndim != 1 or not np.issubdtype(token_ids.dtype, np.integer):
            raise ValueError(
                f"token_ids is an array of {token_ids.dtype} with shape {token_ids.shape}; it must be "
                "integers [tokens], as returned by encode_file."
            )
        check("batch_size", batch_size, int, least=1)
        check("segment_length", segment_length, int, least=1)
        self.token_ids, self.segment_length = token_ids, segment_length
        self.tokens = float(batch_size * segment_length)
        # Start and number of labels of each row; the first rows have one more.
        shortest, longer = divmod(max(len(token_ids) - 1, 0), batch_size)
        self.lengths = shortest + (np.arange(batch_size) < longer)
        self.starts_of_rows = np.cumsum(self.lengths) - self.lengths
        self.per_epoch = -(-int(self.lengths[0]) // segment_length)
        if self.per_epoch < 1:
            raise TooFewRows(
                f"{len(token_ids)} tokens are too few for a batch of {batch_size} rows with "
                f"{segment_length} tokens and their labels. Choose a longer text."
            )

    def at(self, number: int) -> dict[str, np.ndarray]:
        """A batch, as `bert_zoo.pretraining.streams.segments` describes it."""
        step = number % self.per_epoch
        position = step * self.segment_length + np.arange(self.segment_length)
        inside = position < self.lengths[:, None]
        source = np.where(inside, self.starts_of_rows[:, None] + position, 0)
        tokens, labels = (self.token_ids[at].astype(np.int32) for at in (source, source + 1))
        return {
            "token_ids": np.where(inside, tokens, 0),
            "labels": np.where(inside, labels, IGNORED_LABEL),
            "starts_stream": np.full(len(self.lengths), step == 0, np.int32),
        }


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


# --- Rows that were masked ahead of training, as `bert_zoo create_pretraining_data` writes them ---

# The features of a record, with their names in google-research/bert's create_pretraining_data.py; the last
# one is optional.
TOKENS = ("input_ids", "input_mask", "segment_ids")
ASKED = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
PAIR_LABEL = "next_sentence_labels"
# Number of rows to estimate token counts from.
COUNTED_ROWS = 1 << 14


class MaskedRows:
    """The `num_rows` rows of TFRecord files, with random access; `summary` identifies them.

    All have `length` tokens and `predictions` masked ones. `ValueError` if a file is incomplete, or records lack
    the features of masked rows.

    Source: google-research/bert create_pretraining_data.py.
    """

    def __init__(self, files: Sequence[Path]):
        digest, found = hashlib.sha256(), [_places(path) for path in files]
        self._files = [
            np.memmap(path, np.uint8, "r") if len(r) else None
            for path, r in zip(files, found, strict=True)
        ]
        self._file = np.repeat(np.arange(len(found)), [len(records) for records in found])
        self._places = np.concatenate([*found, np.zeros((0, 2), np.int64)])
        self.num_rows = len(self._places)
        if not self.num_rows:
            raise ValueError(f"There are no rows in {', '.join(map(str, files)) or 'no file'}.")
        for file in self._files:
            if file is not None:
                digest.update(file)
        self.summary = {"rows": self.num_rows, "text_sha256": digest.hexdigest()}
        features = _features(self._record(0))
        if missing := [name for name in (*TOKENS, *ASKED) if name not in features]:
            raise ValueError(
                f"{files[0]} has no masked rows: its records lack {', '.join(missing)}, but have "
                f"{', '.join(sorted(features)) or 'nothing'}. `bert_zoo create_pretraining_data` makes them."
            )
        self.length, self.predictions = len(features[TOKENS[0]]), len(features[ASKED[0]])
        self._sizes = {
            **dict.fromkeys(TOKENS, self.length),
            **dict.fromkeys(ASKED, self.predictions),
        }
        if PAIR_LABEL in features:
            self._sizes[PAIR_LABEL] = 1

    def _record(self, row: int) -> bytes:
        start, size = self._places[row]
        return self._files[self._file[row]][start : start + size].tobytes()

    def read(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Reads rows by number as inputs and labels of a model.

        Returns:
            dict of int32: `token_ids`, `padding_mask` and `segment_ids` [rows, length]; `mask_positions` and
            their labels `mlm_logits` [rows, predictions], -100 for unused ones; `pair_label` [rows] if the
            records have one.
        """
        rows = [_features(self._record(row)) for row in rows]
        found = {}
        for name, size in self._sizes.items():
            columns = [row.get(name, ()) for row in rows]
            if wrong := [len(column) for column in columns if len(column) != size]:
                raise ValueError(
                    f"All rows must have {self.length} tokens and {self.predictions} masked ones, but one has "
                    f"{wrong[0]} values for {name} instead of {size}. Pass files of a single call of "
                    "create_pretraining_data."
                )
            found[name] = np.stack(columns)
        token_ids, mask, segments = (found[name].astype(np.int32) for name in TOKENS)
        positions, labels = (found[name].astype(np.int32) for name in ASKED[:2])
        batch = {
            "token_ids": token_ids,
            "padding_mask": mask,
            "segment_ids": segments,
            "mask_positions": positions,
            "mlm_logits": np.where(found[ASKED[-1]] > 0, labels, IGNORED_LABEL),
        }
        if PAIR_LABEL in found:
            batch["pair_label"] = found[PAIR_LABEL][:, 0].astype(np.int32)
        return batch

    def counts(self, vocab_size: int, special_ids: Sequence[int]) -> np.ndarray:
        """Counts the tokens of the first `COUNTED_ROWS` rows before masking, int64 [vocab_size]; 0 for special ones."""
        batch = self.read(range(min(COUNTED_ROWS, self.num_rows)))
        ids, used = batch["token_ids"], batch["mlm_logits"] != IGNORED_LABEL
        ids[np.nonzero(used)[0], batch["mask_positions"][used]] = batch["mlm_logits"][used]
        ids = ids[batch["padding_mask"] == 1]
        if ids.max() >= vocab_size:
            raise ValueError(
                f"The rows have the token id {ids.max()}, but the vocabulary has only {vocab_size:,} tokens. "
                "Pass the vocabulary that create_pretraining_data was given."
            )
        counts = np.bincount(ids, minlength=vocab_size)
        counts[[*special_ids]] = 0
        return counts


def _features(record: bytes) -> dict[str, np.ndarray]:
    """The values of a record's features by name."""
    return {name: np.array(values) for name, values in tfrecords.features(record).items()}


def _places(path: Path) -> np.ndarray:
    """The start of each record's content and its size in bytes, int64 [records, 2]."""
    return np.array([*tfrecords.places(path)], np.int64).reshape(-1, 2)
