"""Reads and writes configuration files of other programs."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bert_zoo.config import Config, ConfigError, EncoderConfig
from bert_zoo.error_text import listing, shown


@dataclass(frozen=True)
class ConfigRow:
    """The spelling of a configuration field in another format."""

    field: str  # the field of our configuration
    key: str = ""  # the key in the file; by default the field's name
    values: Mapping[Any, Any] | None = None  # values in the file -> ours, if they differ
    optional: bool = False  # whether a file may omit the key (our default then applies)
    # The attribute to write, if the field may be derived from others; by default the field.
    written: str = ""

    def __post_init__(self):
        object.__setattr__(self, "key", self.key or self.field)
        object.__setattr__(self, "written", self.written or self.field)

    def decode(self, value: Any) -> Any:
        if self.values is None:
            return value
        for theirs, ours in self.values.items():
            if theirs == value:
                return ours
        raise ConfigError(
            f"{self.key} is {shown(value)}; it must be one of {sorted(map(str, self.values))}."
        )

    def encode(self, value: Any) -> Any:
        if self.values is None:
            return value
        for theirs, ours in self.values.items():
            if ours == value:
                return theirs
        raise ConfigError(
            f"{self.field} is {shown(value)}, but in this format {self.key} can only mean "
            f"{sorted(map(str, self.values.values()))}. Save in another format."
        )


@dataclass(frozen=True)
class ConfigCodec:
    """A format's configuration file: rows for its fields, and other keys."""

    rows: Sequence[ConfigRow]  # the fields in the file
    # Keys with the only values that this family supports; others would need another architecture.
    fixed: Mapping[str, tuple] = field(default_factory=dict)
    # Keys that do not change the encoder; None for all other keys.
    ignored: frozenset[str] | None = frozenset()
    # Constant keys to write in addition to the rows.
    written: Mapping[str, Any] = field(default_factory=dict)
    # Fields of the configuration that the format fixes, or their defaults in the format.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    config_class: type[Config] = EncoderConfig  # class of the configuration
    # Keys of other programs, which a file may have instead -> the keys of rows.
    also: Mapping[str, str] = field(default_factory=dict)
    # From a file's content to one without keys of other versions of the program.
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    # From the content that the rows write to the file's content.
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def decode(self, values: Mapping[str, Any], *, where: str) -> Config:
        """Reads a configuration file's content.

        Args:
            values: the parsed JSON object.
            where: the file's name, for messages.

        Raises:
            ConfigError: a key is unknown or missing, or has a value that this family does not support.
        """
        values = self._prepared(values)
        rows = {row.key: row for row in self.rows}
        problems, fields, unknown = [], {}, []
        for key, value in values.items():
            if key in rows:
                if value is None and rows[key].optional:
                    continue
                try:
                    fields[rows[key].field] = rows[key].decode(value)
                except ConfigError as error:
                    problems.append(str(error))
            elif key in self.fixed:
                if value not in self.fixed[key]:
                    problems.append(
                        f"{key} is {shown(value)}; only {list(self.fixed[key])} is supported."
                    )
            elif self.ignored is not None and key not in self.ignored:
                unknown.append(f"{key} (= {shown(value, 60)})")
        if unknown:
            problems.append(
                f"{listing(unknown)} is not known. Remove it from the file if it does not change the model."
            )
        missing = [row.key for row in self.rows if not row.optional and row.key not in values]
        if missing:
            problems.append(f"The keys {missing} are missing.")
        if problems:
            raise ConfigError(f"{where} cannot be used: " + " ".join(problems))
        try:
            return self.config_class(**{**self.defaults, **fields})
        except ConfigError as error:
            other_names = [
                f"{row.field} is {row.key} in the file"
                for row in self.rows
                if row.field != row.key and re.search(rf"\b{row.field}\b", str(error))
            ]
            said = f" ({'; '.join(other_names)}.)" if other_names else ""
            raise ConfigError(f"{where}: {error}{said}") from error

    def _prepared(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A file's content without keys of other programs; ConfigError if two keys for the same thing differ."""
        values = dict(self.prepare(values))
        for key, name in self.also.items():
            said = values.pop(key, None)
            if said is not None and values.setdefault(name, said) != said:
                raise ConfigError(f"{key} is {shown(said)}, but {name} is {shown(values[name])}.")
        return values

    def unsaid(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Returns the fields that a configuration file omits."""
        values = self._prepared(values)
        said = {row.field for row in self.rows if row.key in values}
        return frozenset(field.name for field in dataclasses.fields(self.config_class)) - said

    def encode(self, config: Config) -> dict[str, Any]:
        """Returns the file's content for `config`, without fields that the format does not have."""
        values = {row.key: row.encode(getattr(config, row.written)) for row in self.rows}
        return {**self.written, **self.finish(values)}
