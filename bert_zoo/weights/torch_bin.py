"""Reads `torch.save` files without PyTorch and without running their code.

It reads both formats of torch/serialization.py: the zip archive of torch >= 1.6 (`data.pkl`, `byteorder`,
`data/<storage key>`), and the older stream of pickles (magic number, protocol, system, object, storage keys) followed
by the storages.
"""

import functools
import io
import logging
import math
import mmap
import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.error_text import listing, shown
from bert_zoo.weights.files import ZIP_ERRORS, WeightsError, refuse_lfs_pointer
from bert_zoo.weights.restricted_pickle import (
    UNREAD_ARRAYS,
    Record,
    make_dict,
    read_pickle,
    records,
)
from bert_zoo.weights.tensor_source import (
    MAX_DIMENSIONS,
    TensorSource,
    bfloat16_bits_to_float32,
    read_bytes,
)

_LOGGER = logging.getLogger(__name__)

_ZIP_MAGIC = b"PK\x03\x04"
_STREAM_MAGIC = 0x1950A86A20F9469CFC6C
_STREAM_PROTOCOL = 1001
# Entries for the state dict: in PyTorch Lightning and most scripts, and in fairseq.
_STATE_DICT_ENTRIES = ("state_dict", "model")


class _StorageType(NamedTuple):
    name: str
    dtype: np.dtype  # bfloat16, which NumPy lacks, is read as its bits


_STORAGE_TYPES = {
    f"torch.{name}": _StorageType(name, np.dtype(dtype))
    for name, dtype in {
        "FloatStorage": "<f4",
        "DoubleStorage": "<f8",
        "HalfStorage": "<f2",
        "BFloat16Storage": "<u2",
        "LongStorage": "<i8",
        "IntStorage": "<i4",
        "ShortStorage": "<i2",
        "CharStorage": "i1",
        "ByteStorage": "u1",
        "BoolStorage": "u1",
    }.items()
}


class _Storage(NamedTuple):
    """A tensor's reference to its storage."""

    type: _StorageType
    key: str
    length: int


class _Tensor(NamedTuple):
    """A tensor in the pickle: a strided view of a storage, counted in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Block(NamedTuple):
    """A storage's bytes in the file."""

    length: int
    read: Callable[[], Any]  # compares the checksum, which zip archives have


class TorchSource(TensorSource):
    """The tensors of one PyTorch file.

    The file holds a dict, which is either the state dict itself or has it as its entry "state_dict" or "model". A
    state dict with anything but tensors is refused. Other entries (optimizer, step) are logged and ignored. Pickled
    modules are not read.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        root, self._blocks, self._byte_order = _open(self._path, _ALLOWED, _ADVICE)
        self._tensors = _state_dict(root, self._path)
        # fairseq's arguments of the model and its training (entry "args", since 2021 "cfg"); else empty.
        self.arguments = _arguments(root)
        for key, tensor in self._tensors.items():
            _check_storage(key, tensor.storage, self._blocks, self._path)
        super().__init__(str(path), {key: t.shape for key, t in self._tensors.items()})

    def _read(self, key: str) -> np.ndarray:
        tensor = self._tensors[key]
        kind, dtype = tensor.storage.type
        try:
            raw = self._blocks[tensor.storage.key].read()
        except (*ZIP_ERRORS, OSError) as error:
            if isinstance(error, WeightsError):
                raise
            raise WeightsError(
                f"The bytes of {key} in {self.location} do not match their checksum: the file is "
                f"damaged ({error}). Download it again."
            ) from error
        values = np.frombuffer(raw, dtype.newbyteorder(self._byte_order))
        # _rebuild_tensor has checked that the view ends inside the storage.
        view = np.lib.stride_tricks.as_strided(
            values[tensor.offset :],
            tensor.shape,
            # The stride of a dimension with at most one element does not matter.
            [
                stride * dtype.itemsize if size > 1 and 0 not in tensor.shape else 0
                for size, stride in zip(tensor.shape, tensor.strides, strict=True)
            ],
            writeable=False,
        )
        # In the machine's byte order, without gaps.
        copy = view.astype(view.dtype.newbyteorder("="), order="C")
        if kind == "BFloat16Storage":
            return bfloat16_bits_to_float32(copy)
        return copy != 0 if kind == "BoolStorage" else copy


def read_object(path: str | os.PathLike, allowed: Mapping[str, Any], advice: str) -> Any:
    """Reads the object in a PyTorch file, which may hold `allowed` values and tensors, as `read_pickle`. Tensors
    stay unread."""
    root, _, _ = _open(Path(path), {**_TENSORS, **allowed}, advice)
    return root


# --- what the pickle may call --------------------------------------------------------------------


def _storage(identity: tuple) -> _Storage:
    """Reads a persistent id: ("storage", type, key, device, length), in streams also a view."""
    tag, kind, key, _device, length, *view = identity
    if tag != "storage" or not isinstance(kind, _StorageType) or type(key) is not str:
        raise TypeError(f"{shown(identity)} is not a reference to a storage")
    if view not in ([], [None]):
        raise ValueError("it has views of storages, which only PyTorch before 0.4 wrote")
    return _Storage(kind, key, _count(length))


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *_autograd: Any
) -> _Tensor:
    """Replaces torch._utils._rebuild_tensor_v2. Refuses views outside their storage."""
    if not isinstance(storage, _Storage) or type(shape) is not tuple or type(strides) is not tuple:
        raise TypeError("a tensor is not made of a storage, a shape and strides")
    if len(shape) != len(strides) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"a tensor has {len(shape)} dimensions and {len(strides)} strides")
    tensor = _Tensor(
        storage, _count(offset), tuple(map(_count, shape)), tuple(map(_count, strides))
    )
    size = math.prod(shape)
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    # A repeated view (stride 0) in a tiny file could need any amount of memory.
    if size > storage.length or (size and last >= storage.length):
        raise ValueError(
            f"a tensor of shape {shown(shape)}, strides {shown(strides)} and offset {offset} does not fit its "
            f"storage of {storage.length} elements"
        )
    return tensor


def _rebuild_parameter(data: Any, *_autograd: Any) -> _Tensor:
    if not isinstance(data, _Tensor):
        raise TypeError("a parameter is not made of a tensor")
    return data


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= sys.maxsize:
        raise ValueError(f"{shown(value)} is not a number of elements")
    return value


_TENSORS = {
    "collections.OrderedDict": make_dict,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    # Parameters in PyTorch before 1.0.
    "torch.nn.parameter.Parameter": _rebuild_parameter,
    **_STORAGE_TYPES,
}

# Classes that fairseq and SpanBERT save in addition to weights.
_TRAINING_RECORDS = records(
    "argparse.Namespace",
    "fairseq.meters.AverageMeter",
    "fairseq.meters.StopwatchMeter",
    "fairseq.meters.TimeMeter",
    "fairseq.models.pair_bert.BertConfig",
)

# XLM's program also saves arrays of probabilities.
_ALLOWED = {**_TENSORS, **_TRAINING_RECORDS, **UNREAD_ARRAYS}

_ADVICE = (
    "bert_zoo reads only dicts of tensors from PyTorch files. If you trust the file, load it with "
    "PyTorch and write its state_dict with safetensors.torch.save_file."
)


# --- the two formats -----------------------------------------------------------------------------


# The pickled object, the storages by key and the byte order ("<" or ">").
_Content = tuple[Any, dict[str, _Block], str]


def _open(path: Path, allowed: Mapping[str, Any], advice: str) -> _Content:
    refuse_lfs_pointer(path)
    with open(path, "rb") as file:
        is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    read = functools.partial(read_pickle, location=str(path), allowed=allowed, advice=advice)
    return (_open_zip if is_zip else _open_stream)(path, read)


def _open_zip(path: Path, read: Callable[..., Any]) -> _Content:
    try:
        archive = zipfile.ZipFile(path)
        # Names without the folder that holds all members.
        members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise WeightsError(f"{path} has several members with the same name. Save it again.")
        if "data.pkl" not in members:
            raise WeightsError(
                f"{path} is a zip archive, but not one that torch.save wrote: it has no data.pkl."
            )
        # PyTorch never compresses, and a compressed member could unpack to any size.
        if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
            raise WeightsError(f"{path} was refused: it has compressed members.")
        pickled = archive.read(members["data.pkl"])
        # Before torch 2.0, there was no such record, and all machines were little-endian.
        order = archive.read(members["byteorder"]) if "byteorder" in members else b"little"
    except WeightsError:
        raise
    except (*ZIP_ERRORS, OSError) as error:
        raise WeightsError(
            f"{path} is not a complete zip archive ({error}). It is damaged, or its download was interrupted: delete it "
            "and download it again."
        ) from error
    if order not in (b"little", b"big"):
        raise WeightsError(f"{path} names the unknown byte order {shown(order)}.")
    root = read(io.BytesIO(pickled), persistent=_storage)
    storages = {
        name.removeprefix("data/"): _Block(info.file_size, functools.partial(archive.read, info))
        for name, info in members.items()
        if name.startswith("data/")
    }
    return root, storages, "<" if order == b"little" else ">"


def _open_stream(path: Path, read: Callable[..., Any]) -> _Content:
    """Like `_open_zip`, for torch < 1.6, which wrote little-endian storages on every machine."""
    size = path.stat().st_size
    if size == 0:
        raise WeightsError(f"{path} is empty. Download it again.")
    # A mapped file never returns more bytes than it has, whatever length the pickle requests.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        try:
            magic = read_pickle(stream, str(path))
        except WeightsError:
            magic = None
        if magic != _STREAM_MAGIC:
            raise WeightsError(
                f"{path} is not a file that torch.save wrote: it is not a zip archive and does not begin with PyTorch's "
                "magic number. Download it again."
            )
        protocol = read_pickle(stream, str(path))
        if protocol != _STREAM_PROTOCOL:
            raise WeightsError(
                f"{path} has PyTorch's format version {shown(protocol)}, but only {_STREAM_PROTOCOL} is known. Save it "
                "again with a newer PyTorch."
            )
        read_pickle(stream, str(path))  # sizes of C types on the machine that wrote the file
        storages: dict[str, _Storage] = {}

        def look_up(identity: tuple) -> _Storage:
            storage = _storage(identity)
            if storages.setdefault(storage.key, storage) != storage:
                raise ValueError(f"two descriptions of the storage {storage.key}")
            return storage

        root = read(stream, persistent=look_up)
        keys = read_pickle(stream, str(path))
        if type(keys) is not list or any(type(key) is not str for key in keys):
            raise WeightsError(f"{path} has no list of its storages after its tensors' names.")
        if sorted(keys) != sorted(storages):
            raise WeightsError(f"The list of storages in {path} does not match its tensors.")
        return root, _stream_blocks(stream, keys, storages, path), "<"


def _stream_blocks(
    stream: mmap.mmap, keys: list[str], storages: Mapping[str, _Storage], path: Path
) -> dict[str, _Block]:
    """Finds the storages, each stored as an 8-byte length followed by its elements."""
    blocks = {}
    offset = stream.tell()
    for key in keys:
        storage = storages[key]
        length = storage.length * storage.type.dtype.itemsize
        start, end = offset + 8, offset + 8 + length
        if end > len(stream):
            raise WeightsError(
                f"{path} ends in the middle of its tensors, after {len(stream):,} of at least {end:,} bytes. Its download "
                "was interrupted: delete it and download it again."
            )
        stored = int.from_bytes(stream[offset:start], "little")
        if stored != storage.length:
            raise WeightsError(
                f"A storage in {path} has {stored} elements, but its tensors say {storage.length}. Download it again."
            )
        read = functools.partial(read_bytes, path, start, length, str(path))
        blocks[key] = _Block(length, read)
        offset = end
    if offset != len(stream):
        raise WeightsError(f"{path} has {len(stream) - offset:,} bytes after its last tensor.")
    return blocks


# --- from the pickled object to named tensors ----------------------------------------------------


def _state_dict(root: Any, path: Path) -> dict[str, _Tensor]:
    if type(root) is not dict:
        raise WeightsError(
            f"{path} holds {_describe(root)}, but a dict of named tensors was expected. Save its state_dict instead."
        )
    found = root
    if not _has_tensors(root):
        inner = [name for name in _STATE_DICT_ENTRIES if _has_tensors(root.get(name))]
        if len(inner) != 1:
            raise WeightsError(
                f"{path} holds no dict of named tensors, neither itself nor as exactly one of its entries "
                f"{', '.join(_STATE_DICT_ENTRIES)}. It holds: {_describe_entries(root)}."
            )
        found = root[inner[0]]
        if others := [str(key) for key in root if key != inner[0]]:
            _LOGGER.info("%s: reading %r; not weights: %s.", path, inner[0], listing(others))
    others = {
        key: value
        for key, value in found.items()
        if type(key) is not str or not isinstance(value, _Tensor)
    }
    if others:
        raise WeightsError(
            f"The state dict in {path} holds something other than named tensors: "
            f"{_describe_entries(others)}. Remove it with PyTorch and save the file again."
        )
    return found


def _arguments(root: dict) -> dict[str, Any]:
    if type(root.get("args")) is Record:
        return dict(root["args"])
    cfg = root.get("cfg")
    model, task = (cfg.get("model"), cfg.get("task")) if type(cfg) is dict else (None, None)
    if not isinstance(model, dict) or not isinstance(task, dict):
        return {}
    # The name of a part of cfg corresponds to "arch" or "task" in args.
    return {"arch": model.get("_name"), "task": task.get("_name"), **model}


def _has_tensors(value: Any) -> bool:
    return type(value) is dict and any(isinstance(item, _Tensor) for item in value.values())


def _describe_entries(table: dict[str | int, Any]) -> str:
    return listing(f"{shown(key)}: {_describe(value)}" for key, value in table.items())


def _describe(value: Any) -> str:
    if isinstance(value, _Tensor):
        return f"a tensor of shape {value.shape}"
    if type(value) is dict:
        return f"a dict of {len(value)} entries"
    if type(value) is Record:
        return f"an object of {value.class_name}"
    return f"a value of type {type(value).__name__}"


def _check_storage(key: str, storage: _Storage, blocks: Mapping[str, _Block], path: Path) -> None:
    if storage.key not in blocks:
        raise WeightsError(
            f"{path} has no storage {shown(storage.key)}, which its tensor {key} needs. Download it again."
        )
    expected = storage.length * storage.type.dtype.itemsize
    if blocks[storage.key].length != expected:
        raise WeightsError(
            f"The storage of {key} in {path} has {blocks[storage.key].length:,} bytes, but {expected:,} were expected. "
            "Download it again."
        )
