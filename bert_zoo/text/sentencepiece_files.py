"""Vocabularies of SentencePiece in files, and what families add to them; without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts

# The tokenizer's options for texts that are read as they are.
_PLAIN = {
    "lowercase": False,
    "remove_space": False,
    "keep_accents": True,
    "rewrite_quotes": False,
    "special_tokens_in_text": True,
}


@dataclass(frozen=True)
class Scheme:
    """What a family's original code adds to a SentencePiece model.

    The token ids are those of `first_tokens`, then the model's pieces without the
    `replaced_pieces` that it begins with, then `last_tokens`.
    """

    name: str  # of the family
    model_file: str
    tokenizer_class: str  # Hugging Face's
    special_tokens: Mapping[str, str]  # the role, a key of SPECIAL_TOKENS -> the token
    replaced_pieces: tuple[str, ...] = ()
    first_tokens: tuple[str, ...] = ()
    last_tokens: tuple[str, ...] = ()
    splits_number_commas: bool = False  # whether "1," becomes "1" and ","
    # Whether a space comes before digits that are split off so inside a word.
    split_digits_begin_words: bool = False
    # Pattern of the pieces that objectives take for the first of a word. ALBERT's: only letters of
    # English go on with one (create_pretraining_data.py).
    begins_word: str = r"▁.*|(?![A-Za-z]+$).*"
    # Whether U+0085 becomes a space, as Hugging Face has it and the library has not.
    next_line_is_space: bool = False
    options: Mapping[str, bool] = field(default_factory=_PLAIN.copy)  # where none are given


def read_sentencepiece(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads the one SentencePiece model of a directory, and the settings beside it.

    Args:
        files: of the directory.
        overrides: keyword arguments of SentencePieceTokenizer that overrule the files; `scheme` is
            one of them.

    Raises:
        FileNotFoundError: there is no model, or more than one.
        ConfigError: a damaged file.
    """
    config = files.json("tokenizer_config.json")
    names = {option: option for option in _PLAIN} | {"lowercase": "do_lower_case"}
    options = {option: config.take(name, bool) for option, name in names.items() if name in config}
    models = sorted(
        path.name for pattern in ("*.model", "*.spm") for path in files.directory.glob(pattern)
    )
    if len(models) != 1:
        raise FileNotFoundError(
            f"{files.directory} should hold one SentencePiece model, *.model; it holds "
            f"{files.names()}."
        )
    arguments = {"model": files.content(models[0]), **options, **overrides}
    return TokenizerParts("SentencePieceTokenizer", arguments, files.path(models[0]))
