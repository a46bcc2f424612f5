"""What holds for every test."""

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
    """Marks what slow.txt lists."""
    for item in items:
        if f"tests/{item.path.name}::{item.name}" in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Starts every test from the same numbers, so that one that fails fails again.

    Keras draws the seeds of initializers and dropout from `random`, NumPy's are for the tests' own
    inputs. Before fixtures, as those of a module make models too.
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
    """Puts a function (name, split) -> examples in the place of `tensorflow_datasets.load`."""

    def put(load):
        module = types.SimpleNamespace(load=load, as_numpy=lambda dataset: dataset)
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)

    return put


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_stays() -> None:
    """Leaves what imports and the modules before made out of garbage collection.

    A collection took 0.1 s with TensorFlow's modules to go through, and several times that after a
    thousand tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _graphs_run_as_traced(request) -> None:
    """Leaves graphs as they were traced: optimizing one takes longer than a test runs it.

    Slow tests, and the processes that tests start, optimize them as users' programs do.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow and request.config.option.markexpr == "not slow":
        options = {"disable_meta_optimizer": True}
        tensorflow.config.optimizer.set_experimental_options(options)
