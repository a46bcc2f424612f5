"""Refuses work in forked processes, which have none of the threads that TensorFlow and JAX wait for."""

import os

_owner: int | None = None


def refuse_fork() -> None:
    """Called by whatever makes or runs a model or a tokenizer.

    Raises:
        RuntimeError: this process was forked from one that has made or run one, where TensorFlow
            would wait for ever for threads that only the parent has.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise RuntimeError(
            f"This process ({os.getpid()}) was forked from one that already used a bert_zoo model "
            f"({_owner}), and TensorFlow and JAX do not work in such a process: the call would "
            "never return. Start processes with multiprocessing.get_context('spawn') (in "
            "PyTorch's DataLoader: multiprocessing_context='spawn'), or load the model only after "
            "the fork, with nothing loaded before it (in gunicorn: without preload_app)."
        )
