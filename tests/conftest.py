"""Hooks and fixtures for all tests."""

import functools
import gc
import inspect
import random
import shutil
import sys
import types
from pathlib import Path

import keras
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


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, where playwright and a Chromium are installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
        except api.Error as error:
            pytest.skip(f"Chromium does not start: {error}")
        yield started
        started.close()


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


@pytest.fixture(scope="session", autouse=True)
def _models_are_made_fast(request) -> None:
    """Makes layers and variables faster, on which most tests spend most of their time.

    Keras then reads each signature once instead of for every layer, and does not look for variables in
    the numbers and words that a layer holds. TensorFlow gives variables no names for messages: it
    compiles an operation for each new name, in 0.8 ms, and keeps it, in 35 KB. That adds up to gigabytes.
    Slow tests, and the processes that tests start, do without all this.
    """
    if request.config.option.markexpr != "not slow":
        return
    names = types.SimpleNamespace(**vars(inspect))
    names.signature = lambda method: _signature(
        getattr(method, "__func__", method), inspect.ismethod(method)
    )
    names.getfullargspec = functools.cache(inspect.getfullargspec)
    keras.src.layers.layer.inspect = keras.src.ops.operation.inspect = names
    set_tracked, plain = keras.Layer.__setattr__, {bool, int, float, str, type(None)}
    plain |= {types.FunctionType, types.MethodType}

    def set_attribute(layer, name, value) -> None:
        if type(value) in plain and not isinstance(getattr(type(layer), name, None), property):
            object.__setattr__(layer, name, value)
        else:
            set_tracked(layer, name, value)

    keras.Layer.__setattr__ = set_attribute
    if "tensorflow" in sys.modules:
        from tensorflow.python.ops import gen_resource_variable_ops as operations

        make_handle = operations.var_handle_op
        operations.var_handle_op = lambda **settings: make_handle(**settings | {"debug_name": ""})


@functools.cache
def _signature(function, is_bound: bool) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()][is_bound:]
    return signature.replace(parameters=parameters)
