"""How a configuration file of another program is read and written."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bert_zoo.config import Config, ConfigError, EncoderConfig
from bert_zoo.error_text import listing, shown


@dataclass(frozen=True)
class ConfigRow:
    """How one field of a configuration is spelled in a source format."""

    field: str  # of our configuration
    key: str = ""  # in the source's file; the field's name by default
    values: Mapping[Any, Any] | None = None  # the source's values -> ours, where they differ
    optional: bool = False  # whether a file may leave the key out (our default then applies)
    # What is written, where the field may leave it to others; the field by default.
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
            f"{self.key} is {shown(value)}; known values are {sorted(map(str, self.values))}."
        )

    def encode(self, value: Any) -> Any:
        if self.values is None:
            return value
        for theirs, ours in self.values.items():
            if ours == value:
                return theirs
        raise ConfigError(
            f"{self.field} is {shown(value)}, which {self.key} cannot say in this format; it says "
            f"{sorted(map(str, self.values.values()))}. Save in another format."
        )


@dataclass(frozen=True)
class ConfigCodec:
    """One format's configuration file: rows that carry information, and keys that do not."""

    rows: Sequence[ConfigRow]  # the fields that the file gives
    # Keys whose only supported values are the listed ones (another value would ask for an architecture
    # that this family does not have).
    fixed: Mapping[str, tuple] = field(default_factory=dict)
    # Keys that change nothing in the encoder; None where all others do not.
    ignored: frozenset[str] | None = frozenset()
    # Constant keys that a written file carries besides the rows.
    written: Mapping[str, Any] = field(default_factory=dict)
    # Fields of the configuration that the format fixes, or means where a file says nothing.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    config_class: type[Config] = EncoderConfig  # of what is read
    # From a file's content to one without keys that only other versions of the program wrote.
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    # The other way, from what the rows write to a file's content.
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def decode(self, values: Mapping[str, Any], *, where: str) -> Config:
        """Reads a configuration file's content.

        Args:
            values: the parsed JSON object.
            where: the file's name, for messages.

        Raises:
            ConfigError: a key is unknown, missing, or asks for something this family has not.
        """
        values = self.prepare(values)
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
                f"{listing(unknown)} is not known; if it changes nothing in the model, take it out of "
                "the file."
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

    def unsaid(self, values: Mapping[str, Any]) -> frozenset[str]:
        """The fields that a configuration file leaves out."""
        values = self.prepare(values)
        said = {row.field for row in self.rows if row.key in values}
        return frozenset(field.name for field in dataclasses.fields(self.config_class)) - said

    def encode(self, config: Config) -> dict[str, Any]:
        """The file's content for `config`; fields that the format lacks are left out."""
        values = {row.key: row.encode(getattr(config, row.written)) for row in self.rows}
        return {**self.written, **self.finish(values)}
