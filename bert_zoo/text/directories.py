"""Tokenizers from vocabulary directories, as Hugging Face and this package write them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.text.byte_bpe import ByteBpeTokenizer, read_byte_bpe
from bert_zoo.text.files import read_json
from bert_zoo.text.language_model import LanguageModelPreprocessor
from bert_zoo.text.preprocessor import Preprocessor, TextPreprocessor
from bert_zoo.text.sentencepiece import SentencePieceTokenizer
from bert_zoo.text.symbols import SymbolTokenizer, assumed_options, symbols_of_lines
from bert_zoo.text.tokenizer import HF_SPECIAL_TOKENS, Tokenizer
from bert_zoo.text.wordpiece import SUFFIX, WordPieceTokenizer

logger = logging.getLogger(__name__)


def tokenizer_from_dir(path: str | Path, family: str = "bert", **overrides: Any) -> Tokenizer:
    """Makes a tokenizer from a directory with a vocabulary.

    Args:
        path: a directory with the vocabulary as the family's files have it (vocab.txt; vocab.json
            and merges.txt, or fairseq's dict.txt, encoder.json and vocab.bpe; a SentencePiece
            model; for Transformer-XL the originals' vocab.pkl, vocab.bin, cache.pkl or cache.pt too) and, if
            there are, tokenizer_config.json, tokenizer.json and special_tokens_map.json, whose
            settings are followed.
        family: one of TEXT_FORMATS.
        **overrides: keyword arguments of the tokenizer that go before the files, for example
            `lowercase=False`.

    Raises:
        FileNotFoundError: no such directory, or no vocabulary in it.
        ValueError: an unknown family, or a setting that this tokenizer does not have.
    """
    build = _text_format(family).build
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"{path} is not a directory. Pass the directory that holds the vocabulary, not a file."
        )
    return build(path, overrides)


def preprocessor_from_dir(
    path: str | Path,
    family: str = "bert",
    *,
    sequence_length: int,
    tokenizer_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TextPreprocessor:
    """Makes a preprocessor from a directory with a vocabulary.

    Args:
        path, family: as for tokenizer_from_dir.
        sequence_length: the most tokens a row may have, special ones included.
        tokenizer_options: keyword arguments of the tokenizer that go before the files.
        **options: further keyword arguments of the family's preprocessor: Preprocessor, or
            LanguageModelPreprocessor for Transformer-XL.
    """
    tokenizer = tokenizer_from_dir(path, family, **(tokenizer_options or {}))
    text_format = _text_format(family)
    options = {**text_format.packing, **options}
    return text_format.preprocessor(tokenizer, sequence_length=sequence_length, **options)


# ---------------------------------------------------------------------------------------------
# BERT
# ---------------------------------------------------------------------------------------------

# tokenizer_config.json's and special_tokens_map.json's names for this tokenizer's options.
_OPTION_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
    "max_input_chars_per_word": "max_word_length",
    **{theirs: ours for ours, theirs in HF_SPECIAL_TOKENS.items()},
}


def _bert_tokenizer(directory: Path, overrides: dict[str, Any]) -> WordPieceTokenizer:
    serialized = read_json(directory / "tokenizer.json")
    config = read_json(directory / "tokenizer_config.json")
    special_tokens = read_json(directory / "special_tokens_map.json")
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


def _read_vocabulary(directory: Path, serialized: dict[str, Any]) -> list[str]:
    """Returns the tokens of vocab.txt, or else of tokenizer.json, which newer directories have."""
    path = directory / "vocab.txt"
    if path.is_file():
        return _vocabulary_lines(path)
    ids = serialized.get("model", {}).get("vocab")
    if not isinstance(ids, dict):
        raise FileNotFoundError(
            f"{directory} has neither vocab.txt nor a tokenizer.json with a WordPiece vocabulary; it "
            f"holds {sorted(entry.name for entry in directory.iterdir())[:20]}."
        )
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"The ids in {directory / 'tokenizer.json'} are not 0 to {len(ids) - 1}.")
    return sorted(ids, key=ids.__getitem__)


def _vocabulary_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None]]


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
        index: token for token, index in read_json(directory / "added_tokens.json").items()
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


def _spanbert_tokenizer(directory: Path, overrides: dict[str, Any]) -> WordPieceTokenizer:
    # Its files do not say that the vocabulary is BERT's cased one.
    return _bert_tokenizer(directory, {"lowercase": False, **overrides})


# ---------------------------------------------------------------------------------------------
# RoBERTa
# ---------------------------------------------------------------------------------------------

# Where fairseq keeps the files of GPT-2's vocabulary, which its archives do not hold.
GPT2_FILES = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"


def _roberta_tokenizer(directory: Path, overrides: dict[str, Any]) -> ByteBpeTokenizer:
    serialized = read_json(directory / "tokenizer.json")
    config = read_json(directory / "tokenizer_config.json")
    special_tokens = read_json(directory / "special_tokens_map.json")
    if (directory / "dict.txt").is_file() and not (directory / "vocab.json").is_file():
        vocabulary, merges = _read_fairseq_bpe(directory)
        # fairseq's fill_mask strips what stands before the mask.
        options: dict[str, Any] = {"lstrip_mask": True}
    else:
        vocabulary, merges = read_byte_bpe(directory)
        options = {"lstrip_mask": False}
    prefix = (serialized.get("pre_tokenizer") or {}).get("add_prefix_space", False)
    options["add_prefix_space"] = config.get("add_prefix_space", prefix)

    mask = "<mask>"
    for source in (special_tokens, config):
        mask = _text_of(source.get("mask_token", mask))
    entries = [
        *(special_tokens.get("mask_token"), config.get("mask_token")),
        *serialized.get("added_tokens", []),
        *config.get("added_tokens_decoder", {}).values(),
    ]
    for entry in entries:
        if isinstance(entry, dict) and entry["content"] == mask and "lstrip" in entry:
            options["lstrip_mask"] = entry.pop("lstrip")
    for source in (special_tokens, config):
        for option, name in HF_SPECIAL_TOKENS.items():
            if source.get(name) is not None:
                options[option] = _content(source[name], name, directory)
    added = _added_tokens(directory, serialized, config)
    vocabulary = _with_added_tokens(vocabulary, added, directory)
    options["added_tokens"] = list(added.values())
    return ByteBpeTokenizer(vocabulary, merges, **{"source": directory, **options, **overrides})


def _text_of(token: str | dict[str, Any]) -> str:
    return token if isinstance(token, str) else token["content"]


def _read_fairseq_bpe(directory: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns fairseq's vocabulary in GPT-2's letters, and GPT-2's merges.

    dict.txt lists GPT-2's ids in the order of fairseq's, between the special tokens.
    """
    missing = [name for name in ("encoder.json", "vocab.bpe") if not (directory / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{directory} has fairseq's dict.txt, which refers to GPT-2's vocabulary, without "
            f"{' and '.join(missing)}. Get them from {GPT2_FILES} and put them there."
        )
    tokens = {str(i): token for token, i in read_json(directory / "encoder.json").items()}
    lines = (directory / "dict.txt").read_text(encoding="utf-8").splitlines()
    symbols = [line.rsplit(" ", 1)[0] for line in lines]
    merges = (directory / "vocab.bpe").read_text(encoding="utf-8").split("\n")
    return (
        ["<s>", "<pad>", "</s>", "<unk>", *(tokens.get(s, s) for s in symbols), "<mask>"],
        [tuple(line.split(" ")) for line in merges if line and not line.startswith("#version")],
    )


# ---------------------------------------------------------------------------------------------
# ALBERT and XLM-RoBERTa
# ---------------------------------------------------------------------------------------------

_SENTENCEPIECE_OPTIONS = {
    "do_lower_case": "lowercase",
    "remove_space": "remove_space",
    "keep_accents": "keep_accents",
    "rewrite_quotes": "rewrite_quotes",
    "special_tokens_in_text": "special_tokens_in_text",
}


def _albert_tokenizer(
    directory: Path, overrides: dict[str, Any]
) -> SentencePieceTokenizer | WordPieceTokenizer:
    # The Chinese checkpoints have BERT's vocabulary.
    if (directory / "vocab.txt").is_file():
        return _bert_tokenizer(directory, overrides)
    return _sentencepiece_tokenizer(directory, "albert", overrides)


def _xlm_roberta_tokenizer(directory: Path, overrides: dict[str, Any]) -> SentencePieceTokenizer:
    return _sentencepiece_tokenizer(directory, "xlm_roberta", overrides)


def _sentencepiece_tokenizer(
    directory: Path, family: str, overrides: dict[str, Any]
) -> SentencePieceTokenizer:
    config = read_json(directory / "tokenizer_config.json")
    options = {
        option: config[name] for name, option in _SENTENCEPIECE_OPTIONS.items() if name in config
    }
    models = sorted(directory.glob("*.model"))
    if len(models) != 1:
        raise FileNotFoundError(
            f"{directory} should hold one SentencePiece model, *.model; it holds "
            f"{sorted(entry.name for entry in directory.iterdir())[:20]}."
        )
    return SentencePieceTokenizer.from_file(models[0], family, **{**options, **overrides})


# ---------------------------------------------------------------------------------------------
# Transformer-XL
# ---------------------------------------------------------------------------------------------

# The originals' files: Hugging Face's of two times, the TensorFlow program's and the PyTorch one's.
_PICKLED_VOCABULARIES = ("vocab.pkl", "vocab.bin", "cache.pkl", "data/cache.pkl", "cache.pt")


def _transformer_xl_tokenizer(directory: Path, overrides: dict[str, Any]) -> SymbolTokenizer:
    path = directory / "vocab.txt"
    if path.is_file():
        lines = _vocabulary_lines(path)
        config = read_json(directory / "tokenizer_config.json")
        options = {name: config[name] for name in _SYMBOL_OPTIONS if name in config}
        options = _symbol_options(lines, path, options | overrides)
        return SymbolTokenizer(symbols_of_lines(lines, options["unit"]), **options)
    pickled = [directory / name for name in _PICKLED_VOCABULARIES]
    if path := next((path for path in pickled if path.is_file()), None):
        from bert_zoo.text.pickled_vocabulary import read_pickled_vocabulary

        found = read_pickled_vocabulary(path)
        options = {"unknown_token": found.unknown_token, "eos_token": found.eos_token}
        options = _symbol_options(found.symbols, path, options | overrides)
        # The numbers of bytes are the same in lower case.
        lowercase = found.lowercase and options["unit"] != "byte"
        return SymbolTokenizer(found.symbols, **{"lowercase": lowercase, **options})
    raise FileNotFoundError(
        f"{directory} has none of vocab.txt, {', '.join(_PICKLED_VOCABULARIES)}; it holds "
        f"{sorted(entry.name for entry in directory.iterdir())[:20]}."
    )


_SYMBOL_OPTIONS = ("unit", "lowercase", "unknown_token", "eos_token", "space_token", "eos_at")


def _symbol_options(lines: list[str], path: Path, given: dict[str, Any]) -> dict[str, Any]:
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


# ---------------------------------------------------------------------------------------------
# All of them
# ---------------------------------------------------------------------------------------------


class TextFormat(NamedTuple):
    """How the models of a family read text.

    Attributes:
        build: (directory, options that go before its files) -> tokenizer.
        packing: options of the preprocessor that differ from its defaults.
        preprocessor: what turns the tokens into a model's inputs.
    """

    build: Callable[[Path, dict[str, Any]], Tokenizer]
    packing: Mapping[str, Any] = {}
    preprocessor: type[TextPreprocessor] = Preprocessor


# <s> A </s>, or <s> A </s></s> B </s>; no segments.
ROBERTA_PACKING = {"separators": 2, "segments": False}
TEXT_FORMATS = {
    "bert": TextFormat(_bert_tokenizer),
    "spanbert": TextFormat(_spanbert_tokenizer),
    "roberta": TextFormat(_roberta_tokenizer, ROBERTA_PACKING),
    "xlm_roberta": TextFormat(_xlm_roberta_tokenizer, ROBERTA_PACKING),
    "albert": TextFormat(_albert_tokenizer),
    "transformer_xl": TextFormat(_transformer_xl_tokenizer, preprocessor=LanguageModelPreprocessor),
}


def _text_format(family: str) -> TextFormat:
    if family not in TEXT_FORMATS:
        raise ValueError(f"No tokenizer for family {family!r}; there are {sorted(TEXT_FORMATS)}.")
    return TEXT_FORMATS[family]
