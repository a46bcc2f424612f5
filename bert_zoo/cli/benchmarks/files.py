"""Splits read from the user's own files."""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data.files import require_file


def own_files(
    options,
    read: Callable[[str, Any], Any],
    take: Callable[[Any, Sequence[int]], Any],
    groups: Callable[[Any], Sequence[Hashable]] = lambda split: [None] * len(split),
) -> dict[str, Any]:
    """The arguments of a `Benchmark` on files: name, source, measured splits and reader.

    It measures on `dev_file`, else on `held_out` rows of the training file, else on `test_file`. `read` maps (path, the
    training split, or None for the training file itself) to a split, `take` (a split, row numbers) to these rows of it,
    `groups` a split to the group of each row, for example its class; see `spread_order`. ValueError if there is nothing
    to measure on, or no rows are left to train on.
    """
    said = [name for name in ("dev_file", "held_out") if getattr(options, name)]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} both choose what to measure on. Leave one out.")
    for name in ("train_file", "dev_file", "test_file"):
        if path := getattr(options, name):
            require_file(Path(path), advice=f"Check the name and folder of {name}.")
    if not said and not options.test_file:
        raise ValueError(
            "There is nothing to measure on. Give a dev_file or a test_file, or keep back some rows of "
            "train_file with held_out, for example held_out=0.1."
        )
    if options.train_rows < 0:
        raise ValueError(
            f"train_rows is {options.train_rows}; it must be a number of rows, or 0 for all."
        )
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
                f"train_rows is {wanted}, but {options.train_file} has only {len(left)} rows to train on. Choose "
                "fewer, or leave it out for all."
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
                f"There is no file for the split {split!r}. Give it as dev_file or test_file."
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
    """Row numbers, int [N], in a random order in which every stretch holds about the same fraction of each group.

    Equal groups [N] give a plain shuffle. Rows of a small group are evenly spaced, so a short first stretch may have none
    of them.
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
    name, held_out = options.train_file, options.held_out
    if held_out < 0 or (held_out >= 1 and held_out % 1):
        raise ValueError(
            f"held_out is {held_out}; it must be a number of rows, or a fraction of them below 1."
        )
    number = int(held_out) if held_out >= 1 else max(1, round(held_out * count))
    if number >= count:
        raise ValueError(
            f"held_out takes {number} of the {count} rows of {name}, so none is left to train on. Choose fewer."
        )
    return number
