"""Stores float vectors in less memory: int8 with calibrated ranges (1/4), or the bits of their signs (1/32).

The values equal those of sentence-transformers' `quantize_embeddings` with "int8" and "ubinary".
NumPy alone: nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data.files import RowFile

BLOCK_ROWS = 16384


def int8_ranges(vectors: Any) -> np.ndarray:
    """Finds the lowest and highest value of each dimension, the range that `to_int8` divides into 255 steps.

    Args:
        vectors: float [rows, size], the corpus or about ten thousand rows of it; an array or anything that
            returns rows by slices.

    Returns:
        Lowest and highest values, float32 [2, size].
    """
    least, greatest = np.inf, -np.inf
    for _, block in blocks(vectors, BLOCK_ROWS):
        least, greatest = np.minimum(least, block.min(0)), np.maximum(greatest, block.max(0))
    return np.stack([least, greatest]).astype(np.float32)


def to_int8(
    vectors: Any, ranges: np.ndarray, output: str | PathLike[str] | None = None
) -> np.ndarray:
    """Rounds vectors to 256 values per dimension, a quarter of the size of float32.

    Args:
        vectors: float [rows, size]; an array or anything that returns rows by slices.
        ranges: [2, size] from `int8_ranges`; values outside are clipped. Keep them: `search` needs them to
            decode the vectors.
        output: path of a .npy file to write block by block, for vectors that do not fit in memory. It is
            replaced once all rows are written.

    Returns:
        int8 [rows, size]; with `output`, a read-only memory map of the file.

    Raises:
        ValueError: `vectors` is empty or not of floats.
        DiskFullError: there is no room for the file.
    """
    starts, steps = _scale(ranges)

    def encode(block):
        return (np.clip(np.floor((block - starts) / steps), 0, 255) - 128).astype(np.int8)

    return _encoded(vectors, encode, output)


def to_binary(vectors: Any, output: str | PathLike[str] | None = None) -> np.ndarray:
    """Packs the signs of vectors into bits (1 for positive values), 1/32 of the size of float32.

    Args:
        vectors, output: as for `to_int8`.

    Returns:
        uint8 [rows, ceil(size / 8)], the first value in the highest bit; with `output`, a read-only memory
        map of the file.

    Raises:
        ValueError, DiskFullError: as for `to_int8`.
    """
    return _encoded(vectors, lambda block: np.packbits(block > 0, axis=-1), output)


def from_int8(block: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Decodes int8 values to the middles of their steps, float32 [rows, size]."""
    starts, steps = _scale(ranges)
    vectors = block.astype(np.float32)
    vectors *= steps
    vectors += starts + 128.5 * steps
    return vectors


def encoded_as(dtype: str, vectors: np.ndarray, ranges: np.ndarray | None) -> np.ndarray:
    """Vectors as float32, float16 or, with `ranges`, int8; ValueError unless they are finite in this type."""
    with np.errstate(over="ignore"):
        stored = (
            vectors.astype(dtype)
            if ranges is None or not len(vectors)
            else to_int8(vectors, ranges)
        )
    if not np.isfinite(stored if ranges is None else vectors).all():
        raise ValueError(f"Vectors must be finite as {dtype}; these are not.")
    return stored


def decoded(stored: np.ndarray, ranges: np.ndarray | None) -> np.ndarray:
    """What `encoded_as` stored, as float32."""
    return stored.astype(np.float32, copy=False) if ranges is None else from_int8(stored, ranges)


def from_binary(block: np.ndarray, size: int) -> np.ndarray:
    """Signs as 1 and -1, float32 [rows, size]."""
    return np.where(np.unpackbits(block, axis=-1, count=size), np.float32(1), np.float32(-1))


def blocks(vectors: Any, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each block of rows with the number of its first row."""
    for start in range(0, len(vectors), rows):
        yield start, np.asarray(vectors[start : start + rows])


def _scale(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest value and step of each dimension; a step of 1 where all values are equal."""
    starts, ends = np.asarray(ranges, np.float32)
    steps = (ends - starts) / 255
    return starts, np.where(steps == 0, np.float32(1), steps)


def _encoded(
    vectors: Any,
    encode: Callable[[np.ndarray], np.ndarray],
    output: str | PathLike[str] | None,
) -> np.ndarray:
    if not len(vectors):
        raise ValueError("`vectors` is empty. Pass at least one vector.")

    def encoded() -> Iterator[np.ndarray]:
        for _, block in blocks(vectors, BLOCK_ROWS):
            if not np.issubdtype(block.dtype, np.floating):
                raise ValueError(f"The vectors are {block.dtype}; they must be floats.")
            yield encode(block)

    if output is None:
        return np.concatenate([*encoded()])
    with RowFile(Path(output), len(vectors)) as file:
        for block in encoded():
            file.append(block)
    return np.load(output, mmap_mode="r")
