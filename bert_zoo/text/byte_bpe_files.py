"""Vocabularies of byte-level BPE in files; without TensorFlow."""

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

# Of a vocabulary and its merges: Hugging Face's, and GPT-2's own.
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
# From a directory's files to the tokens in the order of their ids, and the merges.
ReadTables = Callable[[VocabularyFiles], tuple[list[str], list[tuple[str, ...]]]]
# Where fairseq keeps the files of GPT-2's vocabulary, which its archives do not hold.
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
    """Reads Hugging Face's files, fairseq's or GPT-2's own, and the settings beside them.

    Args:
        files: of the directory.
        overrides: keyword arguments of ByteBpeTokenizer that overrule the files.
        read: from the files to vocabulary and merges, where they are none of those.
        **defaults: such that the files overrule.

    Raises:
        FileNotFoundError: there is no vocabulary, or a part of one.
        ConfigError: a damaged file, or a setting that ByteBpeTokenizer does not follow.
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
        # fairseq's fill_mask strips what stands before the mask.
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
    """Reads the first of the `FILES` that are there, or else tokenizer.json.

    `model_of` finds the model in the latter, and refuses what the tokenizer does not do; by default that
    of byte-level BPE. Gives the tokens in the order of their ids, and the merges; raises as
    `read_byte_bpe`.
    """
    for vocabulary, merges in FILES:
        if files.has(vocabulary) and files.has(merges):
            return tokens_by_id(files.json(vocabulary)), merges_of_lines(files.lines(merges))
    if not files.has("tokenizer.json"):
        raise FileNotFoundError(
            f"{files.directory} has neither vocab.json with merges.txt nor tokenizer.json; it holds "
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
    """The merges of GPT-2's vocab.bpe or Hugging Face's merges.txt."""
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]


def _read_fairseq(files: VocabularyFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """fairseq's vocabulary in GPT-2's letters, which dict.txt lists by GPT-2's ids, and the merges."""
    missing = [name for name in ("encoder.json", "vocab.bpe") if not files.has(name)]
    if missing:
        raise FileNotFoundError(
            f"{files.directory} has fairseq's dict.txt, which refers to GPT-2's vocabulary, without "
            f"{' and '.join(missing)}. Get them from {GPT2_FILES} and put them there."
        )
    tokens = {str(i): token for token, i in files.json("encoder.json").values_of(int).items()}
    vocabulary = [tokens.get(word, word) for word in fairseq_words(files)]
    return vocabulary, merges_of_lines(files.lines("vocab.bpe"))


def _byte_level_model(serialized: JsonObject) -> JsonObject:
    """Returns the model in a tokenizer.json; raises for what this tokenizer does not do."""
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
