"""Tokenizers and packers that run in the TensorFlow graph."""

from bert_zoo.text.byte_bpe import ByteBpeTokenizer
from bert_zoo.text.directories import preprocessor_from_dir, tokenizer_from_dir
from bert_zoo.text.language_model import LanguageModelPreprocessor
from bert_zoo.text.packing import Packer
from bert_zoo.text.preprocessor import Preprocessor
from bert_zoo.text.sentencepiece import SentencePieceTokenizer
from bert_zoo.text.symbols import SymbolTokenizer
from bert_zoo.text.wordpiece import WordPieceTokenizer

__all__ = [
    "ByteBpeTokenizer",
    "LanguageModelPreprocessor",
    "Packer",
    "Preprocessor",
    "SentencePieceTokenizer",
    "SymbolTokenizer",
    "WordPieceTokenizer",
    "preprocessor_from_dir",
    "tokenizer_from_dir",
]
