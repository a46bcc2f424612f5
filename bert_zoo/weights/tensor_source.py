"""The interface of every weight file: a lazy mapping from a tensor's name to its values."""

import math
import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError

# NumPy's, before version 2.
MAX_DIMENSIONS = 32
_LARGEST_ELEMENT = 8  # bytes


class TensorSource(Mapping[str, np.ndarray]):
    """Named tensors of a checkpoint; `source[key]` reads one, iterating and `shape` read none.

    Half precision is widened to float32, exactly; every other type is returned as it is stored.

    Attributes:
        location: the file, directory or prefix that was opened, for messages.
        metadata: strings by string, where the format has them.

    Raises:
        WeightsError: a shape that no array can have.
    """

    metadata: Mapping[str, str] = MappingProxyType({})

    def __init__(self, location: str, shapes: dict[str, tuple[int, ...]]):
        self.location = location
        self._shapes = shapes
        for key, shape in shapes.items():
            # A tensor without elements fits any file, however large its other dimensions are.
            elements = math.prod(max(size, 1) for size in shape[:MAX_DIMENSIONS])
            if len(shape) > MAX_DIMENSIONS or elements > sys.maxsize // _LARGEST_ELEMENT:
                raise WeightsError(
                    f"The tensor {shortened(key)} in {location} has the shape {shown(shape)}, which "
                    "no array can have. The file is damaged: download it again."
                )

    @abstractmethod
    def _read(self, key: str) -> np.ndarray:
        """The stored values of an existing key."""

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading its values. Raises KeyError for unknown keys."""
        if key not in self._shapes:
            raise KeyError(f"{self.location} has no tensor named {key!r}.")
        return self._shapes[key]

    def __getitem__(self, key: str) -> np.ndarray:
        self.shape(key)
        values = self._read(key)
        return values.astype(np.float32) if values.dtype.name == "float16" else values

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    # Mapping's own version would read the tensor to find out.
    def __contains__(self, key: object) -> bool:
        return key in self._shapes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location}: {len(self)} tensors>"


class View(TensorSource):
    """Tensors of other sources under names of its own; `tensors` says which source and name each has."""

    def __init__(self, location: str, tensors: Mapping[str, tuple[TensorSource, str]]):
        self._tensors = tensors
        super().__init__(location, {name: file.shape(key) for name, (file, key) in tensors.items()})

    def _read(self, key: str) -> np.ndarray:
        file, name = self._tensors[key]
        return file[name]


def read_bytes(path: Path, offset: int, length: int, location: str) -> np.ndarray:
    """uint8 [length] from a file that was opened before; `location` is its name for messages."""
    found = np.fromfile(path, np.uint8, length, offset=offset)
    if found.size != length:
        raise WeightsError(f"{location} has become shorter since it was opened.")
    return found


def bfloat16_bits_to_float32(bits: np.ndarray) -> np.ndarray:
    """Values of bfloat16 numbers given as uint16: a bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
