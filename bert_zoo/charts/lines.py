"""Line charts: a metric by epoch or step, or metrics by layer."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import NUM_DASHES, figure, legend, mark, path, round_ticks, scale, series
from bert_zoo.metrics.labels import mean_and_deviation
from bert_zoo.runtime.answers import number

WIDTH, HEIGHT = 320, 180
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 28
MOST_TICKS = 6
MOST_DOTS = 30
Scale = Callable[[float], float]


def line_chart(
    values: Sequence[float],
    name: str,
    marked: int,
    beside: Sequence[float] = (),
    *,
    at: Sequence[int] = (),
    unit: str = "epoch",
) -> Markup:
    """Draws one metric by epoch or step.

    Args:
        values: at least two values. Values that are not finite give gaps in the line.
        name: name of the metric, for screen readers.
        marked: the epoch or step to mark, such as that of the kept weights.
        beside: another metric on the same scale, as a dashed line.
        at: ascending epochs or steps of the values; by default 1, 2, ...
        unit: what `at` counts.

    Returns:
        A `Chart`; "" if no value is finite.
    """
    at = at or range(1, len(values) + 1)
    finite = [value for value in (*values, *beside) if math.isfinite(value)]
    if not finite:
        return Markup()
    x_of, y_of, parts = _axes(at, finite)

    def points(line: Sequence[float]) -> list[tuple[int, float, float]]:
        return [(i, x_of(at[i]), y_of(v)) for i, v in enumerate(line) if math.isfinite(v)]

    x = f"{x_of(marked):.1f}"
    parts.append(f'<line class="marker" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    if beside:
        parts.append(f'<path class="line baseline" d="{path(points(beside))}"/>')
    parts.append(f'<path class="line" d="{path(points(values))}"/>')
    for i, x, y in points(values):
        kept = at[i] == marked
        if kept or len(values) <= MOST_DOTS:
            parts.append(
                f'<circle class="{"dot kept" if kept else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
                f'r="{5 if kept else 3}"><title>{unit} {at[i]:,}: {number(values[i])}</title>'
                "</circle>"
            )
    label = f"{name} by {unit}, from {number(values[0])} to {number(values[-1])}"
    return figure(label, WIDTH, HEIGHT, parts)


def layer_curves(
    curves: Mapping[str, ArrayLike],
    baselines: Mapping[str, ArrayLike] | None = None,
    *,
    name: str = "score",
) -> Markup:
    """Draws metrics by layer: the mean over runs, within a band of one standard deviation to each side.

    Args:
        curves: name -> values [layers] or [runs, layers] of models or metrics, which may differ in their number of
            layers. Layers are counted from 0. Values that are not finite give gaps.
        baselines: name -> a number, or values [layers]; drawn as dashed lines.
        name: name of the metric, for screen readers.

    Returns:
        A `Chart` with a legend; "" if no value is finite.
    """
    spreads = {label: mean_and_deviation(values) for label, values in curves.items()}
    num_layers = max(len(mean) for mean, _ in spreads.values())
    flat = {
        label: np.broadcast_to(np.asarray(values, float), np.shape(values) or (num_layers,))
        for label, values in (baselines or {}).items()
    }
    drawn = [line for mean, spread in spreads.values() for line in (mean - spread, mean + spread)]
    finite = [value for line in (*drawn, *flat.values()) for value in line if math.isfinite(value)]
    if not finite:
        return Markup()
    x_of, y_of, parts = _axes(range(num_layers), finite)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="tick" text-anchor="middle" x="{middle}" y="{HEIGHT + 6}">layer</text>'
    )

    def points(line: np.ndarray) -> list[tuple[int, float, float]]:
        return [(i, x_of(i), y_of(value)) for i, value in enumerate(line) if math.isfinite(value)]

    entries = []
    for i, (label, line) in enumerate(flat.items()):
        style = f"line baseline dash{i % NUM_DASHES}"
        title = f"<title>{escape(label)}</title>"
        parts.append(f'<path class="{style}" d="{path(points(line))}">{title}</path>')
        entries.append((label, f'<path class="{style}" d="M-14 0H14"/>'))
    for i, (label, (mean, spread)) in enumerate(spreads.items()):
        if spread.any():
            edges = (*points(mean + spread), *points(mean - spread)[::-1])
            corners = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in edges)
            parts.append(f'<polygon class="band {series(i)}" points="{corners}"/>')
        parts.append(f'<path class="line {series(i)}" d="{path(points(mean))}"/>')
        for layer, x, y in points(mean):
            around = f" ± {number(spread[layer])}" if spread[layer] else ""
            parts.append(mark(i, x, y, f"{label}, layer {layer}: {number(mean[layer])}{around}"))
        key = f'<path class="line {series(i)}" d="M-14 0H14"/>{mark(i, 0, 0, label)}'
        entries.insert(i, (label, key))
    label = f"{name} by layer: {', '.join(spreads)}"
    return figure(label, WIDTH, HEIGHT + 14, parts, legend(entries))


def _axes(at: Sequence[int], finite: Sequence[float]) -> tuple[Scale, Scale, list[str]]:
    """The scales of positions and of values, and the ticks of both."""
    ticks = round_ticks(min(finite), max(finite))
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    x_of = scale(at[0], max(at[-1], at[0] + 1), LEFT + 8, WIDTH - RIGHT)
    y_of = scale(min(*finite, *ticks), max(*finite, *ticks), HEIGHT - BOTTOM, TOP)
    parts = [_value_tick(f"{tick:,.{decimals}f}", y_of(tick)) for tick in ticks]
    parts += [_position_tick(place, x_of(place)) for place in position_ticks(at)]
    return x_of, y_of, parts


def position_ticks(at: Sequence[int]) -> list[int]:
    """The epochs, steps or layers to number below the chart."""
    if at[-1] - at[0] < len(at):  # consecutive
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
