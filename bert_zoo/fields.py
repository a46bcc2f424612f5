"""Declares settings: a type, limits and words, by which configurations, recipes, JSON files and arguments are checked."""

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, lru_cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from bert_zoo.error_text import quoted, shown

# Kind of limit -> whether a value keeps a bound, and words.
_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "least": (operator.ge, "of at least"),
    "above": (operator.gt, "above"),
    "most": (operator.le, "of at most"),
    "below": (operator.lt, "below"),
}


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, Integral)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Real)) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    # False for NaN, and for whole numbers that no float can hold.
    return is_number(value) and abs(value) <= sys.float_info.max


@dataclass(frozen=True)
class Limit:
    """The valid values of a setting."""

    wanted: str  # description for messages, the end of "it must be"
    accepts: Callable[[Any], bool]

    def problem(self, name: str, value: Any) -> str:
        """What is wrong with a value; "" if it is valid."""
        if self.accepts(value):
            return ""
        return f"{name} is {shown(value)}; it must be {self.wanted}."

    def check(self, name: str, value: Any, error: type[ValueError] = ValueError) -> None:
        if problem := self.problem(name, value):
            raise error(problem)


# Values of a type without limits.
_TYPES = {
    NoneType: Limit("None", lambda value: value is None),
    bool: Limit("true or false", lambda value: isinstance(value, bool)),
    int: Limit("a whole number", is_integer),
    float: Limit("a finite number", _is_finite),
    str: Limit("a string", lambda value: isinstance(value, str)),
    dict: Limit("an object", lambda value: isinstance(value, dict)),
    list: Limit("a list", lambda value: isinstance(value, list)),
}


def limit_of(
    kind: Any, *, choices: Iterable[str] | None = None, note: str = "", **limits: Any
) -> Limit:
    """The values of a type, such as `int | None` or `tuple[float, ...]`.

    Args:
        kind: the type. `float` has the whole numbers too; classes other than JSON's have only their own objects.
        choices: the only strings.
        note: further words about the limits, such as where one comes from.
        limits: `least`, `above`, `most` and `below` for all numbers, also those in lists, and `special`: a number outside
            of these bounds, and its meaning.
    """
    limit = _limit_of(kind, choices if choices is None else tuple(choices), **limits)
    return replace(limit, wanted=f"{limit.wanted}, {note}") if note else limit


@lru_cache(maxsize=1_000)  # JSON files have many values of one kind
def _limit_of(
    kind: Any,
    choices: tuple[str, ...] | None,
    special: tuple[float, str] | None = None,
    **bounds: float,
) -> Limit:
    if special is not None:
        limit, (other, meaning) = _limit_of(kind, choices, **bounds), special
        return Limit(
            f"{other} ({meaning}) or {limit.wanted}",
            lambda value: limit.accepts(value) or (is_number(value) and value == other),
        )
    origin, parts = get_origin(kind) or kind, get_args(kind)
    inner = [_limit_of(part, choices, **bounds) for part in parts if part is not ...]
    if origin is UnionType:
        wanted = ", or ".join(each.wanted for each in inner)
        return Limit(wanted, lambda value: any(each.accepts(value) for each in inner))
    if origin in (tuple, list, Sequence) and parts:
        count = len(inner) if origin is tuple and ... not in parts else None
        return Limit(
            f"a list{'' if count is None else f' of {count}'}, each item {inner[0].wanted}",
            lambda value: (
                isinstance(value, list | tuple)
                and count in (None, len(value))
                and all(map(inner[0].accepts, value))
            ),
        )
    if origin is str and choices is not None:
        is_string = _TYPES[str].accepts
        return Limit(f"one of {quoted(choices)}", lambda v: is_string(v) and v in choices)
    if origin in (int, float) and bounds:
        has_type, tests = _TYPES[origin].accepts, [(_BOUNDS[k][0], b) for k, b in bounds.items()]
        return Limit(
            f"a {'whole ' if origin is int else ''}number {_range_of(bounds)}",
            lambda value: has_type(value) and all(holds(value, bound) for holds, bound in tests),
        )
    wanted = f"of the type {getattr(origin, '__name__', origin)}"
    return _TYPES.get(origin) or Limit(wanted, lambda value: isinstance(value, origin))


def _range_of(bounds: Mapping[str, float]) -> str:
    said = {name: f"{bound:,.12g}" for name, bound in bounds.items()}
    if {*said} == {"least", "most"}:
        return f"from {said['least']} to {said['most']}"
    parts = [f"{_BOUNDS[name][1]} {bound}" for name, bound in said.items()]
    return " and ".join(parts).replace(" and of ", " and ")


def setting(default: Any = MISSING, text: str = "", **limits: Any) -> Any:
    """A field of a dataclass that `check_fields` checks, with the limits of `limit_of`: `--help` shows its text up to
    the first ";" or ".", `--helpfull` all of it."""
    return field(default=default, metadata={"help": text, "limits": limits})


@cache
def limits_of(record: type) -> dict[str, Limit]:
    """The limits of a dataclass's fields. A class that only changes a default has the limits of the one it inherits."""
    said: dict[str, Mapping[str, Any]] = {}
    for base in reversed(record.__mro__):
        known = vars(base).get("__dataclass_fields__", {})
        said |= {name: each.metadata["limits"] for name, each in known.items() if each.metadata}
    hints = get_type_hints(record)
    names = [each.name for each in fields(record)]
    return {name: limit_of(hints[name], **said.get(name, {})) for name in names}


def field_problems(record: Any) -> list[str]:
    """What is wrong with the fields of a dataclass, each on its own. Lists become tuples, and numbers of NumPy Python's."""
    problems = []
    for name, limit in limits_of(type(record)).items():
        value = getattr(record, name)
        if problem := limit.problem(name, value):
            problems.append(problem)
        else:
            object.__setattr__(record, name, _of_python(value))
    return problems


def _of_python(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_of_python, value))
    if not is_number(value) or isinstance(value, int | float):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def check_fields(record: Any, error: type[ValueError] = ValueError) -> None:
    if problems := field_problems(record):
        raise error(" ".join(problems))


def check(
    name: str, value: Any, kind: Any, error: type[ValueError] = ValueError, **limits: Any
) -> None:
    """Raises ValueError for an argument that `limit_of` does not accept."""
    limit_of(kind, **limits).check(name, value, error)
