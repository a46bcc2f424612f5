"""Lets Keras read `.keras` files after `import bert_zoo`, without importing Keras at once.

Keras finds classes only by the names under which they were registered, and does not import modules that
a file names (Keras 3.15, `saving/serialization_lib.py`). So our modules are imported now if Keras is
already imported, else at the end of its import, before `load_model` can be called.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

from bert_zoo.private import is_being_imported

REGISTERED = (
    # With it, all tasks.
    *("bert_zoo.loading.load", "bert_zoo.training", "bert_zoo.loading.text_layer"),
    "bert_zoo.distillation.losses",
)
# Keras's backends, and those that bert_zoo can install.
BACKENDS = ("tensorflow", "jax", "torch", "openvino")
INSTALLABLE = BACKENDS[:2]


def register_with_keras() -> None:
    if "keras" in sys.modules:
        _import_registered()
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _import_registered() -> None:
    # If one of our modules is just importing Keras, it registers its classes itself.
    modules = [module for name, module in sys.modules.items() if name.startswith("bert_zoo.")]
    if not any(map(is_being_imported, modules)):
        for name in REGISTERED:
            importlib.import_module(name)


class _KerasFinder:
    """Finds Keras like Python does, and imports our modules at the end of its import."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None:
            spec.loader.exec_module = partial(self._execute, spec.loader.exec_module)
        return spec

    def _execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            execute(module)
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            if missing not in BACKENDS:
                raise
            raise ImportError(_without_backend(missing)) from error
        # Keras is imported only once.
        sys.meta_path.remove(self)
        _import_registered()


def _without_backend(missing: str) -> str:
    """Advice if the backend that Keras is set to is not installed."""
    found = next(filter(importlib.util.find_spec, {*INSTALLABLE} - {missing}), None)
    if found:
        return (
            f"Keras is set to run on {missing}, which is not installed, but {found} is. To use it, set the "
            f"environment variable KERAS_BACKEND={found} before Python starts."
        )
    return (
        f"Keras is set to run on {missing}, which is not installed. Install TensorFlow: "
        'pip install "bert_zoo[tensorflow]"; or JAX: pip install "bert_zoo[jax]", and set the environment '
        "variable KERAS_BACKEND=jax before Python starts."
    )
