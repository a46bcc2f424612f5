"""Scatter plots with labels: the occurrences of a word, the heads of a model."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import figure, legend, mark, text_width

WIDTH, HEIGHT, MARGIN = 320, 260, 16  # the height is at most so much
FONT = 10
# Names with more characters stand in a list below the drawing, and their numbers beside the points.
LONGEST = 14


def scatter(
    points: ArrayLike,
    names: Sequence[str],
    groups: Sequence[object] = (),
    *,
    name: str = "points",
) -> Markup:
    """Points of a plane with their names; one unit is as long upwards as to the right.

    Args:
        points: coordinates [n, 2].
        names: of the points. A name for which there is no room is left out of the drawing, not of the titles.
        groups: of the points, in colours and shapes, with a legend; none if not given.
        name: what the points are, for screen readers.
    """
    points = np.asarray(points, float)
    if points.shape != (len(names), 2) or (len(groups) and len(groups) != len(names)):
        raise ValueError(
            f"{len(names)} names need points of shape {(len(names), 2)}, not {points.shape}, and as many "
            f"groups or none, not {len(groups)}."
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
    """Names beside their points, to the right or else to the left, where they cover no other name."""
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
