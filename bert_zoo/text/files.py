"""Files of vocabulary directories, and what Hugging Face's say of special and added tokens.

What reads a tokenizer's files (`*_files.py`, a family's `vocabulary.py`) stands apart from the tokenizer:
models on ids read vocabularies where TensorFlow is not installed.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.config import ConfigError
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import JsonObject, parse_object, read_whole, utf8_text
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.vocabulary import HF_SPECIAL_TOKENS

logger = logging.getLogger(__name__)

# Where transformers 4 and 5 list special tokens that have no role.
_LISTS = ("additional_special_tokens", "extra_special_tokens")
# What files are called in the presets of KerasHub.
_OTHER_NAMES = {"vocab.txt": "vocabulary.txt", "vocab.json": "vocabulary.json"}


class VocabularyFiles:
    """The files of a directory that a tokenizer is made from.

    `contents` keeps the bytes of those that were read so far, by name: what a process that cannot make the
    tokenizer saves. A reader of a format that is not written puts what is written there in its place.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise FileNotFoundError(
                f"{directory} is not a directory. Pass the directory that holds the vocabulary, not a "
                "file."
            )
        self.contents: dict[str, bytes] = {}
        self._parsed: dict[str, JsonObject] = {}

    def path(self, name: str) -> Path:
        path = self.directory / name
        other = self.directory / _OTHER_NAMES.get(name, name)
        return other if other.is_file() and not path.is_file() else path

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def require(self, *names: str) -> None:
        """Raises FileNotFoundError where one of the files is missing."""
        if missing := [name for name in names if not self.has(name)]:
            raise FileNotFoundError(
                f"{self.directory} lacks {' and '.join(missing)}; it holds {self.names()}."
            )

    def names(self) -> list[str]:
        """The names of the directory's first files, for messages."""
        return sorted(entry.name for entry in self.directory.iterdir())[:20]

    def content(self, name: str) -> bytes:
        if name not in self.contents:
            self.contents[name] = read_whole(self.path(name))
        return self.contents[name]

    def lines(self, name: str) -> list[str]:
        """The lines of a file, without what ends them; ConfigError names one that is not UTF-8."""
        lines = utf8_text(self.content(name), self.path(name)).split("\n")
        return [line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None]]

    def json(self, name: str) -> JsonObject:
        """A file's object, or an empty one where there is no such file; raises as `parse_object`."""
        if name not in self._parsed:
            path = self.path(name)
            self._parsed[name] = (
                parse_object(self.content(name), path) if self.has(name) else JsonObject({}, path)
            )
        return self._parsed[name]


class NamedTokens(NamedTuple):
    """The special and added tokens that Hugging Face's files name."""

    special: dict[str, str]  # the tokenizer's option -> the token
    added: dict[int, AddedToken]  # by id
    others: dict[str, AddedToken]  # special tokens that stand without an id, by content

    @property
    def tokens(self) -> dict[str, AddedToken]:
        """All tokens by their content, those with an id in the order of these."""
        by_content = {token.content: token for token in self.added.values()}
        return by_content | {c: token for c, token in self.others.items() if c not in by_content}

    def added_to(self, vocabulary: Sequence[str], directory: Path) -> list[dict[str, Any] | str]:
        """The tokens for a tokenizer's option `added_tokens`, where those follow the vocabulary that it lacks.

        Raises:
            ConfigError: an id that leaves a gap, or that another token has.
        """
        size = len(vocabulary)
        for index, token in self.added.items():
            if index == size:
                size += 1
            elif not 0 <= index < size:
                raise ConfigError(
                    f"The added token {shown(token.content)} in {directory} has id {shown(index)}, which "
                    f"leaves a gap after the vocabulary's {size} tokens."
                )
            elif vocabulary[index] != token.content:
                raise ConfigError(
                    f"The added token {shown(token.content)} in {directory} has id {index}, but the "
                    f"vocabulary has {shown(vocabulary[index])} there."
                )
        known = {*vocabulary, *(token.content for token in self.added.values())}
        if absent := [content for content in self.others if content not in known]:
            logger.warning(
                "%s names the special tokens %s without ids, and its vocabulary lacks them; they are left out.",
                directory,
                quoted(absent),
            )
        return [token.as_config() for content, token in self.tokens.items() if content in known]


def read_named_tokens(files: VocabularyFiles, roles: Collection[str] = ()) -> NamedTokens:
    """Reads tokenizer.json, special_tokens_map.json, tokenizer_config.json and added_tokens.json.

    `roles` are tokens that are special though no file says so.

    Raises:
        ConfigError: a damaged file.
    """
    serialized, config = files.json("tokenizer.json"), files.json("tokenizer_config.json")
    decoder = config.section("added_tokens_decoder")
    special: dict[str, str] = {}
    others: dict[str, AddedToken] = {}
    for source in (
        files.json("special_tokens_map.json"),
        config,
    ):  # the latter overrules the former
        for option, name in HF_SPECIAL_TOKENS.items():
            if isinstance(source.get(name), dict):
                token = replace(_entry(source.section(name)), special=True)
                special[option], others[token.content] = token.content, token
            elif source.get(name) is not None:
                special[option] = source.take(name, str)
        for name in _LISTS:
            named = source.get(name)
            for item in named if isinstance(named, list) else ():
                entry = JsonObject(
                    item if isinstance(item, dict) else {"content": item}, source.where
                )
                token = replace(_entry(entry), special=True)
                others.setdefault(token.content, token)
    # Files of added tokens alone say nothing else of them; see transformers' _from_pretrained.
    found = {} if decoder else files.json("added_tokens.json").values_of(int)
    specials = {*special.values(), *others, *roles}
    added = {
        index: AddedToken(content, normalized=content not in specials, special=content in specials)
        for content, index in found.items()
    }
    for entry in serialized.items_of("added_tokens", dict):
        if entry.get("id") is None:
            raise ConfigError(
                f"{entry.where}: the added token {shown(entry.get('content'))} has no id."
            )
        added[entry.take("id", int)] = _entry(entry)
    for name, entry in decoder.values_of(dict).items():
        index = _as_id(name, decoder)
        added[index] = _entry(entry)
    return NamedTokens(special, dict(sorted(added.items())), others)


def _as_id(index: str, decoder: JsonObject) -> int:
    if not index.isdecimal() or len(index) > 18:
        raise ConfigError(f"{decoder.where}: {shown(index)} is no id.")
    return int(index)


def _entry(entry: JsonObject) -> AddedToken:
    content = entry.take("content", str)
    if not content:
        raise ConfigError(f"{entry.where} names no token: it has no 'content'.")
    names = [field.name for field in fields(AddedToken) if field.name != "content"]
    return AddedToken(content, **{name: entry.take(name, bool, False) for name in names})


def tokens_by_id(vocabulary: JsonObject) -> list[str]:
    """The tokens in the order of their ids, which are 0 to size - 1, each once."""
    ids = vocabulary.values_of(int)
    owners = {index: token for token, index in ids.items()}
    for token, index in ids.items():
        if owners[index] != token:
            raise ConfigError(
                f"{vocabulary.where} gives {shown(token)} and {shown(owners[index])} the same id "
                f"{index}."
            )
    if absent := [index for index in range(len(ids)) if index not in owners]:
        raise ConfigError(
            f"{vocabulary.where} has {len(ids)} tokens, whose ids would be 0 to {len(ids) - 1}, but "
            f"none with id {absent[0]}. Fetch the file again."
        )
    return [owners[index] for index in range(len(ids))]


def fairseq_words(files: VocabularyFiles) -> list[str]:
    """The tokens of a model of fairseq: dict.txt's words between the special ones, which it leaves out."""
    words = [line.rsplit(" ", 1)[0] for line in files.lines("dict.txt")]
    return ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]


def refuse_others(
    wanted: list[tuple[str, object, object]], path: object, who: str, whose: str
) -> None:
    """Raises ConfigError where a setting of a tokenizer.json is not the one that is followed.

    Of each setting, `wanted` has name, value and the only supported value; `who` and `whose` are for
    the message: the tokenizer, and what the directory should belong to.
    """
    for name, value, supported in wanted:
        if value != supported:
            raise ConfigError(
                f"{path} has {name}={shown(value)}; {who} has {supported!r} only, and would give other "
                f"ids. Check that the directory belongs to {whose}."
            )
