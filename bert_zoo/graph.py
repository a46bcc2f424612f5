"""Provides TensorFlow for reading texts in its graph, or a stand-in with which classes can be defined.

On Keras's JAX backend TensorFlow may be missing. Tokenizers then only describe themselves (vocabulary, ids,
options, tokenizer.json), and NumPy code reads texts by that description.
"""

import importlib
from importlib.util import find_spec
from typing import Any

MISSING = (
    "{} needs TensorFlow, which is not installed here. Install it with tensorflow-text: "
    'pip install "bert_zoo[tensorflow]".'
)


class _Missing:
    """Replaces the module tensorflow: a base class and a decorator without effect, else an error."""

    Module = object

    class autograph:
        class experimental:
            @staticmethod
            def do_not_convert(function):
                return function

    def __getattr__(self, name: str) -> Any:
        raise ImportError(MISSING.format("This"))


has_tensorflow: bool = find_spec("tensorflow") is not None


def __getattr__(name: str) -> Any:
    # Imported on first use, because it takes seconds.
    if name != "tf":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("tensorflow") if has_tensorflow else _Missing()
