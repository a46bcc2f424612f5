"""Files of vocabulary directories: vocabularies, special and added tokens; without TensorFlow.

The readers of a tokenizer's files (`*_files.py`, a family's `vocabulary.py`) are separate from the tokenizer,
because models on ids read vocabularies without TensorFlow.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.config import ConfigError
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import JsonObject, parse_object, read_whole, utf8_text

# Options of tokenizers -> their names in Hugging Face's files.
HF_SPECIAL_TOKENS = {
    "unknown_token": "unk_token",
    "padding_token": "pad_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "mask_token": "mask_token",
}


def special_tokens(*tokens: str | None) -> dict[str, str | None]:
    """The unknown, padding, class, separator and mask token by the names of the options."""
    return dict(zip(HF_SPECIAL_TOKENS, tokens, strict=True))


# The prefix of WordPiece's continuation pieces.
SUFFIX = "##"


class Vocabulary:
    """Checked tokens and their ids: ValueError if there are none, or an empty or a repeated one. A plain object on
    purpose: tf.Module tracks the items of a tuple or dict one by one, and would take seconds to save 30,000 tokens.
    """

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        if not self.tokens:
            raise ValueError(
                "The vocabulary is empty. Pass the tokens in the order of their ids, such as the lines "
                "of BERT's vocab.txt."
            )
        self._ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens):
            if not isinstance(token, str):
                raise TypeError(
                    f"vocabulary[{index}] is {shown(token)} ({type(token).__name__}); tokens must be strings."
                )
            if not token:
                raise ValueError(
                    f"vocabulary[{index}] is the empty string, which no text can match. An empty "
                    "line in vocab.txt usually means a damaged file."
                )
            if token in self._ids:
                raise ValueError(
                    f"The vocabulary has {shown(token)} twice, as ids {self._ids[token]} and {index}. "
                    "Every token needs one id. Remove or rename one of the two."
                )
            self._ids[token] = index
        try:
            "".join(self.tokens).encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"A token of the vocabulary has a lone surrogate, {error.object[error.start]!a}, "
                "which UTF-8 cannot encode. Fetch the vocabulary again."
            ) from error

    @property
    def ids(self) -> dict[str, int]:
        """Token -> id, in the order of the ids."""
        return dict(self._ids)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def id_of(self, token: str, role: str = "token") -> int:
        """A token's id; a ValueError that names its role if the vocabulary lacks it."""
        if token not in self._ids:
            raise ValueError(
                f"The vocabulary of {len(self)} tokens lacks the {role} {shown(token)}. It begins with "
                f"{shown(list(self.tokens[:5]))}. Check that it is the right vocabulary, or name the token "
                "that it uses instead."
            )
        return self._ids[token]

    def token_of(self, index: int) -> str:
        """The token of an id; ValueError for an id outside [0, size)."""
        if not 0 <= index < len(self):
            raise ValueError(f"id {index} is outside the vocabulary; ids are 0 to {len(self) - 1}.")
        return self.tokens[index]


def is_byte(token: str) -> bool:
    return re.fullmatch("0|[1-9][0-9]{0,2}", token) is not None and int(token) < 256


def character_as_line(token: str) -> str:
    if len(token) == 1 and (token.isspace() or not token.isprintable()):
        return f"U+{ord(token):04X}"
    if line_as_character(token) != token:
        raise ValueError(
            f"The special token {token!r} is the spelling of {line_as_character(token)!r} in vocab.txt. "
            "Rename it."
        )
    return token


def line_as_character(line: str) -> str:
    match = re.fullmatch("U[+]([0-9A-F]{4,6})", line)
    code = int(match[1], 16) if match else -1
    is_character = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else line


# -------------------------------------------------------------------------------------------------
# Added tokens, which texts are cut at before they are tokenized, as in Hugging Face's library.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddedToken:
    """A token that is kept whole wherever it occurs in a text.

    The fields are those of Hugging Face's AddedToken and its files. Tokens that are not `normalized` are
    searched first, in the text as it is. The rest of the text is then normalised, and searched for the
    others, which are normalised too. At each position the longest token wins. Matches do not overlap.

    Attributes:
        content: the token's text.
        single_word: match only where no letter, digit or underscore is next to it.
        lstrip, rstrip: include the white space before it, or after it.
        normalized: search for it in normalised text.
        special: a special token, which may be left out when tokens are joined to text.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    @classmethod
    def of(cls, token: AddedToken | str | Mapping[str, Any]) -> AddedToken:
        """Makes an added token from its content, from a dictionary of its fields, or from one itself.

        Raises:
            TypeError: another type, or an unknown field.
        """
        if isinstance(token, cls):
            return token
        given = {"content": token} if isinstance(token, str) else token
        names = {field.name for field in fields(cls)}
        if (
            not isinstance(given, Mapping)
            or not names >= given.keys()
            or not isinstance(given.get("content"), str)
        ):
            raise TypeError(
                f"The added token {shown(token)} must be a string, an AddedToken, or a dictionary with "
                f"'content' and any of {', '.join(sorted(names - {'content'}))}."
            )
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields, as Hugging Face's files store them, ready for JSON."""
        return asdict(self)

    def as_config(self) -> dict[str, Any] | str:
        """Returns an argument for `of`, ready for JSON: the content alone if all switches are off."""
        return self.content if self == AddedToken(self.content) else self.as_dict()


def distinct_tokens(
    tokens: Iterable[AddedToken | str | Mapping[str, Any]],
) -> dict[str, AddedToken]:
    """Added tokens by their content. A repeated token keeps its first place and its last settings."""
    return {token.content: token for token in map(AddedToken.of, tokens)}


def extended(vocabulary: Sequence[str], tokens: Iterable[Any]) -> list[str]:
    """The vocabulary, followed by the added tokens that it lacks, in their order."""
    known = {*vocabulary}
    return [*vocabulary, *(content for content in distinct_tokens(tokens) if content not in known)]


logger = logging.getLogger(__name__)

# transformers 4's and 5's lists of special tokens without a role.
_LISTS = ("additional_special_tokens", "extra_special_tokens")
# File names in KerasHub's presets.
_OTHER_NAMES = {"vocab.txt": "vocabulary.txt", "vocab.json": "vocabulary.json"}


class VocabularyFiles:
    """The files of a directory that a tokenizer is made from. `contents` keeps the bytes of all files that were read,
    by name, so that a process that cannot make the tokenizer can save them. A reader of a format that bert_zoo does
    not write replaces them there.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise FileNotFoundError(
                f"{directory} is not a directory. Pass the directory with the vocabulary, not a file."
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
        """Raises FileNotFoundError if one of the files is missing."""
        if missing := [name for name in names if not self.has(name)]:
            raise FileNotFoundError(
                f"{self.directory} lacks {' and '.join(missing)}; it has {self.names()}."
            )

    def names(self) -> list[str]:
        """The names of the directory's first files, for messages."""
        return sorted(entry.name for entry in self.directory.iterdir())[:20]

    def content(self, name: str) -> bytes:
        if name not in self.contents:
            self.contents[name] = read_whole(self.path(name))
        return self.contents[name]

    def lines(self, name: str) -> list[str]:
        """The lines of a file, without line ends; ConfigError for a line that is not UTF-8."""
        lines = utf8_text(self.content(name), self.path(name)).split("\n")
        return [line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None]]

    def json(self, name: str) -> JsonObject:
        """The JSON object in a file, or an empty one if there is no such file; raises as `parse_object`."""
        if name not in self._parsed:
            path = self.path(name)
            self._parsed[name] = (
                parse_object(self.content(name), path) if self.has(name) else JsonObject({}, path)
            )
        return self._parsed[name]


class NamedTokens(NamedTuple):
    """The special and added tokens in Hugging Face's files."""

    special: dict[str, str]  # the tokenizer's option -> token
    added: dict[int, AddedToken]  # id -> token
    others: dict[str, AddedToken]  # content -> special token without an id

    @property
    def tokens(self) -> dict[str, AddedToken]:
        """All tokens by their content, first those with an id, in order."""
        by_content = {token.content: token for token in self.added.values()}
        return by_content | {c: token for c, token in self.others.items() if c not in by_content}

    def added_to(self, vocabulary: Sequence[str], directory: Path) -> list[dict[str, Any] | str]:
        """The tokenizer's option `added_tokens`, with those that the vocabulary lacks; ConfigError for wrong ids."""
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
                "%s has the special tokens %s without ids, and its vocabulary lacks them. They are ignored.",
                directory,
                quoted(absent),
            )
        return [token.as_config() for content, token in self.tokens.items() if content in known]


def read_named_tokens(files: VocabularyFiles, roles: Collection[str] = ()) -> NamedTokens:
    """Reads tokenizer.json, special_tokens_map.json, tokenizer_config.json and added_tokens.json; tokens of `roles` are
    special even if no file says so.
    """
    serialized, config = files.json("tokenizer.json"), files.json("tokenizer_config.json")
    decoder = config.section("added_tokens_decoder")
    special: dict[str, str] = {}
    others: dict[str, AddedToken] = {}
    for source in (
        files.json("special_tokens_map.json"),
        config,
    ):  # the latter takes precedence
        for option, name in HF_SPECIAL_TOKENS.items():
            if isinstance(source.get(name), dict):
                token = replace(_entry(source.section(name)), special=True)
                special[option], others[token.content] = token.content, token
            elif source.get(name) is not None:
                special[option] = source.take(name, str)
        for name in _LISTS:
            named = source.get(name)
            for item in named if isinstance(named, list) else ():
                entry = item if isinstance(item, dict) else {"content": item}
                entry = JsonObject(entry, f"{source.where}, {name}")
                token = replace(_entry(entry), special=True)
                others.setdefault(token.content, token)
    # added_tokens.json has no other fields; see transformers' _from_pretrained.
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
        raise ConfigError(f"{decoder.where}: {shown(index)} is no id. Ids are whole numbers.")
    return int(index)


def _entry(entry: JsonObject) -> AddedToken:
    content = entry.take("content", str)
    if not content:
        raise ConfigError(f"{entry.where} has no 'content', the text of the token.")
    names = [field.name for field in fields(AddedToken) if field.name != "content"]
    return AddedToken(content, **{name: entry.take(name, bool, False) for name in names})


def tokens_by_id(vocabulary: JsonObject) -> list[str]:
    """Returns the tokens in the order of their ids; ConfigError unless these are 0 to size - 1, each once."""
    ids = vocabulary.values_of(int)
    owners = {index: token for token, index in ids.items()}
    for token, index in ids.items():
        if owners[index] != token:
            raise ConfigError(
                f"{vocabulary.where} gives {shown(token)} and {shown(owners[index])} the same id "
                f"{index}. Fetch the file again."
            )
    if absent := [index for index in range(len(ids)) if index not in owners]:
        raise ConfigError(
            f"{vocabulary.where} has {len(ids)} tokens, whose ids must be 0 to {len(ids) - 1}, but none "
            f"has id {absent[0]}. Fetch the file again."
        )
    return [owners[index] for index in range(len(ids))]


def fairseq_words(files: VocabularyFiles) -> list[str]:
    """The tokens of a fairseq model: the words of dict.txt, with the special tokens that it omits."""
    words = [line.rsplit(" ", 1)[0] for line in files.lines("dict.txt")]
    return ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]


def refuse_others(
    wanted: list[tuple[str, object, object]], path: object, who: str, whose: str
) -> None:
    """Raises ConfigError if a setting (name, value, only supported value) of a tokenizer.json is not supported; `who`
    and `whose` name the tokenizer, and what the directory should belong to.
    """
    for name, value, supported in wanted:
        if value != supported:
            raise ConfigError(
                f"{path} has {name}={shown(value)}, but {who} supports only {supported!r}, and would give "
                f"other ids. Check that the directory belongs to {whose}."
            )
