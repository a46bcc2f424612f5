"""Small line charts as SVG, coloured by the page they stand in."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from bert_zoo.cli.report.wording import number

WIDTH, HEIGHT = 320, 180
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 28
MOST_TICKS = 6
MOST_DOTS = 30


def line_chart(
    values: Sequence[float],
    name: str,
    marked: int,
    beside: Sequence[float] = (),
    *,
    at: Sequence[int] = (),
    unit: str = "epoch",
) -> Markup:
    """One metric by epoch or step, as an `<svg>` element whose classes the page styles.

    Args:
        values: at least two; values that are not finite are gaps in the line. Where none is, there is no
            chart: "".
        name: of the metric, for screen readers.
        marked: the epoch or step of the weights that are kept.
        beside: another metric on the same scale, as a dashed line.
        at: the epochs or steps of the values, rising; 1, 2, ... if not given.
        unit: what they are.
    """
    at = at or range(1, len(values) + 1)
    finite = [value for value in (*values, *beside) if math.isfinite(value)]
    if not finite:
        return Markup()
    ticks = round_ticks(min(finite), max(finite))
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    x_of = _scale(at[0], at[-1], LEFT + 8, WIDTH - RIGHT)
    y_of = _scale(min(*finite, *ticks), max(*finite, *ticks), HEIGHT - BOTTOM, TOP)

    def points(line: Sequence[float]) -> list[tuple[int, float, float]]:
        return [(i, x_of(at[i]), y_of(v)) for i, v in enumerate(line) if math.isfinite(v)]

    parts = [_value_tick(f"{tick:,.{decimals}f}", y_of(tick)) for tick in ticks]
    parts += [_position_tick(place, x_of(place)) for place in position_ticks(at)]
    x = f"{x_of(marked):.1f}"
    parts.append(f'<line class="marker" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    if beside:
        parts.append(f'<path class="line beside" d="{_path(points(beside))}"/>')
    parts.append(f'<path class="line" d="{_path(points(values))}"/>')
    for i, x, y in points(values):
        kept = at[i] == marked
        if kept or len(values) <= MOST_DOTS:
            parts.append(
                f'<circle class="{"dot kept" if kept else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
                f'r="{5 if kept else 3}"><title>{unit} {at[i]:,}: {number(values[i])}</title>'
                "</circle>"
            )
    label = escape(f"{name} by {unit}, from {number(values[0])} to {number(values[-1])}")
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return Markup(f'<svg {size} role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Maps values to positions on the chart: `low` to `start` and `high` to `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def round_ticks(low: float, high: float) -> list[float]:
    """Three to five round values that cover most of a range, also of one that is a single value."""
    span = (high - low) or abs(high) / 10 or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step)
    last = max(first + 1, math.ceil(high / step))
    return [i * step for i in range(first, last + 1)]


def position_ticks(at: Sequence[int]) -> list[int]:
    """The epochs or steps that are numbered under the chart."""
    if at[-1] - at[0] < len(at):  # one after the other
        return [*at[:: -(-len(at) // MOST_TICKS)]]
    return [round(tick) for tick in round_ticks(at[0], at[-1]) if at[0] <= tick <= at[-1]]


def _value_tick(text: str, y: float) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>'
    )


def _position_tick(place: int, x: float) -> str:
    y = HEIGHT - BOTTOM + 18
    return f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{y}">{place:,}</text>'


def _path(points: Sequence[tuple[int, float, float]]) -> str:
    """A line that breaks where points are missing."""
    before, commands = None, []
    for i, x, y in points:
        commands.append(f"{'L' if before == i - 1 else 'M'}{x:.1f} {y:.1f}")
        before = i
    return " ".join(commands)
