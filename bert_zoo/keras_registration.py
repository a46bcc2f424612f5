"""Makes `import bert_zoo` enough for Keras to read a `.keras` file, without importing Keras.

Keras finds a class by the name that it was registered under, and imports no module that a file names
(Keras 3.15, `saving/serialization_lib.py`): something has to import ours. That is done at once where
Keras is there already, and otherwise at the end of its import, since nothing of Keras's is called
between that and `load_model`.
"""

import importlib
import importlib.util
import sys

from bert_zoo.private import is_being_imported

REGISTERED = ("bert_zoo.tasks", "bert_zoo.training", "bert_zoo.loading.text_layer")


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
    """Finds Keras as Python does, once, and adds the import of our modules to the end of its own."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), _import_registered())
        return spec
