"""Numbers and settings as people read them, for the page and the card alike."""

import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")

MINUTE, HOUR = 60, 3600


def number(value: Real) -> str:
    """A measured number with four digits; a count in full."""
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


def with_paper_links(text: str, link: Callable[[str, str], str]) -> str:
    """A text, escaped for where it goes, in which arXiv numbers are `link(shown, address)`."""
    return ARXIV.sub(lambda found: link(found[0], f"https://arxiv.org/abs/{found[1]}"), text)
