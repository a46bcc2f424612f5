"""Reads JSON files of other programs, with errors that name file, line, key and the expected type."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import Limit, limit_of, limits_of

# The next step after an error in a file that another program wrote.
CORRECT_IT = "Correct the line or download the file again."

# Bytes; the largest vocabularies and shard indices have about 40 MB.
LARGEST_FILE = 256 << 20


def read_whole(path: Path) -> bytes:
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise ConfigError(
            f"{path} has {size:,} bytes; configurations and vocabularies may have at most "
            f"{LARGEST_FILE:,}. Check that the file is what its name says."
        )
    return path.read_bytes()


def utf8_text(content: bytes, where: object) -> str:
    """Decodes a file's bytes. Raises ConfigError, with the line, if they are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise ConfigError(
            f"{where}, line {line}: this is not UTF-8 ({problem.reason}, byte "
            f"0x{content[problem.start]:02x}). Convert the file to UTF-8 or fetch it again."
        ) from problem


def parse_json(
    text: str, path: object, first_line: int = 1, *, remedy: str = CORRECT_IT, **options
) -> Any:
    """Parses JSON that starts on a given line of a file, by `json.loads` with options; ValueError, which ends with
    the next step `remedy`, if it is not JSON or has values that Python cannot represent."""

    def whole_number(digits: str) -> int:
        try:
            return int(digits)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {first_line}: the value that starts here has a number with "
                f"{len(digits):,} digits; write it as a string."
            ) from error

    try:
        return json.loads(text, parse_int=whole_number, **options)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {first_line + error.lineno - 1}: this is not JSON ({error.msg} at "
            f"character {error.colno}, {shown(text[error.pos : error.pos + 40])}). {remedy}"
        ) from error
    except RecursionError as error:
        raise ValueError(
            f"{path}, line {first_line}: the value that starts here is nested too deeply."
        ) from error


class JsonObject(dict):
    """A JSON object that checks the kinds of values it returns; `where` names its place in messages.

    A kind is str, bool, int, float (a finite number), list, or dict, which returns a `JsonObject`. All
    methods raise ConfigError for a value of another kind.
    """

    def __init__(self, values: dict[str, Any], where: object):
        super().__init__(values)
        self.where = where

    def take(self, key: str, kind: type, default: Any = None, **limits: Any) -> Any:
        """A key's value within the `limits` of `bert_zoo.fields.limit_of`, or `default` if the key is missing or null."""
        value = self.get(key)
        if value is None:
            return default
        return _checked(value, key, limit_of(kind, **limits), self.where)

    def section(self, key: str) -> "JsonObject":
        """A key's object, or an empty one if the key is missing or null."""
        return self.take(key, dict, JsonObject({}, f"{self.where}, {key}"))

    def items_of(self, key: str, kind: type) -> list[Any]:
        """A key's list with items of one kind, or [] if the key is missing or null."""
        limit = limit_of(kind)
        items = enumerate(self.take(key, list, []))
        return [_checked(item, f"{key}[{i}]", limit, self.where) for i, item in items]

    def values_of(self, kind: type) -> dict[str, Any]:
        """All keys and values; the values have one kind."""
        limit = limit_of(kind)
        return {key: _checked(value, key, limit, self.where) for key, value in self.items()}

    def record(self, kind: type, required: Collection[str] | None = None) -> Any:
        """The dataclass that an object was written from; it must have the `required` keys, by default all fields."""
        limits = limits_of(kind)
        required = limits.keys() if required is None else required
        if not {*required} <= self.keys() <= limits.keys():
            raise ConfigError(
                f"{self.where} has the keys {quoted(sorted(self))}; it must have {sorted(required)}, and no others than "
                f"{sorted(limits)}."
            )
        for name, value in self.items():
            _checked(value, name, limits[name], self.where)
        try:
            return kind(**self)
        except ValueError as error:
            raise ConfigError(f"{self.where}: {error}") from error


def _checked(value: Any, name: str, limit: Limit, where: object) -> Any:
    if not limit.accepts(value):  # most values are valid, and names take longer
        limit.check(f"{where}: {name}", value, ConfigError)
    return JsonObject(value, f"{where}, {name}") if isinstance(value, dict) else value


def member(record: Any, key: str, kind: type, where: object, **limits: Any) -> Any:
    """The value of a required key, with the limits of `bert_zoo.fields.limit_of`; ConfigError if `record` is not an
    object that has it."""
    record = record if isinstance(record, dict) else as_object(record, where)
    if key not in record:
        raise ConfigError(f"{where}: {key!r} is missing; the keys are {quoted(record)}.")
    return _checked(record[key], key, limit_of(kind, **limits), where)


def as_object(value: Any, where: object) -> JsonObject:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is {shown(value)}; it must be a JSON object.")
    return JsonObject(value, where)


def parse_object(content: bytes, path: object, remedy: str = CORRECT_IT) -> JsonObject:
    """Parses the bytes of a file that is one JSON object; else raises ConfigError, with a next step."""
    return as_object(_parse(content, path, remedy), path)


def read_object(path: Path, remedy: str = CORRECT_IT) -> JsonObject:
    return parse_object(read_whole(path), path, remedy)


def read_list(path: Path) -> list[Any]:
    values = _parse(read_whole(path), path)
    if not isinstance(values, list):
        raise ConfigError(f"{path} is {shown(values)}; it must be a JSON list.")
    return values


def _parse(content: bytes, path: object, remedy: str = CORRECT_IT) -> Any:
    text = utf8_text(content, path)
    try:
        return parse_json(text, path, remedy=remedy)
    except ValueError as error:
        raise ConfigError(str(error)) from error
