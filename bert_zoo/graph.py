"""TensorFlow, for what reads texts in its graph; without it, a stand-in that lets the classes be defined.

On Keras's JAX backend TensorFlow may be missing. Tokenizers then still describe themselves (vocabulary, ids,
options, tokenizer.json), and texts are read by that description, in NumPy.
"""

import importlib
from importlib.util import find_spec
from typing import Any

MISSING = (
    "{} needs TensorFlow, which is not installed here. Install it with tensorflow-text: "
    'pip install "bert_zoo[tensorflow]".'
)


class _Missing:
    """Stands for the module tensorflow: a base class and a decorator without effect, and an error for the rest."""

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
    # Importing TensorFlow takes seconds, which those that ask whether it is there need not wait for.
    if name != "tf":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("tensorflow") if has_tensorflow else _Missing()
