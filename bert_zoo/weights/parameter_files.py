"""Arrays behind each other in params_0.npy, params_1.npy, ..., as OpenAI released GPT.

`params_shapes.json` beside them lists the shapes of the arrays; names are left to the program that
reads them.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.json_files import parse_json, read_whole, utf8_text
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import TensorSource

SHAPES_FILE = "params_shapes.json"
_PART = re.compile(r"params_(\d{1,4})\.npy")


class ParameterFilesSource(TensorSource):
    """The arrays whose shapes a `params_shapes.json` lists, named by their number, from "0" on.

    Raises:
        WeightsError: a damaged file, a missing one, or files that hold other numbers of values than the
            shapes take.
    """

    def __init__(self, path: Path):
        shapes = _shapes(path)
        super().__init__(str(path), {str(i): shape for i, shape in enumerate(shapes)})
        self._parts = _parts(path)
        self._starts = [0, *itertools.accumulate(map(math.prod, shapes))]
        values = sum(part.size for part in self._parts)
        if values != self._starts[-1]:
            raise WeightsError(
                f"The {len(shapes)} shapes in {path} take {shown(self._starts[-1])} values, and "
                f"params_0.npy to params_{len(self._parts) - 1}.npy beside it hold {values}. Copy or "
                "download all files of the directory again."
            )

    def _read(self, key: str) -> np.ndarray:
        start, end = self._starts[int(key)], self._starts[int(key) + 1]
        pieces, first = [], 0
        for part in self._parts:
            pieces.append(part[max(start - first, 0) : max(end - first, 0)])
            first += part.size
        return np.concatenate(pieces).reshape(self.shape(key))


def _shapes(path: Path) -> list[tuple[int, ...]]:
    shapes = parse_json(utf8_text(read_whole(path), path), path)
    if not isinstance(shapes, list) or not shapes or not all(map(_is_shape, shapes)):
        raise WeightsError(
            f"{path} is {shown(shapes)}; it must be a list of shapes, each a list of positive whole "
            "numbers. Download it again."
        )
    return [tuple(shape) for shape in shapes]


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)


def _parts(path: Path) -> list[np.ndarray]:
    """The values of each file, in the order of the files' numbers; none is read yet."""
    found = {
        int(match[1]): file
        for file in path.parent.iterdir()
        if (match := _PART.fullmatch(file.name)) and file.is_file()
    }
    if not found or sorted(found) != list(range(len(found))):
        raise WeightsError(
            f"The values for {path} are incomplete: beside it should be params_0.npy, params_1.npy and "
            f"so on; there are {sorted(file.name for file in found.values())}. Copy all of them there."
        )
    return [_values(file) for _, file in sorted(found.items())]


def _values(file: Path) -> np.ndarray:
    try:
        values = np.lib.format.open_memmap(file, mode="r")
    # NumPy lets through whatever its parser of headers raises.
    except Exception as error:
        raise WeightsError(
            f"{file} is no array of NumPy that can be read: {shown(str(error), 200)}. Download it again."
        ) from error
    if values.dtype != np.float32 or values.ndim != 1:
        raise WeightsError(
            f"{file} holds an array of {values.dtype} with the shape {shown(values.shape)}; it must be "
            "one row of float32 values."
        )
    return values
