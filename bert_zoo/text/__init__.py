"""Tokenizers and packers that run in the TensorFlow graph.

Vocabularies are read without TensorFlow, so the names below are loaded on first use.
"""

import importlib

_MODULES = {
    "ByteBpeTokenizer": "byte_bpe",
    "LanguageModelPreprocessor": "language_model",
    "Packer": "packing",
    "Preprocessor": "preprocessor",
    "SentencePieceTokenizer": "sentencepiece",
    "SymbolTokenizer": "symbols",
    "WordPieceTokenizer": "wordpiece",
    "preprocessor_from_dir": "directories",
    "tokenizer_from_dir": "directories",
}

__all__ = [*_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return getattr(importlib.import_module(f"bert_zoo.text.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bert_zoo.text' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
