"""Checks of what a flag names, made before TensorFlow is imported, which takes most of a program's start.

Each takes the flag's name and its value, and raises an error for a wrong value.
"""

import re
from dataclasses import Field
from pathlib import Path
from typing import Any


def model(flag: str, name: str) -> None:
    """Checks a model's name or directory."""
    from bert_zoo.loading.locating import check_name

    check_name(name)


def run(flag: str, directory: str) -> None:
    """Checks the directory of a run with a model."""
    from bert_zoo.loading.locating import kept_directory

    kept_directory(Path(directory))


def task(flag: str, name: str) -> None:
    """Checks the name of a task of `load`."""
    from bert_zoo.tasks import NAMES, no_such_task

    if name not in NAMES:
        raise ValueError(no_such_task(name))


def recipe(flag: str, name: str) -> None:
    """Checks the name of a recipe."""
    from bert_zoo.tasks.presets import preset

    preset(name)


def strategy(flag: str, name: str) -> None:
    """Checks the name of a strategy."""
    from bert_zoo.presets import check_strategy

    check_strategy(name)


def setting(field: Field, flag: str, value: Any) -> None:
    """Checks the limits of a dataclass's field."""
    from bert_zoo.presets import check_setting

    check_setting(field, value)


def whole_number(flag: str, text: str) -> None:
    """Checks a number of a list."""
    if not re.fullmatch(r"-?\d+", text):
        raise ValueError(f"--{flag} has {text!r} among its values; all must be whole numbers.")


def exists(flag: str, path: str) -> None:
    """Checks a file or folder."""
    if not Path(path).exists():
        raise FileNotFoundError(f"--{flag} names {path}, which does not exist.")


def text(flag: str, source: str) -> None:
    """Checks files, a folder or a pattern of plain text, or a data set's name."""
    from bert_zoo.pretraining.corpus import DATA_SET, files_of

    if not source.startswith(DATA_SET):
        files_of(source)
