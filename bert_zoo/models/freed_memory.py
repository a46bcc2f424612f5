"""Gives the memory of dropped models back to the system."""

import ctypes
import functools
import gc
import sys
import weakref
from collections.abc import Callable

_DROPPED: list[int] = []  # ids of models that the collection in progress deletes


def give_back_after(model) -> None:
    """Has the memory of a model given back at the end of the garbage collection that deletes it.

    glibc keeps freed memory: 300 MiB after a step of training of minilm_l6, and more with each such model.
    """
    if _malloc_trim() is not None:
        weakref.finalize(model, _DROPPED.append, id(model)).atexit = False


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Returns glibc's `malloc_trim`; None on other systems."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        gc.callbacks.append(_give_back)
    return trim


def _give_back(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and _DROPPED:
        _DROPPED.clear()
        _malloc_trim()(0)
