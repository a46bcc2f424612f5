"""NumPy files too large for memory: written row by row beside their name, and checked when they are opened."""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_zoo.weights.files import naming_full_disk

# Answers of file systems that cannot reserve space.
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class RowFile(AbstractContextManager):
    """Writes the rows of a `.npy` file in blocks. The file appears when the context ends without an error.

    Until then the rows are in a part beside it, whose header counts those that are complete. They are written
    rather than assigned to a memory map, which would kill the process on a full disk. A known number of `rows`
    makes the first block reserve room for all of them. With `resume`, the `part` (`<path>.part`) of a stopped
    process is continued, and kept if this one stops.

    Raises:
        DiskFullError: there is no room for the file.
        ValueError: the part is damaged.
    """

    def __init__(
        self, path: Path, rows: int | None = None, *, part: Path | None = None, resume: bool = False
    ):
        self.path, self.rows, self.resume = path, rows, resume
        self.part = part or path.with_name(f"{path.name}.part")
        # Rows written, and values in a row, 0 before the first block.
        self.done = self.size = self._begin = 0
        self._dtype = np.dtype(np.float32)

    def __enter__(self) -> Self:
        continues = self.resume and self.part.is_file() and self.part.stat().st_size > 0
        if continues:
            kept = _mapped(self.part, (None, None), None, f"Delete {self.part} to begin again.")
            self.done, self.size = kept.shape
            self._dtype, self._begin = kept.dtype, kept.offset
        self._file = self.part.open("r+b" if continues else "w+b")
        return self

    def append(self, block: np.ndarray) -> None:
        """Writes rows [number, size]. All blocks have the same size and dtype."""
        total = None
        if not self.done:
            self.size, self._dtype = block.shape[1], block.dtype
            self._write_header()
            if self.rows is not None:
                total = self._begin + self.rows * self._row_bytes
        with naming_full_disk(self.part, str(self.path), total):
            if total is not None:
                _reserve(self._file.fileno(), total, self.part.parent)
            self._file.seek(self._begin + self.done * self._row_bytes)
            self._file.write(block.tobytes())
            self._flush()
            # Counted once they are on the disk.
            self.done += len(block)
            self._write_header()
            self._flush()

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            # What the last process wrote of an uncounted block, or reserved for rows that did not come.
            self._file.truncate(self._begin + self.done * self._row_bytes)
            self._file.close()
            os.replace(self.part, self.path)
            return
        # After a full disk, closing tries once more to write what is left.
        with suppress(OSError):
            self._file.close()
        if not (self.resume and self.done):
            self.part.unlink()

    @property
    def _row_bytes(self) -> int:
        return self.size * self._dtype.itemsize

    def _write_header(self) -> None:
        """NumPy gives the header the same length for any number of rows."""
        self._file.seek(0)
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.done, self.size),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        self._begin = self._file.tell()

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def _reserve(file: int, size: int, directory: Path) -> None:
    """Reserves disk space for a file of `size` bytes; raises OSError with ENOSPC if there is too little."""
    if size > shutil.disk_usage(directory).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # macOS and Windows lack it: there the check above must do.
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise


def open_array(path: Path, shape: Sequence[int | None], dtype: Any, remedy: str) -> np.ndarray:
    """Opens a `.npy` file as a read-only memory map; ValueError, which ends with the next step `remedy`, if it is
    damaged or its shape (None for an unknown size) or dtype (None for any) is another."""
    array = _mapped(path, shape, dtype, remedy)
    check_size(path, array.offset + array.nbytes, remedy)
    return array


def check_size(path: Path, size: int, remedy: str) -> None:
    """Raises ValueError, which ends with the next step `remedy`, unless a file has `size` bytes."""
    found = path.stat().st_size
    if found != size:
        raise ValueError(f"{path} is damaged: it has {found:,} bytes instead of {size:,}. {remedy}")


def _mapped(path: Path, shape: Sequence[int | None], dtype: Any, remedy: str) -> np.memmap:
    """Opens a file as `open_array` does, but it may be longer than its header says."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path} is damaged: its {path.stat().st_size:,} bytes are not a whole NumPy file ({error}). {remedy}"
        ) from error
    expected = tuple(
        actual if size is None else size for size, actual in zip(shape, array.shape, strict=False)
    )
    if len(shape) != array.ndim or expected != array.shape or array.dtype != (dtype or array.dtype):
        raise ValueError(
            f"{path} has {array.dtype} values of the shape {array.shape}; expected {dtype or 'values'} of the shape "
            f"{tuple(shape)}. {remedy}"
        )
    return array
