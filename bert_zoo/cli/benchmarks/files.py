"""Splits from files of the user's own."""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


def own_files(
    options,
    read: Callable[[str, Any], Any],
    take: Callable[[Any, Sequence[int]], Any],
    groups: Callable[[Any], Sequence[Hashable]] = lambda split: [None] * len(split),
) -> dict[str, Any]:
    """What makes a `Benchmark` of files: its name, source, measured splits, and how they are read.

    Args:
        options: `DataOptions`. What is measured is its `dev_file`; without one, `held_out` rows of the
            training file; without these, its `test_file`.
        read: (path, the training split or None for itself) -> a split.
        take: (a split, row numbers) -> these rows of it.
        groups: a split -> what each of its rows is, such as its class; see `spread_order`.

    Raises:
        ValueError: there is nothing to measure on, or no rows are left to train on.
    """
    said = [name for name in ("dev_file", "held_out") if getattr(options, name)]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} both say what is measured; give one of them.")
    if not said and not options.test_file:
        raise ValueError(
            "There is nothing to measure on. Name a dev_file or a test_file, or hold back some of "
            "the training file's rows with held_out."
        )
    if options.train_rows < 0:
        raise ValueError(f"train_rows is {options.train_rows}; it is a number of rows, 0 for all.")
    is_cut = bool(options.held_out or options.train_rows)

    @cache
    def train_file() -> Any:
        return read(options.train_file, None)

    @cache
    def parts() -> dict[str, list[int]]:
        order = spread_order(groups(train_file()), options.split_seed)
        number = _number_held_out(options, len(order)) if options.held_out else 0
        left = order[number:].tolist()
        wanted = options.train_rows or len(left)
        if wanted > len(left):
            raise ValueError(
                f"train_rows is {wanted}, and {options.train_file} has {len(left)} rows to train on. Ask "
                "for fewer, or leave it out for all."
            )
        return {"validation": sorted(order[:number].tolist()), "train": sorted(left[:wanted])}

    def split_data(split: str) -> Any:
        if (options.held_out and split == "validation") or (is_cut and split == "train"):
            return take(train_file(), parts()[split])
        if split == "train":
            return train_file()
        path = {"validation": options.dev_file, "test": options.test_file}.get(split)
        if path is None:
            raise ValueError(
                f"There is no file for the split {split!r}; give its dev_file or test_file."
            )
        return read(path, train_file())

    path = Path(options.train_file)
    return {
        "name": path.stem,
        "read": split_data,
        "measured": ("validation" if said else "test",),
        "source": f"the file {path.name}",
    }


def spread_order(groups: Sequence[Hashable], seed: int) -> np.ndarray:
    """A random order in which every stretch has, of each group, about the share that the whole has.

    Args:
        groups: [N], what each row is; all the same for rows that are only shuffled.
        seed: of the order.

    Returns:
        Row numbers, int [N]. A group of few rows has them evenly apart, so that a first stretch that is
        too short for one of them has none.
    """
    rng = np.random.default_rng(seed)
    numbers = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    codes = np.asarray([numbers[group] for group in groups])
    shuffled = rng.permutation(len(codes))
    by_group = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes, minlength=1)
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    shares = (ranks + 0.5) / np.repeat(sizes, sizes)
    return by_group[np.lexsort((rng.random(len(codes)), shares))]


def _number_held_out(options, count: int) -> int:
    """How many of a file's rows are measured."""
    name, held_out = options.train_file, options.held_out
    if held_out < 0 or (held_out >= 1 and held_out % 1):
        raise ValueError(
            f"held_out is {held_out}; it is a number of rows, or below 1 the share of all rows."
        )
    number = int(held_out) if held_out >= 1 else max(1, round(held_out * count))
    if number >= count:
        raise ValueError(
            f"{name} has {count} rows, of which held_out takes {number}: nothing is left to train on."
        )
    return number
