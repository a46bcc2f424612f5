"""Settings and durations in words, for pages and cards."""

from collections.abc import Mapping
from typing import Any

MINUTE, HOUR = 60, 3600


def setting(value: Any) -> str:
    """Formats the value of a setting."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def settings(values: Mapping[str, Any]) -> dict[str, str]:
    """Formats names and values of settings."""
    return {words(name): setting(value) for name, value in values.items()}


def words(name: str) -> str:
    """Returns the name of a field or metric in words."""
    return name.replace("_", " ")


def duration(seconds: float) -> str:
    """Formats a duration in its one or two largest units."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
