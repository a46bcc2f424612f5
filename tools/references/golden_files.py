"""Seeds and files of golden cases: what programs of every environment share, torch or not."""

import json
import pathlib
import shutil
import zlib
from collections.abc import Iterable

import numpy as np


def random_generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def empty_directory(directory: pathlib.Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def write_wordpiece(directory: pathlib.Path, vocabulary: Iterable[str], tokenizer: str) -> None:
    """The files of a tokenizer, by the name of transformers' class, that lower-cases."""
    write_lines(directory / "vocab.txt", vocabulary)
    write_json(
        directory / "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": tokenizer}
    )
