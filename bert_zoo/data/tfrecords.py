"""TFRecord files: their records, and the features of a tf.train.Example, read without TensorFlow.

Source: tensorflow/core/lib/io/record_writer.h and tensorflow/core/example/example.proto.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from bert_zoo.error_text import shown
from bert_zoo.protobuf import message_class

# A record is its length, a checksum of that, its content and a checksum of that.
_LENGTH, _CHECKSUM = struct.Struct("<Q4x"), 4
_EXAMPLE = message_class(
    {
        "Bytes": ((1, "bytes*", "value"),),
        "Floats": ((1, "float*", "value"),),
        "Integers": ((1, "int64*", "value"),),
        "Feature": ((1, "Bytes", "bytes"), (2, "Floats", "floats"), (3, "Integers", "integers")),
        "Entry": ((1, "string", "name"), (2, "Feature", "feature")),
        "Features": ((1, "Entry*", "entries"),),
        "Example": ((1, "Features", "features"),),
    },
    "Example",
)


def places(path: Path) -> Iterator[tuple[int, int]]:
    """Yields where each record's content starts and its size in bytes, which are not read; ValueError if the file ends
    within a record."""
    start, number, size = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while start < size:
            header = file.read(_LENGTH.size)
            length = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else size
            start, number = start + _LENGTH.size, number + 1
            if start + length + _CHECKSUM > size:
                raise ValueError(
                    f"{shown(str(path))} is not a complete TFRecord file: it ends within record {number}. "
                    "Write it again. Compressed files must be unpacked first."
                )
            yield start, length
            start += length + _CHECKSUM
            file.seek(start)


def records(path: Path) -> Iterator[bytes]:
    """Yields the content of each record; errors as for `places`."""
    with path.open("rb") as file:
        for start, length in places(path):
            file.seek(start)
            yield file.read(length)


def features(record: bytes) -> dict[str, Sequence[bytes] | Sequence[float] | Sequence[int]]:
    """The values of an Example's features by name; `DecodeError` if the record is none."""
    entries = _EXAMPLE.FromString(record).features.entries
    kinds = ("bytes", "floats", "integers")
    return {
        entry.name: next(filter(None, (getattr(entry.feature, k).value for k in kinds)), ())
        for entry in entries
    }
