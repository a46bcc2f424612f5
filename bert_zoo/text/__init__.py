"""Tokenizers and packers that run in the TensorFlow graph.

Vocabularies are read without TensorFlow, so the names below are loaded on first use.
"""

import importlib

_MODULES = {
    "AddedToken": "bert_zoo.text.added_tokens",
    "ByteBpeTokenizer": "bert_zoo.text.byte_bpe",
    "LanguageModelPreprocessor": "bert_zoo.text.preprocessor",
    "Packer": "bert_zoo.text.packing",
    "Preprocessor": "bert_zoo.text.preprocessor",
    "SentencePieceTokenizer": "bert_zoo.text.sentencepiece",
    "WordLevelTokenizer": "bert_zoo.text.word_level",
    "WordPieceTokenizer": "bert_zoo.text.wordpiece",
    # These two know the families.
    "preprocessor_from_dir": "bert_zoo.loading.vocabularies",
    "tokenizer_from_dir": "bert_zoo.loading.vocabularies",
}

__all__ = [*_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'bert_zoo.text' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
