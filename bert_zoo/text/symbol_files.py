"""Vocabularies of words, characters or bytes in files; without TensorFlow."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts

logger = logging.getLogger(__name__)

_OPTIONS = {
    **dict.fromkeys(("unit", "unknown_token", "eos_token", "space_token", "eos_at"), str),
    "lowercase": bool,
}


def read_symbols(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt, and the settings beside it.

    Args:
        files: of the directory.
        overrides: keyword arguments of SymbolTokenizer that overrule the files.

    Raises:
        ConfigError: a damaged file.
    """
    lines, path = files.lines("vocab.txt"), files.path("vocab.txt")
    config = files.json("tokenizer_config.json")
    options = {name: config.take(name, kind) for name, kind in _OPTIONS.items() if name in config}
    options = with_assumed_options(lines, path, options | overrides)
    symbols = symbols_of_lines(lines, options["unit"])
    return TokenizerParts("SymbolTokenizer", {"vocabulary": symbols, **options}, path)


def with_assumed_options(lines: list[str], path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options, and where they do not say the unit those that fit the symbols."""
    if "unit" in given:
        return given
    assumed = assumed_options(lines)
    logger.info(
        "No file says how to read texts with %s; by its symbols, %s.",
        path,
        ", ".join(f"{name}={value!r}" for name, value in assumed.items() if name not in given),
    )
    return {**assumed, **given}


def symbols_of_lines(lines: Sequence[str], unit: str) -> list[str]:
    """Returns the symbols that the lines of a vocab.txt stand for, as `save` writes them."""
    return [line_as_character(line) for line in lines] if unit == "character" else list(lines)


def assumed_options(lines: Sequence[str]) -> dict[str, Any]:
    """Returns options of SymbolTokenizer that fit the symbols, for files that do not say.

    Numbers up to 255 are bytes, single characters are characters, and anything else is words.
    """
    held = set(lines)
    unknown = next((token for token in ("<unk>", "<UNK>") if token in held), None)
    eos = next((token for token in ("<eos>", "<S>") if token in held), None)
    symbols = held - {unknown, eos}
    options: dict[str, Any] = {"unknown_token": unknown, "eos_token": eos}
    if all(map(is_byte, symbols)):
        return {"unit": "byte", **options}
    if all(len(line_as_character(line)) == 1 for line in symbols):
        has_spaces = " " in map(line_as_character, symbols)
        space = "_" if "_" in symbols and not has_spaces else None
        return {"unit": "character", "space_token": space, **options}
    # WikiText's convention; lm1b's "<S>" stands at both ends of a sentence, which a prompt is not.
    return {"unit": "word", "eos_at": "newlines" if eos == "<eos>" else "never", **options}


def is_byte(symbol: str) -> bool:
    return re.fullmatch("0|[1-9][0-9]{0,2}", symbol) is not None and int(symbol) < 256


def character_as_line(symbol: str) -> str:
    if len(symbol) == 1 and (symbol.isspace() or not symbol.isprintable()):
        return f"U+{ord(symbol):04X}"
    if line_as_character(symbol) != symbol:
        raise ValueError(
            f"The special token {symbol!r} is how vocab.txt writes {line_as_character(symbol)!r}. "
            "Rename it."
        )
    return symbol


def line_as_character(line: str) -> str:
    match = re.fullmatch("U[+]([0-9A-F]{4,6})", line)
    code = int(match[1], 16) if match else -1
    is_character = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else line
