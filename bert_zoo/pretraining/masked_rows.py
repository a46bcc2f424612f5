"""Rows that were masked ahead of training, as `bert_zoo create_pretraining_data` writes them."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import shown
from bert_zoo.protobuf import message_class

# The features of a record, with their names in google-research/bert's create_pretraining_data.py; the last
# one is optional.
TOKENS = ("input_ids", "input_mask", "segment_ids")
ASKED = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
PAIR_LABEL = "next_sentence_labels"
# Number of rows to estimate token counts from.
COUNTED_ROWS = 1 << 14
# A record is its length, a checksum of that, its content and a checksum of that.
LENGTH, CHECKSUM = struct.Struct("<Q4x"), 4
# tf.train.Example, of tensorflow/core/example/example.proto.
_EXAMPLE = message_class(
    {
        "Floats": ((1, "float*", "value"),),
        "Integers": ((1, "int64*", "value"),),
        "Feature": ((2, "Floats", "floats"), (3, "Integers", "integers")),
        "Entry": ((1, "string", "name"), (2, "Feature", "feature")),
        "Features": ((1, "Entry*", "entries"),),
        "Example": ((1, "Features", "features"),),
    },
    "Example",
)


class MaskedRows:
    """The `num_rows` rows of TFRecord files, with random access; `summary` identifies them.

    All have `length` tokens and `predictions` masked ones. `ValueError` if a file is incomplete, or records lack
    the features of masked rows.

    Source: google-research/bert create_pretraining_data.py; the format of TFRecord files is described in
    tensorflow/core/lib/io/record_writer.h.
    """

    def __init__(self, files: Sequence[Path]):
        digest, found = hashlib.sha256(), [_records(path) for path in files]
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
    entries = _EXAMPLE.FromString(record).features.entries
    numbers = {e.name: e.feature.integers.value or e.feature.floats.value for e in entries}
    return {name: np.array(values) for name, values in numbers.items()}


def _records(path: Path) -> np.ndarray:
    """The start of each record's content and its size in bytes, int64 [records, 2]."""
    places, start, size = [], 0, path.stat().st_size
    with path.open("rb") as file:
        while start < size:
            header = file.read(LENGTH.size)
            length = LENGTH.unpack(header)[0] if len(header) == LENGTH.size else size
            start += LENGTH.size
            if start + length + CHECKSUM > size:
                raise ValueError(
                    f"{shown(str(path))} is not a complete TFRecord file: it ends within record {len(places) + 1}. "
                    "Write it again. Compressed files must be unpacked first."
                )
            places.append((start, length))
            start += length + CHECKSUM
            file.seek(start)
    return np.array(places, np.int64).reshape(-1, 2)


def part_of(files: Sequence[Path], held_out: float) -> tuple[MaskedRows, MaskedRows | None]:
    """The rows to train on and the held-out rows, of files of a single call of `create_pretraining_data`.

    Whole files are held out, as each document's rows are in a single file: a share of them, rounded, but at least
    one; none for 0.
    """
    if not held_out:
        return MaskedRows(files), None
    number = max(1, round(len(files) * held_out))
    if number >= len(files):
        raise ValueError(
            f"Holding out a share of {held_out} leaves none of {len(files)} files to train on. Choose --held_out 0, "
            "or write more files (--num_shards)."
        )
    return MaskedRows(files[:-number]), MaskedRows(files[-number:])
