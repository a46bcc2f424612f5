"""TensorFlow 1 checkpoints, as Google released BERT, ALBERT, ELECTRA, XLNet and Transformer-XL.

A checkpoint is a table of names, `prefix.index`, in the format of LevelDB's tables, and the
tensors' bytes, `prefix.data-?????-of-?????`. Both are read here, without TensorFlow, whose own reader
ends the process on tables that are damaged where no checksum tells (TensorFlow 2.21).

Format: tensorflow/core/lib/io/format.h and table_builder.h, core/protobuf/tensor_bundle.proto.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.crc32c import crc32c
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.protobuf import fields, message, read_varint, signed
from bert_zoo.weights.tensor_source import (
    MAX_DIMENSIONS,
    TensorSource,
    bfloat16_bits_to_float32,
    read_bytes,
)

_DATA_FILE = re.compile(r"\.data-(\d{5})-of-(\d{5})")
# The entry by which TensorFlow 2 marks checkpoints whose names are paths of Python attributes.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_FOOTER_BYTES = 48
_TABLE_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_BLOCK_TRAILER_BYTES = 5  # how it is compressed and its checksum
_CHECKSUM_MASK = 0xA282EAD8
# Names are written without what they share with the one before: a small file could name them with
# any number of letters. No real one comes near.
_LETTERS_PER_BYTE = 64

# By the numbers of tensorflow/core/framework/types.proto; bfloat16, which NumPy lacks, as its bits.
_BFLOAT16 = 14
_DTYPES = {
    1: np.dtype("f4"),
    2: np.dtype("f8"),
    3: np.dtype("i4"),
    4: np.dtype("u1"),
    5: np.dtype("i2"),
    6: np.dtype("i1"),
    9: np.dtype("i8"),
    10: np.dtype("?"),
    _BFLOAT16: np.dtype("u2"),
    17: np.dtype("u2"),
    19: np.dtype("f2"),
    22: np.dtype("u4"),
    23: np.dtype("u8"),
}


class _Entry(NamedTuple):
    """A tensor as the table describes it."""

    type: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int


class TF1Source(TensorSource):
    """A name-based checkpoint `prefix.index` with `prefix.data-?????-of-?????`.

    Every variable is listed under the file's own name, optimizer slots and counters among them.

    Raises:
        WeightsError: a damaged or incomplete checkpoint, or one of TensorFlow 2's kind.
    """

    def __init__(self, prefix: str):
        self._shards = _data_files(Path(prefix))
        try:
            table = dict(_table(Path(f"{prefix}.index").read_bytes()))
            self._order = _byte_order(table.pop(b"", None), len(self._shards))
            if any(key.startswith(b"\0") for key in table):
                raise WeightsError(
                    f"{prefix} has variables that a partitioner stored in parts, which are not read. "
                    "Restore it with TensorFlow 1 and save it without the partitioner."
                )
            self._entries = {key.decode(): _entry(value) for key, value in table.items()}
            _check_places(self._entries, [shard.stat().st_size for shard in self._shards])
        except WeightsError:
            raise
        except ValueError as error:
            raise _damaged(prefix, error) from error
        if _OBJECT_GRAPH in self._entries:
            raise WeightsError(
                f"{prefix} is an object-based TensorFlow 2 checkpoint (it has {_OBJECT_GRAPH}), "
                "whose names depend on the program that wrote it. bert_zoo reads TensorFlow 1 "
                "checkpoints, Hugging Face directories and bert_zoo directories; convert it to one "
                "of these."
            )
        super().__init__(
            format="tf1",
            location=prefix,
            shapes={name: entry.shape for name, entry in self._entries.items()},
        )

    def _read(self, key: str) -> np.ndarray:
        entry = self._entries[key]
        if entry.type not in _DTYPES:
            raise WeightsError(
                f"{shortened(key)} in {self.location} is no tensor of numbers (its type in "
                f"TensorFlow is number {entry.type}); no weight of a model is."
            )
        raw = read_bytes(self._shards[entry.shard], entry.offset, entry.size, self.location)
        if _masked(crc32c(raw)) != entry.checksum:
            raise _damaged(
                self.location, f"the bytes of {shortened(key)} do not match their checksum"
            )
        values = raw.view(_DTYPES[entry.type].newbyteorder(self._order)).reshape(entry.shape)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        return bfloat16_bits_to_float32(values) if entry.type == _BFLOAT16 else values


# --- files ---------------------------------------------------------------------------------------


def _data_files(prefix: Path) -> list[Path]:
    """The data files in their order."""
    found = {
        match.groups(): file
        for file in prefix.parent.iterdir()
        if file.name.startswith(prefix.name)
        and (match := _DATA_FILE.fullmatch(file.name.removeprefix(prefix.name)))
    }
    totals = {total for _, total in found}
    numbers = sorted(int(number) for number, _ in found)
    if len(totals) != 1 or numbers != list(range(int(*totals))):
        parts = ", ".join(f"{part}-of-{total}" for part, total in sorted(found)) or "none"
        raise WeightsError(
            f"The checkpoint {prefix} is incomplete: of {prefix.name}.data-?????-of-????? there "
            f"are: {parts}. Copy all of them beside {prefix.name}.index."
        )
    return [file for _, file in sorted(found.items())]


def _damaged(prefix: str, error: object) -> WeightsError:
    return WeightsError(
        f"The TensorFlow checkpoint {prefix} cannot be read: {error}. It is damaged or incomplete: "
        "copy or download it again, with its .index and all its .data files."
    )


# --- the table -----------------------------------------------------------------------------------


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a table in the order of the keys. Raises ValueError."""
    if len(data) < _FOOTER_BYTES or not data.endswith(_TABLE_MAGIC):
        raise ValueError("its .index does not end as a table of TensorFlow does")
    # The first handle is that of a block without use here.
    _, _, position = _handle(data, len(data) - _FOOTER_BYTES)
    offset, size, _ = _handle(data, position)
    letters, last = 0, None
    read = size
    for _, handle in _block(data, offset, size):
        start, length, _ = _handle(handle, 0)
        read += length
        if read > len(data):
            raise ValueError("its .index has blocks that overlap")
        for key, value in _block(data, start, length):
            letters += len(key)
            if letters > _LETTERS_PER_BYTE * len(data):
                raise ValueError("the names in its .index have more letters than fit the file")
            if last is not None and key <= last:
                raise ValueError("the names in its .index are not in order")
            last = key
            yield key, value


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position behind them."""
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return offset, size, position


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    end = offset + size
    if size < 4 or end + _BLOCK_TRAILER_BYTES > len(data):
        raise ValueError("a block of its .index is not inside the file")
    checksum = int.from_bytes(data[end + 1 : end + _BLOCK_TRAILER_BYTES], "little")
    if _masked(crc32c(np.frombuffer(data, np.uint8, size + 1, offset))) != checksum:
        raise ValueError("a block of its .index does not match its checksum")
    if data[end]:
        raise ValueError("its .index is compressed, which TensorFlow's checkpoints never are")
    # Places where keys begin anew stand behind the entries; only a search would need them.
    block = data[offset:end]
    restarts = int.from_bytes(block[-4:], "little")
    entries_end = size - 4 * (restarts + 1)
    if entries_end < 0:
        raise ValueError("a block of its .index ends early")
    position, key = 0, b""
    while position < entries_end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + own + length > entries_end:
            raise ValueError("an entry of its .index reaches beyond its block")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length


def _masked(checksum: int) -> int:
    """As TensorFlow stores checksums."""
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return (turned + _CHECKSUM_MASK) & 0xFFFFFFFF


# --- its entries ---------------------------------------------------------------------------------


def _byte_order(header: bytes | None, shards: int) -> str:
    """The order that the table's first entry says, a BundleHeaderProto."""
    if header is None:
        raise ValueError("its .index has no header")
    values = dict(fields(header))
    if values.get(1, 0) != shards:
        raise ValueError(
            f"it has {shards} data files where its .index says {shown(values.get(1, 0))}"
        )
    if values.get(2, 0) not in (0, 1):
        raise ValueError(f"its byte order is number {shown(values[2])}")
    return "<>"[values.get(2, 0)]


def _entry(data: bytes) -> _Entry:
    """An entry from its BundleEntryProto."""
    found = {"type": 0, "shard": 0, "offset": 0, "size": 0, "checksum": 0}
    names = {1: "type", 3: "shard", 4: "offset", 5: "size", 6: "checksum"}
    shape: tuple[int, ...] = ()
    for number, value in fields(data):
        if number in names:
            found[names[number]] = signed(value)
        elif number == 2:
            shape = tuple(_extents(value))
    if min(*found.values(), *shape, 0) < 0 or len(shape) > MAX_DIMENSIONS:
        raise ValueError("an entry of its .index has a negative number or too many dimensions")
    return _Entry(shape=shape, **found)


def _extents(shape: int | bytes) -> Iterator[int]:
    """The sizes of a TensorShapeProto."""
    for number, value in fields(message(shape)):
        if number == 2:
            yield signed(dict(fields(message(value))).get(1, 0))
        elif number == 3 and value:
            raise ValueError("a tensor has an unknown shape")


def _check_places(entries: Mapping[str, _Entry], sizes: list[int]) -> None:
    """Every tensor has as many bytes as its shape takes, inside a data file, and for itself."""
    ends = [0] * len(sizes)
    in_order = sorted(
        entries.items(), key=lambda item: (item[1].shard, item[1].offset, item[1].size)
    )
    for key, entry in in_order:
        end = entry.offset + entry.size
        if entry.shard >= len(sizes) or end > sizes[entry.shard]:
            raise ValueError(f"the tensor {shown(key)} reaches beyond its data file")
        if entry.offset < ends[entry.shard]:
            raise ValueError(f"the tensor {shown(key)} lies where another one does")
        ends[entry.shard] = end
        dtype = _DTYPES.get(entry.type)
        if dtype is not None and math.prod(entry.shape) * dtype.itemsize != entry.size:
            raise ValueError(
                f"the tensor {shown(key)} has the shape {entry.shape} and {entry.size:,} bytes"
            )
