"""Small line charts as SVG, coloured by the page they stand in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bert_zoo.training.report.wording import figure

WIDTH, HEIGHT = 320, 180
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 28
MOST_TICKS = 6
MOST_DOTS = 30


@dataclass(frozen=True)
class Axis:
    """Maps values to places on the chart.

    Attributes:
        low, high: values at the two ends.
        start, end: the places of these.
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def line_chart(
    values: Sequence[float], name: str, marked: int, beside: Sequence[float] = ()
) -> str:
    """One figure by epoch.

    Args:
        values: of each epoch, at least two; values that are not finite are gaps in the line.
        name: of the figure, for people who hear the page.
        marked: the epoch that is kept, from 1.
        beside: another figure of each epoch on the same scale, as a dashed line.

    Returns:
        An `<svg>` element; its classes are styled by the page. Empty where nothing is finite.
    """
    finite = [value for value in (*values, *beside) if math.isfinite(value)]
    if not finite:
        return ""
    ticks = round_ticks(min(finite), max(finite))
    across = Axis(1, len(values), LEFT + 8, WIDTH - RIGHT)
    up = Axis(min(*finite, *ticks), max(*finite, *ticks), HEIGHT - BOTTOM, TOP)
    points, points_beside = (
        [
            (epoch, value, across.place(epoch), up.place(value))
            for epoch, value in enumerate(line, start=1)
            if math.isfinite(value)
        ]
        for line in (values, beside)
    )
    parts = [
        *(_value_tick(tick, up, ticks) for tick in ticks),
        *(_epoch_tick(epoch, across) for epoch in epoch_ticks(len(values))),
        _marker(across.place(marked)),
        *([f'<path class="line beside" d="{_path(points_beside)}"/>'] if points_beside else []),
        f'<path class="line" d="{_path(points)}"/>',
        *(
            _dot(*point, kept=point[0] == marked)
            for point in points
            if len(values) <= MOST_DOTS or point[0] == marked
        ),
    ]
    label = escape(f"{name} by epoch, from {figure(values[0])} to {figure(values[-1])}")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def round_ticks(low: float, high: float) -> list[float]:
    """Three to five round values that cover most of a range, also of one that is a single value."""
    span = (high - low) or abs(high) / 10 or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step)
    last = max(first + 1, math.ceil(high / step))
    return [number * step for number in range(first, last + 1)]


def epoch_ticks(count: int) -> list[int]:
    """The epochs that are numbered under the chart."""
    step = -(-count // MOST_TICKS)
    return list(range(1, count + 1, step))


def _value_tick(tick: float, up: Axis, ticks: Sequence[float]) -> str:
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    y = up.place(tick)
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">'
        f"{tick:,.{decimals}f}</text>"
    )


def _epoch_tick(epoch: int, across: Axis) -> str:
    x = across.place(epoch)
    return (
        f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}">'
        f"{epoch}</text>"
    )


def _marker(x: float) -> str:
    return f'<line class="marker" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'


def _path(points: Sequence[tuple[int, float, float, float]]) -> str:
    """A line that breaks where epochs are missing."""
    commands = []
    before = None
    for epoch, _, x, y in points:
        commands.append(f"{'L' if before == epoch - 1 else 'M'}{x:.1f} {y:.1f}")
        before = epoch
    return " ".join(commands)


def _dot(epoch: int, value: float, x: float, y: float, *, kept: bool) -> str:
    return (
        f'<circle class="{"dot kept" if kept else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
        f'r="{5 if kept else 3}"><title>epoch {epoch}: {figure(value)}</title></circle>'
    )
