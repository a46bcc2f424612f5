"""Draws the charts of docs/measured from the tables on its pages.

    python tools/site/charts.py          # writes docs/figures/measured/*.svg

A comment right above a table says what is drawn of it:

    <!-- chart training.svg
    title: Times as fast as the other library
    label: work, beside
    bars: times as fast
    line: 1
    -->

`label` and `bars` (or `dots`, on a logarithmic axis) name columns. The first number of a cell is drawn, and the
one after ± as a whisker. `line` is a value to compare with, `color` the number of the first color, where
bert_zoo's is 0, and `joint` what stands between the parts of a label.
The pictures take light or dark colours from the
reader's system and are narrow enough for a phone.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "measured"
FIGURES = ROOT / "docs" / "figures" / "measured"
CHART = re.compile(
    r"^<!-- chart (?P<file>\S+)\n(?P<options>.*?)^-->\n+(?P<table>(?:\|[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
LIGHT = "--card:#fff;--ink:#20262e;--soft:#5d6673;--grid:#d9dee4;--s0:#c8410b;--s1:#5b7c99;--s2:#2b8a7e;--s3:#8a5fb0;--s4:#b08a00;--s5:#8c8c8c"
DARK = "--card:#20242c;--ink:#e6e9ee;--soft:#a4adba;--grid:#3b424d;--s0:#ff8a50;--s1:#8fb3d1;--s2:#5cc4b6;--s3:#bd9be0;--s4:#e0bd4a;--s5:#a8a8a8"
STYLE = (
    f"svg{{{LIGHT};font:12.5px system-ui,sans-serif;fill:var(--ink)}}"
    f"@media(prefers-color-scheme:dark){{svg{{{DARK}}}}}"
    ".t{font-weight:600;font-size:14px}.n{font-size:11.5px;fill:var(--soft)}"
    ".l{paint-order:stroke;stroke:var(--card);stroke-width:5px}"
)
WIDTH, MARGIN = 480, 14


@dataclass
class Value:
    text: str
    number: float | None
    spread: float


@dataclass
class Chart:
    file: str
    options: dict[str, str]
    colors: dict[str, str]  # of the columns that are drawn
    rows: list[tuple[str, list[Value]]]


def charts(text: str) -> Iterator[Chart]:
    """The charts that a page asks for."""
    for found in CHART.finditer(text):
        lines = [line.partition(":") for line in found["options"].splitlines()]
        options = {name.strip(): value.strip() for name, _, value in lines}
        lines = found["table"].splitlines()
        header, _, *rows = (
            [cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines
        )
        first = int(options.get("color", 0))
        joint = f" {options['joint']} " if "joint" in options else ", "
        labels = _columns(header, options["label"])
        drawn = _columns(header, options.get("bars") or options["dots"])
        yield Chart(
            found["file"],
            options,
            {header[column]: f"var(--s{first + i})" for i, column in enumerate(drawn)},
            [
                (
                    joint.join(_plain(row[c]) for c in labels),
                    [_value(row[c]) for c in drawn],
                )
                for row in rows
            ],
        )


def _columns(header: Sequence[str], names: str) -> list[int]:
    return [header.index(name.strip()) for name in names.split(";")]


def _plain(cell: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", r"\1", cell)


def _value(cell: str) -> Value:
    numbers = NUMBER.findall(_plain(cell))
    number = float(numbers[0].replace(",", "")) if numbers else None
    spread = float(numbers[1]) if "±" in cell else 0.0
    return Value(numbers[0] if numbers else "", number, spread)


def draw(chart: Chart) -> str:
    """A chart as SVG."""
    parts, y = [], MARGIN + 12
    for line in chart.options["title"].split(" / "):
        parts.append(_text(MARGIN, y, line, "t"))
        y += 18
    if len(chart.colors) > 1:
        y = _legend(parts, chart.colors, y)
    y = (_bars if "bars" in chart.options else _dots)(parts, chart, y)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH * 1.15:.0f}" '
        f'height="{y * 1.15:.0f}" role="img">'
    )
    title = f"<title>{escape(chart.options['title'])}</title><style>{STYLE}</style>"
    card = f'<rect width="{WIDTH}" height="{y}" rx="8" fill="var(--card)"/>'
    return "\n".join([head + title, card, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    style = f' class="{style}"' if style else ""
    anchor = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}{anchor}>{escape(text, quote=False)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="var(--{colour})"{more}/>'


def _legend(parts: list[str], colors: dict[str, str], y: int) -> int:
    x = MARGIN
    for name, color in colors.items():
        width = 24 + 6.6 * len(name)
        if x + width > WIDTH:
            x, y = MARGIN, y + 17
        parts.append(
            f'<rect x="{x:.0f}" y="{y - 9}" width="10" height="10" rx="2" fill="{color}"/>'
        )
        parts.append(_text(x + 14, y, name, "n"))
        x += width
    return y + 18


def _bars(parts: list[str], chart: Chart, y: int) -> int:
    values = [value for _, row in chart.rows for value in row if value.number is not None]
    width = (WIDTH - 2 * MARGIN - 62) / max(value.number + value.spread for value in values)
    if "line" in chart.options:
        parts.append("")
    start, top = len(parts) - 1, y - 8
    for label, row in chart.rows:
        parts.append(_text(MARGIN, y + 4, label, "l"))
        y += 10
        for color, value in zip(chart.colors.values(), row, strict=True):
            if value.number is None:
                continue
            length = max(value.number, 0) * width
            parts.append(
                f'<rect x="{MARGIN}" y="{y}" width="{length:.1f}" height="10" rx="1.5" fill="{color}"/>'
            )
            if value.spread:
                ends = [MARGIN + (value.number + sign * value.spread) * width for sign in (-1, 1)]
                parts.append(_line(ends[0], y + 5, ends[1], y + 5, "ink"))
            end = MARGIN + length + value.spread * width
            parts.append(_text(end + 5, y + 9, value.text, "n"))
            y += 12
        y += 11
    if "line" in chart.options:
        x = MARGIN + float(chart.options["line"]) * width
        parts[start] = _line(x, top, x, y - 8, "soft", ' stroke-dasharray="3 3"')
    return y


def _dots(parts: list[str], chart: Chart, y: int) -> int:
    values = [v.number for _, row in chart.rows for v in row if v.number]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left = MARGIN + max(7 * len(label) for label, _ in chart.rows)
    unit = (WIDTH - MARGIN - 10 - left) / (high - low)
    bottom = y + 19 * len(chart.rows)
    for power in range(low, high + 1):
        x = left + (power - low) * unit
        parts.append(_line(x, y - 8, x, bottom - 6, "grid"))
        parts.append(_text(x, bottom + 8, f"1e{power}" if power else "1", "n", "middle"))
    for label, row in chart.rows:
        parts.append(_text(MARGIN, y + 8, label))
        # Ours last, on top of the others.
        for color, value in reversed([*zip(chart.colors.values(), row, strict=True)]):
            if value.number:
                x = left + (math.log10(value.number) - low) * unit
                parts.append(f'<circle cx="{x:.1f}" cy="{y + 4}" r="4.5" fill="{color}"/>')
        y += 19
    return bottom + 20


def drawn() -> dict[str, str]:
    """File -> SVG, of all charts of all pages."""
    pages = sorted(PAGES.glob("*.md"))
    found = itertools.chain.from_iterable(
        charts(page.read_text(encoding="utf-8")) for page in pages
    )
    return {chart.file: draw(chart) for chart in found}


if __name__ == "__main__":
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, content in drawn().items():
        (FIGURES / name).write_text(content, encoding="utf-8")
        print(FIGURES / name)
