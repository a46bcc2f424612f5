"""Random numbers by counter: a row's numbers depend only on seed, epoch, row and the draw's name.

So masks do not depend on batches, workers and platforms.
"""

import hashlib
import math

import numpy as np

# The step of SplitMix64's counter and the factors of its output function.
STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
MASK = 2**64 - 1


class Draws:
    """Random numbers for the rows of a batch, which depend only on seed, epoch and row number.

    Draws with different names are independent. A shorter draw is the beginning of a longer one with the
    same name, so padding changes no mask.

    Args:
        seed, epoch: integers.
        rows: int [batch], the rows' numbers in the epoch.

    Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64).
    """

    def __init__(self, seed: int, epoch: int, rows: np.ndarray):
        key = np.zeros(1, np.uint64)
        for part in (seed, epoch):
            key = _mixed(key + STEP + np.uint64(int(part) & MASK))
        self._keys = _mixed(key + STEP + np.asarray(rows).astype(np.int64).view(np.uint64))

    def bits(self, name: str, *shape: int) -> np.ndarray:
        """Draws uint64 [batch, *shape] of uniformly random bits.

        Args:
            name: name of the draw, unique for each use of the same `Draws`.
            shape: shape of a row's numbers.
        """
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        keys = _mixed(self._keys ^ np.uint64(int.from_bytes(digest, "little")))
        steps = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * STEP
        return _mixed(keys[:, None] + steps).reshape(-1, *shape)

    def uniform(self, name: str, *shape: int) -> np.ndarray:
        """Draws float64 [batch, *shape], uniform in [0, 1), multiples of 2**-53."""
        return (self.bits(name, *shape) >> np.uint64(11)) * 2.0**-53

    def integers(self, name: str, below: int, *shape: int) -> np.ndarray:
        """Draws int64 [batch, *shape], uniform in [0, below), for `below` up to 2**53."""
        return (self.uniform(name, *shape) * below).astype(np.int64)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's output function to `numbers`, in place."""
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        numbers ^= numbers >> shift
        numbers *= factor
    numbers ^= numbers >> SHIFTS[-1]
    return numbers
