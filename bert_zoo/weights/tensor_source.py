"""The interface of all weight files: a lazy mapping from names to arrays."""

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError

# NumPy's, before version 2.
MAX_DIMENSIONS = 32
_LARGEST_ELEMENT = 8  # bytes
# Advice for files with weights in types of quantization.
IF_QUANTIZED = (
    "Load the original model, or convert this one first with the program that quantized it: in transformers, "
    "model.dequantize() and model.save_pretrained(directory)."
)


class TensorSource(Mapping[str, np.ndarray]):
    """The named tensors of a checkpoint. `source[key]` reads one; iteration and `shape` read none.

    Half precision is converted to float32, which is exact. Other types are returned as stored. `location` is the
    opened file, directory or prefix, for messages. WeightsError if a shape is too large for an array.
    """

    # Strings of the file, if its format has them.
    metadata: Mapping[str, str] = MappingProxyType({})

    def __init__(self, location: str, shapes: dict[str, tuple[int, ...]]):
        self.location = location
        self._shapes = shapes
        for key, shape in shapes.items():
            # A tensor without elements fits any file, even with huge other dimensions.
            elements = math.prod(max(size, 1) for size in shape[:MAX_DIMENSIONS])
            if len(shape) > MAX_DIMENSIONS or elements > sys.maxsize // _LARGEST_ELEMENT:
                raise WeightsError(
                    f"The tensor {shortened(key)} in {location} has the shape {shown(shape)}, which is too large for an "
                    "array. The file is damaged: download it again."
                )

    @abstractmethod
    def _read(self, key: str) -> np.ndarray:
        """Reads the stored values of an existing key."""

    def shape(self, key: str) -> tuple[int, ...]:
        """Reads no values; KeyError for unknown keys."""
        if key not in self._shapes:
            raise KeyError(f"{self.location} has no tensor named {key!r}.")
        return self._shapes[key]

    def __getitem__(self, key: str) -> np.ndarray:
        self.shape(key)
        values = self._read(key)
        return values.astype(np.float32) if values.dtype.name == "float16" else values

    def weight(self, key: str) -> np.ndarray:
        """Reads a tensor that is a weight; WeightsError if its values are whole numbers, or NaN or infinite ones are
        among them."""
        values = self[key]
        if values.dtype.kind != "f":
            raise WeightsError(
                f"{shortened(key)} in {self.location} has values of type {values.dtype}, but weights are floating-point "
                "numbers. The model seems to be quantized, and its configuration does not say how. "
                f"{IF_QUANTIZED}"
            )
        with np.errstate(over="ignore"):
            # NaN passes through both, and neither makes an array.
            ends = np.array([values.min(initial=0), values.max(initial=0)], np.float32)
            if not np.isfinite(ends).all():
                wrong = np.count_nonzero(~np.isfinite(values.astype(np.float32)))
                raise WeightsError(
                    f"{shortened(key)} in {self.location} has {wrong:,} NaN or infinite values among its "
                    f"{values.size:,}. The model diverged in training, or the file is damaged: load an earlier "
                    "checkpoint, or download the file again."
                )
        return values

    def whole_numbers(self, key: str) -> np.ndarray:
        """Reads a tensor of whole numbers; WeightsError if it has others."""
        values = self[key]
        if values.dtype.kind not in "iu":
            raise WeightsError(
                f"{shortened(key)} in {self.location} has values of type {values.dtype}; they must be whole numbers. "
                "Download the file again."
            )
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    # Mapping's version would read the tensor.
    def __contains__(self, key: object) -> bool:
        return key in self._shapes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location}: {len(self)} tensors>"


class RenamedTensors(TensorSource):
    """Tensors of other sources under new names. `tensors` maps each new name to a source and its name there."""

    def __init__(self, location: str, tensors: Mapping[str, tuple[TensorSource, str]]):
        self._tensors = tensors
        super().__init__(location, {name: file.shape(key) for name, (file, key) in tensors.items()})

    def _read(self, key: str) -> np.ndarray:
        file, name = self._tensors[key]
        return file[name]


@dataclass(frozen=True, eq=False)
class DeferredArray:
    """An array that is made each time it is read, with `np.asarray`."""

    shape: tuple[int, ...]  # its shape
    dtype: Any  # its type or the type's name
    read: Callable[[], np.ndarray]  # function that makes it

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.read(), dtype)


def read_bytes(path: Path, offset: int, length: int, location: str) -> np.ndarray:
    """Reads bytes of an already opened file, uint8 [length]; `location` is its name in messages."""
    found = np.fromfile(path, np.uint8, length, offset=offset)
    if found.size != length:
        raise WeightsError(f"{location} has become shorter since it was opened. Load it again.")
    return found


def bfloat16_bits_to_float32(bits: np.ndarray) -> np.ndarray:
    """Converts bfloat16 bits, uint16, to float32. A bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
