"""Reads vocabularies from files: byte-level BPE, WordPiece, words, characters, SentencePiece; without TensorFlow."""

from __future__ import annotations

import base64
import logging
import math
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import JsonObject
from bert_zoo.protobuf import DecodeError, message_class
from bert_zoo.text.files import (
    HF_SPECIAL_TOKENS,
    SUFFIX,
    AddedToken,
    VocabularyFiles,
    fairseq_words,
    is_byte,
    line_as_character,
    read_named_tokens,
    refuse_others,
    tokens_by_id,
)
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.unicode_tables import NFC, UNICODE_SPACE, code_points

# File names of vocabulary and merges: Hugging Face's, and GPT-2's own.
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
TOKENIZER_FILE = "tokenizer.json"
# Maps a directory's files to the tokens in the order of their ids, and the merges.
ReadTables = Callable[[VocabularyFiles], tuple[list[str], list[tuple[str, ...]]]]
# fairseq's copy of GPT-2's vocabulary files, which its archives lack.
GPT2_FILES = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"


class Pattern(NamedTuple):
    """A pattern that splits texts into pieces. Without a regular expression it is ByteLevel's own, GPT-2's."""

    expression: str | None = None
    most_digits: int = 0  # in a piece; 0 for any number

    @property
    def is_modern(self) -> bool:
        return self.expression is not None

    def steps(self, level: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The steps of a tokenizer.json; `level` is ByteLevel with GPT-2's pattern."""
        if self.expression is None:
            digits = {"type": "Digits", "individual_digits": True}
            return [digits, level] if self.most_digits else [level]
        split = {"type": "Split", "pattern": {"Regex": self.expression}}
        split |= {"behavior": "Isolated", "invert": False}
        return [split, {**level, "use_regex": False}]


# GPT-4's pattern, also Llama 3's; Qwen 2's differs in the digits.
_MODERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    "gpt_2": Pattern(),
    "digits": Pattern(most_digits=1),
    "gpt_4": Pattern(_MODERN % "{1,3}", 3),
    "qwen2": Pattern(_MODERN % "", 1),
}


def read_byte_bpe(
    files: VocabularyFiles,
    overrides: dict[str, Any],
    *,
    read: ReadTables | None = None,
    **defaults: Any,
) -> TokenizerParts:
    """Reads Hugging Face's, fairseq's or GPT-2's own files with their settings; `overrides` take precedence over the
    files, and these over `defaults`. `read` reads vocabulary and merges from files in another format.
    """
    is_fairseqs = files.has("dict.txt") and not files.has("vocab.json")
    read = read or (_read_fairseq if is_fairseqs else read_vocabulary_and_merges)
    vocabulary, merges = read(files)
    serialized = files.json("tokenizer.json")
    pattern, prefix = _splitting(serialized)
    normalization = serialized.section("normalizer").take("type", str)
    named = read_named_tokens(files)
    mask = named.tokens.get(named.special.get("mask_token", defaults.get("mask_token", "<mask>")))
    arguments = {
        **defaults,
        "vocabulary": vocabulary,
        "merges": merges,
        "source": files.directory,
        "add_prefix_space": files.json("tokenizer_config.json").take(
            "add_prefix_space", bool, prefix
        ),
        # fairseq's fill_mask strips white space before the mask.
        "lstrip_mask": is_fairseqs if mask is None else mask.lstrip,
        **named.special,
        "added_tokens": named.added_to(vocabulary, files.directory),
        "normalization": normalization,
        "pattern": pattern,
        "ignore_merges": serialized.section("model").take("ignore_merges", bool, False),
        **overrides,
    }
    return TokenizerParts("bert_zoo.text.byte_bpe:ByteBpeTokenizer", arguments, files.directory)


def read_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads the tokenizers of encoders since 2024: byte-level BPE (ModernBERT's, Llama 3's) or Gemma's, whichever
    tokenizer.json has. It also says how rows are composed, and which special tokens they have. Without tokenizer.json,
    reads as `read_byte_bpe`.
    """
    serialized = files.json(TOKENIZER_FILE)
    if not serialized:
        return read_byte_bpe(files, overrides)
    named = read_named_tokens(files)
    templates, tokens = _rows_of(serialized)
    special = {**dict.fromkeys(HF_SPECIAL_TOKENS), **named.special, **tokens, **overrides}
    if not serialized.section("model").get("byte_fallback"):
        return read_byte_bpe(files, special)._replace(templates=templates)
    vocabulary, merges = read_vocabulary_and_merges(files, _byte_fallback_model)
    arguments = {
        "vocabulary": vocabulary,
        "merges": merges,
        "source": files.directory,
        "added_tokens": named.added_to(vocabulary, files.directory),
        **special,
    }
    maker = "bert_zoo.text.sentencepiece_bpe:SentencePieceBpeTokenizer"
    return TokenizerParts(maker, arguments, files.directory, templates)


# The roles of special tokens before the first text of a row, and of all others.
_FIRST, _OTHERS = "cls", "sep"


def _rows_of(serialized: JsonObject) -> tuple[tuple[str, str], dict[str, str]]:
    """The templates of `Layout` by which a tokenizer.json composes rows, and the tokens of their roles."""
    steps = _listed(serialized.section("post_processor"), "processors")
    steps = [step for step in steps if step.get("type") != "ByteLevel"]  # which changes offsets
    if not steps:
        return ("A", "A B"), {}
    (step,) = steps[:1]
    refuse_others(
        [("type", step.get("type"), "TemplateProcessing"), ("further steps", len(steps), 1)],
        step.where,
        "rows here",
        "a model with a template of rows",
    )
    roles: dict[str, str] = {}
    templates = []
    for name in ("single", "pair"):
        parts = []
        for part in step.items_of(name, dict):
            text, special = part.section("Sequence"), part.section("SpecialToken")
            role = text.take("id", str)
            if role is None:
                role = roles.setdefault(special.take("id", str), _OTHERS if parts else _FIRST)
            parts.append(f"{role}:{(text or special).take('type_id', int, 0)}")
        templates.append(" ".join(parts).replace(":0", ""))
    tokens = {f"{role}_token": token for token, role in roles.items()}
    if len(tokens) < len(roles):
        raise ConfigError(
            f"{step.where} has the special tokens {quoted(sorted(roles))}; rows may begin with one and have one "
            "other. Check that the directory belongs to an encoder."
        )
    return tuple(templates), tokens


def read_vocabulary_and_merges(
    files: VocabularyFiles, model_of: Callable[[JsonObject], JsonObject] | None = None
) -> tuple[list[str], list[tuple[str, ...]]]:
    """The tokens in the order of their ids, and the merges, from the first of `FILES` that exist, or else
    tokenizer.json. `model_of` finds the model there, and refuses unsupported settings.
    """
    for vocabulary, merges in FILES:
        if files.has(vocabulary) and files.has(merges):
            return tokens_by_id(files.json(vocabulary)), merges_of_lines(files.lines(merges))
    if not files.has("tokenizer.json"):
        raise FileNotFoundError(
            f"{files.directory} has neither vocab.json with merges.txt nor tokenizer.json, but "
            f"{files.names()}."
        )
    model = (model_of or _byte_level_model)(files.json("tokenizer.json"))
    # Files of before 2024 write a merge as one string.
    merges = [
        merge.split(" ") if isinstance(merge, str) else merge
        for merge in model.take("merges", list, [])
    ]
    for number, merge in enumerate(merges):
        if not isinstance(merge, list) or not all(isinstance(token, str) for token in merge):
            raise ConfigError(
                f"{model.where}: merges[{number}] is {shown(merge)}; it must be two tokens."
            )
    vocabulary = tokens_by_id(model.section("vocab"))
    return vocabulary, [tuple(merge) for merge in merges]


def merges_of_lines(lines: list[str]) -> list[tuple[str, ...]]:
    """Parses the merges of GPT-2's vocab.bpe or Hugging Face's merges.txt."""
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]


def _read_fairseq(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Reads fairseq's vocabulary in GPT-2's alphabet, which dict.txt lists by GPT-2's ids, and the merges."""
    missing = [name for name in ("encoder.json", "vocab.bpe") if not files.has(name)]
    if missing:
        raise FileNotFoundError(
            f"{files.directory} has fairseq's dict.txt, which refers to GPT-2's vocabulary, but lacks "
            f"{' and '.join(missing)}. Download them from {GPT2_FILES} into it."
        )
    tokens = {str(i): token for token, i in files.json("encoder.json").values_of(int).items()}
    vocabulary = [tokens.get(word, word) for word in fairseq_words(files)]
    return vocabulary, merges_of_lines(files.lines("vocab.bpe"))


def _byte_level_model(serialized: JsonObject) -> JsonObject:
    """Returns the model in a tokenizer.json; raises ConfigError for unsupported settings."""
    model = serialized.section("model")
    normalizer = serialized.get("normalizer")
    wanted = [
        *_plain_bpe(model),
        ("model.byte_fallback", model.get("byte_fallback", False), False),
        ("normalizer", None if normalizer == {"type": NFC} else normalizer, None),
        ("pre_tokenizer", serialized.get("pre_tokenizer") is None, False),
    ]
    refuse_others(
        wanted, serialized.where, "byte-level BPE here", "a model with RoBERTa's tokenizer"
    )
    _splitting(serialized)
    return model


def _byte_fallback_model(serialized: JsonObject) -> JsonObject:
    """Returns Gemma's model in a tokenizer.json; raises ConfigError for unsupported settings."""
    model = serialized.section("model")
    split = {"type": "Split", "pattern": {"String": " "}}
    split |= {"behavior": "MergedWithPrevious", "invert": False}
    pre_tokenizer = serialized.get("pre_tokenizer")
    wanted = [
        *_plain_bpe(model),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
        ("normalizer", serialized.get("normalizer"), BLANKS),
        # There are no spaces left.
        ("pre_tokenizer", None if pre_tokenizer == split else pre_tokenizer, None),
    ]
    refuse_others(wanted, serialized.where, "BPE with bytes here", "a model with Gemma's tokenizer")
    return model


# Gemma's normalizer: a space becomes the mark of SentencePiece's pieces.
BLANKS = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


def _plain_bpe(model: JsonObject) -> list[tuple[str, object, object]]:
    """Settings of a BPE, as `refuse_others` takes them."""
    return [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix") or "", ""),
    ]


def _splitting(serialized: JsonObject) -> tuple[str, bool]:
    """The name of the pattern by which a tokenizer.json splits texts, and whether it puts a blank before them."""
    steps = _listed(serialized.section("pre_tokenizer"), "pretokenizers")
    prefix = bool(steps) and steps[-1].take("add_prefix_space", bool, False)
    level = {"type": "ByteLevel"}
    if len(steps) > 1:
        level["add_prefix_space"] = False  # it would be put before each piece
    found = [dict(step) for step in steps or [level]]
    for step in found:
        step.pop("trim_offsets", None)
        if step.get("use_regex", False):
            del step["use_regex"]
        if len(steps) < 2:
            step.pop("add_prefix_space", None)
        if (step.get("behavior"), step.get("invert")) == ("Removed", True):
            step |= {"behavior": "Isolated", "invert": False}  # the same, as all of a text matches
    for name, pattern in PATTERNS.items():
        if found == pattern.steps(level):
            return name, prefix
    raise ConfigError(
        f"{serialized.where} has pre_tokenizer={shown(found, 300)}, but byte-level BPE here splits texts only "
        f"by the patterns {[*PATTERNS]}, and would give other ids. Check that the directory belongs to a model "
        "with the tokenizer of RoBERTa, GPT-4, Llama 3 or Qwen 2."
    )


# -------------------------------------------------------------------------------------------------
# Reads WordPiece vocabularies from files.
# -------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

# Names in tokenizer_config.json and special_tokens_map.json -> the tokenizer's options.
_SWITCHES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
}
_WORD_LENGTH, _WORD_LENGTHS = "max_input_chars_per_word", {"least": 1, "most": 1_000_000}


def read_wordpiece(
    files: VocabularyFiles, overrides: dict[str, Any], *, dict_file: bool = False, **defaults: Any
) -> TokenizerParts:
    """Reads vocab.txt or tokenizer.json with their settings; `overrides` take precedence over the files, and these over
    `defaults`. `dict_file` accepts fairseq's dict.txt as a vocabulary too.
    """
    serialized = files.json("tokenizer.json")
    config = files.json("tokenizer_config.json")
    vocabulary = _read_vocabulary(files, serialized, dict_file)

    # As in Hugging Face's library, tokenizer_config.json takes precedence over tokenizer.json.
    options = {**defaults, **_serialized_options(serialized)}
    for source in (files.json("special_tokens_map.json"), config):
        found = {option: source.take(name, bool) for name, option in _SWITCHES.items()}
        found["max_word_length"] = source.take(_WORD_LENGTH, int, **_WORD_LENGTHS)
        options |= {option: value for option, value in found.items() if value is not None}
    named = read_named_tokens(files)
    if config.get("never_split"):
        logger.info(
            "never_split=%s in %s is ignored, as by Hugging Face's fast tokenizer.",
            shown(config["never_split"]),
            config.where,
        )
    if not {"lowercase"} & (options.keys() | overrides.keys()):
        options["lowercase"] = _assumed_lowercase(vocabulary, files.directory)
    arguments = {
        "vocabulary": vocabulary,
        **options,
        **named.special,
        "added_tokens": named.added_to(vocabulary, files.directory),
        **overrides,
    }
    return TokenizerParts("bert_zoo.text.wordpiece:WordPieceTokenizer", arguments, files.directory)


def _read_vocabulary(files: VocabularyFiles, serialized: JsonObject, dict_file: bool) -> list[str]:
    """The tokens of vocab.txt, of fairseq's dict.txt, or of a newer tokenizer.json."""
    if files.has("vocab.txt"):
        return files.lines("vocab.txt")
    if dict_file and files.has("dict.txt"):
        return fairseq_words(files)
    model = serialized.section("model")
    if not isinstance(model.get("vocab"), dict):
        raise FileNotFoundError(
            f"{files.directory} has neither vocab.txt nor a tokenizer.json with a WordPiece vocabulary, "
            f"but {files.names()}."
        )
    return tokens_by_id(model.section("vocab"))


def _serialized_options(serialized: JsonObject) -> dict[str, Any]:
    """Returns the options in a tokenizer.json; raises ConfigError for unsupported settings."""
    if not serialized:
        return {}
    model, normalizer = serialized.section("model"), serialized.section("normalizer")
    pre_tokenizer = serialized.section("pre_tokenizer")
    # Files from before 2021 do not name the model's type.
    wanted = [
        ("model.type", model.get("type", "WordPiece"), "WordPiece"),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix"), SUFFIX),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.clean_text", normalizer.get("clean_text"), True),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "BertPreTokenizer"),
    ]
    refuse_others(wanted, serialized.where, "BERT's tokenizer here", "a BERT model")
    switches = {
        option: normalizer.take(name, bool)
        for name, option in (("lowercase", "lowercase"), ("handle_chinese_chars", "split_cjk"))
    }
    for option, value in switches.items():
        if value is None:
            raise ConfigError(f"{normalizer.where} does not say {option}. Fetch the file again.")
    return {
        **switches,
        "strip_accents": normalizer.take("strip_accents", bool),
        "max_word_length": model.take(_WORD_LENGTH, int, 100, **_WORD_LENGTHS),
        "unknown_token": model.take("unk_token", str, "[UNK]"),
    }


def _assumed_lowercase(vocabulary: list[str], directory: Path) -> bool:
    """Decides by the vocabulary whether to lower-case, if no file says so, and logs it."""
    # Only letters: Google's Chinese vocabulary of lower-cased texts has <S> and <T>.
    words = [token for token in vocabulary if token.removeprefix(SUFFIX).isalpha()]
    cased = any(word != word.lower() for word in words)
    logger.warning(
        "No file in %s says whether to lower-case texts. Its vocabulary has %s capitals, so texts are %s. "
        "Pass lowercase=%s if that is wrong.",
        directory,
        *(("words with", "kept as they are") if cased else ("no", "lower-cased")),
        cased,
    )
    return not cased


# -------------------------------------------------------------------------------------------------
# Reads vocabularies of words, characters or bytes from files.
# -------------------------------------------------------------------------------------------------

_OPTIONS = {
    **dict.fromkeys(("unit", "unknown_token", "eos_token", "space_token", "eos_at"), str),
    "lowercase": bool,
}
# The tokens for line ends and unknown words in WikiText and in the One Billion Word benchmark, where the
# former also begins a line.
EOS_TOKENS = ("<eos>", "<S>")
UNKNOWN_TOKENS = ("<unk>", "<UNK>")
WORD_LEVEL = "bert_zoo.text.word_level:WordLevelTokenizer"


def read_word_level(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt with its settings, over which `overrides` take precedence."""
    lines, path = files.lines("vocab.txt"), files.path("vocab.txt")
    config = files.json("tokenizer_config.json")
    options = {name: config.take(name, kind) for name, kind in _OPTIONS.items() if name in config}
    options = with_assumed_options(lines, path, options | overrides)
    if options["unit"] == "character":
        lines = [line_as_character(line) for line in lines]
    return TokenizerParts(WORD_LEVEL, {"vocabulary": lines, **options}, path)


def with_assumed_options(lines: list[str], path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The options; without `unit`, also those that fit the lines of vocab.txt: numbers up to 255 are bytes, single
    characters are characters, and everything else is words.
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


# -------------------------------------------------------------------------------------------------
# SentencePiece models: a check before the library reads them, and the families' additions.
#
# The library ends the process on damaged models: tensorflow_text 2.21 follows the table of normalisation
# wherever its numbers point, and crashes on pieces that it cannot put into its own table.
#
# Format: sentencepiece_model.proto; the table is an array of darts-clone (darts.h), as Normalizer's
# PrecompileCharsMap writes it.
# -------------------------------------------------------------------------------------------------

# The fields that are read of each message. Strings are read as bytes and enumerations as numbers, which have
# the same encoding.
_SCHEMA = {
    "Piece": ((1, "bytes", "text"), (2, "float", "score"), (3, "int32", "type")),
    "Normalizer": (
        *((2, "bytes", "rules"), (3, "bool=true", "begins_with_blank")),
        (4, "bool=true", "drops_blanks"),
    ),
    "Trainer": ((3, "int32", "kind"), (24, "bool", "ends_with_blank")),
    "Model": (
        *((1, "Piece*", "pieces"), (2, "Trainer", "trainer")),
        *((3, "Normalizer", "before"), (5, "Normalizer", "after")),
    ),
}
# SentencePiece.Type of the proto: NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED and BYTE.
NORMAL, UNKNOWN, CONTROL, USER, _TYPES = 1, 2, 3, 4, range(1, 7)
# TrainerSpec.ModelType; 0 where it is not set, which means a unigram model.
UNIGRAM, BPE = 1, 2

# Units of the table: a label in the low byte, the highest bit set in those with a value.
_LABEL, _VALUE = np.uint32(0x800000FF), np.uint32(0x7FFFFFFF)
_HAS_LEAF = np.uint32(1 << 8)
_UNIT_BYTES, _BLOCK_UNITS = 4, 256
_LONGEST_CHARACTER = 4  # bytes


def checked_sentencepiece_model(data: bytes):
    """Returns the model as from `read_sentencepiece_model`; ValueError for invalid pieces or rules."""
    model = read_sentencepiece_model(data)
    if not model.pieces:
        raise ValueError("there are no pieces in it.")
    for piece in model.pieces:
        text, score, kind = piece.text, piece.score, piece.type or NORMAL
        if not text or b"\0" in text or not math.isfinite(score) or kind not in _TYPES:
            raise ValueError(
                f"a piece is {shown(text)} with the score {score} and the type {kind}."
            )
    try:
        b" ".join(piece.text for piece in model.pieces).decode("utf-8")
    except UnicodeError:
        raise ValueError("not all of its pieces are UTF-8.") from None
    for normalizer in (model.before, model.after):
        if normalizer.rules:
            _check_rules(normalizer.rules)
    return model


def read_sentencepiece_model(data: bytes):
    """Reads a model, with the fields of `_SCHEMA`."""
    try:
        return message_class(_SCHEMA, "Model").FromString(data)
    except DecodeError:
        raise ValueError("they are not a protocol buffer.") from None


def made_sentencepiece_model(
    pieces: Iterable[tuple[str, float]], rules: bytes, *, unknown: str, control: Container[str]
) -> bytes:
    """A unigram model of pieces and scores, with rules of normalisation; pieces in `control` never match text."""
    model = message_class(_SCHEMA, "Model")()
    for text, score in pieces:
        kind = UNKNOWN if text == unknown else CONTROL if text in control else NORMAL
        model.pieces.add(text=text.encode(), score=score, type=kind)
    model.before.rules = rules
    return model.SerializeToString()


def character_rules(rules: bytes) -> dict[str, str]:
    """The replacements of single characters by a model's rules of normalisation, which are checked already."""
    if not rules:
        return {}
    units, written = _table(rules)
    found = {}
    for length, (keys, values) in zip(range(_LONGEST_CHARACTER + 1), _walk(units), strict=False):
        for key, begin in zip(keys.tolist(), values.tolist(), strict=True):
            text = key.to_bytes(length, "big").decode("utf-8", "ignore")
            if len(text) == 1:
                found[text] = written[begin : written.index(b"\0", begin)].decode()
    return found


def _table(rules: bytes) -> tuple[np.ndarray, bytes]:
    """The units of the table of byte strings, uint32, and the replacements after it, where its values point."""
    size = int.from_bytes(rules[:4], "little")
    if not size or size % (_UNIT_BYTES * _BLOCK_UNITS) or len(rules) < 4 + size:
        raise ValueError("its rules of normalisation have no complete table.")
    return np.frombuffer(rules, "<u4", size // _UNIT_BYTES, 4), rules[4 + size :]


def _check_rules(rules: bytes) -> None:
    units, replacements = _table(rules)
    values = np.concatenate([values for _, values in _walk(units)])
    try:
        replacements.decode("utf-8")
    except UnicodeError:
        raise ValueError("the replacements of its rules of normalisation are not UTF-8.") from None
    ends = np.frombuffer(b"\0" + replacements, np.uint8) == 0
    if not ends[-1] or values.max(initial=0) >= len(replacements) or not ends[values].all():
        raise ValueError("its rules of normalisation point outside their replacements.")


def _walk(units: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Walks through a table like the library: for each length of strings from 0, their last four bytes as big-endian
    uint32 and their values.
    """
    was_there = np.zeros(len(units), bool)
    positions, keys = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    labels = np.arange(256, dtype=np.uint32)
    while positions.size:
        was_there[positions] = True
        found = units[positions]
        children = positions ^ (found >> 10 << ((found & 0x200) >> 6))
        # All children of a unit are in one block.
        if children.max() >= len(units):
            raise ValueError("its rules of normalisation point outside their table.")
        has_leaf = (found & _HAS_LEAF) > 0
        yield keys[has_leaf], units[children[has_leaf]] & _VALUE
        positions = (children[:, None] ^ labels).ravel()
        is_child = (units[positions] & _LABEL) == np.tile(labels, len(children))
        keys = (keys[:, None] << 8 | labels).ravel()[is_child & ~was_there[positions]]
        positions, first = np.unique(positions[is_child & ~was_there[positions]], return_index=True)
        keys = keys[first]


# The tokenizer's options for reading texts as the SentencePiece library does.
PLAIN = {
    "lowercase": False,
    "remove_space": False,
    "keep_accents": True,
    "rewrite_quotes": False,
    "special_tokens_in_text": True,
    "hugging_face_rules": False,
    "compose": False,
    "blank_at_end": False,
}


@dataclass(frozen=True)
class Scheme:
    """A family's additions to a SentencePiece model. The tokens are `first_tokens`, then the model's pieces without the
    `replaced_pieces` that it begins with, then `last_tokens`.
    """

    name: str  # name of the family
    model_file: str
    tokenizer_class: str  # Hugging Face's class
    special_tokens: Mapping[str, str]  # role, a key of SPECIAL_TOKENS -> token
    replaced_pieces: tuple[str, ...] = ()
    first_tokens: tuple[str, ...] = ()
    last_tokens: tuple[str, ...] = ()
    splits_number_commas: bool = False  # whether "1," becomes "1" and ","
    # Whether a space comes before such digits inside a word.
    split_digits_begin_words: bool = False
    # Pattern of the pieces that begin a word for objectives. ALBERT's: only English letters continue a word
    # (create_pretraining_data.py).
    begins_word: str = r"▁.*|(?![A-Za-z]+$).*"
    # Characters that become spaces: U+0085, if Hugging Face's library does so unlike SentencePiece.
    spaces: str = ""
    # Those that the original program replaces, unlike Hugging Face's library.
    original_spaces: str = ""
    options: Mapping[str, bool] = field(default_factory=PLAIN.copy)  # defaults of the options


# Patterns of `SentencePieceTokenizer.serialized`. Characters are literal, as escapes differ between the
# languages that read the file.
WHITE_SPACE, THEIR_WHITE_SPACE = (
    f"[{''.join(map(chr, code_points(table)))}]+" for table in ("python/whitespace", UNICODE_SPACE)
)
COMBINING = "".join(c for c in map(chr, code_points("python/changed")) if unicodedata.combining(c))
COMBINING = f"[{COMBINING}]"
NEXT_LINE, NEWLINE = "\u0085", "\n"
# Means the same in Python, Rust and JavaScript, unlike ^ and $ or \A and \z.
BLANK_AT_END = r"(?<![\s\S]) | (?![\s\S])"


def scheme_tokens(pieces: list[str], scheme: Scheme) -> list[str]:
    """The tokens in the order of their ids; ValueError if the pieces belong to another family."""
    begins = pieces[: len(scheme.replaced_pieces)]
    if begins != list(scheme.replaced_pieces):
        raise ValueError(
            f"The SentencePiece model begins with the pieces {begins}, but {scheme.tokenizer_class} has "
            f"{list(scheme.replaced_pieces)} there. Check that it is the model of this family."
        )
    return [*scheme.first_tokens, *pieces[len(begins) :], *scheme.last_tokens]


# -------------------------------------------------------------------------------------------------
# Reads SentencePiece vocabularies from files, with the families' additions.
# -------------------------------------------------------------------------------------------------


def read_sentencepiece(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads the one SentencePiece model of a directory with its settings; `overrides`, also of `scheme`, win."""
    config = files.json("tokenizer_config.json")
    names = {option: option for option in PLAIN} | {"lowercase": "do_lower_case"}
    options = {option: config.take(name, bool) for option, name in names.items() if name in config}
    models = sorted(
        path.name for pattern in ("*.model", "*.spm") for path in files.directory.glob(pattern)
    )
    if len(models) == 1:
        name, model = models[0], files.content(models[0])
    elif not models and files.has(TOKENIZER_FILE):
        # transformers 5 writes no other file.
        name = TOKENIZER_FILE
        model, options = unigram_of(files.json(name), overrides["scheme"])
    else:
        raise FileNotFoundError(
            f"{files.directory} must have one SentencePiece model, *.model, or tokenizer.json; it has "
            f"{files.names()}."
        )
    arguments = {
        "model": model,
        **options,
        "added_tokens": _added_tokens(files, model, overrides["scheme"]),
        **overrides,
    }
    kind = "bert_zoo.text.sentencepiece:SentencePieceTokenizer"
    return TokenizerParts(kind, arguments, files.path(name))


def unigram_of(content: JsonObject, scheme: Scheme) -> tuple[bytes, dict[str, bool]]:
    """A SentencePiece model and options that are equivalent to a tokenizer.json, or ConfigError."""
    model = content.section("model")
    refuse_others(
        [
            ("model.type", model.get("type", "Unigram"), "Unigram"),
            ("model.byte_fallback", model.get("byte_fallback", False), False),
        ],
        content.where,
        "this tokenizer",
        f"a model with the tokenizer {scheme.tokenizer_class}",
    )
    pieces = [
        _piece(model, number, row) for number, row in enumerate(model.take("vocab", list, []))
    ]
    names = [name for name, _ in pieces]
    first, last = [*scheme.first_tokens], [*scheme.last_tokens]
    if names[: len(first)] != first:
        raise ConfigError(
            f"{model.where} begins with the pieces {shown(names[: len(first)])}, but "
            f"{scheme.tokenizer_class} has {first} there. Check that it belongs to this family."
        )
    # These may be only in the added tokens.
    end = len(pieces) - len(last) if last and names[-len(last) :] == last else len(pieces)
    replaced = [(piece, 0.0) for piece in scheme.replaced_pieces]
    options, rules = _steps(content)
    unknown = scheme.special_tokens["unknown_token"]
    return made_sentencepiece_model(
        [*replaced, *pieces[len(first) : end]],
        rules,
        unknown=unknown,
        control={*scheme.special_tokens.values(), *scheme.replaced_pieces} - {unknown},
    ), options


def _piece(model: JsonObject, number: int, row: Any) -> tuple[str, float]:
    if not isinstance(row, list) or [*map(type, row)] not in ([str, float], [str, int]):
        raise ConfigError(
            f"{model.where}: vocab[{number}] is {shown(row)}; it must be a piece and its score."
        )
    return row[0], float(row[1])


# A step of a normalizer, without its replacement -> the equivalent option.
_STEPS = {
    ("Replace", "``"): "rewrite_quotes",
    ("Replace", "''"): "rewrite_quotes",
    ("StripAccents", None): "keep_accents",
    ("NFKD", None): "keep_accents",
    ("Lowercase", None): "lowercase",
    ("Replace", "\\s{2,}|[\\n\\r\\t]"): "compose",
    ("NFC", None): "compose",
    # SentencePiece does these.
    ("Replace", " {2,}"): None,
    ("Replace", BLANK_AT_END): None,
    ("Strip", None): None,
    # From directories that bert_zoo wrote, and transformers wrote again.
    ("Replace", WHITE_SPACE): "remove_space",
    ("Replace", THEIR_WHITE_SPACE): "remove_space",
    ("Replace", COMBINING): "keep_accents",
    ("Replace", NEXT_LINE): None,
    ("Replace", NEWLINE): None,
}
# Steps of the families' originals, which Hugging Face's library lacks.
_ORIGINAL_STEPS = (("Replace", COMBINING), ("Replace", NEWLINE))


def _steps(content: JsonObject) -> tuple[dict[str, bool], bytes]:
    """Returns the options for the steps of a tokenizer.json, and the model's rules."""
    options, rules = {**PLAIN, "hugging_face_rules": True, "blank_at_end": True}, b""
    for step in _listed(content.section("normalizer"), "normalizers"):
        kind = step.take("type", str)
        if kind == "Precompiled":
            rules = _decoded(step)
            continue
        pattern = step.section("pattern")
        name = kind, pattern.get("Regex", pattern.get("String"))
        if name not in _STEPS:
            raise ConfigError(
                f"{step.where} is {shown(dict(step))}. bert_zoo's tokenizer does not have this step, so ids "
                "would differ. Put the SentencePiece model (*.model) into the directory."
            )
        if name in _ORIGINAL_STEPS:
            options["hugging_face_rules"] = False
        if name == ("Replace", BLANK_AT_END) or step.take("strip_right", bool, False):
            options["blank_at_end"] = False
        if _STEPS[name] is not None:
            options[_STEPS[name]] = _STEPS[name] != "keep_accents"
    for step in _listed(content.section("pre_tokenizer"), "pretokenizers"):
        kind = step.take("type", str)
        if kind == "WhitespaceSplit":
            options |= {"remove_space": True, "blank_at_end": False}
            continue
        # Files from before 2024 have another name for it.
        prepends = step.take("prepend_scheme", str) or (
            "always" if step.take("add_prefix_space", bool, True) else "never"
        )
        refuse_others(
            [("type", kind, "Metaspace"), ("prepend_scheme", prepends, "always")],
            step.where,
            "this tokenizer",
            "a model with a SentencePiece vocabulary",
        )
    return options, rules


def _listed(part: JsonObject, steps: str) -> list[JsonObject]:
    """The steps of a part, which is a sequence of steps, one step, or nothing."""
    if part.get("type") == "Sequence":
        return part.items_of(steps, dict)
    return [part] if part else []


def _decoded(step: JsonObject) -> bytes:
    try:
        return base64.b64decode(step.take("precompiled_charsmap", str, ""), validate=True)
    except ValueError as error:
        raise ConfigError(
            f"{step.where}: precompiled_charsmap is not base64 ({error}). Fetch the file again."
        ) from error


def _added_tokens(
    files: VocabularyFiles, model: bytes, scheme: Scheme
) -> list[dict[str, Any] | str]:
    """Returns the files' added tokens, without the scheme's special tokens."""
    named = read_named_tokens(files, scheme.special_tokens.values())
    roles = {
        content: AddedToken(content, special=True) for content in scheme.special_tokens.values()
    }
    # Reading the pieces takes seconds, and most directories have no other tokens.
    if all(roles.get(content) == token for content, token in named.tokens.items()):
        return []
    try:
        pieces = [piece.text.decode() for piece in read_sentencepiece_model(model).pieces]
        vocabulary = scheme_tokens(pieces, scheme)
    except ValueError:  # which the tokenizer will raise again
        return []
    return named.added_to(vocabulary, files.directory)
