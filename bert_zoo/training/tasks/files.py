"""Splits of a task from files of the user's own."""

from collections.abc import Callable
from functools import cache
from typing import Any


def held_out_reader(
    options,
    read: Callable[[str, Any], Any],
    part: Callable[[Any, slice], Any],
    count: Callable[[Any], int] = len,
) -> tuple[Callable[[str], Any], tuple[str, ...]]:
    """How splits are read, and which are measured.

    Args:
        options: `DataOptions`. What is measured is its `dev_file`; without one, the last `held_out`
            rows of the training file; without these, its `test_file`.
        read: (path, the training split or None for itself) -> a split.
        part: (a split, rows) -> these rows of it.
        count: a split -> how many rows it has.

    Returns:
        split name -> its data, and the names of the measured splits.

    Raises:
        ValueError: there is nothing to measure on, or no rows are left to train on.
    """
    if options.dev_file and options.held_out:
        raise ValueError("Both dev_file and held_out say what is measured; give one of them.")
    if not (options.dev_file or options.held_out or options.test_file):
        raise ValueError(
            "There is nothing to measure on. Name a dev_file or a test_file, or hold back some of "
            "the training file's rows with held_out."
        )

    @cache
    def train_file() -> Any:
        whole = read(options.train_file, None)
        if options.held_out >= count(whole):
            raise ValueError(
                f"{options.train_file} has {count(whole)} rows, of which held_out takes "
                f"{options.held_out}: nothing is left to train on."
            )
        return whole

    def split_data(split: str) -> Any:
        if split == "train":
            return part(train_file(), slice(0, count(train_file()) - options.held_out))
        if split == "validation" and options.held_out:
            return part(train_file(), slice(-options.held_out, None))
        path = {"validation": options.dev_file, "test": options.test_file}.get(split)
        if path is None:
            raise ValueError(
                f"There is no file for the split {split!r}; give its dev_file or test_file."
            )
        return read(path, train_file())

    measured = "validation" if options.dev_file or options.held_out else "test"
    return split_data, (measured,)
