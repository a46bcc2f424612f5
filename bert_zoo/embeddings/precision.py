"""Vectors in a quarter or a thirty-second of the memory: int8 by calibrated ranges, and signs as bits.

The values are those of sentence-transformers' `quantize_embeddings` with "int8" and "ubinary". NumPy alone:
nothing here imports TensorFlow or Keras.
"""

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np

BLOCK_ROWS = 16384


def int8_ranges(vectors: Any) -> np.ndarray:
    """The least and the greatest value of each dimension, which `to_int8` divides into 255 steps.

    Args:
        vectors: float [rows, size], some ten thousand rows of the corpus or all of it; an array or
            anything that gives rows by slices.

    Returns:
        float32 [2, size].
    """
    least, greatest = np.inf, -np.inf
    for _, block in blocks(vectors, BLOCK_ROWS):
        least, greatest = np.minimum(least, block.min(0)), np.maximum(greatest, block.max(0))
    return np.stack([least, greatest]).astype(np.float32)


def to_int8(
    vectors: Any, ranges: np.ndarray, output: str | PathLike[str] | None = None
) -> np.ndarray:
    """Vectors in 256 steps a dimension, a quarter of the size of float32.

    Args:
        vectors: float [rows, size]; an array or anything that gives rows by slices.
        ranges: of `int8_ranges`; values beyond them become the nearest step. Keep them: `search` needs
            them to read the vectors.
        output: a .npy file to write the vectors to, block by block, for more of them than memory holds.

    Returns:
        int8 [rows, size]; with `output` a memory map of the file.
    """
    starts, steps = _scale(ranges)

    def encode(block):
        return (np.clip(np.floor((block - starts) / steps), 0, 255) - 128).astype(np.int8)

    return _encoded(vectors, encode, output)


def to_binary(vectors: Any, output: str | PathLike[str] | None = None) -> np.ndarray:
    """The signs of vectors, 1 for positive values, as bits: a thirty-second of the size of float32.

    Args:
        vectors, output: as for `to_int8`.

    Returns:
        uint8 [rows, ceil(size / 8)], the first value in the highest bit; with `output` a memory map of
        the file.
    """
    return _encoded(vectors, lambda block: np.packbits(block > 0, axis=-1), output)


def from_int8(block: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """The middles of the steps that int8 values stand for, float32."""
    starts, steps = _scale(ranges)
    vectors = block.astype(np.float32)
    vectors *= steps
    vectors += starts + 128.5 * steps
    return vectors


def from_binary(block: np.ndarray, size: int) -> np.ndarray:
    """Signs as 1 and -1, float32 [rows, size]."""
    return np.where(np.unpackbits(block, axis=-1, count=size), np.float32(1), np.float32(-1))


def blocks(vectors: Any, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the number of a block's first row, and the block."""
    for start in range(0, len(vectors), rows):
        yield start, np.asarray(vectors[start : start + rows])


def _scale(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each dimension begins, and how wide its steps are; 1 where all values are the same."""
    starts, ends = np.asarray(ranges, np.float32)
    steps = (ends - starts) / 255
    return starts, np.where(steps == 0, np.float32(1), steps)


def _encoded(
    vectors: Any,
    encode: Callable[[np.ndarray], np.ndarray],
    output: str | PathLike[str] | None,
) -> np.ndarray:
    encoded = None
    for start, block in blocks(vectors, BLOCK_ROWS):
        if not np.issubdtype(block.dtype, np.floating):
            raise ValueError(f"The vectors are {block.dtype}; they must be floats.")
        part = encode(block)
        if encoded is None:
            shape, kind = (len(vectors), part.shape[1]), part.dtype
            if output is None:
                encoded = np.empty(shape, kind)
            else:
                encoded = np.lib.format.open_memmap(output, "w+", kind, shape)
        encoded[start : start + len(part)] = part
    if encoded is None:
        raise ValueError("There are no vectors; `vectors` is empty.")
    return encoded
