"""Hooks and fixtures for all tests."""

import gc
import random
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import eager_steps

SLOW = set(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines()[1:])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items) -> None:
    """Marks the tests in slow.txt as slow."""
    for item in items:
        if f"tests/{item.path.name}::{item.name}" in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Sets the random seeds before every test, so that failures repeat.

    Keras draws the seeds of initializers and dropout from `random`; the tests draw their inputs with NumPy.
    Runs before fixtures, because module fixtures make models too.
    """
    random.seed(0)
    np.random.seed(0)


@pytest.fixture
def eager():
    """See `eager_steps`; with `pytest.mark.usefixtures` for what graphs have no part in."""
    with eager_steps():
        yield


@pytest.fixture
def fake_tfds(monkeypatch):
    """Replaces `tensorflow_datasets.load` by a function (name, split) -> examples.

    Its data sets are there, or else at `urls`.
    """

    def put(load, urls=()):
        builder = types.SimpleNamespace(is_prepared=lambda: not urls, url_infos=urls)
        module = types.SimpleNamespace(
            load=load, as_numpy=lambda dataset: dataset, builder=lambda name: builder
        )
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)

    return put


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_stays() -> None:
    """Excludes objects made by imports and earlier modules from garbage collection.

    A collection took 0.1 s with TensorFlow's modules to go through, and several times that after a
    thousand tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _graphs_run_as_traced(request) -> None:
    """Turns off the optimization of graphs, which takes longer than tests run them.

    Slow tests, and the processes that tests start, optimize them as users' programs do.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow and request.config.option.markexpr == "not slow":
        options = {"disable_meta_optimizer": True}
        tensorflow.config.optimizer.set_experimental_options(options)
