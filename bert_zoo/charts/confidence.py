"""Charts of how far scores can be trusted."""

import math
from collections.abc import Sequence

from bert_zoo.charts.svg import (
    BOTTOM,
    LEFT,
    LINES_HEIGHT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    Scale,
    figure,
    legend,
    scale,
    text,
)
from bert_zoo.metrics.confidence import Confidence

HEIGHT = LINES_HEIGHT + 14
FEW = 10
END = WIDTH - RIGHT - 4  # of the axis across, so that "100%" fits below it


def reliability_diagram(confidence: Confidence) -> Chart:
    """Draws the share of right answers by score: a bar for each bin, up to the diagonal if scores are calibrated.

    Source: Guo et al. 2017 (arXiv:1706.04599), figure 1.
    """
    x_of, y_of, parts = _axes("score", 0.0)
    most = max(row["texts"] for row in confidence.bins)
    for row in confidence.bins:
        x, y = x_of(row["from"]), y_of(row["right"])
        title = (
            f"score {row['from']:.2f} to {row['to']:.2f}, {row['score']:.2f} on average: {row['right']:.0%} of "
            f"{row['texts']:,} right"
        )
        parts.append(
            f'<rect class="cell" x="{x + 0.5:.1f}" y="{y:.1f}" width="{x_of(row["to"]) - x - 1:.1f}" '
            f'height="{y_of(0) - y:.1f}" fill-opacity="{0.25 + 0.75 * row["texts"] / most:.2f}">'
            f"<title>{title}</title></rect>"
        )
    diagonal = f'<path class="line baseline" d="M{x_of(0)} {y_of(0)}L{x_of(1)} {y_of(1)}"/>'
    key = '<rect class="cell" x="-5" y="-6" width="10" height="12" fill-opacity="{}"/>'
    entries = [
        ("few texts", key.format(0.25)),
        ("many", key.format(1)),
        ("calibrated", '<path class="line baseline" d="M-14 0H14"/>'),
    ]
    label = f"Share of right answers by score; expected calibration error {confidence.ece:.4f}"
    return figure(label, WIDTH, HEIGHT, [*parts, diagonal], legend(entries))


def coverage_curve(confidence: Confidence) -> Chart:
    """Draws the share of right answers by the share of texts that are answered, those with the highest scores, from ten
    answers on, as the share of fewer says little."""
    few = FEW / len(confidence.scores)
    curve = [row for row in confidence.curve if row["answered"] >= few] or confidence.curve
    x_of, y_of, parts = _axes(
        "texts answered", _floor([row["right"] for row in [*curve, *confidence.choices]])
    )
    points = [f"{x_of(row['answered']):.1f} {y_of(row['right']):.1f}" for row in curve]
    parts.append(f'<path class="line" d="M{"L".join(points)}"/>')
    for row in confidence.choices:
        title = f"score of at least {row['threshold']:.4f}: {row['answered']:.0%} answered, {row['right']:.1%} right"
        parts.append(
            f'<circle class="dot" cx="{x_of(row["answered"]):.1f}" cy="{y_of(row["right"]):.1f}" r="4">'
            f"<title>{title}</title></circle>"
        )
    return figure("Share of right answers by share of texts answered", WIDTH, HEIGHT, parts)


def _floor(shares: Sequence[float]) -> float:
    """The lowest share, rounded down to a fifth."""
    return min(math.floor(5 * min(shares)) / 5, 0.8)


def _axes(name: str, low: float) -> tuple[Scale, Scale, list[str]]:
    """The scales of two axes, to 100%: across from 0, upwards from `low`; with their ticks."""
    x_of = scale(0, 1, LEFT, END)
    y_of = scale(low, 1, LINES_HEIGHT - BOTTOM, TOP)
    parts = [text((LEFT + END) / 2, LINES_HEIGHT + 6, name, "tick")]
    for i in range(5):
        x, share = x_of(i / 4), low + (1 - low) * i / 4
        parts.append(text(x, LINES_HEIGHT - BOTTOM + 18, f"{i / 4:.0%}", "tick"))
        y = y_of(share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{END}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 6, y + 4, f"{share:.0%}", "tick", "end"))
    return x_of, y_of, parts
