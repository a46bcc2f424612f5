"""Heat maps, for example layers by heads or layers by layers."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import figure, text_width
from bert_zoo.runtime.answers import number

WIDTH, FONT = 320, 10
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
    left = max(text_width(str(row), FONT) for row in rows) + 22
    column_width = max(text_width(str(column), FONT) for column in columns)
    width = min((WIDTH - left) / len(columns), WIDEST)
    height = min(max(width, 14), HIGHEST)
    upright = column_width > width - 2
    top = (column_width if upright else FONT) + 22
    right, bottom = left + width * len(columns), top + height * len(rows)

    parts = [
        f'<text class="tick" x="{left:.1f}" y="{FONT}">{escape(column_axis)}</text>',
        f'<text class="tick" text-anchor="end" transform="translate({FONT} {top:.1f}) rotate(-90)">'
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
        parts.append(
            f'<text class="label" text-anchor="end" x="{left - 5:.1f}" y="{y + 3.5:.1f}">'
            f"{escape(str(row))}</text>"
        )
        for j, column in enumerate(columns):
            value = values[i, j]
            share = min(max((value - low) / ((high - low) or 1), 0), 1)
            title = f"{row_axis} {row}, {column_axis} {column}: {number(float(value))}"
            x = left + width * j
            cell = _cell(x, y - height / 2, width, height, share, title)
            if width >= READABLE and math.isfinite(value):
                strong = " strong" if share > STRONG else ""
                cell += (
                    f'<text class="label value{strong}" text-anchor="middle" x="{x + width / 2:.1f}" '
                    f'y="{y + 3.5:.1f}">{_short(value)}</text>'
                )
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
    text = (
        f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
        if abs(value) < 100
        else f"{value:.0f}"
    )
    return text.replace("0.", ".", 1) if abs(value) < 1 else text
