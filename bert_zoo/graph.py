"""TensorFlow, for what reads texts in its graph; without it, a stand-in that lets the classes be defined.

On Keras's JAX backend TensorFlow may be missing. Tokenizers then still describe themselves (vocabulary, ids,
options, tokenizer.json), and texts are read by that description, in NumPy.
"""

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


try:
    import tensorflow as tf
except ImportError:
    tf = _Missing()

has_tensorflow: bool = not isinstance(tf, _Missing)
