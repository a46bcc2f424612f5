"""HDF5 weight files of Keras and of transformers' TensorFlow classes.

Only data in the file itself are read: links to other files are not followed, and arrays with external or missing
values are refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer, replacing
from bert_zoo.weights.tensor_source import RenamedTensors, TensorSource, bfloat16_bits_to_float32

# Errors that h5py raises for damaged files.
_DAMAGED = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, MemoryError)
# Keras's attribute of bfloat16 arrays, which have the type V2 because NumPy has no bfloat16.
_BFLOAT16 = "bfloat16"


class HDF5Source(TensorSource):
    """The arrays of an HDF5 file by their paths, "group/group/array".

    Raises:
        WeightsError: the file is damaged, or its arrays are not stored in Keras's way.
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
            f"{self._path} is not a complete HDF5 file ({shortened(str(error))}). It is damaged, or its download was "
            "interrupted: delete it and download it again."
        )


def preset(path: Path) -> RenamedTensors:
    """Opens a KerasHub preset: the backbone's arrays and, under "task/", the arrays of the task's file."""
    backbone, task = HDF5Source(path), path.with_name("task.weights.h5")
    tensors = {key: (backbone, key) for key in backbone}
    if task.is_file():
        head = HDF5Source(task)
        tensors |= {f"task/{key}": (head, key) for key in head}
    return RenamedTensors(str(path), tensors)


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays to an HDF5 file atomically: path -> array."""
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values)


def _check(array: Any, path: str) -> None:
    """Refuses an array that is not stored as plain, contiguous numbers."""
    is_number = array.dtype.kind in "fiub" or array.attrs.get("dtype") == _BFLOAT16
    if not is_number or array.external or array.is_virtual or array.chunks:
        raise WeightsError(
            f"{shortened(path)} in {array.file.filename} is not stored as Keras stores weights: its type is "
            f"{array.dtype}, and its numbers must be in the file itself, contiguous and uncompressed. Write the file "
            "again with Keras."
        )
    if array.id.get_storage_size() != array.size * array.dtype.itemsize:
        raise ValueError(
            f"{shortened(path)} has the shape {shown(array.shape)} and "
            f"{array.id.get_storage_size():,} bytes"
        )
