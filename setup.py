"""What pyproject.toml cannot say: the tree's checkpoints are installed within the package."""

from pathlib import Path

from setuptools import find_packages, setup

CHECKPOINTS = Path(__file__).parent / "checkpoints"

setup(
    packages=[
        *find_packages(include=["bert_zoo*"]),
        # Folders of data alone. setuptools warns of those that are not named here, a screen for each.
        "bert_zoo.cli.report.templates",
        "bert_zoo.data.messages",
        "bert_zoo.checkpoints",
        *(f"bert_zoo.checkpoints.{path.name}" for path in CHECKPOINTS.iterdir() if path.is_dir()),
    ],
    package_dir={"bert_zoo.checkpoints": "checkpoints"},
)
