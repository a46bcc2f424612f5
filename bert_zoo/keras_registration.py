"""Makes `import bert_zoo` enough for Keras to read a `.keras` file, without importing Keras.

Keras finds a class by the name that it was registered under, and imports no module that a file names
(Keras 3.15, `saving/serialization_lib.py`): something has to import ours. That is done at once where
Keras is there already, and otherwise at the end of its import, since nothing of Keras's is called
between that and `load_model`.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

from bert_zoo.private import is_being_imported

REGISTERED = (
    *("bert_zoo.tasks", "bert_zoo.training", "bert_zoo.loading.text_layer"),
    "bert_zoo.distillation.losses",
)
# Keras's backends, and those of them that bert_zoo brings.
BACKENDS = ("tensorflow", "jax", "torch", "openvino")
OURS = BACKENDS[:2]


def register_with_keras() -> None:
    """Registers our classes now, or when Keras is imported."""
    if "keras" in sys.modules:
        _import_registered()
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _import_registered() -> None:
    # A module of ours that is importing Keras at this moment registers its classes itself.
    ours = [module for name, module in sys.modules.items() if name.startswith("bert_zoo.")]
    if not any(map(is_being_imported, ours)):
        for name in REGISTERED:
            importlib.import_module(name)


class _KerasFinder:
    """Finds Keras as Python does, and adds the import of our modules to the end of its own."""

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
        # Keras is imported once.
        sys.meta_path.remove(self)
        _import_registered()


def _without_backend(missing: str) -> str:
    """What to do where the backend that Keras is set to is not installed."""
    found = next(filter(importlib.util.find_spec, {*OURS} - {missing}), None)
    if found:
        return (
            f"Keras is set to run on {missing}, which is not installed; {found} is. To run on it, set the "
            f"environment variable KERAS_BACKEND={found} before Python starts."
        )
    return (
        f"Keras is set to run on {missing}, which is not installed. Install TensorFlow: "
        'pip install "bert_zoo[tensorflow]"; or JAX: pip install "bert_zoo[jax]", and set the environment '
        "variable KERAS_BACKEND=jax before Python starts."
    )
