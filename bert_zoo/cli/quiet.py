"""Hides the lines that TensorFlow prints at start-up."""

import contextlib
import importlib.abc
import importlib.machinery
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType

# TensorFlow's variable for its log level, and its values for everything and for fatal errors only.
LEVEL, ALL, FATAL_ALONE = "TF_CPP_MIN_LOG_LEVEL", "0", "3"
# Each has its own log, which starts at import.
NOISY = ("tensorflow", "tensorflow_text")
# Lines that these logs print before they read the variable (TensorFlow 2.21 and earlier), in absl's format
# ("I0000 00:00:1795716794.033167    9959 port.cc:153] ...") or TensorFlow's. The only errors among them report
# a missing GPU, or occur at every import with a GPU (tensorflow/tensorflow#62075).
START_UP = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|[IW]\d{4} [\d:.]+ +\d+ \S+:\d+\]"
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\]"
    rb"|(?:E\d{4} |\d{4}-\d\d-\d\d [\d:.]+: E ).*(?:Unable to register cu\w+ factory|cuInit)"
    rb"|To enable the following instructions: "
)


def start_tensorflow_quietly() -> None:
    """Silences TensorFlow's log from its first import on, unless TF_CPP_MIN_LOG_LEVEL is set."""
    if os.environ.setdefault(LEVEL, FATAL_ALONE) != ALL:
        sys.meta_path.insert(0, _QuietImports())


class _QuietImports(importlib.abc.MetaPathFinder):
    """Finds modules that print while they are imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in NOISY:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(_execute, spec.loader.exec_module)
        return spec


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    with without_start_up_lines():
        execute(module)


@contextlib.contextmanager
def without_start_up_lines() -> Iterator[None]:
    """Filters the lines of `START_UP` out of file descriptor 2.

    A separate process passes on all other lines, even those that a library writes just before it aborts.
    """
    # In its own process group, so that Ctrl-C does not reach it.
    passing_on = subprocess.Popen(
        [sys.executable, "-IS", __file__], stdin=subprocess.PIPE, process_group=0
    )
    sys.stderr.flush()
    stderr = os.dup(2)
    os.dup2(passing_on.stdin.fileno(), 2)
    passing_on.stdin.close()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        passing_on.wait()


if __name__ == "__main__":
    with open(0, "rb", buffering=0) as lines:
        for line in lines:
            if not START_UP.match(line):
                os.write(2, line)
