"""The parts of every chart: the figure with its legend, scales and ticks, and the marks of series."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from markupsafe import Markup, escape

# The CSS of all charts, for the `<style>` of a page whose `<html>` has the class "bert-zoo".
STYLE = Markup((Path(__file__).parent / "charts.css").read_text(encoding="utf-8"))
# Series differ by colour (in the style) and by shape, so that they differ without colours too.
NUM_COLOURS = 6
SHAPES = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3-3h6v6h-6z",
    "M0-4l4 7h-8z",
    "M0-4.5L4.5 0L0 4.5L-4.5 0z",
    "M-4-1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
)
NUM_DASHES = 3


class Chart(Markup):
    """A `<figure>` with an SVG drawing, as a string of HTML. A notebook shows it with its style."""

    def _repr_html_(self) -> str:
        return f'<div class="bert-zoo"><style>{STYLE}</style>{self}</div>'

    def __repr__(self) -> str:
        return "<Chart>"  # notebooks store it next to the drawing


def figure(
    label: str,
    width: float,
    height: float,
    parts: Iterable[str],
    caption: str = "",
    *,
    scrolls: bool = False,
    role: str = "img",
) -> Chart:
    """Puts SVG elements into a figure; `width` and `height` are in the drawing's own units.

    Args:
        label: what the drawing shows, for screen readers.
        caption: HTML below the drawing.
        scrolls: keep one pixel per unit and scroll if the page is narrower. Otherwise the drawing fills the width.
        role: ARIA role: "img", or "group" if the drawing has parts to interact with, such as links.
    """
    size = f' width="{width:.0f}" height="{height:.0f}"' if scrolls else ""
    drawing = (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}"{size} role="{role}" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
    if scrolls:
        drawing = f'<div class="scroll" tabindex="0">{drawing}</div>'
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return Chart(f'<figure class="chart{" long" if scrolls else ""}">{drawing}{below}</figure>')


def series(index: int) -> str:
    """The CSS class that colours the parts of a series."""
    return f"series{index % NUM_COLOURS}"


def mark(index: int, x: float, y: float, title: str) -> str:
    """A point of a series, with a title."""
    return (
        f'<path class="mark {series(index)}" transform="translate({x:.1f} {y:.1f})" '
        f'd="{SHAPES[index % len(SHAPES)]}"><title>{escape(title)}</title></path>'
    )


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """A legend of pairs of name and key; a key is SVG in 28 x 12 units around (0, 0)."""
    return "".join(
        f'<span class="entry"><svg class="key" viewBox="-14 -6 28 12" aria-hidden="true">{key}</svg>'
        f"{escape(name)}</span>"
        for name, key in entries
    )


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Returns a function from values to positions that maps `low` to `start` and `high` to `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def round_ticks(low: float, high: float) -> list[float]:
    """Returns a few round values that cover a range, even if it is a single value."""
    span = high - low
    if span <= 1e-9 * abs(high):  # one value, up to rounding
        span = abs(high) / 10 or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step)
    last = max(first + 1, math.ceil(high / step))
    return [i * step for i in range(first, last + 1)]


def text_width(text: str, size: float) -> float:
    """Estimates the width of a text at a font size, without a font to measure it."""
    units = (1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in text)
    return size * sum(units)


def path(points: Sequence[tuple[int, float, float]]) -> str:
    """An SVG path through numbered points (number, x, y), with a gap wherever a number is missing."""
    before, commands = None, []
    for i, x, y in points:
        commands.append(f"{'L' if before == i - 1 else 'M'}{x:.1f} {y:.1f}")
        before = i
    return " ".join(commands)
