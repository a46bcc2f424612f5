"""Reads vocabularies of byte-level BPE from files; without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
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
from bert_zoo.text.unicode_tables import NFC

# File names of vocabulary and merges: Hugging Face's, and GPT-2's own.
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
# Maps a directory's files to the tokens in the order of their ids, and the merges.
ReadTables = Callable[[VocabularyFiles], tuple[list[str], list[tuple[str, ...]]]]
# fairseq's copy of GPT-2's vocabulary files, which its archives lack.
GPT2_FILES = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"


def _tokenizer(**arguments):
    from bert_zoo.text.byte_bpe import ByteBpeTokenizer

    return ByteBpeTokenizer(**arguments)


def read_byte_bpe(
    files: VocabularyFiles,
    overrides: dict[str, Any],
    *,
    read: ReadTables | None = None,
    **defaults: Any,
) -> TokenizerParts:
    """Reads Hugging Face's, fairseq's or GPT-2's own files with their settings.

    Args:
        files: the directory's files.
        overrides: keyword arguments of ByteBpeTokenizer that take precedence over the files.
        read: reads vocabulary and merges from files in another format.
        **defaults: keyword arguments over which the files take precedence.

    Raises:
        FileNotFoundError: no vocabulary, or only a part of one.
        ConfigError: a damaged file, or a setting that ByteBpeTokenizer does not support.
    """
    is_fairseqs = files.has("dict.txt") and not files.has("vocab.json")
    read = read or (_read_fairseq if is_fairseqs else read_vocabulary_and_merges)
    vocabulary, merges = read(files)
    serialized = files.json("tokenizer.json")
    prefix = serialized.section("pre_tokenizer").take("add_prefix_space", bool, False)
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
        **overrides,
    }
    return TokenizerParts(_tokenizer, arguments, files.directory)


def read_vocabulary_and_merges(
    files: VocabularyFiles, model_of: Callable[[JsonObject], JsonObject] | None = None
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Reads the first of `FILES` that exist, or else tokenizer.json.

    Args:
        files: the directory's files.
        model_of: finds the model in tokenizer.json, and refuses unsupported settings; by default the
            one for byte-level BPE.

    Returns:
        The tokens in the order of their ids, and the merges.

    Raises:
        FileNotFoundError, ConfigError: as for `read_byte_bpe`.
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
    pre_tokenizer = serialized.section("pre_tokenizer")
    normalizer = serialized.get("normalizer")
    wanted = [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix") or "", ""),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
        ("normalizer", None if normalizer == {"type": NFC} else normalizer, None),
        ("pre_tokenizer.type", pre_tokenizer.get("type"), "ByteLevel"),
        ("pre_tokenizer.use_regex", pre_tokenizer.get("use_regex", True), True),
    ]
    refuse_others(
        wanted, serialized.where, "byte-level BPE here", "a model with RoBERTa's tokenizer"
    )
    return model
