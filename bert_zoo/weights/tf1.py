"""TensorFlow checkpoints: those of Google's programs, of transformers' old classes, and of TensorFlow 2.

A checkpoint consists of a table of names, `prefix.index`, in LevelDB's table format, and the tensors' bytes,
`prefix.data-?????-of-?????`. Both are read here without TensorFlow, because its reader aborts the process on tables
with damage that no checksum covers (TensorFlow 2.21).

Format: tensorflow/core/lib/io/format.h and table_builder.h, core/protobuf/tensor_bundle.proto.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.json_files import read_whole
from bert_zoo.protobuf import DecodeError, message_class
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import (
    MAX_DIMENSIONS,
    TensorSource,
    bfloat16_bits_to_float32,
    read_bytes,
)

# -------------------------------------------------------------------------------------------------
# Files of transformers' TensorFlow classes, which version 5 no longer has.
#
# In `tf_model.h5` and HDF5 files of `save_weights`, a variable is stored at
# `<layer>/<model>/<its layers>/kernel:0`; TensorFlow checkpoints omit the first part, safetensors and shards the
# first two. The rest of the name is as in transformers' PyTorch classes, except for numbers of layers
# (`layer_._0`), separately named layers (`mlm___cls`), and the last part. HDF5 files store a shared variable with
# each of its layers.
#
# Source: transformers 4.46, modeling_tf_pytorch_utils.py, and the files that it writes.
# -------------------------------------------------------------------------------------------------

# Keras's name of a variable -> PyTorch's.
_VARIABLES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
# In ALBERT's head, the class adds the second bias and does not use the first.
_UNUSED = {"predictions.bias": "predictions.decoder.bias"}
# Projections of Transformer-XL, which like kernels are [in, out] here and [out, in] in PyTorch.
_PROJECTIONS = re.compile(r"(emb|out)_projs\.\d+$")


# Separator before a layer's number, which no other program uses.
_NUMBERED = "_._"
# Layers in Keras 2's `*.weights.h5`, which identifies variables only by classes and numbers.
_BY_CLASSES = re.compile(r"(^|/)tf\w*_(main_layer|layer|block)(_\d+)?/")


class TFModelSource(TensorSource):
    """Tensors of a TensorFlow class with the names and layout of transformers' PyTorch classes; `names` maps stored
    names to variables' without the model's."""

    def __init__(self, file: TensorSource, names: Mapping[str, str]):
        self._file, self._names = file, names
        self._paths: dict[str, list[str]] = {}
        for stored, name in names.items():
            self._paths.setdefault(pytorch_name(name), []).append(stored)
        for unused, used in _UNUSED.items():
            if used in self._paths:
                self._paths[unused] = self._paths.pop(used)
        shapes = {
            name: _pytorch_shape(names[paths[0]], file.shape(paths[0]))
            for name, paths in self._paths.items()
        }
        super().__init__(file.location, shapes)

    @classmethod
    def of_layers(cls, file: TensorSource) -> Self:
        """Opens HDF5. Raises WeightsError if it is not a file of transformers."""
        unlike = [stored for stored in file if stored.count("/") < 2]
        if unlike or not is_of_tf_classes(file):
            raise WeightsError(
                f"{file.location} is not a file of transformers' TensorFlow classes: it holds "
                f"{shortened(next(iter([*unlike, *file]), 'no array'))}, not "
                "<layer>/<model>/<variable> with layers such as layer_._0. Save the model with its "
                "save_pretrained(). For a model of bert4keras, load Google's checkpoint that it was "
                "built from, or what its save_weights_as_checkpoint() writes."
            )
        return cls(file, {stored: stored.split("/", 2)[2] for stored in file})

    @classmethod
    def of_checkpoint(cls, file: TensorSource) -> Self:
        """Opens a TensorFlow checkpoint without an optimizer's and other variables."""
        (model, *_) = (stored.partition("/")[0] for stored in file if _NUMBERED in stored)
        names = {stored: stored.removeprefix(f"{model}/") for stored in file}
        return cls(file, {stored: name for stored, name in names.items() if name != stored})

    @classmethod
    def of_variables(cls, file: TensorSource) -> Self:
        """Opens safetensors or shards."""
        return cls(file, {stored: stored for stored in file})

    def _read(self, key: str) -> np.ndarray:
        first, *others = (self._file[path] for path in self._paths[key])
        if not all(np.array_equal(first, other) for other in others):
            raise WeightsError(
                f"{self.location} has different values of {key}, which layers share: at "
                f"{', '.join(self._paths[key])}. The file is damaged: write it again."
            )
        turned = first.T if is_transposed(self._names[self._paths[key][0]]) else first
        return turned.reshape(self.shape(key))


def is_of_tf_classes(names: TensorSource) -> bool:
    """Whether a file has the names of such a class."""
    return any(_NUMBERED in name for name in names)


def refuse_classes_alone(file: TensorSource) -> None:
    """Raises WeightsError for a `*.weights.h5` of such a class, in which variables have no names."""
    if any(_BY_CLASSES.search(stored) for stored in file):
        raise WeightsError(
            f"{file.location} comes from a TensorFlow class of transformers, but this kind of file does not name its "
            "variables. Load it with transformers 4 and save the model with save_pretrained(), or with save_weights() "
            "to a name that ends in .h5 but not in .weights.h5."
        )


def pytorch_name(stored: str) -> str:
    """Transformers' PyTorch name of a variable, from its TensorFlow name without the model's name."""
    name = re.sub(r"(^|/)[^/]*___", r"\1", stored.removesuffix(":0"))
    *layers, variable = re.sub(r"_\._", "/", name).split("/")
    return ".".join([*layers, _VARIABLES.get(variable, variable)])


def is_transposed(stored: str) -> bool:
    """Whether a variable's axes are in the reverse order of PyTorch's."""
    name = stored.removesuffix(":0")
    return name.endswith("/kernel") or bool(_PROJECTIONS.search(pytorch_name(stored)))


def _pytorch_shape(stored: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 2 and shape[0] == 1 and stored.removesuffix(":0").endswith("/bias"):
        return shape[1:]  # of GPT's Conv1D
    return shape[::-1] if is_transposed(stored) else shape


# -------------------------------------------------------------------------------------------------
# Names of the variables in a TensorFlow 2 checkpoint.
#
# TensorFlow 2 checkpoints and SavedModels use TensorFlow 1's table format, but their names are paths of Python
# attributes (`model/layer_with_weights-4/_attention_layer/.../VARIABLE_VALUE`), which differ between programs.
# One entry holds an object graph with each variable's own name.
#
# Format: tensorflow/core/protobuf/trackable_object_graph.proto.
# -------------------------------------------------------------------------------------------------

# The entry that holds the graph.
KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Suffix of a variable's path. Variables of Keras's optimizers have their own paths.
_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = ("/.OPTIMIZER_SLOT/", "/_variables/", "/_momentums/", "/_velocities/")
_GRAPH_SCHEMA = {
    "Graph": ((1, "Object*", "nodes"),),
    "Object": ((2, "Attribute*", "attributes"),),
    "Attribute": (
        *((1, "string", "name"), (2, "string", "full_name")),
        (3, "string", "checkpoint_key"),
    ),
}


def variable_names(graph: bytes) -> dict[str, str]:
    """Key in the table -> name, for all variables with a unique name except an optimizer's; DecodeError if the graph
    is damaged."""
    nodes = message_class(_GRAPH_SCHEMA, "Graph").FromString(graph).nodes
    names = {
        attribute.checkpoint_key: attribute.full_name
        for node in nodes
        for attribute in node.attributes
        if attribute.full_name and _is_of_model(attribute.checkpoint_key)
    }
    counts = Counter(names.values())
    return {key: name for key, name in names.items() if counts[name] == 1}


def _is_of_model(key: str) -> bool:
    return key.endswith(_VARIABLE) and not any(part in f"/{key}" for part in _OPTIMIZER)


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
    checkpoints, variables with a unique name of their own have that (see `variable_names`).

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
            if KEY in self._entries:
                names = variable_names(self._string(prefix, KEY))
                del self._entries[KEY]
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
    """A protocol buffer varint of at most 64 bits, and the position after it."""
    value = 0
    for i, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, position + i + 1
    raise ValueError("a number ends early or has more than 64 bits")


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position after them."""
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
    """The CRC-32C of bytes in TensorFlow's masked form."""
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
    """Name -> BundleEntryProto for the tensors of a table."""
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
