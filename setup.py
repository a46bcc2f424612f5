"""What pyproject.toml cannot say: the tree's checkpoints are installed within the package."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["bert_zoo*"]), "bert_zoo.checkpoints"],
    package_dir={"bert_zoo.checkpoints": "checkpoints"},
)
