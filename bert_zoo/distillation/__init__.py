"""Small models taught by large ones: their layers, their vocabulary, what they learn from and how.

The names below are loaded on first use, so that importing the package needs no TensorFlow.
"""

import importlib

# Name -> the module that defines it.
_NAMES: dict[str, str] = {
    "prune_vocabulary": "bert_zoo.distillation.vocabularies",
    "student_of": "bert_zoo.distillation.students",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'bert_zoo.distillation' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return __all__
