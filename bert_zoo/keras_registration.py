"""Makes `import bert_zoo` enough for Keras to read a `.keras` file, without importing Keras.

Keras finds our classes by the names that their modules register when they are imported. So these
are imported together with Keras: at once where it is there already, else as soon as it comes.
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
    for name in REGISTERED:
        importlib.import_module(name)


class _KerasFinder:
    """Steps aside at Keras's import, after adding ours to the end of it."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                # Where one of our modules is what imports Keras, it cannot be imported again yet.
                if not any(is_being_imported(ours) for ours in _our_modules()):
                    _import_registered()

            spec.loader.exec_module = exec_module
        return spec


def _our_modules() -> list:
    return [module for name, module in sys.modules.items() if name.startswith("bert_zoo.")]
