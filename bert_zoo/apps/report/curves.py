"""Small line charts as SVG, coloured by the page they stand in."""

import math
from collections.abc import Callable, Sequence
from html import escape

from bert_zoo.apps.report.wording import number

WIDTH, HEIGHT = 320, 180
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 28
MOST_TICKS = 6
MOST_DOTS = 30


def line_chart(
    values: Sequence[float], name: str, marked: int, beside: Sequence[float] = ()
) -> str:
    """One metric by epoch, as an `<svg>` element whose classes the page styles.

    Args:
        values: of each epoch, at least two; values that are not finite are gaps in the line. Where none
            is, there is no chart: "".
        name: of the metric, for people who hear the page.
        marked: the epoch that is kept, from 1.
        beside: another metric of each epoch on the same scale, as a dashed line.
    """
    finite = [value for value in (*values, *beside) if math.isfinite(value)]
    if not finite:
        return ""
    ticks = round_ticks(min(finite), max(finite))
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    x_of = _scale(1, len(values), LEFT + 8, WIDTH - RIGHT)
    y_of = _scale(min(*finite, *ticks), max(*finite, *ticks), HEIGHT - BOTTOM, TOP)

    def points(line: Sequence[float]) -> list[tuple[int, float, float]]:
        epochs = enumerate(line, start=1)
        return [(epoch, x_of(epoch), y_of(v)) for epoch, v in epochs if math.isfinite(v)]

    parts = [_value_tick(f"{tick:,.{decimals}f}", y_of(tick)) for tick in ticks]
    parts += [_epoch_tick(epoch, x_of(epoch)) for epoch in epoch_ticks(len(values))]
    x = f"{x_of(marked):.1f}"
    parts.append(f'<line class="marker" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    if beside:
        parts.append(f'<path class="line beside" d="{_path(points(beside))}"/>')
    parts.append(f'<path class="line" d="{_path(points(values))}"/>')
    for epoch, x, y in points(values):
        kept = epoch == marked
        if kept or len(values) <= MOST_DOTS:
            parts.append(
                f'<circle class="{"dot kept" if kept else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
                f'r="{5 if kept else 3}"><title>epoch {epoch}: {number(values[epoch - 1])}</title>'
                "</circle>"
            )
    label = escape(f"{name} by epoch, from {number(values[0])} to {number(values[-1])}")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


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


def epoch_ticks(count: int) -> list[int]:
    """The epochs that are numbered under the chart."""
    return list(range(1, count + 1, -(-count // MOST_TICKS)))


def _value_tick(text: str, y: float) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>'
    )


def _epoch_tick(epoch: int, x: float) -> str:
    y = HEIGHT - BOTTOM + 18
    return f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{y}">{epoch}</text>'


def _path(points: Sequence[tuple[int, float, float]]) -> str:
    """A line that breaks where epochs are missing."""
    before, commands = None, []
    for epoch, x, y in points:
        commands.append(f"{'L' if before == epoch - 1 else 'M'}{x:.1f} {y:.1f}")
        before = epoch
    return " ".join(commands)
