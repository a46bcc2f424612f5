"""Tokenizers from vocabulary directories, as Hugging Face and this package write them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_zoo.text.preprocessor import Preprocessor
from bert_zoo.text.wordpiece import SUFFIX, WordPieceTokenizer

logger = logging.getLogger(__name__)


def tokenizer_from_dir(
    path: str | Path, family: str = "bert", **overrides: Any
) -> WordPieceTokenizer:
    """Makes a tokenizer from a directory with a vocabulary.

    Args:
        path: for BERT, a directory with vocab.txt and, if there are, tokenizer_config.json,
            tokenizer.json and special_tokens_map.json, whose settings are followed.
        family: which kind of tokenizer; see TOKENIZER_BUILDERS.
        **overrides: keyword arguments of the tokenizer that go before the files, for example
            `lowercase=False`.

    Raises:
        FileNotFoundError: no such directory, or no vocabulary in it.
        ValueError: an unknown family, or a setting that this tokenizer does not have.
    """
    if family not in TOKENIZER_BUILDERS:
        raise ValueError(
            f"No tokenizer for family {family!r}; there are {sorted(TOKENIZER_BUILDERS)}."
        )
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"{path} is not a directory. Pass the directory that holds the vocabulary, not a file."
        )
    return TOKENIZER_BUILDERS[family](path, overrides)


def preprocessor_from_dir(
    path: str | Path, family: str = "bert", *, sequence_length: int, **options: Any
) -> Preprocessor:
    """Makes a preprocessor from a directory with a vocabulary.

    Args:
        path, family: as for tokenizer_from_dir.
        sequence_length: the most tokens a row may have, special ones included.
        **options: further keyword arguments of Preprocessor.
    """
    tokenizer = tokenizer_from_dir(path, family)
    return Preprocessor(tokenizer, sequence_length=sequence_length, **options)


# ---------------------------------------------------------------------------------------------
# BERT
# ---------------------------------------------------------------------------------------------

# tokenizer_config.json's and special_tokens_map.json's names for this tokenizer's options.
_OPTION_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
    "max_input_chars_per_word": "max_word_length",
    "unk_token": "unknown_token",
    "pad_token": "padding_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "mask_token": "mask_token",
}


def _bert_tokenizer(directory: Path, overrides: dict[str, Any]) -> WordPieceTokenizer:
    serialized = _read_json(directory / "tokenizer.json")
    config = _read_json(directory / "tokenizer_config.json")
    special_tokens = _read_json(directory / "special_tokens_map.json")
    vocabulary = _read_vocabulary(directory, serialized)

    # Hugging Face, too, lets tokenizer_config.json overrule what tokenizer.json was built with.
    options = _serialized_options(serialized, directory / "tokenizer.json")
    for source in (special_tokens, config):
        for name, option in _OPTION_NAMES.items():
            if source.get(name) is not None:
                options[option] = _content(source[name], name, directory)
    if config.get("never_split"):
        logger.info(
            "never_split=%s in %s is not followed: Hugging Face's fast tokenizer ignores it too.",
            config["never_split"],
            directory / "tokenizer_config.json",
        )
    if not {"lowercase"} & (options.keys() | overrides.keys()):
        options["lowercase"] = _assumed_lowercase(vocabulary, directory)
    added = _added_tokens(directory, serialized, config)
    vocabulary = _with_added_tokens(vocabulary, added, directory)
    options["added_tokens"] = list(added.values())
    return WordPieceTokenizer(vocabulary, **{**options, **overrides})


def _read_json(path: Path) -> dict[str, Any]:
    """Returns a file's object, or an empty one where there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}. Fetch the file again.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, where an object was expected.")
    return value


def _read_vocabulary(directory: Path, serialized: dict[str, Any]) -> list[str]:
    """Returns the tokens of vocab.txt, or else of tokenizer.json, which newer directories have."""
    path = directory / "vocab.txt"
    if path.is_file():
        lines = path.read_text(encoding="utf-8").split("\n")
        return [line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None]]
    ids = serialized.get("model", {}).get("vocab")
    if not isinstance(ids, dict):
        raise FileNotFoundError(
            f"{directory} has neither vocab.txt nor a tokenizer.json with a WordPiece vocabulary; it "
            f"holds {sorted(entry.name for entry in directory.iterdir())[:20]}."
        )
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"The ids in {directory / 'tokenizer.json'} are not 0 to {len(ids) - 1}.")
    return sorted(ids, key=ids.__getitem__)


def _serialized_options(serialized: dict[str, Any], path: Path) -> dict[str, Any]:
    """Returns the options in a tokenizer.json; raises for what this tokenizer cannot do."""
    if not serialized:
        return {}
    model, normalizer = serialized.get("model", {}), serialized.get("normalizer") or {}
    pre_tokenizer = serialized.get("pre_tokenizer") or {}
    # Files of before 2021 do not name the model's type.
    wanted = [
        ("model.type", model.get("type", "WordPiece"), "WordPiece"),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix"), SUFFIX),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.clean_text", normalizer.get("clean_text"), True),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "BertPreTokenizer"),
    ]
    for name, value, supported in wanted:
        if value != supported:
            raise ValueError(
                f"{path} has {name}={value!r}; BERT's tokenizer here has {supported!r} only, and "
                "would give other ids. Check that the directory belongs to a BERT model."
            )
    return {
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer.get("strip_accents"),
        "split_cjk": normalizer["handle_chinese_chars"],
        "max_word_length": model.get("max_input_chars_per_word", 100),
        "unknown_token": model.get("unk_token", "[UNK]"),
    }


def _content(value: Any, name: str, directory: Path) -> Any:
    """Returns a setting, for a token that is written as an object its text."""
    if not isinstance(value, dict):
        return value
    # "normalized" is left out: Hugging Face never normalises a special token, whatever it says.
    switches = [switch for switch in ("lstrip", "rstrip", "single_word") if value.get(switch)]
    if switches:
        raise ValueError(
            f"{name} {value['content']!r} in {directory} has {' and '.join(switches)} set. This "
            "tokenizer finds such tokens only as they are written, so its ids would differ."
        )
    return value["content"]


def _assumed_lowercase(vocabulary: list[str], directory: Path) -> bool:
    """Decides by the vocabulary, and says so, where no file says whether to lower-case."""
    words = [token for token in vocabulary if not token.startswith("[")]
    cased = any(word != word.lower() for word in words)
    logger.warning(
        "Nothing in %s says whether to lower-case texts. Its vocabulary has %s capitals, so they are "
        "%s. Pass lowercase=%s if that is wrong.",
        directory,
        *(("words with", "kept as they are") if cased else ("no", "lower-cased")),
        cased,
    )
    return not cased


def _added_tokens(
    directory: Path, serialized: dict[str, Any], config: dict[str, Any]
) -> dict[int, str]:
    """Returns id -> text of the tokens that are looked for in raw texts."""
    added: dict[int, str] = {
        index: token for token, index in _read_json(directory / "added_tokens.json").items()
    }
    entries = [(entry["id"], entry) for entry in serialized.get("added_tokens", [])]
    entries += [(int(i), entry) for i, entry in config.get("added_tokens_decoder", {}).items()]
    for index, entry in entries:
        if entry.get("normalized") and not entry.get("special"):
            raise ValueError(
                f"The added token {entry['content']!r} in {directory} has normalized=true: Hugging "
                "Face looks for it in the normalised text, which this tokenizer does not do, so ids "
                "would differ. Add it with normalized=False or special=True."
            )
        added[index] = _content(entry, "The added token", directory)
    return dict(sorted(added.items()))


def _with_added_tokens(vocabulary: list[str], added: dict[int, str], directory: Path) -> list[str]:
    """Returns the vocabulary with the added tokens that are not in it, which must follow it."""
    vocabulary = list(vocabulary)
    for index, token in added.items():
        if index == len(vocabulary):
            vocabulary.append(token)
        elif index > len(vocabulary) or vocabulary[index] != token:
            raise ValueError(
                f"The added token {token!r} in {directory} has id {index}, but the vocabulary has "
                f"{vocabulary[index]!r} there."
                if index < len(vocabulary)
                else f"The added token {token!r} in {directory} has id {index}, which leaves a gap "
                f"after the vocabulary's {len(vocabulary)} tokens."
            )
    return vocabulary


TOKENIZER_BUILDERS: dict[str, Callable[[Path, dict[str, Any]], WordPieceTokenizer]] = {
    "bert": _bert_tokenizer,
}
