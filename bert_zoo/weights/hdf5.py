"""HDF5 files of weights, as Keras and transformers' TensorFlow classes write them.

Only what lies in the file itself is read: a link, or an array, that stands for another file's bytes
is refused, as is an array whose values are not all there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer, replacing
from bert_zoo.weights.tensor_source import TensorSource, bfloat16_bits_to_float32

# What h5py raises for files that are damaged.
_DAMAGED = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, MemoryError)
# Groups inside of groups; Keras nests those of a layer in a layer.
_DEEPEST = 30
# Keras's mark, on an array of type V2, of a type that NumPy lacks.
_BFLOAT16 = "bfloat16"
# Of a file with a whole model.
_MODEL, _OPTIMIZER = "model_weights/", "optimizer_weights/"


class HDF5Source(TensorSource):
    """The arrays of an HDF5 file by their paths, "group/group/array".

    Raises:
        WeightsError: it is damaged, or holds arrays in another way than Keras writes them.
    """

    def __init__(self, path: Path):
        import h5py

        refuse_lfs_pointer(path)
        self._path = path
        try:
            with h5py.File(path, "r") as file:
                shapes = {
                    name: tuple(array.shape) for name, array in _arrays(file, "", {_address(file)})
                }
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


class VariablesSource(TensorSource):
    """The variables of a model that Keras 2 saved with `save_weights` or `save`, by their names.

    Each lies at `<layer>/<name>:0`, and in a whole model below `model_weights/`, beside the optimizer's,
    which are left out.
    """

    def __init__(self, path: Path):
        self._file = HDF5Source(path)
        self._paths = {
            stored.removeprefix(_MODEL).partition("/")[2].removesuffix(":0"): stored
            for stored in self._file
            if not stored.startswith(_OPTIMIZER)
        }
        shapes = {name: self._file.shape(stored) for name, stored in self._paths.items()}
        super().__init__(str(path), shapes)

    def _read(self, key: str) -> np.ndarray:
        return self._file[self._paths[key]]


class PresetSource(TensorSource):
    """The arrays of a KerasHub preset: of its backbone, and below "task/" those of the task beside it."""

    def __init__(self, path: Path):
        backbone, task = HDF5Source(path), path.with_name("task.weights.h5")
        self._stored = {key: (backbone, key) for key in backbone}
        if task.is_file():
            head = HDF5Source(task)
            self._stored |= {f"task/{key}": (head, key) for key in head}
        super().__init__(str(path), {n: file.shape(key) for n, (file, key) in self._stored.items()})

    def _read(self, key: str) -> np.ndarray:
        file, stored = self._stored[key]
        return file[stored]


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an HDF5 file with arrays at their paths, atomically."""
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def _arrays(group: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The arrays below a group with their paths; raises what `_DAMAGED` lists."""
    import h5py

    if path.count("/") > _DEEPEST:
        raise ValueError(f"its groups are nested more than {_DEEPEST} deep")
    for name in group:
        below = path + name
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise WeightsError(
                f"{group.file.filename} has a link at {shortened(below)}, which may lead to another file "
                "and is not followed. Write the file again with the arrays in it."
            )
        entry = group[name]
        if _address(entry) in seen:
            raise ValueError(f"{shortened(below)} is another entry again")
        seen.add(_address(entry))
        if isinstance(entry, h5py.Group):
            yield from _arrays(entry, f"{below}/", seen)
        elif isinstance(entry, h5py.Dataset):
            _check(entry, below)
            yield below, entry


def _address(entry: Any) -> int:
    import h5py

    return h5py.h5o.get_info(entry.id).addr


def _check(array: Any, path: str) -> None:
    """Refuses an array that is not simply so many numbers in a row."""
    import h5py

    is_number = array.dtype.kind in "fiub" or array.attrs.get("dtype") == _BFLOAT16
    stored = array.id.get_create_plist()
    in_file = stored.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
    if not is_number or not in_file or stored.get_external_count():
        raise WeightsError(
            f"{shortened(path)} in {array.file.filename} is not stored as Keras stores weights: its type "
            f"is {array.dtype}, and its numbers must lie in one row in the file itself, without "
            "compression. Write the file again with Keras."
        )
    if array.id.get_storage_size() != array.size * array.dtype.itemsize:
        raise ValueError(
            f"{shortened(path)} has the shape {shown(array.shape)} and "
            f"{array.id.get_storage_size():,} bytes"
        )
