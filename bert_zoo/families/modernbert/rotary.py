"""Rotary positions: queries and keys are rotated by angles that grow with their positions."""

import numpy as np
from keras import ops


def rotations(position_ids, head_size: int, theta: float, dtype: str):
    """Returns cosines and sines of the angles of positions, [batch or 1, length, 1, head_size / 2] each.

    They are always computed in float32, because bfloat16 cannot distinguish positions above 256.
    Source: Su et al. 2021 (arXiv:2104.09864), section 3.4.2.

    Args:
        position_ids: int [batch or 1, length].
        head_size: width of a head.
        theta: base of the wavelengths, which grow from 2 pi positions to almost theta times that.
        dtype: dtype of the result.
    """
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    frequencies = np.float32(1) / np.float32(theta) ** exponents
    angles = ops.expand_dims(ops.cast(position_ids, "float32"), (2, 3)) * frequencies
    return ops.cast(ops.cos(angles), dtype), ops.cast(ops.sin(angles), dtype)


def rotated(x, cosines, sines):
    """Rotates heads [batch, length, heads, head_size]: dimension i of a head pairs with i + head_size / 2."""
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate(
        [first * cosines - second * sines, second * cosines + first * sines], axis=-1
    )
