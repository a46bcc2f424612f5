"""safetensors files, read one tensor at a time and written atomically.

Format: https://huggingface.co/docs/safetensors, a little-endian 8-byte length, a JSON header of
that length, then the tensors' bytes.
"""

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer, replacing
from bert_zoo.weights.tensor_source import (
    IF_QUANTIZED,
    TensorSource,
    bfloat16_bits_to_float32,
    read_bytes,
)

# NumPy has no bfloat16, so its bits are read.
_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
# NumPy's name of a type -> the format's.
_NAMES = {dtype.name: name for name, dtype in _DTYPES.items()} | {
    "uint16": "U16",
    "bfloat16": "BF16",
}

# Metadata key of files from `rounded_to_int8`: the suffix that makes the name of a tensor's scales.
SCALES = "int8_scales"
LARGEST_INT8 = 127


class SafetensorsSource(TensorSource):
    """One safetensors file. `metadata` holds the header's strings.

    Tensors that were rounded to int8 are returned as float32; see `rounded_to_int8`.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        refuse_lfs_pointer(self._path)
        self.metadata, self._tensors, self._data_start = _read_header(self._path)
        unknown = {
            key: row["dtype"] for key, row in self._tensors.items() if row["dtype"] not in _DTYPES
        }
        if unknown:
            raise WeightsError(
                f"{path} holds tensors of types that bert_zoo does not read: {shown(unknown)}. It reads "
                f"{', '.join(_DTYPES)}. {IF_QUANTIZED}"
            )
        suffix = self.metadata.get(SCALES)
        self._scales = {
            key: key + suffix for key in self._tensors if suffix and key + suffix in self._tensors
        }
        shapes = {
            key: tuple(row["shape"])
            for key, row in self._tensors.items()
            if key not in self._scales.values()
        }
        super().__init__(str(path), shapes)

    def _read(self, key: str) -> np.ndarray:
        values = self._stored(key)
        return values * self._stored(self._scales[key]) if key in self._scales else values

    def _stored(self, key: str) -> np.ndarray:
        row = self._tensors[key]
        start, end = row["data_offsets"]
        stored = read_bytes(self._path, self._data_start + start, end - start, self.location)
        values = stored.view(_DTYPES[row["dtype"]]).reshape(row["shape"])
        return bfloat16_bits_to_float32(values) if row["dtype"] == "BF16" else values


def write_safetensors(
    path: str | os.PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    """Writes a safetensors file atomically: readers find the old file or the complete new one.

    `tensors` maps names to arrays with any strides, variables or `DeferredArray`s. One is read at a time; the
    writer of safetensors 0.8 needs all of them at once. Hugging Face transformers requires the metadata
    {"format": "pt"}.
    """
    with replacing(path) as temporary, open(temporary, "wb") as file:
        write_tensors(file, tensors, metadata)


def write_tensors(file: BinaryIO, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Writes the content of a safetensors file, as `write_safetensors`; ValueError if an array's type has no name in
    the format."""
    types = {}
    for name, values in tensors.items():
        dtype = getattr(values.dtype, "name", values.dtype)
        if dtype not in _NAMES:
            raise ValueError(f"{name} has the type {dtype}; safetensors files have {[*_NAMES]}.")
        types[name] = _NAMES[dtype]
    # Larger types first, so that all values lie at multiples of their sizes.
    order = sorted(tensors, key=lambda name: (-_DTYPES[types[name]].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        shape, start = [*map(int, tensors[name].shape)], end
        end += math.prod(shape) * _DTYPES[types[name]].itemsize
        header[name] = {"dtype": types[name], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        values = np.asarray(tensors[name], order="C")
        if sys.byteorder == "big" or values.dtype.byteorder == ">":
            values = values.astype(values.dtype.newbyteorder("<"))
        # As bytes, because Python has no buffers of bfloat16.
        file.write(values.reshape(-1).view(np.uint8))


def rounded_to_int8(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata for `write_safetensors` that make a file of a quarter of the size of float32 ones.

    Each row of a matrix becomes int8 with its own float32 scale. Vectors stay unchanged.
    """
    suffix, rounded = ".scale", {}
    for key, values in tensors.items():
        if values.ndim != 2:
            rounded[key] = values
            continue
        largest = np.abs(values).max(axis=1, keepdims=True)
        rounded[key + suffix] = np.where(largest > 0, largest / LARGEST_INT8, 1).astype(np.float32)
        rounded[key] = np.rint(values / rounded[key + suffix]).astype(np.int8)
    return rounded, {**metadata, SCALES: suffix}


def _read_header(path: Path) -> tuple[dict[str, str], dict[str, dict], int]:
    """Metadata, name -> {"dtype", "shape", "data_offsets"}, and the offset of the tensors' bytes."""
    try:
        # The library's reader checks lengths, offsets and shapes against the file's size.
        with safetensors.safe_open(path, framework="numpy"):
            pass
    except safetensors.SafetensorError as error:
        raise WeightsError(
            f"{path} is not a complete safetensors file ({shortened(str(error))}). It is damaged, or its download was "
            "interrupted: delete it and download it again."
        ) from error
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return header.pop("__metadata__", None) or {}, header, 8 + length
