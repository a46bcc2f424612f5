"""The rows of a batch side by side on the cores of a CPU.

TensorFlow divides every operation among its threads, which then wait for each other, hundreds of times
a step. Small products gain little by that: 384 x 384 x 384 takes 0.9 ms on one thread and on two.
Instead, a batch can be divided once: each thread takes some of its rows through the whole model.
"""

import ctypes
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import keras

from bert_zoo.models.inputs import tokens_of

_cores = 1

# Options of glibc's mallopt(3), and bytes. TensorFlow 2.21 takes tensors below 256 KiB from malloc, which
# by default gives their memory back to the system when they are gone, and fetches it anew, page by page
# with zeros: a sixth to a fifth of a step with 16 rows of 6 to 10 tokens on each core.
_MALLOC_OPTIONS = {
    -3: 2**25,  # M_MMAP_THRESHOLD, from where on a block is given back as soon as it is free
    -2: 2**26,  # M_TOP_PAD, what a thread keeps at least: as much as one of its heaps holds
    -1: 2**30,  # M_TRIM_THRESHOLD, what the process keeps at most
}


def use_cores(number: int) -> None:
    """Splits each batch across `number` CPU cores.

    It applies to models on TensorFlow, in `fit`, `evaluate`, `predict` and traced functions. Results are
    the same except for rounding; dropout draws other numbers. Call it before TensorFlow starts, because
    its number of threads is fixed then.

    Args:
        number: number of cores. TensorFlow gets one thread per core, and each operation runs on one.

    Raises:
        ValueError: `number` is not a positive integer.
        RuntimeError: TensorFlow has already started, or Keras does not run on it.
    """
    global _cores
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"number is {number!r}; it must be a positive integer.")
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"Keras runs on {keras.backend.backend()}, but use_cores() sets TensorFlow's threads. Leave it out."
        )
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(number)
    except RuntimeError as error:
        raise RuntimeError(
            "TensorFlow has already started its threads. Call use_cores() first, before loading a model."
        ) from error
    _keep_freed_memory()
    _cores = number


def _keep_freed_memory() -> None:
    """Has malloc keep for the next step what tensors of this one took."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for option, size in _MALLOC_OPTIONS.items():
            mallopt(option, size)


def in_shares(run: Callable[[dict[str, Any]], Any], inputs: dict[str, Any]) -> Any:
    """`run(inputs)`, for equal shares of the rows where `use_cores` asked for that.

    Args:
        run: from inputs to outputs, tensors or nested ones, whose first axis is that of the rows.
        inputs: as well; `token_ids` or `char_ids` among them.
    """
    if _cores == 1:
        return run(inputs)
    import tensorflow as tf

    # Shares run side by side neither eagerly nor in replicas.
    if not tf.inside_function() or tf.distribute.has_strategy():
        return run(inputs)
    inputs = keras.tree.map_structure(tf.convert_to_tensor, inputs)
    if len({value.shape[0] for value in keras.tree.flatten(inputs)}) > 1:
        return run(inputs)  # some are for all rows, [1, ...]
    rows = tf.shape(tokens_of(inputs))[0]
    bounds = [rows * i // _cores for i in range(_cores + 1)]

    def share(start, end):
        return run(keras.tree.map_structure(lambda value: value[start:end], inputs))

    shares = [share(start, end) for start, end in pairwise(bounds)]
    return keras.tree.map_structure(lambda *parts: tf.concat(parts, axis=0), *shares)
