"""Tokenizers and packers that run in the TensorFlow graph.

Vocabularies are read without TensorFlow, so the names below are loaded on first use.
"""

import importlib
import warnings

_MODULES = {
    "AddedToken": "bert_zoo.text.added_tokens",
    "ByteBpeTokenizer": "bert_zoo.text.byte_bpe",
    "CharBpeTokenizer": "bert_zoo.text.char_bpe",
    "LanguageModelPreprocessor": "bert_zoo.text.language_model",
    "Packer": "bert_zoo.text.packing",
    "Preprocessor": "bert_zoo.text.preprocessor",
    "SentencePieceTokenizer": "bert_zoo.text.sentencepiece",
    "TweetBpeTokenizer": "bert_zoo.text.tweet_bpe",
    "TweetNormalizer": "bert_zoo.text.tweets",
    "WordBpeTokenizer": "bert_zoo.text.word_bpe",
    "WordLevelTokenizer": "bert_zoo.text.word_level",
    "WordPieceTokenizer": "bert_zoo.text.wordpiece",
    # These know the families.
    "preprocessor_from_dir": "bert_zoo.vocabularies",
    "tokenizer_from_dir": "bert_zoo.vocabularies",
}

__all__ = [*_MODULES]
_MODULES["sentencepiece_scheme"] = "bert_zoo.vocabularies"
_FORMER_NAMES = {"SymbolTokenizer": "WordLevelTokenizer"}


def __getattr__(name: str):
    if name in _FORMER_NAMES:
        former, name = name, _FORMER_NAMES[name]
        warnings.warn(
            f"{former} is now called {name}; please use the new name.",
            DeprecationWarning,
            stacklevel=2,
        )
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'bert_zoo.text' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
