"""Installs the repository's checkpoints inside the package, which pyproject.toml cannot express."""

from pathlib import Path

from setuptools import find_packages, setup

CHECKPOINTS = Path(__file__).parent / "checkpoints"

setup(
    packages=[
        *find_packages(include=["bert_zoo*"]),
        # Folders with only data. setuptools prints a screen of warnings for each one that is not named here.
        "bert_zoo.cli.templates",
        "bert_zoo.data.messages",
        "bert_zoo.checkpoints",
        *(f"bert_zoo.checkpoints.{path.name}" for path in CHECKPOINTS.iterdir() if path.is_dir()),
    ],
    package_dir={"bert_zoo.checkpoints": "checkpoints"},
)
