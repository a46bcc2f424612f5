"""Scatter plots with labels, for example of the occurrences of a word or the heads of a model."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import figure, legend, mark, text_width

WIDTH, HEIGHT, MARGIN = 320, 260, 16  # HEIGHT is a maximum
FONT = 10
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
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
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
    for (x, y), text in zip(places, names, strict=True):
        width = text_width(text, FONT)
        for left, anchor, start in ((x + 6, "start", x + 6), (x - 6 - width, "end", x - 6)):
            is_free = all(
                left > end or left + width < begin or abs(y - line) > FONT
                for begin, end, line in taken
            )
            if is_free and left >= 0 and left + width <= WIDTH:
                taken.append((left, left + width, y))
                parts.append(
                    f'<text class="label" text-anchor="{anchor}" x="{start:.1f}" y="{y + 3.5:.1f}">'
                    f"{escape(text)}</text>"
                )
                break
    return parts
