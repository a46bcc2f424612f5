"""Files of vocabulary directories, and what Hugging Face's say of special and added tokens."""

from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject, parse_object, read_whole, utf8_text
from bert_zoo.text.vocabulary import HF_SPECIAL_TOKENS

# What files are called in the presets of KerasHub.
_OTHER_NAMES = {"vocab.txt": "vocabulary.txt", "vocab.json": "vocabulary.json"}


class VocabularyFiles:
    """The files of a directory that a tokenizer is made from.

    `contents` keeps the bytes of those that were read so far, by name.
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
    added: dict[int, str]  # id -> a token that is looked for in raw texts
    # Of those, the ones that are looked for in normalised text, where the others are not.
    normalized: frozenset[str]
    lstrip_mask: (
        bool | None
    )  # whether the mask token takes white space before it; None: no file says

    def added_to(self, vocabulary: list[str], directory: Path) -> list[str]:
        """The vocabulary with the added tokens that are not in it, which must follow it.

        Raises:
            ConfigError: an id that leaves a gap, or that another token has.
        """
        vocabulary = list(vocabulary)
        for index, token in self.added.items():
            if index == len(vocabulary):
                vocabulary.append(token)
            elif not 0 <= index < len(vocabulary):
                raise ConfigError(
                    f"The added token {shown(token)} in {directory} has id {shown(index)}, which "
                    f"leaves a gap after the vocabulary's {len(vocabulary)} tokens."
                )
            elif vocabulary[index] != token:
                raise ConfigError(
                    f"The added token {shown(token)} in {directory} has id {index}, but the "
                    f"vocabulary has {shown(vocabulary[index])} there."
                )
        return vocabulary


def read_named_tokens(
    files: VocabularyFiles, mask: Any, *, finds_normalized: bool = False
) -> NamedTokens:
    """Reads tokenizer.json, special_tokens_map.json, tokenizer_config.json and added_tokens.json.

    Args:
        files: of the directory.
        mask: the mask token where no file names it; it alone may take the white space before it.
        finds_normalized: whether the tokenizer finds tokens in normalised text too.

    Raises:
        ConfigError: a damaged file, or a token that is found otherwise than as it is written.
    """
    serialized, config = files.json("tokenizer.json"), files.json("tokenizer_config.json")
    sources = (files.json("special_tokens_map.json"), config)  # the latter overrules the former
    decoder = config.section("added_tokens_decoder")
    objects = [s.section("mask_token") for s in sources if isinstance(s.get("mask_token"), dict)]
    for source in sources:
        named = source.get("mask_token")
        mask = named.get("content") if isinstance(named, dict) else named or mask
    by_id = [
        *((entry.take("id", int), entry) for entry in serialized.items_of("added_tokens", dict)),
        *((_as_id(index, decoder), e) for index, e in decoder.values_of(dict).items()),
    ]
    lstrip_mask = None
    for entry in (*objects, *(entry for _, entry in by_id)):
        if entry.get("content") == mask and "lstrip" in entry:
            lstrip_mask = entry.take("lstrip", bool, False)

    special = {
        option: _content(source, name, mask)
        for source in sources
        for option, name in HF_SPECIAL_TOKENS.items()
        if source.get(name) is not None
    }
    added = {i: token for token, i in files.json("added_tokens.json").values_of(int).items()}
    normalized = set()
    for index, entry in by_id:
        added[index] = _plain(entry, mask)
        if entry.take("normalized", bool) and not entry.take("special", bool):
            normalized.add(added[index])
            if not finds_normalized:
                _refuse_normalized(entry)
    if None in added:
        raise ConfigError(f"{serialized.where}: the added token {shown(added[None])} has no id.")
    # A token with a role is special, whatever its entry says.
    normalized -= set(special.values())
    return NamedTokens(special, dict(sorted(added.items())), frozenset(normalized), lstrip_mask)


def _as_id(index: str, decoder: JsonObject) -> int:
    if not index.isdecimal() or len(index) > 18:
        raise ConfigError(f"{decoder.where}: {shown(index)} is no id.")
    return int(index)


def _content(source: JsonObject, name: str, mask: Any) -> str:
    """Returns a token's text, which stands alone or in an object with its switches."""
    if not isinstance(source[name], dict):
        return source.take(name, str)
    return _plain(source.section(name), mask)


def _refuse_normalized(entry: JsonObject) -> None:
    raise ConfigError(
        f"{entry.where}: the added token {shown(entry.get('content'))} has normalized=true: "
        "Hugging Face looks for it in the normalised text, which this tokenizer does not do, so "
        "ids would differ. Add it with normalized=False or special=True."
    )


def _plain(entry: JsonObject, mask: Any) -> str:
    """Returns a token's text; raises ConfigError where it is found otherwise than as it is written."""
    content = entry.take("content", str)
    if content is None:
        raise ConfigError(f"{entry.where} names no token: it has no 'content'.")
    # "normalized" is left out: Hugging Face never normalises a special token, whatever it says.
    switches = [
        switch
        for switch in ("lstrip", "rstrip", "single_word")
        if entry.take(switch, bool) and (switch, content) != ("lstrip", mask)
    ]
    if switches:
        raise ConfigError(
            f"{entry.where}: {shown(content)} has {' and '.join(switches)} set. This tokenizer finds such "
            "tokens only as they are written, so its ids would differ."
        )
    return content


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
