"""Tokenizers and packers that run in the TensorFlow graph.

Vocabularies are read without TensorFlow, so the names below are loaded on first use.
"""

from bert_zoo.lazy_names import loaded_on_first_use

_MODULES = {
    "AddedToken": "bert_zoo.text.files",
    "ByteBpeTokenizer": "bert_zoo.text.byte_bpe",
    "LanguageModelPreprocessor": "bert_zoo.text.preprocessor",
    "Packer": "bert_zoo.text.preprocessor",
    "Preprocessor": "bert_zoo.text.preprocessor",
    "SentencePieceTokenizer": "bert_zoo.text.sentencepiece",
    "WordLevelTokenizer": "bert_zoo.text.word_level",
    "WordPieceTokenizer": "bert_zoo.text.wordpiece",
    # These two know the families.
    "preprocessor_from_dir": "bert_zoo.loading.locating",
    "tokenizer_from_dir": "bert_zoo.loading.locating",
}

__all__ = [*_MODULES]

__getattr__, __dir__ = loaded_on_first_use(__name__, _MODULES)
