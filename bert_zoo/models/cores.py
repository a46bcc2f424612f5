"""Splits the rows of a batch across the cores of a CPU.

TensorFlow splits every operation across its threads, which then wait for each other hundreds of times per
step. Small matrix products gain little: 384 x 384 x 384 takes 0.9 ms with one thread or two. Here the batch
is split once instead, and each thread runs the whole model on some of its rows.
"""

import ctypes
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import keras

from bert_zoo.fields import check
from bert_zoo.models.inputs import tokens_of

_cores = 1

# Options of glibc's mallopt(3) in bytes. TensorFlow 2.21 allocates tensors below 256 KiB with malloc. By
# default, malloc returns their memory to the system when they are freed and gets it back later, zeroed page
# by page, which takes 17 to 20% of a step with 16 rows of 6 to 10 tokens per core.
_MALLOC_OPTIONS = {
    -3: 2**25,  # M_MMAP_THRESHOLD: larger blocks are returned as soon as they are free
    -2: 2**26,  # M_TOP_PAD: the least that a thread keeps, the size of one of its heaps
    -1: 2**30,  # M_TRIM_THRESHOLD: the most that the process keeps
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
    check("number", number, int, least=1)
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
    """Makes malloc keep the memory of freed tensors for the next step."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for option, size in _MALLOC_OPTIONS.items():
            mallopt(option, size)


def in_shares(run: Callable[[dict[str, Any]], Any], inputs: dict[str, Any]) -> Any:
    """`run(inputs)`, tensors in any structure, computed for equal shares of the rows if `use_cores` was called."""
    if _cores == 1:
        return run(inputs)
    import tensorflow as tf

    # Shares do not run in parallel eagerly or in replicas.
    if not tf.inside_function() or tf.distribute.has_strategy():
        return run(inputs)
    inputs = keras.tree.map_structure(tf.convert_to_tensor, inputs)
    if len({value.shape[0] for value in keras.tree.flatten(inputs)}) > 1:
        return run(inputs)  # some inputs are shared by all rows, [1, ...]
    rows = tf.shape(tokens_of(inputs))[0]
    bounds = [rows * i // _cores for i in range(_cores + 1)]

    def share(start, end):
        return run(keras.tree.map_structure(lambda value: value[start:end], inputs))

    shares = [share(start, end) for start, end in pairwise(bounds)]
    return keras.tree.map_structure(lambda *parts: tf.concat(parts, axis=0), *shares)
