"""Dependency trees: the gold tree above a sentence, and a predicted one below it."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from bert_zoo.charts.svg import figure, legend, text_width

FONT, SMALL = 15, 10.5
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
    places, width = _places(words, relations, tags)
    gold_levels, below_levels = _levels(gold), _levels(below)
    word_y = STEP * (max(gold_levels, default=0) + 1) + 14
    parts = []
    for (dependent, head), level in zip(gold, gold_levels, strict=True):
        start, end = places[dependent], _beside(places, head, dependent)
        arc = _arc(start, end, word_y - FONT - 3, word_y - FONT - 3 - STEP * level)
        relation = relations[dependent] if relations else ""
        title = f"{words[dependent]} ← {words[head]}{f': {relation}' if relation else ''}"
        parts.append(f'<path class="arc" d="{arc}"><title>{escape(title)}</title></path>')
        parts.append(_arrow(start, word_y - FONT + 1))
        if relation:
            parts.append(
                _text((start + end) / 2, word_y - FONT - 6 - STEP * level, relation, "relation")
            )
    for i, (word, head) in enumerate(zip(words, heads, strict=True)):
        parts.append(_text(places[i], word_y, word, "word root" if head == 0 else "word"))
        if tags:
            parts.append(_text(places[i], word_y + FONT, tags[i], "relation"))
    low = word_y + 6 + (FONT if tags else 0)
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


def _places(
    words: Sequence[str], relations: Sequence[str] | None, tags: Sequence[str] | None
) -> tuple[list[float], float]:
    """Returns the middle of each word, and the total width."""
    places, x = [], GAP / 2
    for i, word in enumerate(words):
        below = text_width(tags[i], SMALL) if tags else 0
        above = text_width(relations[i], SMALL) if relations else 0
        # A relation between neighbours must fit between the middles of the two words.
        width = max(text_width(word, FONT), below, above - GAP / 2)
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


def _arrow(x: float, y: float) -> str:
    return f'<path class="arrow" d="M{x:.1f} {y:.1f}l-3.5 -6h7z"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return (
        f'<text class="{kind}" text-anchor="middle" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
    )
