"""Heat maps: layers by heads, layers by layers."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import figure, text_width
from bert_zoo.runtime.printed import number

WIDTH, FONT = 320, 10
HIGHEST, WIDEST = 24, 44  # of a cell
# Cells at least so wide have their values written in them.
READABLE = 26
# The share of the range above which a cell's text is light, for the cell is dark.
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
    """A table of values [rows, columns] as colours.

    Args:
        values: those that are not finite are empty cells.
        rows, columns: their names, the first row on top.
        name: of the values.
        row_axis, column_axis: what rows and columns are.
        limits: the values of the palest and of the strongest colour; by default 0, or the lowest where some
            are negative, and the highest.
        link: where a cell leads to, "attention.html#layer={row}&head={column}" for instance, of which row
            and column become numbers from 0.
    """
    values = np.asarray(values, float)
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A heat map of {len(rows)} rows and {len(columns)} columns takes values of shape "
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
    """A rectangle whose colour is as strong as its share of the range; an outline for no number."""
    paint = f' fill-opacity="{0.05 + 0.95 * share:.2f}"' if math.isfinite(share) else ""
    shown = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect class="cell{"" if paint else " empty"}" x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" '
        f'width="{width - 1:.1f}" height="{height - 1:.1f}"{paint}>{shown}</rect>'
    )


def _short(value: float) -> str:
    """A value in four characters where it fits: ".87", "12.3", "123"."""
    text = (
        f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
        if abs(value) < 100
        else f"{value:.0f}"
    )
    return text.replace("0.", ".", 1) if abs(value) < 1 else text
