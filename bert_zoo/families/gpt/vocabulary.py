"""Reads vocabularies of character-level BPE, without TensorFlow."""

from __future__ import annotations

from typing import Any

from bert_zoo.json_files import JsonObject
from bert_zoo.text.byte_bpe_files import read_vocabulary_and_merges
from bert_zoo.text.files import VocabularyFiles, read_named_tokens, refuse_others
from bert_zoo.text.format import TokenizerParts

# The tokenizer's special tokens.
ROLES = ("unknown_token", "padding_token")


def _tokenizer(**arguments):
    from bert_zoo.families.gpt.tokenizer import CharBpeTokenizer

    return CharBpeTokenizer(**arguments)


def read_char_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads Hugging Face's files and their settings.

    Args:
        files: the directory's files.
        overrides: keyword arguments of CharBpeTokenizer that overrule the files.

    Raises:
        FileNotFoundError: there is no vocabulary, or a part of one.
        ConfigError: a damaged file, or a setting that CharBpeTokenizer does not support.
    """
    vocabulary, merges = read_vocabulary_and_merges(files, _model)
    named = read_named_tokens(files)
    arguments = {
        "vocabulary": vocabulary,
        "merges": merges,
        "source": files.directory,
        "lowercase": files.json("tokenizer_config.json").take("do_lower_case", bool, True),
        **{role: named.special[role] for role in ROLES if role in named.special},
        "added_tokens": named.added_to(vocabulary, files.directory),
        **overrides,
    }
    return TokenizerParts(_tokenizer, arguments, files.directory)


def _model(serialized: JsonObject) -> JsonObject:
    """Returns the model in a tokenizer.json; raises ConfigError for unsupported settings."""
    model, normalizer = serialized.section("model"), serialized.section("normalizer")
    wanted = [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix"), "</w>"),
        ("model.fuse_unk", model.get("fuse_unk", False), False),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.lowercase", normalizer.get("lowercase"), True),
        ("normalizer.strip_accents", normalizer.get("strip_accents"), None),
        ("normalizer.handle_chinese_chars", normalizer.get("handle_chinese_chars"), True),
        ("pre_tokenizer.type", serialized.section("pre_tokenizer").get("type"), "BertPreTokenizer"),
    ]
    refuse_others(wanted, serialized.where, "GPT's tokenizer here", "a GPT model")
    return model
