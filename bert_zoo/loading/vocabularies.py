"""Tokenizers and preprocessors of families, from directories with a vocabulary: functions of `bert_zoo.text`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.registry import registry
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import DeferredPreprocessor, TextFormat

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer


def _text_format(family: str | None) -> TextFormat:
    """How a family reads text; None stands for BERT's, the first one.

    Raises:
        ValueError: no such family.
    """
    families = registry().families
    if family is None:
        family = next(iter(families))
    if family not in families:
        raise ValueError(f"No tokenizer for family {family!r}; there are {sorted(families)}.")
    return families[family].text


def tokenizer_from_dir(path: str | Path, family: str | None = None, **overrides: Any) -> Tokenizer:
    """Makes a tokenizer from a directory with a vocabulary.

    Args:
        path: a directory with the vocabulary as the family's files have it (vocab.txt, for BERTweet
            with bpe.codes; vocab.json and merges.txt, or fairseq's dict.txt, encoder.json and vocab.bpe; a SentencePiece
            model; for Transformer-XL the originals' vocab.pkl, vocab.bin, cache.pkl or cache.pt
            too) and, if there are, tokenizer_config.json, tokenizer.json and
            special_tokens_map.json, whose settings are followed.
        family: as `bert_zoo.describe` names it; BERT where none is given.
        **overrides: keyword arguments of the tokenizer that overrule the files, for example
            `lowercase=False`.

    Raises:
        FileNotFoundError: no such directory, or no vocabulary in it.
        ValueError: an unknown family, or a setting that this tokenizer does not have.
    """
    return _text_format(family).parts(VocabularyFiles(path), overrides).make()


def preprocessor_from_dir(
    path: str | Path,
    family: str | None = None,
    *,
    sequence_length: int,
    tokenizer_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TextPreprocessor:
    """Makes a preprocessor from a directory with a vocabulary.

    Args:
        path, family: as for tokenizer_from_dir.
        sequence_length: the most tokens a row may have, special ones included.
        tokenizer_options: keyword arguments of the tokenizer that overrule the files.
        **options: further keyword arguments of the family's preprocessor: Preprocessor, or
            LanguageModelPreprocessor for Transformer-XL.
    """
    return DeferredPreprocessor(
        path,
        _text_format(family),
        sequence_length=sequence_length,
        tokenizer_options=tokenizer_options,
        **options,
    ).make()
