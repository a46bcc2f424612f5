"""Kept for tools that still call setup.py; all metadata stands in pyproject.toml."""

from setuptools import setup

setup()
