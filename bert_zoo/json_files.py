"""JSON files that other programs wrote: errors that name file, key and line, and say what was wanted."""

import json
import math
from pathlib import Path
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import quoted, shown

_KINDS = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


# The largest vocabularies and indices of shards have some 40 MB.
LARGEST_FILE = 256 << 20


def read_whole(path: Path) -> bytes:
    """The bytes of a file that is read whole; raises ConfigError for one that is too large for it."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise ConfigError(
            f"{path} has {size:,} bytes; configurations and vocabularies are read up to "
            f"{LARGEST_FILE:,}. Check that it is what its name says."
        )
    return path.read_bytes()


def utf8_text(content: bytes, where: object) -> str:
    """The text of a file's bytes. Raises ConfigError, which names the line, where it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise ConfigError(
            f"{where}, line {line}: this is not UTF-8 ({problem.reason}, byte "
            f"0x{content[problem.start]:02x}). Convert the file to UTF-8 or fetch it again."
        ) from problem


def parse_json(text: str, path: object, first_line: int = 1, **options) -> Any:
    """Parses JSON that begins on a line of a file; `options` are those of `json.loads`.

    Raises:
        ValueError: it is not JSON, or Python cannot hold it.
    """

    def whole_number(digits: str) -> int:
        try:
            return int(digits)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {first_line}: the value that begins here has a number of "
                f"{len(digits):,} digits; write it as a string."
            ) from error

    try:
        return json.loads(text, parse_int=whole_number, **options)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {first_line + error.lineno - 1}: this is not JSON ({error.msg} at "
            f"character {error.colno}, {shown(text[error.pos : error.pos + 40])}). Correct the "
            "line or download the file again."
        ) from error
    except RecursionError as error:
        raise ValueError(
            f"{path}, line {first_line}: the value that begins here has lists or objects that are "
            "nested too deeply."
        ) from error


class JsonObject(dict):
    """A JSON object whose values are taken with their kind; `where` is its place, for messages.

    A kind is str, bool, int, float (a finite number), list, or dict, which gives a `JsonObject`. All
    methods raise ConfigError for a value of another kind.
    """

    def __init__(self, values: dict[str, Any], where: object):
        super().__init__(values)
        self.where = where

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        """A key's value; `default` stands in for a missing key and for null."""
        value = self.get(key)
        return default if value is None else _checked(value, key, kind, self.where)

    def section(self, key: str) -> "JsonObject":
        """A key's object; an empty one where the key is missing or null."""
        return self.take(key, dict, JsonObject({}, f"{self.where}, {key}"))

    def items_of(self, key: str, kind: type) -> list[Any]:
        """A key's list, with items of one kind; an empty one where the key is missing or null."""
        items = self.take(key, list, [])
        return [_checked(item, f"{key}[{i}]", kind, self.where) for i, item in enumerate(items)]

    def values_of(self, kind: type) -> dict[str, Any]:
        """All keys with their values, which are of one kind."""
        return {key: _checked(value, key, kind, self.where) for key, value in self.items()}


def _checked(value: Any, name: str, kind: type, where: object) -> Any:
    fits = isinstance(value, int | float if kind is float else kind)
    # To Python, and not to JSON, true is a whole number.
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{where}: {name} is {shown(value)}; it must be {_KINDS[kind]}.")
    if kind is float and not math.isfinite(value):
        raise ConfigError(f"{where}: {name} is {value}; it must be a finite number.")
    return JsonObject(value, f"{where}, {name}") if kind is dict else value


def member(record: Any, key: str, kind: type, where: object) -> Any:
    """The value of a key that a parsed object must have, of a kind as `JsonObject` knows them.

    Raises:
        ConfigError: it is no object, lacks the key, or has a value of another kind.
    """
    if not isinstance(record, dict):
        raise _not_an_object(record, where)
    if key not in record:
        raise ConfigError(f"{where}: {key!r} is missing; the keys are {quoted(record)}.")
    return _checked(record[key], key, kind, where)


def _not_an_object(value: Any, where: object) -> ConfigError:
    return ConfigError(f"{where} is {shown(value)}; it must be a JSON object.")


def as_object(value: Any, where: object) -> JsonObject:
    """A parsed value, which must be an object; else raises ConfigError."""
    if not isinstance(value, dict):
        raise _not_an_object(value, where)
    return JsonObject(value, where)


def parse_object(content: bytes, path: object) -> JsonObject:
    """Parses the bytes of a file that is one JSON object; else raises ConfigError."""
    return as_object(_parse(content, path), path)


def read_object(path: Path) -> JsonObject:
    """Reads a file that is one JSON object; else raises ConfigError."""
    return parse_object(read_whole(path), path)


def read_list(path: Path) -> list[Any]:
    """Reads a file that is a JSON list; else raises ConfigError."""
    values = _parse(read_whole(path), path)
    if not isinstance(values, list):
        raise ConfigError(f"{path} is {shown(values)}; it must be a JSON list.")
    return values


def _parse(content: bytes, path: object) -> Any:
    text = utf8_text(content, path)
    try:
        return parse_json(text, path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
