"""Vocabulary directories, as Hugging Face, fairseq and this package write them.

What a tokenizer is made of is read without TensorFlow, at once and whole: the directory may be gone
when the first text comes.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import bert_zoo.text
from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject
from bert_zoo.text.byte_bpe_files import (
    merges_of_lines,
    read_byte_bpe,
    refuse_others,
    tokens_by_id,
)
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.symbol_lines import assumed_options, symbols_of_lines
from bert_zoo.text.vocabulary import HF_SPECIAL_TOKENS, SUFFIX

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


class TokenizerParts(NamedTuple):
    """What a tokenizer is made of.

    Attributes:
        kind: name of its class in `bert_zoo.text`.
        arguments: of the class.
        source: file or directory that errors name.
    """

    kind: str
    arguments: dict[str, Any]
    source: Path

    def make(self) -> Tokenizer:
        try:
            return getattr(bert_zoo.text, self.kind)(**self.arguments)
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}") from error


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
    return _text_format(family).read(VocabularyFiles(path), overrides).make()


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
    return DeferredPreprocessor(
        path,
        family,
        sequence_length=sequence_length,
        tokenizer_options=tokenizer_options,
        **options,
    ).make()


class DeferredPreprocessor:
    """A preprocessor whose files have been read, and whose graph is made when it is asked for.

    So models on ids need no TensorFlow, and a vocabulary is kept where its directory is not.

    Args:
        path, family, tokenizer_options: as for `preprocessor_from_dir`.
        **options: keyword arguments of the family's preprocessor, ready for JSON.

    Attributes:
        vocab_size: how many tokens there are; None where only the made tokenizer tells.
    """

    def __init__(
        self,
        path: str | Path,
        family: str,
        *,
        tokenizer_options: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        text_format = _text_format(family)
        files = VocabularyFiles(path)
        self._parts = text_format.read(files, dict(tokenizer_options or {}))
        self._contents = files.contents
        self._preprocessor = text_format.preprocessor
        self._packing = text_format.packing
        self._lock = threading.Lock()
        self._options = {**options, "tokenizer_options": dict(tokenizer_options or {})}

    @property
    def vocab_size(self) -> int | None:
        vocabulary = self._parts.arguments.get("vocabulary")
        return None if vocabulary is None else len(vocabulary)

    def make(self) -> TextPreprocessor:
        """The preprocessor, made once for all threads.

        Raises:
            ImportError: TensorFlow or tensorflow_text is missing.
            ConfigError: the vocabulary does not fit its tokenizer.
        """
        with self._lock:
            return self._made

    @functools.cached_property
    def _made(self) -> TextPreprocessor:
        tokenizer = self._parts.make()
        options = {name: v for name, v in self._options.items() if name != "tokenizer_options"}
        kind = getattr(bert_zoo.text, self._preprocessor)
        return kind(tokenizer, **{**self._packing, **options})

    def get_config(self) -> dict[str, Any]:
        """What `preprocessor_from_dir` needs besides path and family, ready for JSON."""
        return dict(self._options)

    @property
    def lowercase(self) -> bool | None:
        """Whether texts are lower-cased; None where that is not said."""
        return self._parts.arguments.get("lowercase")

    def save_vocabulary(self, directory: str | Path) -> None:
        """Writes the files as they were read, for a process that cannot make the tokenizer.

        Raises:
            ImportError: they were too large to be kept.
        """
        if not self._contents:
            raise ImportError(
                f"The vocabulary that was read from {self._parts.source} can only be written with "
                "TensorFlow, which is not installed here. Install it, or set model.preprocessor = None "
                "to save the model without a vocabulary."
            )
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._contents.items():
            (directory / name).write_bytes(content)


# ---------------------------------------------------------------------------------------------
# BERT
# ---------------------------------------------------------------------------------------------

# tokenizer_config.json's and special_tokens_map.json's names for this tokenizer's options.
_OPTION_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
    "max_input_chars_per_word": "max_word_length",
}
_OPTION_KINDS = {
    **dict.fromkeys(_OPTION_NAMES, bool),
    "max_input_chars_per_word": int,
}


def _bert_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    serialized = files.json("tokenizer.json")
    config = files.json("tokenizer_config.json")
    special_tokens = files.json("special_tokens_map.json")
    vocabulary = _read_vocabulary(files, serialized)

    # Hugging Face, too, lets tokenizer_config.json overrule what tokenizer.json was built with.
    options = _serialized_options(serialized)
    for source in (special_tokens, config):
        for name, option in _OPTION_NAMES.items():
            if (value := source.take(name, _OPTION_KINDS[name])) is not None:
                options[option] = value
        options |= _special_tokens(source)
    if config.get("never_split"):
        logger.info(
            "never_split=%s in %s is not followed: Hugging Face's fast tokenizer ignores it too.",
            shown(config["never_split"]),
            config.where,
        )
    if not {"lowercase"} & (options.keys() | overrides.keys()):
        options["lowercase"] = _assumed_lowercase(vocabulary, files.directory)
    added = _added_tokens(files, serialized, config)
    vocabulary = _with_added_tokens(vocabulary, added, files.directory)
    options["added_tokens"] = list(added.values())
    arguments = {"vocabulary": vocabulary, **options, **overrides}
    return TokenizerParts("WordPieceTokenizer", arguments, files.directory)


def _read_vocabulary(files: VocabularyFiles, serialized: JsonObject) -> list[str]:
    """Returns the tokens of vocab.txt, or else of tokenizer.json, which newer directories have."""
    if files.has("vocab.txt"):
        return files.lines("vocab.txt")
    model = serialized.section("model")
    if not isinstance(model.get("vocab"), dict):
        raise FileNotFoundError(
            f"{files.directory} has neither vocab.txt nor a tokenizer.json with a WordPiece "
            f"vocabulary; it holds {files.names()}."
        )
    return tokens_by_id(model.section("vocab"))


def _serialized_options(serialized: JsonObject) -> dict[str, Any]:
    """Returns the options in a tokenizer.json; raises for what this tokenizer cannot do."""
    if not serialized:
        return {}
    model, normalizer = serialized.section("model"), serialized.section("normalizer")
    pre_tokenizer = serialized.section("pre_tokenizer")
    # Files of before 2021 do not name the model's type.
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
        "max_word_length": model.take("max_input_chars_per_word", int, 100),
        "unknown_token": model.take("unk_token", str, "[UNK]"),
    }


def _special_tokens(source: JsonObject, lstrip: str | None = None) -> dict[str, str]:
    """Returns option -> token of the special tokens that a file names.

    Args:
        source: special_tokens_map.json or tokenizer_config.json.
        lstrip: the token that may take the white space before it.
    """
    return {
        option: _content(source, name, lstrip)
        for option, name in HF_SPECIAL_TOKENS.items()
        if source.get(name) is not None
    }


def _content(source: JsonObject, name: str, lstrip: str | None = None) -> str:
    """Returns a token's text, which stands alone or in an object with its switches."""
    if not isinstance(source[name], dict):
        return source.take(name, str)
    return _plain(source.section(name), lstrip)


def _plain(entry: JsonObject, lstrip: str | None = None) -> str:
    """Returns a token's text; raises ConfigError where it is found otherwise than as it is written."""
    content = entry.take("content", str)
    if content is None:
        raise ConfigError(f"{entry.where} names no token: it has no 'content'.")
    # "normalized" is left out: Hugging Face never normalises a special token, whatever it says.
    switches = [
        switch
        for switch in ("lstrip", "rstrip", "single_word")
        if entry.take(switch, bool) and (switch, content) != ("lstrip", lstrip)
    ]
    if switches:
        raise ConfigError(
            f"{entry.where}: {shown(content)} has {' and '.join(switches)} set. This tokenizer finds such "
            "tokens only as they are written, so its ids would differ."
        )
    return content


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
    files: VocabularyFiles, serialized: JsonObject, config: JsonObject, lstrip: str | None = None
) -> dict[int, str]:
    """Returns id -> text of the tokens that are looked for in raw texts."""
    added = {
        index: token for token, index in files.json("added_tokens.json").values_of(int).items()
    }
    for entry in serialized.items_of("added_tokens", dict):
        added[entry.take("id", int)] = _added_token(entry, lstrip)
    decoder = config.section("added_tokens_decoder")
    for index, entry in decoder.values_of(dict).items():
        if not index.isdecimal() or len(index) > 18:
            raise ConfigError(f"{decoder.where}: {shown(index)} is no id.")
        added[int(index)] = _added_token(entry, lstrip)
    if None in added:
        raise ConfigError(f"{serialized.where}: the added token {shown(added[None])} has no id.")
    return dict(sorted(added.items()))


def _added_token(entry: JsonObject, lstrip: str | None) -> str:
    if entry.take("normalized", bool) and not entry.take("special", bool):
        raise ConfigError(
            f"{entry.where}: the added token {shown(entry.get('content'))} has normalized=true: "
            "Hugging Face looks for it in the normalised text, which this tokenizer does not do, so "
            "ids would differ. Add it with normalized=False or special=True."
        )
    return _plain(entry, lstrip)


def _with_added_tokens(vocabulary: list[str], added: dict[int, str], directory: Path) -> list[str]:
    """Returns the vocabulary with the added tokens that are not in it, which must follow it."""
    vocabulary = list(vocabulary)
    for index, token in added.items():
        if index == len(vocabulary):
            vocabulary.append(token)
        elif not 0 <= index < len(vocabulary):
            raise ConfigError(
                f"The added token {shown(token)} in {directory} has id {shown(index)}, which leaves a "
                f"gap after the vocabulary's {len(vocabulary)} tokens."
            )
        elif vocabulary[index] != token:
            raise ConfigError(
                f"The added token {shown(token)} in {directory} has id {index}, but the vocabulary has "
                f"{shown(vocabulary[index])} there."
            )
    return vocabulary


def _spanbert_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    # Its files do not say that the vocabulary is BERT's cased one.
    return _bert_tokenizer(files, {"lowercase": False, **overrides})


# ---------------------------------------------------------------------------------------------
# RoBERTa
# ---------------------------------------------------------------------------------------------

# Where fairseq keeps the files of GPT-2's vocabulary, which its archives do not hold.
GPT2_FILES = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"


def _roberta_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    serialized = files.json("tokenizer.json")
    config = files.json("tokenizer_config.json")
    special_tokens = files.json("special_tokens_map.json")
    if files.has("dict.txt") and not files.has("vocab.json"):
        vocabulary, merges = _read_fairseq_bpe(files)
        # fairseq's fill_mask strips what stands before the mask.
        options: dict[str, Any] = {"lstrip_mask": True}
    else:
        vocabulary, merges = read_byte_bpe(files)
        options = {"lstrip_mask": False}
    prefix = serialized.section("pre_tokenizer").take("add_prefix_space", bool, False)
    options["add_prefix_space"] = config.take("add_prefix_space", bool, prefix)

    objects = [
        source.section("mask_token")
        for source in (special_tokens, config)
        if isinstance(source.get("mask_token"), dict)
    ]
    mask = "<mask>"
    for source in (special_tokens, config):
        named = source.get("mask_token")
        mask = named.get("content") if isinstance(named, dict) else named or mask
    entries = [
        *objects,
        *serialized.items_of("added_tokens", dict),
        *config.section("added_tokens_decoder").values_of(dict).values(),
    ]
    for entry in entries:
        if entry.get("content") == mask and "lstrip" in entry:
            options["lstrip_mask"] = entry.take("lstrip", bool, False)
    for source in (special_tokens, config):
        options |= _special_tokens(source, lstrip=mask)
    added = _added_tokens(files, serialized, config, lstrip=mask)
    vocabulary = _with_added_tokens(vocabulary, added, files.directory)
    options["added_tokens"] = list(added.values())
    arguments = {"vocabulary": vocabulary, "merges": merges, "source": files.directory}
    return TokenizerParts(
        "ByteBpeTokenizer", {**arguments, **options, **overrides}, files.directory
    )


def _read_fairseq_bpe(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns fairseq's vocabulary in GPT-2's letters, and GPT-2's merges.

    dict.txt lists GPT-2's ids in the order of fairseq's, between the special tokens.
    """
    missing = [name for name in ("encoder.json", "vocab.bpe") if not files.has(name)]
    if missing:
        raise FileNotFoundError(
            f"{files.directory} has fairseq's dict.txt, which refers to GPT-2's vocabulary, without "
            f"{' and '.join(missing)}. Get them from {GPT2_FILES} and put them there."
        )
    tokens = {str(i): token for token, i in files.json("encoder.json").values_of(int).items()}
    symbols = [line.rsplit(" ", 1)[0] for line in files.lines("dict.txt")]
    return (
        ["<s>", "<pad>", "</s>", "<unk>", *(tokens.get(s, s) for s in symbols), "<mask>"],
        merges_of_lines(files.lines("vocab.bpe")),
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


def _albert_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    # The Chinese checkpoints have BERT's vocabulary.
    if files.has("vocab.txt"):
        return _bert_tokenizer(files, overrides)
    return _sentencepiece_tokenizer(files, "albert", overrides)


def _xlm_roberta_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    return _sentencepiece_tokenizer(files, "xlm_roberta", overrides)


def _sentencepiece_tokenizer(
    files: VocabularyFiles, family: str, overrides: dict[str, Any]
) -> TokenizerParts:
    config = files.json("tokenizer_config.json")
    options = {
        option: config.take(name, bool)
        for name, option in _SENTENCEPIECE_OPTIONS.items()
        if name in config
    }
    models = sorted(path.name for path in files.directory.glob("*.model"))
    if len(models) != 1:
        raise FileNotFoundError(
            f"{files.directory} should hold one SentencePiece model, *.model; it holds "
            f"{files.names()}."
        )
    arguments = {"model": files.content(models[0]), "family": family, **options, **overrides}
    return TokenizerParts("SentencePieceTokenizer", arguments, files.path(models[0]))


# ---------------------------------------------------------------------------------------------
# Transformer-XL
# ---------------------------------------------------------------------------------------------

# The originals' files: Hugging Face's of two times, the TensorFlow program's and the PyTorch one's.
_PICKLED_VOCABULARIES = ("vocab.pkl", "vocab.bin", "cache.pkl", "data/cache.pkl", "cache.pt")


def _transformer_xl_tokenizer(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    if files.has("vocab.txt"):
        lines, path = files.lines("vocab.txt"), files.path("vocab.txt")
        config = files.json("tokenizer_config.json")
        options = {
            name: config.take(name, k) for name, k in _SYMBOL_OPTIONS.items() if name in config
        }
        options = _symbol_options(lines, path, options | overrides)
        symbols = symbols_of_lines(lines, options["unit"])
        return TokenizerParts("SymbolTokenizer", {"vocabulary": symbols, **options}, path)
    if name := next((name for name in _PICKLED_VOCABULARIES if files.has(name)), None):
        from bert_zoo.text.pickled_vocabulary import read_pickled_vocabulary

        path = files.path(name)
        found = read_pickled_vocabulary(path)
        options = {"unknown_token": found.unknown_token, "eos_token": found.eos_token}
        options = _symbol_options(found.symbols, path, options | overrides)
        # The numbers of bytes are the same in lower case.
        lowercase = found.lowercase and options["unit"] != "byte"
        arguments = {"vocabulary": found.symbols, "lowercase": lowercase, **options}
        return TokenizerParts("SymbolTokenizer", arguments, path)
    raise FileNotFoundError(
        f"{files.directory} has none of vocab.txt, {', '.join(_PICKLED_VOCABULARIES)}; it holds "
        f"{files.names()}."
    )


_SYMBOL_OPTIONS = {
    **dict.fromkeys(("unit", "unknown_token", "eos_token", "space_token", "eos_at"), str),
    "lowercase": bool,
}


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
        read: (files, options that go before them) -> what the tokenizer is made of.
        packing: options of the preprocessor that differ from its defaults.
        preprocessor: name of the class in `bert_zoo.text` that turns the tokens into a model's inputs.
    """

    read: Callable[[VocabularyFiles, dict[str, Any]], TokenizerParts]
    packing: Mapping[str, Any] = {}
    preprocessor: str = "Preprocessor"


# <s> A </s>, or <s> A </s></s> B </s>; no segments.
ROBERTA_PACKING = {"separators": 2, "segments": False}
TEXT_FORMATS = {
    "bert": TextFormat(_bert_tokenizer),
    "spanbert": TextFormat(_spanbert_tokenizer),
    "roberta": TextFormat(_roberta_tokenizer, ROBERTA_PACKING),
    "xlm_roberta": TextFormat(_xlm_roberta_tokenizer, ROBERTA_PACKING),
    "albert": TextFormat(_albert_tokenizer),
    "transformer_xl": TextFormat(
        _transformer_xl_tokenizer, preprocessor="LanguageModelPreprocessor"
    ),
}


def _text_format(family: str) -> TextFormat:
    if family not in TEXT_FORMATS:
        raise ValueError(f"No tokenizer for family {family!r}; there are {sorted(TEXT_FORMATS)}.")
    return TEXT_FORMATS[family]
