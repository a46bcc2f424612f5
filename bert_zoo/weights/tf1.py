"""TensorFlow checkpoints, the format of Google's BERT, ALBERT, ELECTRA, XLNet and Transformer-XL.

A checkpoint consists of a table of names, `prefix.index`, in LevelDB's table format, and the tensors' bytes,
`prefix.data-?????-of-?????`. Both are read here without TensorFlow, because its reader aborts the process on tables
with damage that no checksum covers (TensorFlow 2.21).

Format: tensorflow/core/lib/io/format.h and table_builder.h, core/protobuf/tensor_bundle.proto.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.json_files import read_whole
from bert_zoo.protobuf import DecodeError, message_class
from bert_zoo.weights import object_graph
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import (
    MAX_DIMENSIONS,
    TensorSource,
    bfloat16_bits_to_float32,
    read_bytes,
)

_DATA_FILE = re.compile(r"\.data-(\d{5})-of-(\d{5})")
_FOOTER_BYTES = 48
_TABLE_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_BLOCK_TRAILER_BYTES = 5  # how it is compressed and its checksum
_CHECKSUM_MASK = 0xA282EAD8
_LONGEST_VARINT = 10
# Names are stored without the prefix that they share with the previous one, so a small file could hold huge names.
# Real files stay far below this limit.
_LETTERS_PER_BYTE = 64

# Of core/protobuf/tensor_bundle.proto and core/framework/tensor_shape.proto.
_SCHEMA = {
    "Header": ((1, "int32", "shards"), (2, "int32", "endianness")),
    "Entry": (
        *((1, "int32", "type"), (2, "Shape", "shape"), (3, "int32", "shard")),
        *((4, "int64", "offset"), (5, "int64", "size"), (6, "fixed32", "checksum")),
    ),
    "Shape": ((2, "Dim*", "dim"), (3, "bool", "unknown_rank")),
    "Dim": ((1, "int64", "size"),),
}

# Types by their numbers in tensorflow/core/framework/types.proto; bfloat16, which NumPy lacks, as its bits.
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


class TF1Source(TensorSource):
    """A checkpoint `prefix.index` with `prefix.data-?????-of-?????`.

    All variables have their names in the file, including optimizer slots and counters. In TensorFlow 2's
    checkpoints, variables with a unique name of their own have that (see `object_graph`).

    Raises:
        WeightsError: the checkpoint is damaged or incomplete.
    """

    def __init__(self, prefix: str):
        self._shards = _data_files(Path(prefix))
        try:
            table = dict(_table(read_whole(Path(f"{prefix}.index"))))
            self._order = _byte_order(table.pop(b"", None), len(self._shards))
            if any(key.startswith(b"\0") for key in table):
                raise WeightsError(
                    f"{prefix} has variables that a partitioner stored in parts, which bert_zoo does not read. Restore it "
                    "with TensorFlow 1 and save it without the partitioner."
                )
            self._entries = _entries(table)
            _check_places(self._entries, [shard.stat().st_size for shard in self._shards])
            if object_graph.KEY in self._entries:
                names = object_graph.variable_names(self._string(prefix, object_graph.KEY))
                del self._entries[object_graph.KEY]
                self._entries = {names.get(key, key): e for key, e in self._entries.items()}
        except WeightsError:
            raise
        except (ValueError, DecodeError) as error:
            raise _damaged(prefix, error) from error
        super().__init__(prefix, {name: _shape(entry) for name, entry in self._entries.items()})

    def _read(self, key: str) -> np.ndarray:
        entry = self._entries[key]
        if entry.type not in _DTYPES:
            raise WeightsError(
                f"{shortened(key)} in {self.location} is not a tensor of numbers (its TensorFlow type is number "
                f"{entry.type}), so it cannot be a weight."
            )
        raw = read_bytes(self._shards[entry.shard], entry.offset, entry.size, self.location)
        if _masked_crc(raw) != entry.checksum:
            raise _damaged(
                self.location, f"the bytes of {shortened(key)} do not match their checksum"
            )
        values = raw.view(_DTYPES[entry.type].newbyteorder(self._order)).reshape(_shape(entry))
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        return bfloat16_bits_to_float32(values) if entry.type == _BFLOAT16 else values

    def _string(self, prefix: str, key: str) -> bytes:
        """Reads the single string of an entry: its length, the length's checksum, and its bytes."""
        entry = self._entries[key]
        raw = read_bytes(self._shards[entry.shard], entry.offset, entry.size, prefix)
        length, start = _varint(raw[:_LONGEST_VARINT].tobytes(), 0)
        checked = np.frombuffer(length.to_bytes(4, "little"), np.uint8)
        if _shape(entry) or start + 4 + length != entry.size:
            raise ValueError(f"{key} is not one string")
        if _masked_crc(np.concatenate([checked, raw[start:]])) != entry.checksum:
            raise ValueError(f"the bytes of {key} do not match their checksum")
        return raw[start + 4 :].tobytes()


# --- files ---------------------------------------------------------------------------------------


def _data_files(prefix: Path) -> list[Path]:
    """Returns the data files in order."""
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
            f"The checkpoint {prefix} is incomplete. Of {prefix.name}.data-?????-of-?????, only these exist: {parts}. "
            f"Copy all of them next to {prefix.name}.index."
        )
    return [file for _, file in sorted(found.items())]


def _damaged(prefix: str, error: object) -> WeightsError:
    return WeightsError(
        f"The TensorFlow checkpoint {prefix} cannot be read: {error}. It is damaged or incomplete: "
        "copy or download it again, with its .index and all its .data files."
    )


# --- the table -----------------------------------------------------------------------------------


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of a table in the order of the keys. Raises ValueError if it is damaged."""
    if len(data) < _FOOTER_BYTES or not data.endswith(_TABLE_MAGIC):
        raise ValueError("its .index does not end like a TensorFlow table")
    # The first handle belongs to a block that is not needed here.
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
                raise ValueError("the names in its .index are too long for the file")
            if last is not None and key <= last:
                raise ValueError("the names in its .index are not in order")
            last = key
            yield key, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads a protocol buffer varint of at most 64 bits. Returns it and the position after it."""
    value = 0
    for i, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, position + i + 1
    raise ValueError("a number ends early or has more than 64 bits")


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Reads offset and size of a block. Returns them and the position after them."""
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return offset, size, position


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    end = offset + size
    if size < 4 or end + _BLOCK_TRAILER_BYTES > len(data):
        raise ValueError("a block of its .index is not inside the file")
    checksum = int.from_bytes(data[end + 1 : end + _BLOCK_TRAILER_BYTES], "little")
    if _masked_crc(data[offset : offset + size + 1]) != checksum:
        raise ValueError("a block of its .index does not match its checksum")
    if data[end]:
        raise ValueError("its .index is compressed, which TensorFlow's checkpoints never are")
    # The restart points after the entries are only needed for searching.
    block = data[offset:end]
    restarts = int.from_bytes(block[-4:], "little")
    entries_end = size - 4 * (restarts + 1)
    if entries_end < 0:
        raise ValueError("a block of its .index ends early")
    position, key = 0, b""
    while position < entries_end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + own + length > entries_end:
            raise ValueError("an entry of its .index reaches beyond its block")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length


def _masked_crc(data: Any) -> int:
    """Returns the CRC-32C of bytes in TensorFlow's masked form."""
    import google_crc32c

    checksum = google_crc32c.value(bytes(data))
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return (turned + _CHECKSUM_MASK) & 0xFFFFFFFF


# --- its entries ---------------------------------------------------------------------------------


def _byte_order(header: bytes | None, shards: int) -> str:
    """Reads the byte order from the table's first entry, a BundleHeaderProto."""
    if header is None:
        raise ValueError("its .index has no header")
    header = message_class(_SCHEMA, "Header").FromString(header)
    if header.shards != shards:
        raise ValueError(f"it has {shards} data files, but its .index says {header.shards}")
    if header.endianness not in (0, 1):
        raise ValueError(f"its byte order is number {header.endianness}")
    return "<>"[header.endianness]


def _entries(table: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Returns name -> BundleEntryProto for the tensors of a table."""
    read = message_class(_SCHEMA, "Entry").FromString
    entries = {key.decode(): read(value) for key, value in table.items()}
    for entry in entries.values():
        if entry.shape.unknown_rank:
            raise ValueError("a tensor has an unknown shape")
        if min(entry.type, entry.shard, entry.offset, entry.size, *_shape(entry)) < 0:
            raise ValueError("an entry of its .index has a negative number")
        if len(entry.shape.dim) > MAX_DIMENSIONS:
            raise ValueError("an entry of its .index has too many dimensions")
    return entries


def _shape(entry: Any) -> tuple[int, ...]:
    return tuple(dim.size for dim in entry.shape.dim)


def _check_places(entries: Mapping[str, Any], sizes: list[int]) -> None:
    """Checks that every tensor's bytes match its shape, are inside a data file, and do not overlap."""
    ends = [0] * len(sizes)
    in_order = sorted(
        entries.items(), key=lambda item: (item[1].shard, item[1].offset, item[1].size)
    )
    for key, entry in in_order:
        end = entry.offset + entry.size
        if entry.shard >= len(sizes) or end > sizes[entry.shard]:
            raise ValueError(f"the tensor {shown(key)} reaches beyond its data file")
        if entry.offset < ends[entry.shard]:
            raise ValueError(f"the tensor {shown(key)} overlaps another one")
        ends[entry.shard] = end
        dtype = _DTYPES.get(entry.type)
        if dtype is not None and math.prod(_shape(entry)) * dtype.itemsize != entry.size:
            raise ValueError(
                f"the tensor {shown(key)} has the shape {_shape(entry)}, but {entry.size:,} bytes"
            )
