"""Settings and times as people read them, for pages and cards alike."""

from collections.abc import Mapping
from typing import Any

MINUTE, HOUR = 60, 3600


def setting(value: Any) -> str:
    """The value of a setting of the recipe."""
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
    """Names and values of settings."""
    return {words(name): setting(value) for name, value in values.items()}


def words(name: str) -> str:
    """The name of a field or a metric as words."""
    return name.replace("_", " ")


def duration(seconds: float) -> str:
    """A time in the two largest units that matter."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
