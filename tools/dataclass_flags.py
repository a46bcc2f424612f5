"""Command-line flags from the fields of dataclasses, described by their docstrings."""

import inspect
import re
import types
from dataclasses import Field, fields
from typing import Any, get_args, get_origin, get_type_hints

from absl import flags

DEFINE = {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    str: flags.DEFINE_string,
    tuple: flags.DEFINE_list,
}
# "    name, other: text", and on lines that are indented deeper what goes on.
ATTRIBUTE = re.compile(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)


def define_fields(options: type) -> list[str]:
    """Defines a flag for each field of a dataclass; one that is not set is None. Gives their names."""
    hints, texts = get_type_hints(options), descriptions(options)
    for field in fields(options):
        define = DEFINE[_plain_type(hints[field.name])]
        define(field.name, None, texts[field.name])
    return [field.name for field in fields(options)]


def descriptions(options: type) -> dict[str, str]:
    """Field -> what the docstring's section "Attributes" says of it, as a sentence."""
    found = {}
    for match in ATTRIBUTE.finditer(inspect.getdoc(options)):
        text = " ".join(match[2].split()).replace("`", "")
        for name in match[1].split(", "):
            found[name] = text[0].upper() + text[1:]
    return found


def _plain_type(hint: Any) -> type:
    """The type of a value that may be None; tuple for tuples."""
    if isinstance(hint, types.UnionType):
        hint = next(option for option in get_args(hint) if option is not type(None))
    return get_origin(hint) or hint


def given(options: type) -> dict[str, Any]:
    """Field name -> value of those fields of a dataclass whose flags are set."""
    hints = get_type_hints(options)
    values = {field.name: _value(field, hints[field.name]) for field in fields(options)}
    return {name: value for name, value in values.items() if value is not None}


def _value(field: Field, hint: Any) -> Any:
    value = flags.FLAGS[field.name].value
    return tuple(map(get_args(hint)[0], value)) if isinstance(value, list) else value
