"""What the machine can do, to compare a pretraining with."""

import math
import time

import tensorflow as tf
from keras import ops

# Of the matrices whose product shows what the machine can, without a GPU and with one.
PEAK_SIZES = (2048, 8192)


def peak_flops(dtype: str) -> float:
    """Floating-point operations a second of a large product of matrices on this machine.

    Args:
        dtype: of its numbers.
    """
    size = PEAK_SIZES[bool(tf.config.list_physical_devices("GPU"))]
    matrix = ops.cast(ops.ones((size, size)), dtype)
    best = math.inf
    for _ in range(4):
        start = time.perf_counter()
        # As float32: TensorFlow 2.21 on NumPy 2 gives no scalar of bfloat16.
        ops.convert_to_numpy(ops.cast(ops.matmul(matrix, matrix)[0, 0], "float32"))
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
