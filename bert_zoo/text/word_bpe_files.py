"""Vocabularies of XLM's BPE in files; without TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from bert_zoo.json_files import read_object
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.files import VocabularyFiles, read_named_tokens, tokens_by_id
from bert_zoo.text.format import TokenizerParts

MASK = "<special1>"
# What transformers looks for in raw texts beside the tokens that files name.
_IN_TEXTS = ("<s>", *(f"<special{number}>" for number in range(10)))


def read_word_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.json and merges.txt, and the settings beside them.

    Languages are those of tokenizer_config.json's `lang2id`, or of config.json's.

    Args:
        files: of the directory.
        overrides: keyword arguments of WordBpeTokenizer that overrule the files.

    Raises:
        FileNotFoundError: there is no vocabulary, or a part of one.
        ConfigError: a damaged file.
    """
    missing = [name for name in ("vocab.json", "merges.txt") if not files.has(name)]
    if missing:
        raise FileNotFoundError(
            f"{files.directory} lacks {' and '.join(missing)}; it holds {files.names()}."
        )
    named = read_named_tokens(files)
    vocabulary = tokens_by_id(files.json("vocab.json"))
    config = files.json("tokenizer_config.json")
    languages = config.section("lang2id")
    if not languages and files.has("config.json"):
        # Not through `files`, which writes again what it has read.
        languages = read_object(files.path("config.json")).section("lang2id")
    told = {
        name: config.take(name, kind) for name, kind in (("language", str), ("pretokenized", bool))
    }
    lowercase = config.take("do_lowercase_and_remove_accent", bool, True)
    arguments = {
        "vocabulary": vocabulary,
        "merges": read_merges(files.lines("merges.txt")),
        "languages": dict(languages.values_of(int)) if languages else None,
        "lowercase": lowercase,
        **{name: value for name, value in told.items() if value is not None},
        **named.special,
        **_first_token(files),
        "added_tokens": [
            *found_in_texts(vocabulary),
            *named.added_to(vocabulary, files.directory),
        ],
        **overrides,
    }
    return TokenizerParts("WordBpeTokenizer", arguments, files.directory)


def _first_token(files: VocabularyFiles) -> dict[str, str]:
    """What stands before a text: in transformers not the class token, but the one of this name."""
    found, name = {}, "bos_token"
    for source in (files.json("special_tokens_map.json"), files.json("tokenizer_config.json")):
        if isinstance(source.get(name), dict):
            found["cls_token"] = source.section(name).take("content", str)
        elif name in source:
            found["cls_token"] = source.take(name, str)
    return {option: token for option, token in found.items() if token is not None}


def read_merges(lines: Iterable[str]) -> list[tuple[str, ...]]:
    """The pairs of merges.txt, or of fastBPE's codes, which say how often each occurred, too."""
    pairs = (tuple(line.split()[:2]) for line in lines)
    return [pair for pair in pairs if len(pair) == 2]


def found_in_texts(vocabulary: Collection[str]) -> list[dict[str, Any]]:
    """The special tokens that are found in texts, though no file names them."""
    found = sorted({*_IN_TEXTS} & {*vocabulary})
    return [AddedToken(content, special=True).as_config() for content in found]
