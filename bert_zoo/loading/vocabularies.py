"""Makes the tokenizers and preprocessors of families from directories; exported by `bert_zoo.text`."""

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
    """The text format of a family; BERT's for None.

    Raises:
        ValueError: an unknown family.
    """
    families = registry().families
    if family is None:
        family = next(iter(families))
    if family not in families:
        raise ValueError(f"There is no family {family!r}; choose one of {sorted(families)}.")
    return families[family].text


def tokenizer_from_dir(path: str | Path, family: str | None = None, **overrides: Any) -> Tokenizer:
    """Makes a tokenizer from a directory with a vocabulary.

    Args:
        path: a directory with the family's vocabulary files: vocab.txt (for BERTweet, with bpe.codes);
            vocab.json and merges.txt, or fairseq's dict.txt, encoder.json and vocab.bpe; a SentencePiece
            model; for Transformer-XL also the original vocab.pkl, vocab.bin, cache.pkl or cache.pt.
            Settings are read from tokenizer_config.json, tokenizer.json and special_tokens_map.json, if
            they exist.
        family: name of the family, as in `bert_zoo.describe`; "bert" by default.
        **overrides: keyword arguments of the tokenizer, which take precedence over the files, such as
            `lowercase=False`.

    Returns:
        The family's `Tokenizer`.

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
        path, family: as for `tokenizer_from_dir`.
        sequence_length: the most tokens of a row, including special tokens.
        tokenizer_options: keyword arguments of the tokenizer, which take precedence over the files.
        **options: further keyword arguments of the family's preprocessor, `Preprocessor` or
            `LanguageModelPreprocessor`.

    Returns:
        The family's preprocessor.

    Raises:
        FileNotFoundError, ValueError: as for `tokenizer_from_dir`.
    """
    return DeferredPreprocessor(
        path,
        _text_format(family),
        sequence_length=sequence_length,
        tokenizer_options=tokenizer_options,
        **options,
    ).make()
