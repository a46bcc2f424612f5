"""Reads vocabularies of words, characters or bytes from files; without TensorFlow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.vocabulary import is_byte, line_as_character

logger = logging.getLogger(__name__)

_OPTIONS = {
    **dict.fromkeys(("unit", "unknown_token", "eos_token", "space_token", "eos_at"), str),
    "lowercase": bool,
}
# The tokens for line ends and unknown words in WikiText and in the One Billion Word benchmark, where the
# former also begins a line.
EOS_TOKENS = ("<eos>", "<S>")
UNKNOWN_TOKENS = ("<unk>", "<UNK>")


def word_level_tokenizer(**arguments: Any):
    from bert_zoo.text.word_level import WordLevelTokenizer

    return WordLevelTokenizer(**arguments)


def read_word_level(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt with its settings.

    Args:
        files: the directory's files.
        overrides: keyword arguments of WordLevelTokenizer that take precedence over the files.

    Raises:
        ConfigError: a damaged file.
    """
    lines, path = files.lines("vocab.txt"), files.path("vocab.txt")
    config = files.json("tokenizer_config.json")
    options = {name: config.take(name, kind) for name, kind in _OPTIONS.items() if name in config}
    options = with_assumed_options(lines, path, options | overrides)
    if options["unit"] == "character":
        lines = [line_as_character(line) for line in lines]
    return TokenizerParts(word_level_tokenizer, {"vocabulary": lines, **options}, path)


def with_assumed_options(lines: list[str], path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options; without `unit`, also options that fit the lines of vocab.txt.

    Numbers up to 255 are bytes, single characters are characters, and everything else is words.
    """
    if "unit" in given:
        return given
    unknown, eos = first_known(UNKNOWN_TOKENS, lines), first_known(EOS_TOKENS, lines)
    tokens = set(lines) - {unknown, eos}
    characters = set(map(line_as_character, tokens))
    assumed = {"unit": "word", "unknown_token": unknown, "eos_token": eos}
    if all(map(is_byte, tokens)):
        assumed["unit"] = "byte"
    elif all(len(character) == 1 for character in characters):
        space = "_" if "_" in characters and " " not in characters else None
        assumed |= {"unit": "character", "space_token": space}
    else:
        # WikiText's convention. lm1b's "<S>" is at both ends of a sentence, but a prompt is no sentence.
        assumed["eos_at"] = "newlines" if eos == "<eos>" else "never"
    logger.info(
        "No file says how to read texts with %s. Assumed from its tokens: %s.",
        path,
        ", ".join(f"{name}={value!r}" for name, value in assumed.items() if name not in given),
    )
    return {**assumed, **given}


def first_known(candidates: tuple[str, ...], tokens: list[str]) -> str | None:
    """The first of the candidates that is one of the tokens."""
    return next((token for token in candidates if token in tokens), None)
