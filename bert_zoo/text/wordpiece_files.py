"""Reads WordPiece vocabularies from files; without TensorFlow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import (
    VocabularyFiles,
    fairseq_words,
    read_named_tokens,
    refuse_others,
    tokens_by_id,
)
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.vocabulary import SUFFIX

logger = logging.getLogger(__name__)

# Names in tokenizer_config.json and special_tokens_map.json -> the tokenizer's options.
_SWITCHES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
}
_WORD_LENGTH, _WORD_LENGTHS = "max_input_chars_per_word", (1, 1_000_000)


def _tokenizer(**arguments):
    from bert_zoo.text.wordpiece import WordPieceTokenizer

    return WordPieceTokenizer(**arguments)


def read_wordpiece(
    files: VocabularyFiles, overrides: dict[str, Any], *, dict_file: bool = False, **defaults: Any
) -> TokenizerParts:
    """Reads vocab.txt or tokenizer.json with their settings.

    Args:
        files: the directory's files.
        overrides: keyword arguments of WordPieceTokenizer that take precedence over the files.
        dict_file: accept fairseq's dict.txt as a vocabulary too.
        **defaults: keyword arguments over which the files take precedence.

    Raises:
        FileNotFoundError: no vocabulary.
        ConfigError: a damaged file, or a setting that WordPieceTokenizer does not support.
    """
    serialized = files.json("tokenizer.json")
    config = files.json("tokenizer_config.json")
    vocabulary = _read_vocabulary(files, serialized, dict_file)

    # As in Hugging Face's library, tokenizer_config.json takes precedence over tokenizer.json.
    options = {**defaults, **_serialized_options(serialized)}
    for source in (files.json("special_tokens_map.json"), config):
        found = {option: source.take(name, bool) for name, option in _SWITCHES.items()}
        found["max_word_length"] = source.take(_WORD_LENGTH, int, within=_WORD_LENGTHS)
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
    return TokenizerParts(_tokenizer, arguments, files.directory)


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
        "max_word_length": model.take(_WORD_LENGTH, int, 100, within=_WORD_LENGTHS),
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
