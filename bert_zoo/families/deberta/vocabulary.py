"""Reads DeBERTa 1's vocabulary."""

from typing import Any

from bert_zoo.families.deberta.original import (
    BPE_ENCODER,
    read_bpe_encoder,
)
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.layout import Layout
from bert_zoo.text.vocabulary import special_tokens

# Characters that are words by themselves: punctuation and symbols, but not U+FFFD, which is a part of a character.
ALONE = "[^\\w\ufffd]|_"
SPECIAL_TOKENS = special_tokens("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")
LAYOUT = Layout(segments=False)
SEGMENTED = Layout()


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """Reads RoBERTa's byte-level BPE from Hugging Face's files or Microsoft's single file."""
    has_own = files.has(BPE_ENCODER) and not files.has("vocab.json")
    return read_byte_bpe(files, options, read=read_bpe_encoder if has_own else None)
