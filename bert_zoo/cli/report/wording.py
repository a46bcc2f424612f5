"""Numbers and settings as people read them, for pages and cards alike."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

MINUTE, HOUR = 60, 3600


def number(value: Any) -> str:
    """A measured number with four digits; a count in full; what is no number as it is, None as nothing."""
    if not isinstance(value, Real):
        return "" if value is None else str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if abs(value) < 10:
        return f"{value:.4f}"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


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
