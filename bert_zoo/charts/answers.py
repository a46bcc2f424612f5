"""Charts of what a model answered: spans marked in a text, bars of scores, and several of these below each other."""

import math
from collections.abc import Container, Iterable, Iterator, Sequence

from markupsafe import Markup, escape

from bert_zoo.charts.svg import Chart, series

# What a chart shows of long lists and texts; a note says how much it leaves out.
MOST_ROWS = 100
MOST_CHARACTERS = 10_000
# Characters of a title or of a row's text.
MOST_OF_TITLE = 300

# Start, end (both in characters, without the end), label, and score or None.
MarkedSpan = tuple[int, int, str, float | None]
# Name, score or None, and text or its parts before, inside and after a mark.
ScoredRow = tuple[str, float | None, str | tuple[str, str, str]]


def marked_text(
    text: str,
    spans: Iterable[MarkedSpan],
    *,
    title: str = "",
    labels: Sequence[str] = (),
    window: tuple[int, int] = (0, MOST_CHARACTERS),
) -> Chart:
    """Marks spans in a text, each with its label. Spans may be nested and overlap.

    Args:
        text: the text.
        spans: (start, end, label, score) of each span, in characters, without the end. The score may be None.
        title: a line above the text, such as a question.
        labels: labels in the order of their colours; by default in the order of the spans.
        window: the range of characters to show, with the spans inside.

    Raises:
        ValueError: a span is empty or outside of the text.
    """
    spans = sorted(spans, key=lambda span: (span[0], -span[1]))
    for start, end, label, _ in spans:
        if not 0 <= start < end <= len(text):
            raise ValueError(
                f"The span {label!r} from {start} to {end} is empty or outside of its text, which has {len(text)} "
                "characters."
            )
    labels = [*dict.fromkeys((*labels, *(span[2] for span in spans)))]
    first, last = window[0], min(window[1], len(text))
    inside = [(s - first, e - first, *more) for s, e, *more in spans if first <= s and e <= last]
    passage = "".join(_marked(text[first:last], inside, labels))
    before, after = "…" * (first > 0), "…" * (last < len(text))
    note = f"Characters {first:,} to {last:,} of {len(text):,}." if before or after else ""
    return _figure(
        title, f'<p class="passage" dir="auto">{before}{passage}{after}</p>', _note(note)
    )


def _marked(text: str, spans: Sequence[MarkedSpan], labels: Sequence[str]) -> Iterator[str]:
    """HTML of a text with marks of sorted spans. A mark that begins within another and ends after it is split where that one ends."""
    at, opened, waiting = 0, [], [*reversed(spans)]
    for place in sorted({place for span in spans for place in span[:2]}):
        yield escape(text[at:place])
        at, split = place, []
        while any(span[1] == place for span in opened):
            span = opened.pop()
            if span[1] == place:
                yield f"{_label(*span[2:])}</mark>"
            else:
                split.append(span)
                yield '<strong aria-hidden="true">…</strong></mark>'
        while waiting and waiting[-1][0] == place:
            split.append(waiting.pop())
        for span in sorted(split, key=lambda span: -span[1]):
            opened.append(span)
            yield f'<mark class="{series(labels.index(span[2]))}">'
    yield escape(text[at:])


def _label(label: str, score: float | None) -> str:
    number = "" if score is None else f"\u00a0{score:.2f}"
    # Without its style and in a screen reader, a label must not run into the text.
    return f"<strong> {escape(label)}{number}</strong>"


def score_bars(
    rows: Sequence[ScoredRow],
    *,
    title: str = "",
    chosen: Container[str] = (),
    limits: tuple[float, float] | None = None,
    most: int = MOST_ROWS,
) -> Chart:
    """Draws scores as bars between names and texts, such as labels, candidates or documents.

    Args:
        rows: (name, score, text) of each row. A score may be None, which draws no bar, and a text may be "", or
            its parts before, inside and after a mark.
        title: a line above the bars, such as the text that was classified.
        chosen: names that get a check mark.
        limits: the scores where bars begin and end. By default the lowest, but at most 0, and the highest, but at
            least 1.
        most: rows to show; a note says how many more there are.
    """
    scores = [score for _, score, _ in rows if score is not None]
    finite = [score for score in scores if math.isfinite(score)]
    low, high = limits or (min([*finite, 0]), max([*finite, 1]))
    items = []
    for name, score, text in rows[:most]:
        check = "✓ " if name in chosen else ""
        kind = "name chosen" if check else "name"
        # Long names of labels may break after their underscores.
        words = escape(_cut(name)).replace("_", Markup("_<wbr/>"))
        item = f'<span class="{kind}" dir="auto">{check}{words}</span> '
        if score is not None:
            item += f'{_bar(score, low, high)}<span class="score">{score:.3f}</span> '
        elif scores:
            item += '<span class="blank"></span>'
        if text:
            before, marked, after = (_cut(text), "", "") if isinstance(text, str) else text
            mark = f'<mark class="series0">{escape(marked)}</mark>' if marked else ""
            item += f'<span class="beside" dir="auto">{escape(before)}{mark}{escape(after)}</span>'
        items.append(f"<li>{item}</li>")
    # Safari's screen reader takes a list without bullets for none, unless it is said.
    drawn = f'<ul role="list">{"".join(items)}</ul>' if items else _note("None.")
    return _figure(title, drawn, _rest(len(rows) - len(items), "rows"))


def _bar(score: float, low: float, high: float) -> str:
    """A bar from zero to a score, within limits; none for a score that is not a number."""
    ends = (0, 0 if math.isnan(score) else score)
    start, end = sorted((min(max(end, low), high) - low) / (high - low) * 100 for end in ends)
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="mark" x="{start:.1f}" width="{end - start:.1f}" height="8"/></svg>'
    )


def stacked(charts: Sequence[Markup], *, title: str = "") -> Chart:
    """Puts charts below each other; of more than 100 the first 100, with a note."""
    shown = charts[:MOST_ROWS]
    return _figure(title, *shown, _rest(len(charts) - len(shown), "results"))


def folded(summary: str, chart: Markup) -> Markup:
    """A chart that is hidden until its reader opens it."""
    return Markup(f"<details><summary>{escape(summary)}</summary>{chart}</details>")


def _rest(number: int, what: str) -> str:
    return _note(f"… and {number:,} more {what}" if number > 0 else "")


def _note(text: str) -> str:
    return f'<p class="note">{text}</p>' if text else ""


def _cut(text: str) -> str:
    return text if len(text) <= MOST_OF_TITLE else f"{text[:MOST_OF_TITLE]}…"


def _figure(title: str, *parts: str) -> Chart:
    heading = f'<figcaption dir="auto">{escape(_cut(title))}</figcaption>\n' if title else ""
    html = f'<figure class="chart answer">{heading}{"".join(parts)}</figure>'
    # Python strings may have halves of UTF-16 pairs, which no page can.
    return Chart(html.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
