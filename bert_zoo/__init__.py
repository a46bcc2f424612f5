"""BERT-family models for TensorFlow and Keras 3.

The names below are loaded on first use, so `import bert_zoo`, `list_models` and `describe` do not
import TensorFlow or Keras.
"""

import importlib

from bert_zoo.keras_registration import register_with_keras
from bert_zoo.onednn import use_onednn

_LAZY_VERBS = {
    "add_tokens": "bert_zoo.loading.growing",
    "lengthen": "bert_zoo.loading.growing",
    "list_models": "bert_zoo.registry",
    "describe": "bert_zoo.registry",
    "load": "bert_zoo.loading.load",
    "save": "bert_zoo.loading.save",
    "export": "bert_zoo.serving.export",
    "push_to_hub": "bert_zoo.loading.save",
    "report": "bert_zoo.cli.model_report",
    "similarity": "bert_zoo.loading.similarity",
}
_LAZY_PACKAGES = tuple(
    "charts cli data distillation embeddings layers metrics models pretraining probing runtime serving tasks text training".split()
)

__all__ = [
    "add_tokens",
    "describe",
    "export",
    "lengthen",
    "list_models",
    "load",
    "push_to_hub",
    "report",
    "save",
    "similarity",
]


def __getattr__(name: str):
    if name in _LAZY_VERBS:
        return getattr(importlib.import_module(_LAZY_VERBS[name]), name)
    if name in _LAZY_PACKAGES:
        return importlib.import_module(f"bert_zoo.{name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("bert_zoo")
        except PackageNotFoundError:  # a source tree that was never installed
            return "0.0.0"
    raise AttributeError(f"module 'bert_zoo' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY_PACKAGES, "__version__"])


use_onednn()
register_with_keras()
