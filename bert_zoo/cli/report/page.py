"""The page of a fine-tuning run: one HTML file that needs nothing beside itself.

Texts, labels and names come from users' data; all that is not markup written here goes through
`escape`, and the page's policy forbids the browser to run or fetch anything.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.report.analysis import most_confused
from bert_zoo.cli.report.curves import line_chart
from bert_zoo.cli.report.record import LOSS, HardExample, RunRecord
from bert_zoo.cli.report.wording import duration, number, setting, with_paper_links, words

STYLES = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Metrics shown large, and charts beside that of the loss; the table has all of them.
MOST_TILES = 4
MOST_CURVES = 2
MOST_PAIRS = 10
# Above the first number of labels the matrix is folded and its cells are small; above the second it
# would be too large for a page.
OPEN_LABELS = 12
MATRIX_LABELS = 80
UPRIGHT_LENGTH = 9
# The opacity of a cell by its share of the row; above the highest, its number could not be read.
LEAST_SHADE, MOST_SHADE = 0.08, 0.55
FOLDED_LENGTH = 320
# Rows of the table by label above which it is folded.
OPEN_ROWS = 24
START_LENGTH = 160


def write_report(record: RunRecord, path: str | PathLike) -> None:
    """Writes the page of a run as an HTML file, in a directory that exists."""
    parts = (
        _heading(record),
        _warnings(record),
        _tiles(record),
        section("By epoch", _charts(record) + _epoch_table(record)),
        _confusions(record),
        _table(record),
        _hardest(record),
        _facts(record),
    )
    write_page(f"{record.model} on {record.task}", parts, path)


def write_page(title: str, parts: Iterable[str], path: str | PathLike) -> None:
    """Writes an HTML file of a title and parts in markup; empty ones are left out."""
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLES}</style>
</head>
<body>
<main>
{chr(10).join(part for part in parts if part)}
</main>
</body>
</html>
"""
    # What UTF-8 cannot say, such as half of a surrogate pair, becomes a numeric reference.
    Path(path).write_text(page, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


# --- What came out ---


def _heading(record: RunRecord) -> str:
    measured = (
        f"Figures on the {record.measured_on} split, {record.num_measured:,} examples, after "
        f"epoch {record.kept_epoch} of {len(record.epochs)}"
    )
    return (
        f"<header><h1>{escape(record.model)} <span>on</span> {escape(record.task)}</h1>"
        f'<p class="soft">{escape(words(record.kind).capitalize())}. {escape(measured)}.</p></header>'
    )


def _warnings(record: RunRecord) -> str:
    diverged = [n for n, loss in enumerate(record.losses, start=1) if not math.isfinite(loss)]
    numbers = ", ".join(map(str, diverged))
    lines = (
        ("alarm", record.licence_warning),
        ("alarm", diverged and f"The training loss was not finite in epoch {numbers}."),
        ("caution small", record.caution),
    )
    return "\n".join(f'<p class="{kind}">{escape(text)}</p>' for kind, text in lines if text)


def _tiles(record: RunRecord) -> str:
    (first, value), *others = record.kept.items()
    beside = ""
    if first in record.baseline:
        beside = f" ({record.baseline_answer}: {number(record.baseline[first])})"
    tiles = [
        ("tile first", number(value), record.named(first) + beside),
        *(("tile", number(v), record.named(name)) for name, v in others[: MOST_TILES - 1]),
        ("tile", duration(record.seconds), f"{record.steps:,} steps"),
        ("tile", f"{record.num_train:,}", "training examples"),
    ]
    shown = (
        f'<div class="{kind}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for kind, value, name in tiles
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


# --- How it went ---


def _charts(record: RunRecord) -> str:
    """Curves of the loss and of the first metrics; none of a single epoch."""
    if len(record.epochs) == 1:
        return ""
    curves = {"training loss": (record.losses, ())}
    if record.measured_losses:
        curves = {record.named(LOSS): (record.measured_losses, record.losses)}
    for name in [name for name in record.kept if name != LOSS][:MOST_CURVES]:
        curves[words(name)] = ([metrics[name] for metrics in record.epochs], ())
    charts = [
        f"<div><h3>{escape(name)}<b>{number(values[record.kept_epoch - 1])}</b></h3>{chart}</div>"
        for name, (values, beside) in curves.items()
        if (chart := line_chart(values, name, record.kept_epoch, beside))
    ]
    dashed = " The dashed line is the training loss." if record.measured_losses else ""
    return (
        f'<div class="charts">{"".join(charts)}</div>'
        f'<p class="soft small">The ring and the number beside a name are epoch {record.kept_epoch}, '
        f"which is kept.{dashed}</p>"
    )


def _epoch_table(record: RunRecord) -> str:
    rows = []
    for epoch, values in record.by_epoch():
        kept = epoch == record.kept_epoch
        label = f'{epoch}<span class="badge">kept</span>' if kept else str(epoch)
        rows.append(_row(label, map(number, values), "kept" if kept else ""))
    if record.baseline:
        beaten = (record.baseline.get(name) for name in ("", *record.kept))
        cells = ("" if value is None else number(value) for value in beaten)
        rows.append(_row(escape(record.baseline_answer), cells, "baseline"))
    names = ("training loss", *map(record.named, record.kept))
    return grid(head("epoch") + "".join(head(name, "number") for name in names), rows)


def _row(label: str, numbers: Iterable[str], classes: str) -> str:
    start = f'<tr class="{classes}">' if classes else "<tr>"
    return f"{start}<th>{label}</th>{''.join(map(number_cell, numbers))}</tr>"


# --- Where it goes wrong ---


def _confusions(record: RunRecord) -> str:
    if record.confusion is None or not np.sum(record.confusion):
        return ""
    counts = np.asarray(record.confusion, dtype=np.int64)
    # Labels that neither occur nor are predicted say nothing.
    used = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
    labels = [str(record.labels[i]) for i in used]
    counts = counts[np.ix_(used, used)]
    right, total, unused = int(np.trace(counts)), int(counts.sum()), len(record.labels) - len(used)
    said = f"{right:,} of {total:,} predictions are right ({right / total:.1%})."
    if unused:
        said += f" Left out: {unused} label{'s'[: unused > 1]} that never came up."
    parts = [f"<p>{said}</p>"]
    if len(labels) > 2:
        parts.append(_pairs(counts, labels))
    if len(labels) <= OPEN_LABELS:
        parts.append(_matrix(counts, labels, "matrix"))
    elif len(labels) <= MATRIX_LABELS:
        matrix = _matrix(counts, labels, "matrix dense")
        parts.append(_details(f"The matrix of all {len(labels)} labels", matrix))
    else:
        parts.append(
            f'<p class="soft small">The matrix of {len(labels)} labels is too large for a page.</p>'
        )
    return section("Confusions", "".join(parts))


def _pairs(counts: np.ndarray, labels: Sequence[str]) -> str:
    rows = "".join(
        f"<tr><th>{escape(pair.truth)}</th><td>{escape(pair.prediction)}</td>"
        f"{number_cell(number(pair.count))}{number_cell(f'{pair.share:.1%}')}</tr>"
        for pair in most_confused(counts, labels, MOST_PAIRS)
    )
    if not rows:
        return ""
    heads = head("truth") + head("taken for")
    return grid(heads + head("times", "number") + head("of this truth", "number"), [rows])


def _matrix(counts: np.ndarray, labels: Sequence[str], classes: str) -> str:
    """Counts with the share of their row as colour."""
    upright = len(labels) > OPEN_LABELS or max(map(len, labels)) > UPRIGHT_LENGTH
    shape = '<div class="upright">{}</div>' if upright else "{}"
    heads = "".join(
        f'<th title="{label}">{shape.format(label)}</th>' for label in map(escape, labels)
    )
    rows = []
    for i, label in enumerate(labels):
        cells = "".join(
            _cell(count, count / max(1, counts[i].sum()), i == j, len(labels) <= OPEN_LABELS)
            for j, count in enumerate(counts[i])
        )
        rows.append(f'<tr><th title="{escape(label)}">{escape(label)}</th>{cells}</tr>')
    return grid(head("truth ↓ prediction →", "soft small") + heads, rows, classes)


def _cell(count: int, share: float, right: bool, with_share: bool) -> str:
    if not count:
        return "<td></td>"
    below = f"<small>{share:.0%}</small>" if with_share else ""
    kind, shade = "right" if right else "wrong", LEAST_SHADE + share * (MOST_SHADE - LEAST_SHADE)
    return f'<td class="{kind}" style="--shade:{shade:.2f}">{count:,}{below}</td>'


def _table(record: RunRecord) -> str:
    if not record.table:
        return ""
    columns = record.table_columns
    numeric = {
        name for name in columns if any(isinstance(row.get(name), Real) for row in record.table)
    }
    heads = (head(words(name), "number" if name in numeric else "name") for name in columns)
    rows = (
        f"<tr>{''.join(_table_cell(row.get(name)) for name in columns)}</tr>"
        for row in record.table
    )
    table = grid("".join(heads), rows)
    if len(record.table) > OPEN_ROWS:
        table = _details(f"All {len(record.table)} rows", table)
    return section(f"By {escape(words(columns[0]))}", table)


def _table_cell(value: Any) -> str:
    if isinstance(value, Real):
        return number_cell(number(value))
    return f"<td>{'' if value is None else escape(str(value))}</td>"


# --- The hardest examples ---


def _hardest(record: RunRecord) -> str:
    if not record.hardest:
        return ""
    items = "".join(
        f"<li>{(_tagged_example if example.by_word else _example)(example)}</li>"
        for example in record.hardest
    )
    return section(
        f"The {len(record.hardest)} hardest {escape(record.measured_on)} examples",
        f'<ol class="hard">{items}</ol>',
    )


def _example(example: HardExample) -> str:
    sides = {"truth": example.truth, "prediction": example.prediction}
    verdict = "".join(
        f'<span><span class="soft">{name}</span> <strong>{escape(value)}</strong></span>'
        for name, value in sides.items()
    )
    return _verdict(verdict, example.loss) + _folded(example.text)


def _verdict(markup: str, loss: float) -> str:
    return f'<p class="verdict">{markup}<span class="loss">loss {number(loss)}</span></p>'


def _folded(text: str) -> str:
    """A text; of a long one the start, until it is opened."""
    whole = f'<p class="text" dir="auto">{escape(text)}</p>'
    if len(text) <= FOLDED_LENGTH:
        return whole
    start = escape(" ".join(text[:START_LENGTH].split()))
    return _details(
        f'<span class="start" dir="auto">{start}… </span>'
        f'<span class="open">all {len(text):,} characters</span><span class="close soft">fold</span>',
        whole,
    )


def _tagged_example(example: HardExample) -> str:
    """Words with the tags below those that are wrong; as other examples where these do not fit."""
    rows = [field.split() for field in (example.text, example.truth, example.prediction)]
    if len({len(row) for row in rows}) != 1:
        return _example(example)
    shown = "".join(map(_tagged_word, *rows))
    wrong = sum(truth != prediction for truth, prediction in zip(*rows[1:], strict=True))
    verdict = f"<span><strong>{wrong}</strong> of {len(rows[0])} words have a wrong tag</span>"
    return f'{_verdict(verdict, example.loss)}<p class="words">{shown}</p>'


def _tagged_word(word: str, truth: str, prediction: str) -> str:
    if truth == prediction:
        return f"<span>{escape(word)}</span>"
    return (
        f'<span class="miss">{escape(word)}<small>{escape(prediction)}, truth '
        f"<strong>{escape(truth)}</strong></small></span>"
    )


# --- What went in ---


def _facts(record: RunRecord) -> str:
    recipe = {words(name): escape(setting(value)) for name, value in record.recipe.items()}
    card = record.checkpoint
    groups = {
        "Model": {
            "base": escape(record.model),
            "family": escape(card.get("family", "")),
            "licence of the base": escape(record.licence or "not known"),
            "paper": with_paper_links(
                escape(card.get("paper", "")), '<a href="{1}">{0}</a>'.format
            ),
            "parameters": f"{record.parameters:,}",
            "trained parameters": f"{record.trainable_parameters:,}",
            "training examples": f"{record.num_train:,}",
            f"{record.measured_on} examples": f"{record.num_measured:,}",
        },
        "Recipe": recipe | {"seed": str(record.seed)},
        "Versions": {name: escape(version) for name, version in record.versions.items()},
    }
    tables = "".join(
        f"<div><h3>{title}</h3>{fact_table(facts)}</div>" for title, facts in groups.items()
    )
    return section("What went in", f'<p>{escape(record.data)}</p><div class="facts">{tables}</div>')


def fact_table(facts: Mapping[str, str]) -> str:
    """Name -> markup, as rows; empty ones are left out."""
    rows = (f"<tr><th>{escape(n)}</th><td>{value}</td></tr>" for n, value in facts.items() if value)
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


# --- Pieces ---


def section(title: str, body: str) -> str:
    """A section; the title is markup."""
    return f"<section><h2>{title}</h2>{body}</section>"


def _details(summary: str, body: str) -> str:
    """What is folded until it is opened; both are markup."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def grid(heads: str, rows: Iterable[str], classes: str = "plain") -> str:
    """A table, of markup, that scrolls by itself where the screen is narrow."""
    return (
        f'<div class="wide" tabindex="0"><table class="{classes}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def head(text: str, classes: str = "name") -> str:
    return f'<th class="{classes}">{escape(text)}</th>'


def number_cell(text: str) -> str:
    return f'<td class="number">{text}</td>'
