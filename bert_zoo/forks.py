"""Refuses work in forked processes, which lack the threads that TensorFlow and JAX need."""

import os

_owner: int | None = None


def refuse_fork() -> None:
    """RuntimeError if this process was forked from one that has used a model or tokenizer; everything that makes or
    runs one calls this, as TensorFlow would wait forever for threads that only the parent has."""
    global _owner
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise RuntimeError(
            f"This process ({os.getpid()}) was forked from one that already used a bert_zoo model "
            f"({_owner}). TensorFlow and JAX do not work in such a process: the call would never "
            "return. Start processes with multiprocessing.get_context('spawn') (in PyTorch's "
            "DataLoader: multiprocessing_context='spawn'), or load models only after the fork (in "
            "gunicorn: without preload_app)."
        )
