"""Seeds and files of golden cases: what programs of every environment share, torch or not."""

import argparse
import json
import pathlib
import shutil
import sys
import types
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


def random_generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def empty_directory(directory: pathlib.Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def stand_in(name: str, path: pathlib.Path | None = None, **attributes: Any) -> types.ModuleType:
    """Registers a module that has only these attributes, or the modules of a directory."""
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    if path is not None:
        module.__path__ = [str(path)]
    sys.modules[name] = module
    return module


def write_json(path: pathlib.Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def make_all(
    documentation: str, cases: Mapping[str, Any], make: Callable[[str, Any, pathlib.Path], None]
) -> None:
    """The program that makes cases by name below --output_dir; `documentation` is its module's."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--output_dir", default=GOLDEN, type=pathlib.Path)
    golden = parser.parse_args().output_dir
    for name, case in cases.items():
        make(name, case, golden)
