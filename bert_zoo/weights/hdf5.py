"""HDF5 files of weights, as Keras and transformers' TensorFlow classes write them.

Only what lies in the file itself is read: links to other files are not followed, and an array whose
values are elsewhere, or not all there, is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer, replacing
from bert_zoo.weights.tensor_source import TensorSource, View, bfloat16_bits_to_float32

# What h5py raises for files that are damaged.
_DAMAGED = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, MemoryError)
# Keras's mark, on an array of type V2, of a type that NumPy lacks.
_BFLOAT16 = "bfloat16"


class HDF5Source(TensorSource):
    """The arrays of an HDF5 file by their paths, "group/group/array".

    Raises:
        WeightsError: it is damaged, or holds arrays in another way than Keras writes them.
    """

    def __init__(self, path: Path):
        import h5py

        refuse_lfs_pointer(path)
        self._path = path
        shapes = {}

        def visit(name: str, entry: Any) -> None:
            if isinstance(entry, h5py.Dataset):
                _check(entry, name)
                shapes[name] = tuple(entry.shape)

        try:
            with h5py.File(path, "r") as file:
                file.visititems(visit)
        except _DAMAGED as error:
            raise self._refusal(error) from error
        super().__init__(str(path), shapes)

    def _read(self, key: str) -> np.ndarray:
        import h5py

        try:
            with h5py.File(self._path, "r") as file:
                array = file[key]
                values = array[()]
                is_bfloat16 = array.attrs.get("dtype") == _BFLOAT16
        except _DAMAGED as error:
            raise self._refusal(error) from error
        return bfloat16_bits_to_float32(values.view(np.uint16)) if is_bfloat16 else values

    def _refusal(self, error: Exception) -> WeightsError:
        if isinstance(error, WeightsError):
            return error
        return WeightsError(
            f"{self._path} is not a whole HDF5 file ({shortened(str(error))}). It is damaged or its "
            "download was cut short: delete it and download it again."
        )


def preset(path: Path) -> View:
    """The arrays of a KerasHub preset: of its backbone, and below "task/" those of the task beside it."""
    backbone, task = HDF5Source(path), path.with_name("task.weights.h5")
    tensors = {key: (backbone, key) for key in backbone}
    if task.is_file():
        head = HDF5Source(task)
        tensors |= {f"task/{key}": (head, key) for key in head}
    return View(str(path), tensors)


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an HDF5 file with arrays at their paths, atomically."""
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def _check(array: Any, path: str) -> None:
    """Refuses an array that is stored in any other way than as plain numbers, one after the other."""
    is_number = array.dtype.kind in "fiub" or array.attrs.get("dtype") == _BFLOAT16
    if not is_number or array.external or array.is_virtual or array.chunks:
        raise WeightsError(
            f"{shortened(path)} in {array.file.filename} is not stored as Keras stores weights: its type "
            f"is {array.dtype}, and its numbers must lie in the file itself, in one piece and without "
            "compression. Write the file again with Keras."
        )
    if array.id.get_storage_size() != array.size * array.dtype.itemsize:
        raise ValueError(
            f"{shortened(path)} has the shape {shown(array.shape)} and "
            f"{array.id.get_storage_size():,} bytes"
        )
