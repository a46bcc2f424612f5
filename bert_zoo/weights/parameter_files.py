"""Arrays one after the other in params_0.npy, params_1.npy, ..., as OpenAI released GPT.

`params_shapes.json` beside them lists the shapes of the arrays; names are left to the program that
reads them.
"""

import itertools
import math
from pathlib import Path

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.json_files import read_list
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import TensorSource

SHAPES_FILE = "params_shapes.json"


class ParameterFilesSource(TensorSource):
    """The arrays whose shapes a `params_shapes.json` lists, named by their number, from "0" on.

    Raises:
        WeightsError: a damaged file, or files that hold another number of values than the shapes take.
    """

    def __init__(self, path: Path):
        shapes = read_list(path)
        if not shapes or not all(map(_is_shape, shapes)):
            raise WeightsError(
                f"{path} is {shown(shapes)}; it must be a list of shapes, each a list of positive "
                "whole numbers. Download it again."
            )
        super().__init__(str(path), {str(i): tuple(shape) for i, shape in enumerate(shapes)})
        files = (path.with_name(f"params_{number}.npy") for number in itertools.count())
        self._parts = [_values(file) for file in itertools.takewhile(Path.is_file, files)]
        self._starts = [0, *itertools.accumulate(map(math.prod, shapes))]
        values = sum(part.size for part in self._parts)
        if values != self._starts[-1]:
            raise WeightsError(
                f"The {len(shapes)} shapes in {path} take {shown(self._starts[-1])} values, and the "
                f"{len(self._parts)} files params_0.npy, params_1.npy, ... beside it hold {values}. "
                "Copy or download all files of the directory again."
            )

    def _read(self, key: str) -> np.ndarray:
        start, end = self._starts[int(key)], self._starts[int(key) + 1]
        pieces, first = [], 0
        for part in self._parts:
            pieces.append(part[max(start - first, 0) : max(end - first, 0)])
            first += part.size
        return np.concatenate(pieces).reshape(self.shape(key))


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)


def _values(file: Path) -> np.ndarray:
    """The values of a file; it is mapped, not read."""
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
