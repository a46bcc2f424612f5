"""Charts as SVG: lines, heat maps, scatter plots and dependency trees, and the parts that they share."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.metrics.labels import mean_and_deviation
from bert_zoo.printing import number

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
WIDTH = 320  # of all charts but trees, in the drawing's units
SMALL = 10  # font size of labels


class Chart(Markup):
    """A `<figure>`, as a string of HTML. A notebook shows it with its style."""

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


def text(x: float, y: float, content: object, kind: str = "label", anchor: str = "middle") -> str:
    return f'<text class="{kind}" text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}">{escape(content)}</text>'


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


def line_path(points: Sequence[tuple[int, float, float]]) -> str:
    """An SVG path through numbered points (number, x, y), with a gap wherever a number is missing."""
    before, commands = None, []
    for i, x, y in points:
        commands.append(f"{'L' if before == i - 1 else 'M'}{x:.1f} {y:.1f}")
        before = i
    return " ".join(commands)


# --- Line charts: a metric by epoch or step, or metrics by layer ---

LINES_HEIGHT = 180
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
    x_of, points, parts = _axes(at, finite)
    x = f"{x_of(marked):.1f}"
    parts.append(
        f'<line class="marker" x1="{x}" x2="{x}" y1="{TOP}" y2="{LINES_HEIGHT - BOTTOM}"/>'
    )
    if beside:
        parts.append(f'<path class="line baseline" d="{line_path(points(beside))}"/>')
    parts.append(f'<path class="line" d="{line_path(points(values))}"/>')
    for i, x, y in points(values):
        kept = at[i] == marked
        if kept or len(values) <= MOST_DOTS:
            parts.append(
                f'<circle class="{"dot kept" if kept else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
                f'r="{5 if kept else 3}"><title>{unit} {at[i]:,}: {number(values[i])}</title>'
                "</circle>"
            )
    label = f"{name} by {unit}, from {number(values[0])} to {number(values[-1])}"
    return figure(label, WIDTH, LINES_HEIGHT, parts)


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
    _, points, parts = _axes(range(num_layers), finite)
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, LINES_HEIGHT + 6, "layer", "tick"))
    entries = []
    for i, (label, line) in enumerate(flat.items()):
        style = f"line baseline dash{i % NUM_DASHES}"
        title = f"<title>{escape(label)}</title>"
        parts.append(f'<path class="{style}" d="{line_path(points(line))}">{title}</path>')
        entries.append((label, f'<path class="{style}" d="M-14 0H14"/>'))
    for i, (label, (mean, spread)) in enumerate(spreads.items()):
        if spread.any():
            edges = (*points(mean + spread), *points(mean - spread)[::-1])
            corners = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in edges)
            parts.append(f'<polygon class="band {series(i)}" points="{corners}"/>')
        parts.append(f'<path class="line {series(i)}" d="{line_path(points(mean))}"/>')
        for layer, x, y in points(mean):
            around = f" ± {number(spread[layer])}" if spread[layer] else ""
            parts.append(mark(i, x, y, f"{label}, layer {layer}: {number(mean[layer])}{around}"))
        key = f'<path class="line {series(i)}" d="M-14 0H14"/>{mark(i, 0, 0, label)}'
        entries.insert(i, (label, key))
    label = f"{name} by layer: {', '.join(spreads)}"
    return figure(label, WIDTH, LINES_HEIGHT + 14, parts, legend(entries))


def _axes(at: Sequence[int], finite: Sequence[float]) -> tuple[Scale, Callable, list[str]]:
    """The scale of positions, a function from values at all positions to the points of the finite ones, and ticks."""
    ticks = round_ticks(min(finite), max(finite))
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    x_of = scale(at[0], max(at[-1], at[0] + 1), LEFT + 8, WIDTH - RIGHT)
    y_of = scale(min(*finite, *ticks), max(*finite, *ticks), LINES_HEIGHT - BOTTOM, TOP)
    parts = []
    for tick in ticks:
        y = y_of(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(text(LEFT - 6, y + 4, f"{tick:,.{decimals}f}", "tick", "end"))
    below = LINES_HEIGHT - BOTTOM + 18
    parts += [text(x_of(place), below, f"{place:,}", "tick") for place in position_ticks(at)]

    def points(line: Sequence[float]) -> list[tuple[int, float, float]]:
        return [(i, x_of(at[i]), y_of(v)) for i, v in enumerate(line) if math.isfinite(v)]

    return x_of, points, parts


def position_ticks(at: Sequence[int]) -> list[int]:
    """The epochs, steps or layers to number below the chart."""
    if at[-1] - at[0] < len(at):  # consecutive
        return [*at[:: -(-len(at) // MOST_TICKS)]]
    return [round(tick) for tick in round_ticks(at[0], at[-1]) if at[0] <= tick <= at[-1]]


# --- Heat maps, for example layers by heads or layers by layers ---

HIGHEST, WIDEST = 24, 44  # limits of a cell
# Cells at least this wide show their values.
READABLE = 26
# Above this share of the range a cell is dark, and its text light.
STRONG = 0.6


def heat_map(
    values: ArrayLike,
    rows: Sequence[object],
    columns: Sequence[object],
    *,
    name: str = "value",
    row_axis: str = "layer",
    column_axis: str = "head",
    limits: tuple[float, float] | None = None,
    link: str = "",
) -> Markup:
    """Draws a table of values as colours.

    Args:
        values: [rows, columns]. Values that are not finite give empty cells.
        rows, columns: names of the rows and columns, the first row on top.
        name: what the values are.
        row_axis, column_axis: what rows and columns are.
        limits: the values of the palest and the strongest colour. By default the lowest value, but at most 0, and
            the highest value, but at least 0.
        link: link of each cell, such as "attention.html#layer={row}&head={column}", where row and column become
            numbers from 0.

    Returns:
        A `Chart`.

    Raises:
        ValueError: the shape of values does not match the names.
    """
    values = np.asarray(values, float)
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A heat map of {len(rows)} rows and {len(columns)} columns needs values of shape "
            f"{(len(rows), len(columns))}, not {values.shape}."
        )
    finite = values[np.isfinite(values)]
    low, high = limits or (finite.min(initial=0.0), finite.max(initial=0.0))
    left = max(text_width(str(row), SMALL) for row in rows) + 22
    column_width = max(text_width(str(column), SMALL) for column in columns)
    width = min((WIDTH - left) / len(columns), WIDEST)
    height = min(max(width, 14), HIGHEST)
    upright = column_width > width - 2
    top = (column_width if upright else SMALL) + 22
    right, bottom = left + width * len(columns), top + height * len(rows)

    parts = [
        text(left, SMALL, column_axis, "tick", "start"),
        f'<text class="tick" text-anchor="end" transform="translate({SMALL} {top:.1f}) rotate(-90)">'
        f"{escape(row_axis)}</text>",
    ]
    for j, column in enumerate(columns):
        x, turn = left + width * (j + 0.5), ""
        if upright:
            x, turn = x + 3.5, " rotate(-90)"
        anchor = "start" if upright else "middle"
        parts.append(
            f'<text class="label" text-anchor="{anchor}" '
            f'transform="translate({x:.1f} {top - 5:.1f}){turn}">{escape(str(column))}</text>'
        )
    for i, row in enumerate(rows):
        y = top + height * (i + 0.5)
        parts.append(text(left - 5, y + 3.5, row, anchor="end"))
        for j, column in enumerate(columns):
            value = values[i, j]
            share = min(max((value - low) / ((high - low) or 1), 0), 1)
            title = f"{row_axis} {row}, {column_axis} {column}: {number(float(value))}"
            x = left + width * j
            cell = _cell(x, y - height / 2, width, height, share, title)
            if width >= READABLE and math.isfinite(value):
                kind = "label value strong" if share > STRONG else "label value"
                cell += text(x + width / 2, y + 3.5, _short(value), kind)
            if link:
                target = escape(link.format(row=i, column=j))
                cell = f'<a href="{target}" aria-label="{escape(title)}">{cell}</a>'
            parts.append(cell)
    steps = "".join(_cell(-14 + 7 * k, -6, 7, 12, k / 3, "") for k in range(4))
    caption = (
        f'<span class="entry">{escape(name)} {number(float(low))} <svg class="key" '
        f'viewBox="-14 -6 28 12" aria-hidden="true">{steps}</svg>{number(float(high))}</span>'
    )
    role = "group" if link else "img"
    label = f"{name} by {row_axis} and {column_axis}"
    return figure(label, max(right + 2, WIDTH), bottom + 2, parts, caption, role=role)


def _cell(x: float, y: float, width: float, height: float, share: float, title: str) -> str:
    """A rectangle as dark as its share of the range; an outline if the share is not a number."""
    paint = f' fill-opacity="{0.05 + 0.95 * share:.2f}"' if math.isfinite(share) else ""
    shown = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect class="cell{"" if paint else " empty"}" x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" '
        f'width="{width - 1:.1f}" height="{height - 1:.1f}"{paint}>{shown}</rect>'
    )


def _short(value: float) -> str:
    """A value in at most four characters if possible: ".87", "12.3", "123"."""
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    short = f"{value:.{decimals}f}"
    return short.replace("0.", ".", 1) if abs(value) < 1 else short


# --- Scatter plots with labels, for example of the occurrences of a word or the heads of a model ---

SCATTER_HEIGHT, MARGIN = 260, 16  # the largest height
# If a name has more characters, the drawing shows numbers, and a list below it the names.
LONGEST = 14


def scatter(
    points: ArrayLike,
    names: Sequence[str],
    groups: Sequence[object] = (),
    *,
    name: str = "points",
) -> Markup:
    """Draws named points in the plane, with the same scale on both axes.

    Args:
        points: coordinates [n, 2].
        names: names of the points. The drawing leaves out names that it has no room for; titles always have them.
        groups: a group for each point, shown by colour, shape and legend; none by default.
        name: what the points are, for screen readers.

    Returns:
        A `Chart`.

    Raises:
        ValueError: the numbers of points, names and groups differ.
    """
    points = np.asarray(points, float)
    if points.shape != (len(names), 2) or (len(groups) and len(groups) != len(names)):
        raise ValueError(
            f"{len(names)} names need points of shape {(len(names), 2)}, not {points.shape}, and {len(names)} groups "
            f"or none, not {len(groups)}."
        )
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([WIDTH, SCATTER_HEIGHT]) - 2 * MARGIN
    units = min(room / np.maximum(high - low, 1e-12))
    height = (high - low)[1] * units + 2 * MARGIN
    across, up = (points - (low + high) / 2).T * units
    places = np.stack([WIDTH / 2 + across, height / 2 - up], axis=1)
    kinds = list(dict.fromkeys(groups))
    is_listed = max(map(len, names)) > LONGEST
    shown = [str(i) for i in range(1, len(names) + 1)] if is_listed else names

    parts = []
    for i, (x, y) in enumerate(places):
        kind = kinds.index(groups[i]) if kinds else 0
        title = f"{names[i]} ({groups[i]})" if kinds else names[i]
        parts.append(mark(kind, x, y, title))
    parts += _labels(places, shown)
    caption = ""
    if len(kinds) > 1:
        caption = legend((str(kind), mark(k, 0, 0, str(kind))) for k, kind in enumerate(kinds))
    if is_listed:
        items = "".join(f"<li>{escape(each)}</li>" for each in names)
        caption += (
            f"<details><summary>The {len(names)} {escape(name)}</summary><ol>{items}</ol></details>"
        )
    return figure(f"{len(names)} {name} in two dimensions", WIDTH, height, parts, caption)


def _labels(places: np.ndarray, names: Sequence[str]) -> list[str]:
    """Names to the right or left of their points, unless they would cover another name."""
    parts: list[str] = []
    taken: list[tuple[float, float, float]] = []  # left, right, baseline
    for (x, y), label in zip(places, names, strict=True):
        width = text_width(label, SMALL)
        for left, anchor, start in ((x + 6, "start", x + 6), (x - 6 - width, "end", x - 6)):
            is_free = all(
                left > end or left + width < begin or abs(y - line) > SMALL
                for begin, end, line in taken
            )
            if is_free and left >= 0 and left + width <= WIDTH:
                taken.append((left, left + width, y))
                parts.append(text(start, y + 3.5, label, anchor=anchor))
                break
    return parts


# --- Dependency trees: the gold tree above a sentence, and a predicted one below it ---

WORD_SIZE, RELATION_SIZE = 15, 10.5  # font sizes
GAP = 16  # between words
STEP = 19  # between levels of arcs
ROUND = 8  # radius of an arc's corners
STEM = 3.5  # distance of an arc's end from the middle of its word, so that arcs on both sides stay visible
Edge = tuple[int, int]


def dependency_tree(
    words: Sequence[str],
    heads: Sequence[int],
    predicted: Sequence[Edge] | None = None,
    *,
    relations: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Markup:
    """Draws a sentence with its dependency tree above and, if given, a predicted tree below.

    Args:
        words: the words of the sentence.
        heads: the number of each word's head, counted from 1; 0 for the root.
        predicted: undirected edges of the predicted tree, as pairs of word numbers from 0. Edges of the gold tree
            are solid, the others dashed.
        relations: the relation of each word to its head, shown on its arc.
        tags: a tag for each word, shown below it.

    Returns:
        A `Chart`.

    Raises:
        ValueError: the number of heads differs from the number of words.
    """
    if len(heads) != len(words):
        raise ValueError(
            f"There are {len(words)} words, but {len(heads)} heads. Pass one head for each word."
        )
    gold = [(i, head - 1) for i, head in enumerate(heads) if head > 0]
    below = [(min(edge), max(edge)) for edge in predicted or ()]
    places, width = _places_of_words(words, relations, tags)
    gold_levels, below_levels = _levels(gold), _levels(below)
    word_y = STEP * (max(gold_levels, default=0) + 1) + 14
    parts = []
    for (dependent, head), level in zip(gold, gold_levels, strict=True):
        start, end = places[dependent], _beside(places, head, dependent)
        arc = _arc(start, end, word_y - WORD_SIZE - 3, word_y - WORD_SIZE - 3 - STEP * level)
        relation = relations[dependent] if relations else ""
        title = f"{words[dependent]} ← {words[head]}{f': {relation}' if relation else ''}"
        parts.append(f'<path class="arc" d="{arc}"><title>{escape(title)}</title></path>')
        tip = f"M{start:.1f} {word_y - WORD_SIZE + 1:.1f}"
        parts.append(f'<path class="arrow" d="{tip}l-3.5 -6h7z"/>')
        if relation:
            parts.append(
                text((start + end) / 2, word_y - WORD_SIZE - 6 - STEP * level, relation, "relation")
            )
    for i, (word, head) in enumerate(zip(words, heads, strict=True)):
        parts.append(text(places[i], word_y, word, "word root" if head == 0 else "word"))
        if tags:
            parts.append(text(places[i], word_y + WORD_SIZE, tags[i], "relation"))
    low = word_y + 6 + (WORD_SIZE if tags else 0)
    joined = {frozenset(edge) for edge in gold}
    for edge, level in zip(below, below_levels, strict=True):
        right = frozenset(edge) in joined
        start, end = _beside(places, edge[0], edge[1]), _beside(places, edge[1], edge[0])
        title = f"{words[edge[0]]} – {words[edge[1]]}: {'as in the gold tree' if right else 'not in the gold tree'}"
        parts.append(
            f'<path class="arc {"right" if right else "wrong"}" '
            f'd="{_arc(start, end, low, low + STEP * level)}"><title>{escape(title)}</title></path>'
        )
    caption = ""
    if predicted is not None:
        caption = legend(
            [
                ("gold", '<path class="arc" d="M-14 0H14"/>'),
                ("predicted, as gold", '<path class="arc right" d="M-14 0H14"/>'),
                ("predicted only", '<path class="arc wrong" d="M-14 0H14"/>'),
            ]
        )
    height = low + STEP * max(below_levels, default=0) + 4
    return figure(f"Tree of: {' '.join(words)}", width, height, parts, caption, scrolls=True)


def _places_of_words(
    words: Sequence[str], relations: Sequence[str] | None, tags: Sequence[str] | None
) -> tuple[list[float], float]:
    """Returns the middle of each word, and the total width."""
    places, x = [], GAP / 2
    for i, word in enumerate(words):
        below = text_width(tags[i], RELATION_SIZE) if tags else 0
        above = text_width(relations[i], RELATION_SIZE) if relations else 0
        # A relation between neighbours must fit between the middles of the two words.
        width = max(text_width(word, WORD_SIZE), below, above - GAP / 2)
        places.append(x + width / 2)
        x += width + GAP
    return places, x - GAP / 2


def _levels(edges: Sequence[Edge]) -> list[int]:
    """The height of each arc in steps: above all shorter arcs that it overlaps."""
    levels: dict[int, int] = {}
    spans = [(min(edge), max(edge)) for edge in edges]
    for i in sorted(range(len(spans)), key=lambda i: spans[i][1] - spans[i][0]):
        start, end = spans[i]
        under = (levels[j] for j in levels if spans[j][0] < end and start < spans[j][1])
        levels[i] = max(under, default=0) + 1
    return [levels[i] for i in range(len(edges))]


def _beside(places: Sequence[float], word: int, other: int) -> float:
    """The end of an arc at a word, on the side that faces the other word."""
    return places[word] + (STEM if other > word else -STEM)


def _arc(start: float, end: float, base: float, top: float) -> str:
    """An SVG path from one word up or down to a level and back to another word, with round corners."""
    turn = min(ROUND, abs(end - start) / 2) * (1 if end > start else -1)
    rise = ROUND if top > base else -ROUND
    return (
        f"M{start:.1f} {base:.1f}V{top - rise:.1f}Q{start:.1f} {top:.1f} {start + turn:.1f} {top:.1f}"
        f"H{end - turn:.1f}Q{end:.1f} {top:.1f} {end:.1f} {top - rise:.1f}V{base:.1f}"
    )
