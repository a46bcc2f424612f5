"""Reads XLM's vocabularies from Hugging Face's and the authors' files, without TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.families.xlm.formats import PROGRAM_FILE, entries_of
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.files import VocabularyFiles, read_named_tokens, tokens_by_id
from bert_zoo.text.format import TokenizerParts

MERGES_FILE = "codes*"  # the authors' file
NUM_SPECIAL = 14  # words before the corpus's: <s>, </s>, <pad>, <unk>, <special0>, ...
CONTINUED = "@@"  # ends a token that does not end a word
# Special tokens that transformers finds in raw texts although no file names them.
_IN_TEXTS = ("<s>", *(f"<special{number}>" for number in range(10)))


def _tokenizer(**arguments):
    from bert_zoo.families.xlm.tokenizer import WordBpeTokenizer

    return WordBpeTokenizer(**arguments)


def read_word_bpe(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.json, merges.txt and the settings.

    Languages are those of `lang2id` in tokenizer_config.json or config.json.

    Args:
        files: the directory's files.
        overrides: keyword arguments of WordBpeTokenizer that overrule the files.

    Raises:
        FileNotFoundError: there is no vocabulary, or a part of one.
        ConfigError: a damaged file.
    """
    files.require("vocab.json", "merges.txt")
    named = read_named_tokens(files)
    vocabulary = tokens_by_id(files.json("vocab.json"))
    config = files.json("tokenizer_config.json")
    languages = config.section("lang2id")
    if not languages and files.has("config.json"):
        # Not through `files`, which would save what it reads.
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
    return TokenizerParts(_tokenizer, arguments, files.directory)


def _first_token(files: VocabularyFiles) -> dict[str, str]:
    """The token at the beginning of a text: in transformers bos_token, not cls_token."""
    found, name = {}, "bos_token"
    for source in (files.json("special_tokens_map.json"), files.json("tokenizer_config.json")):
        if isinstance(source.get(name), dict):
            found["cls_token"] = source.section(name).take("content", str)
        elif name in source:
            found["cls_token"] = source.take(name, str)
    return {option: token for option, token in found.items() if token is not None}


def read_merges(lines: Iterable[str]) -> list[tuple[str, ...]]:
    """Reads the pairs of merges.txt, or of fastBPE's codes, which also have counts."""
    pairs = (tuple(line.split()[:2]) for line in lines)
    return [pair for pair in pairs if len(pair) == 2]


def found_in_texts(vocabulary: Collection[str]) -> list[dict[str, Any]]:
    """Settings of the special tokens that are found in texts although no file names them."""
    found = sorted({*_IN_TEXTS} & {*vocabulary})
    return [AddedToken(content, special=True).as_config() for content in found]


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads Hugging Face's files, or the authors' program's.

    The latter do not say whether texts were lower-cased; they were if no word has a capital letter.
    """
    programs = sorted(files.directory.glob(PROGRAM_FILE))
    if files.has("vocab.json") or not programs:
        return read_word_bpe(files, overrides)
    merges = sorted(file.name for file in files.directory.glob(MERGES_FILE))
    if len(merges) != 1:
        raise FileNotFoundError(
            f"{files.directory} should hold the merges of {programs[0].name} in one file {MERGES_FILE}, "
            f"such as codes_en; it holds {files.names()}."
        )
    entries = entries_of(programs[0])
    tokens = tokens_in(entries)
    languages = dict(entries.section("params").section("lang2id").values_of(int))
    arguments = {
        "vocabulary": tokens,
        # Not through `files`, which would save what it reads.
        "merges": read_merges(VocabularyFiles(files.directory).lines(merges[0])),
        "lowercase": all(token == token.lower() for token in tokens),
        "added_tokens": found_in_texts(tokens),
        # A model of one language reads no language ids.
        **({"languages": languages} if len(languages) > 1 else {"language": next(iter(languages))}),
        **overrides,
    }
    return TokenizerParts(_tokenizer, arguments, programs[0])


def tokens_in(entries: JsonObject) -> list[str]:
    """The tokens in the order of their ids; those of the corpus that end a word have "</w>"."""
    words = entries.section("dico_id2word")
    if {*words} != {*range(len(words))}:
        raise ConfigError(f"{words.where} does not number its words from 0 to {len(words) - 1}.")
    words.values_of(str)
    return [
        words[i].removesuffix(CONTINUED)
        if i < NUM_SPECIAL or words[i].endswith(CONTINUED)
        else f"{words[i]}</w>"
        for i in range(len(words))
    ]
