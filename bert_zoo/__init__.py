"""BERT-family models for TensorFlow and Keras 3.

The names below are loaded on first use, so that `import bert_zoo`, `list_models` and `describe` stay
free of TensorFlow and Keras.
"""

import importlib
from importlib.metadata import PackageNotFoundError, version

from bert_zoo.keras_registration import register_with_keras
from bert_zoo.registry import describe, list_models

try:
    __version__ = version("bert_zoo")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

_LAZY_VERBS = {
    "load": "bert_zoo.models.loading",
    "save": "bert_zoo.models.saving",
    "export": "bert_zoo.serving.export",
    "similarity": "bert_zoo.models.verbs",
}
_LAZY_PACKAGES = {
    "layers",
    "heads",
    "models",
    "text",
    "data",
    "metrics",
    "training",
    "serving",
}

__all__ = ["describe", "export", "list_models", "load", "save", "similarity"]


def __getattr__(name: str):
    if name in _LAZY_VERBS:
        return getattr(importlib.import_module(_LAZY_VERBS[name]), name)
    if name in _LAZY_PACKAGES:
        return importlib.import_module(f"bert_zoo.{name}")
    raise AttributeError(f"module 'bert_zoo' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY_PACKAGES, "__version__"])


register_with_keras()
