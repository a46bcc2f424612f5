"""Draws what sets a family apart from BERT: docs/figures/families/*.svg.

`python tools/site/family_pictures.py` writes all of them. Pages show them as images; the site puts the SVG
itself into the page, where it follows the light and the dark scheme (tools/site/hooks.py).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "figures" / "families"
# Letters of 12 units stay legible where a phone shows the picture at this width.
WIDTH = 360
CLASS = "family-picture"
STYLE = """
.family-picture{color:#1f2430;font:12px system-ui,sans-serif}
.family-picture text{fill:currentColor}
.family-picture .paper{fill:#fff}
.family-picture .plain{fill:none;stroke:currentColor;stroke-opacity:.55}
.family-picture .faint{fill:currentColor;fill-opacity:.06;stroke:currentColor;stroke-opacity:.25}
.family-picture .warm{fill:#e8702a;fill-opacity:.35;stroke:#e8702a}
.family-picture .cool{fill:#3f8fd6;fill-opacity:.35;stroke:#3f8fd6}
.family-picture .line{fill:none;stroke:currentColor;stroke-opacity:.7;stroke-width:1.3}
.family-picture .dashed{stroke-dasharray:4 3}
.family-picture .head{fill:currentColor;fill-opacity:.7}
.family-picture .title{font-weight:600}
.family-picture .note{font-size:11px}
@media(prefers-color-scheme:dark){.family-picture{color:#e6e8ee}.family-picture .paper{fill:#14171f}}
"""


class Drawing:
    """SVG elements on a sheet that is `WIDTH` wide."""

    def __init__(self):
        self.parts: list[str] = []
        self.bottom = 0.0

    def svg(self, description: str) -> str:
        height = round(self.bottom + 10)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" role="img" '
            f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'aria-label="{escape(description)}">\n<style>{STYLE}</style>\n'
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )

    def _add(self, part: str, bottom: float) -> None:
        self.parts.append(part)
        self.bottom = max(self.bottom, bottom)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Text whose base line is at y."""
        self._add(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>',
            y + 3,
        )

    def title(self, x: float, y: float, text: str) -> None:
        self.text(x, y, text, "title")

    def note(self, x: float, y: float, text: str, anchor: str = "middle") -> None:
        self.text(x, y, text, "note", anchor)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        text: str | Sequence[str] = (),
        kind: str = "plain",
    ) -> None:
        """A box around lines of text; x and y are those of its upper left corner."""
        self._add(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" class="{kind}"/>', y + h
        )
        lines = [text] if isinstance(text, str) else text
        for n, line in enumerate(lines):
            self.text(x + w / 2, y + h / 2 + 4 + 14 * (n - (len(lines) - 1) / 2), line)

    def shape(
        self, points: Sequence[tuple[float, float]], text: str = "", kind: str = "plain"
    ) -> None:
        corners = " ".join(f"{x:g},{y:g}" for x, y in points)
        xs, ys = zip(*points, strict=True)
        self._add(f'<polygon points="{corners}" class="{kind}"/>', max(ys))
        if text:
            self.text((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2 + 4, text)

    def line(self, *points: tuple[float, float], dashed: bool = False, head: bool = True) -> None:
        """A line, straight from point to point, with an arrow's head at its end."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        kind = "line dashed" if dashed else "line"
        self._add(f'<path d="{path}" class="{kind}"/>', max(y for _, y in points))
        if head:
            (x0, y0), (x, y) = points[-2:]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            dx, dy = 5 * (x - x0) / length, 5 * (y - y0) / length
            corners = (
                (x, y),
                (x - dx - dy * 0.7, y - dy + dx * 0.7),
                (x - dx + dy * 0.7, y - dy - dx * 0.7),
            )
            self._add(
                f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" class="head"/>',
                y,
            )

    def tokens(
        self, y: float, words: Sequence[str], kinds: dict[int, str], x: float = 10, w: float = 340
    ) -> list[float]:
        """A row of boxes with a word in each; the middles of the boxes."""
        step = w / len(words)
        for n, word in enumerate(words):
            self.box(x + n * step, y, step - 4, 22, word, kinds.get(n, "faint"))
        return [x + n * step + (step - 4) / 2 for n in range(len(words))]

    def matrix(self, x: float, y: float, rows: Sequence[Sequence[str]], size: float) -> None:
        """Squares in rows, a class for each: which token (row) attends to which (column)."""
        for i, row in enumerate(rows):
            for j, kind in enumerate(row):
                self._add(
                    f'<rect x="{x + j * size:g}" y="{y + i * size:g}" width="{size - 1:g}" '
                    f'height="{size - 1:g}" class="{kind}"/>',
                    y + (i + 1) * size,
                )

    def legend(self, x: float, y: float, entries: dict[str, str]) -> None:
        """Which kind of square stands for what, one below the other."""
        for n, (kind, text) in enumerate(entries.items()):
            self._add(
                f'<rect x="{x:g}" y="{y + 18 * n:g}" width="11" height="11" class="{kind}"/>',
                y + 18 * n,
            )
            self.note(x + 17, y + 18 * n + 10, text, "start")


def matrix_of(size: int, kind: Callable[[int, int], str]) -> list[list[str]]:
    return [[kind(i, j) for j in range(size)] for i in range(size)]


@dataclass
class Picture:
    families: tuple[str, ...]  # whose pages show it
    description: str  # the alternative text on these pages
    draw: Callable[[Drawing], None]


PICTURES: dict[str, Picture] = {}


def picture(*families: str, alt: str) -> Callable[[Callable[[Drawing], None]], None]:
    """Registers a drawing under its function's name."""

    def register(draw: Callable[[Drawing], None]) -> None:
        PICTURES[draw.__name__] = Picture(families or (draw.__name__,), alt, draw)

    return register


# --- What is hidden and asked for ----------------------------------------------------------------


@picture(
    alt="Two passages in one row, one word masked. Every token attends to every other. The output at "
    "the mask predicts the word; the output at the first token, whether the passages belong "
    "together.",
)
def bert(d: Drawing) -> None:
    d.text(10, 20, "B follows A", "title", "start")
    d.title(115, 20, "cat")
    middles = d.tokens(112, "[CLS] the mask sat [SEP] it slept [SEP]".split(), {2: "warm"})
    d.box(10, 44, 336, 44, ["layers: every token attends", "to every token"], "cool")
    for n, x in enumerate(middles):
        d.line((x, 110), (x, 91))
        if n in (0, 2):
            d.line((x, 42), (x, 26))
    d.note(88, 150, "passage A")
    d.note(278, 150, "passage B")
    d.line((12, 138), (172, 138), head=False)
    d.line((182, 138), (344, 138), head=False)


@picture(
    "roberta",
    "xlm_roberta",
    "camembert",
    "bertweet",
    alt="One sentence is read three times, each time with other words masked.",
)
def roberta(d: Drawing) -> None:
    words = "the cat sat on the old mat".split()
    for n, hidden in enumerate(((1,), (3, 6), (2,))):
        d.note(10, 18 + 50 * n, f"reading {n + 1}", "start")
        row = ["mask" if m in hidden else word for m, word in enumerate(words)]
        d.tokens(24 + 50 * n, row, dict.fromkeys(hidden, "warm"))


@picture(
    alt="Three words in a row are masked. Each is predicted at its own place and from the two words "
    "just outside the span.",
)
def spanbert(d: Drawing) -> None:
    words = "they mask mask mask last night in".split()
    middles = d.tokens(96, words, {0: "cool", 1: "warm", 2: "warm", 3: "warm", 4: "cool"})
    for x, word in zip(middles[1:4], ("won", "the", "match"), strict=True):
        d.title(x, 74, word)
        d.line((x, 94), (x, 80))
    d.line((middles[0], 94), (middles[0], 44), (middles[2] - 6, 44), head=False)
    d.line((middles[4], 94), (middles[4], 44), (middles[2] + 6, 44), head=False)
    d.line((middles[2], 44), (middles[2], 58))
    d.note(middles[2], 34, "span boundary: the two outer words")
    d.note(middles[2], 136, "masked span: 1 to 10 words")


@picture(
    "electra",
    alt="A generator fills the masked words. The discriminator says of every word whether it is "
    "original or replaced.",
)
def electra(d: Drawing) -> None:
    d.tokens(10, "the mask cooked the mask".split(), {1: "warm", 4: "warm"})
    d.line((180, 34), (180, 48))
    d.box(110, 50, 140, 26, "generator (small)", "plain")
    d.line((180, 78), (180, 92))
    d.tokens(94, "the chef cooked the sofa".split(), {1: "warm", 4: "warm"})
    d.line((180, 118), (180, 132))
    d.box(60, 134, 240, 30, "discriminator (the model)", "cool")
    middles = [10 + 68 * n + 32 for n in range(5)]
    for x, answer in zip(
        middles, ("original", "original", "original", "original", "replaced"), strict=True
    ):
        d.text(x, 196, answer, "title" if answer == "replaced" else "")
    d.line((180, 166), (180, 180))


@picture(
    alt="Words stand in random order. Masks with the positions of the words to be predicted stand "
    "before these.",
)
def mpnet(d: Drawing) -> None:
    words = ["the", "on", "cat", "mask", "mask", "sat", "mat"]
    kinds = {0: "cool", 1: "cool", 2: "cool", 3: "warm", 4: "warm"}
    middles = d.tokens(40, words, kinds)
    for x, position in zip(middles, (1, 4, 2, 3, 5, 3, 5), strict=True):
        d.note(x, 78, f"pos {position}")
    d.note(middles[1], 28, "already read")
    d.note((middles[3] + middles[4]) / 2, 28, "masks")
    d.note((middles[5] + middles[6]) / 2, 28, "to be predicted")
    d.line((middles[3], 86), (middles[3], 108), (middles[5], 108), (middles[5], 86))
    d.line((middles[4], 86), (middles[4], 98), (middles[6], 98), (middles[6], 86))
    d.note(180, 126, "each from its mask; “mat” also sees “sat”")


@picture(
    alt="An English sentence and its French translation in one row, with positions that start again "
    "and a language for each token. Masked words can be found in the other language.",
)
def xlm(d: Drawing) -> None:
    words = "the mask sleeps le chat mask".split()
    middles = d.tokens(36, words, {1: "warm", 5: "warm"}, 62, 294)
    for label, y, values in (
        ("position", 82, "012012"),
        ("language", 100, ["en"] * 3 + ["fr"] * 3),
    ):
        d.note(8, y, label, "start")
        for x, value in zip(middles, values, strict=True):
            d.note(x, y, value)
    d.line((middles[1], 34), (middles[1], 18), (middles[4], 18), (middles[4], 34))
    d.line((middles[5], 60), (middles[5], 66), (middles[2], 66), (middles[2], 60))


# --- Layers --------------------------------------------------------------------------------------


@picture(
    alt="BERT has a wide token table and twelve layers. ALBERT has a narrow table, a projection, and "
    "one layer used twelve times.",
)
def albert(d: Drawing) -> None:
    d.title(85, 18, "BERT base")
    d.title(270, 18, "ALBERT base")
    for n, label in enumerate(("layer 12", "⋮", "layer 2", "layer 1")):
        d.box(35, 30 + 32 * n, 100, 26, label, "faint")
    d.line((85, 176), (85, 156))
    d.box(25, 178, 120, 36, ["token table", "768 wide"], "plain")
    d.box(220, 62, 100, 58, ["one layer", "12 times"], "warm")
    d.line((320, 74), (344, 74), (344, 110), (323, 110))
    d.line((270, 142), (270, 122))
    d.box(220, 143, 100, 22, "128 → 768", "plain")
    d.line((270, 184), (270, 168))
    d.box(220, 186, 100, 28, "table: 128 wide", "cool")
    d.line((270, 60), (270, 34))


@picture(
    "distilbert",
    alt="The student's six layers start as every second one of the teacher's twelve, and it learns "
    "the teacher's predictions.",
)
def distilbert(d: Drawing) -> None:
    d.title(85, 18, "teacher: BERT base")
    d.title(275, 18, "student")
    for n in range(12):
        y = 28 + 15 * (11 - n)
        d.box(35, y, 100, 12, "", "faint" if n % 2 else "cool")
    for n in range(6):
        y = 35 + 30 * (5 - n)
        d.box(225, y, 100, 12, "", "cool")
        d.line((138, y + 14), (222, y + 7))
    d.note(180, 222, "every second layer is copied; then the student learns")
    d.note(180, 237, "the teacher's predictions and hidden states")


@picture(
    alt="The last layers of a wide teacher and a narrow student are compared by two matrices of "
    "tokens by tokens.",
)
def multilingual_minilm(d: Drawing) -> None:
    d.title(80, 18, "teacher, 768 wide")
    d.title(280, 18, "student, 384 wide")
    for n in range(4):
        d.box(
            20, 30 + 24 * n, 120, 20, "last layer" if n == 0 else "", "warm" if n == 0 else "faint"
        )
        d.box(
            240, 30 + 24 * n, 80, 20, "last layer" if n == 0 else "", "warm" if n == 0 else "faint"
        )
    d.line((160, 40), (220, 40), head=False)
    d.note(190, 34, "compare")
    rng = random.Random(1)
    for label, x in (("attention", 65), ("value products", 215)):
        shown = [[rng.choice(("cool", "faint")) for _ in range(6)] for _ in range(6)]
        d.matrix(x, 140, shown, 12)
        d.note(x + 36, 228, label)
    d.note(180, 244, "tokens × tokens, whatever the width")


@picture(
    alt="A block narrows 512 numbers to 128, has attention and four feed-forward layers, and widens "
    "to 512. A shortcut goes around it, and values come from the 512.",
)
def mobilebert(d: Drawing) -> None:
    d.title(150, 18, "one block of 24")
    d.line((150, 252), (150, 234))
    d.shape([(90, 232), (210, 232), (175, 204), (125, 204)], "512 → 128", "warm")
    d.line((150, 202), (150, 190))
    d.box(110, 162, 80, 26, "attention", "cool")
    d.line((150, 160), (150, 148))
    for n in range(4):
        d.box(110, 96 + 13 * n, 80, 11, "", "faint")
    d.note(200, 126, "4 feed-forward", "start")
    d.line((150, 94), (150, 82))
    d.shape([(125, 80), (175, 80), (210, 52), (90, 52)], "128 → 512", "warm")
    d.line((150, 50), (150, 28))
    d.line((150, 244), (60, 244), (60, 40), (147, 40))
    d.line((150, 244), (245, 244), (245, 175), (193, 175))
    d.note(250, 200, "values", "start")
    d.note(54, 145, "shortcut", "end")
    d.note(162, 44, "+", "start")


@picture(
    "deberta",
    "deberta_v2",
    alt="Two tokens with a content and a position vector each. Their score adds three products: "
    "content-content, content-position and position-content.",
)
def deberta(d: Drawing) -> None:
    d.title(80, 18, "token i")
    d.title(280, 18, "token j")
    d.box(30, 30, 100, 26, "content", "warm")
    d.box(230, 30, 100, 26, "content", "warm")
    d.box(30, 106, 100, 26, "position", "cool")
    d.box(230, 106, 100, 26, "position", "cool")
    d.line((133, 43), (227, 43), head=False)
    d.line((133, 50), (227, 112), head=False)
    d.line((133, 112), (227, 50), head=False)
    d.note(180, 37, "1")
    d.note(148, 72, "2")
    d.note(212, 72, "3")
    d.note(180, 152, "score = 1 + 2 + 3")
    d.note(180, 168, "position: distance from i to j, never the place in the text")


# --- Attention -----------------------------------------------------------------------------------


@picture(
    "gpt",
    "gpt2",
    alt="Two attention matrices: in BERT every token attends to all, in GPT only to itself and "
    "earlier ones.",
)
def gpt(d: Drawing) -> None:
    d.title(90, 18, "BERT")
    d.title(270, 18, "GPT")
    d.matrix(30, 28, matrix_of(8, lambda i, j: "cool"), 15)
    d.matrix(210, 28, matrix_of(8, lambda i, j: "cool" if j <= i else "faint"), 15)
    d.legend(60, 160, {"cool": "the row's token attends to the column's"})


@picture(
    alt="Attention matrices of three layers: the first attends to all tokens, the next two to tokens "
    "near by.",
)
def modernbert(d: Drawing) -> None:
    for n, label in enumerate(("layer 1", "layer 2", "layer 3")):
        d.title(62 + 118 * n, 18, label)
        d.matrix(
            14 + 118 * n,
            28,
            matrix_of(12, lambda i, j, n=n: "cool" if n == 0 or abs(i - j) < 2 else "faint"),
            8,
        )
    d.note(62, 142, "all tokens")
    d.note(239, 142, "128 tokens around each")
    d.note(180, 160, "… and again from layer 4")


@picture(
    alt="An attention matrix: a band along the diagonal, and full rows and columns for a few global "
    "tokens.",
)
def longformer(d: Drawing) -> None:
    far = {0, 12}
    rows = matrix_of(
        20, lambda i, j: "warm" if {i, j} & far else "cool" if abs(i - j) < 3 else "faint"
    )
    d.matrix(14, 12, rows, 9)
    d.legend(212, 40, {"warm": "global token", "cool": "window", "faint": "not attended to"})


@picture(
    alt="An attention matrix in blocks: a band along the diagonal, full rows and columns for the "
    "first and last block, and three random blocks a row.",
)
def bigbird(d: Drawing) -> None:
    rng = random.Random(3)
    size = 14
    rows = matrix_of(
        size,
        lambda i, j: "warm" if {i, j} & {0, size - 1} else "cool" if abs(i - j) < 2 else "faint",
    )
    for row in rows[1:-1]:
        for j in rng.sample([j for j, kind in enumerate(row) if kind == "faint"], 3):
            row[j] = "plain dot"
    d.matrix(14, 12, [[kind.replace(" dot", "") for kind in row] for row in rows], 13)
    for i, row in enumerate(rows):
        for j, kind in enumerate(row):
            if kind == "plain dot":
                d.parts.append(
                    f'<circle cx="{14 + 13 * j + 6:g}" cy="{12 + 13 * i + 6:g}" r="3" class="head"/>'
                )
    d.legend(
        212,
        40,
        {
            "warm": "first, last block",
            "cool": "neighbours",
            "plain": "random (dots)",
            "faint": "not attended to",
        },
    )
    d.note(212, 130, "a square: 64 tokens", "start")


@picture(
    alt="Two attention matrices for the order 3, 2, 4, 1: the content stream sees a token itself and "
    "earlier ones, the query stream only earlier ones.",
)
def xlnet(d: Drawing) -> None:
    rank = {n: m for m, n in enumerate((3, 2, 4, 1))}
    d.title(90, 18, "content stream")
    d.title(270, 18, "query stream")
    for x, own in ((40, True), (220, False)):
        d.matrix(
            x,
            40,
            matrix_of(
                4,
                lambda i, j, own=own: (
                    "cool" if rank[j + 1] < rank[i + 1] else "warm" if own and i == j else "faint"
                ),
            ),
            26,
        )
        for n in range(4):
            d.note(x + 12 + 26 * n, 36, str(n + 1))
            d.note(x - 8, 57 + 26 * n, str(n + 1))
    d.note(180, 164, "reading order here: 3, 2, 4, 1")
    d.legend(40, 176, {"cool": "earlier in the order", "warm": "the token itself"})


# --- Recurrence ----------------------------------------------------------------------------------


@picture(
    "transformer_xl",
    alt="Tokens of the second segment also attend to the kept hidden states of the first, one layer "
    "below.",
)
def transformer_xl(d: Drawing) -> None:
    d.title(90, 18, "segment 1 (memory)")
    d.title(270, 18, "segment 2")
    for layer in range(3):
        y = 140 - 50 * layer
        for n in range(4):
            d.box(20 + 38 * n, y, 26, 22, "", "cool")
            d.box(200 + 38 * n, y, 26, 22, "", "warm")
        if layer:
            for n in (1, 2, 3):
                d.line((20 + 38 * n + 13, y + 48), (200 + 13 + 8, y + 25), dashed=True)
            d.line((200 + 13, y + 48), (200 + 13, y + 25))
            d.line((200 + 38 * 3 + 13, y + 48), (200 + 38 * 3 + 13, y + 25))
            for n in (1, 2):
                d.line((200 + 38 * n + 13, y + 48), (200 + 38 * 3 + 8, y + 25))
    d.note(180, 182, "dashed: attended to, but no gradient")


@picture(
    alt="Three layers of LSTMs read words from left to right and predict the next one, with one "
    "dropout mask for all steps.",
)
def awd_lstm(d: Drawing) -> None:
    words, predicted = ("the", "film", "was", "great"), ("film", "was", "great", "!")
    for n, (word, following) in enumerate(zip(words, predicted, strict=True)):
        x = 24 + 84 * n
        d.text(x + 30, 196, word)
        d.line((x + 30, 184), (x + 30, 170))
        for layer in range(3):
            y = 142 - 44 * layer
            d.box(x, y, 60, 26, "LSTM", "cool")
            if n < 3:
                d.line((x + 62, y + 13), (x + 82, y + 13))
            d.line((x + 30, y - 2), (x + 30, y - 16))
        d.title(x + 30, 32, following)
    d.note(180, 214, "→ state, with one dropout mask for all steps")


@picture(
    alt="Convolutions over characters make a vector of each word. LSTMs read them in both directions, "
    "and all layers are summed with weights.",
)
def elmo(d: Drawing) -> None:
    for n, word in enumerate(("c-a-t", "s-a-t", "d-o-w-n")):
        x = 30 + 106 * n
        d.text(x + 44, 212, word)
        d.line((x + 44, 200), (x + 44, 186))
        d.box(x, 158, 88, 26, "convolutions", "faint")
        d.line((x + 44, 156), (x + 44, 142))
        d.box(x, 106, 88, 26, "2 LSTMs →", "cool")
        d.box(x, 66, 88, 26, "← 2 LSTMs", "warm")
        d.line((x + 44, 64), (x + 44, 50))
        if n < 2:
            d.line((x + 90, 119), (x + 104, 119))
            d.line((x + 104, 79), (x + 90, 79))
    d.line((30, 138), (330, 138), head=False)
    d.box(30, 20, 300, 28, "weighted sum of all layers", "plain")


# --- Encoder and decoder -------------------------------------------------------------------------


@picture(
    "t5",
    "mt5",
    "umt5",
    alt="The encoder reads a sentence with sentinels in place of spans. The decoder attends to it and "
    "writes the missing spans.",
)
def t5(d: Drawing) -> None:
    d.title(88, 18, "encoder")
    d.title(268, 18, "decoder")
    d.tokens(150, ["the", "X", "on", "Y", "mat"], {1: "warm", 3: "cool"}, 10, 172)
    d.box(10, 76, 168, 46, ["all tokens", "attend to all"], "faint")
    d.line((94, 148), (94, 125))
    d.line((181, 99), (201, 99))
    d.box(204, 76, 146, 46, ["earlier tokens", "and the encoder"], "faint")
    d.tokens(30, ["X", "cat", "sat", "Y", "the"], {0: "warm", 3: "cool"}, 192, 164)
    d.line((276, 74), (276, 56))
    d.note(94, 192, "spans are left out")
    d.note(276, 142, "writes the spans")


@picture(
    alt="The encoder reads bytes and is three times as deep as the decoder, which writes the missing "
    "bytes.",
)
def byt5(d: Drawing) -> None:
    d.tokens(172, ["t", "h", "e", "_", "X", "s", "a", "t"], {4: "warm"}, 10, 190)
    d.title(100, 18, "encoder: 12 layers")
    d.title(288, 18, "decoder: 4 layers")
    for n in range(12):
        d.box(50, 26 + 11 * n, 100, 8, "", "cool")
    for n in range(4):
        d.box(238, 114 + 11 * n, 100, 8, "", "cool")
    d.line((100, 170), (100, 160))
    d.line((153, 134), (235, 134))
    d.tokens(76, ["X", "c", "a", "t", "_"], {0: "warm"}, 228, 124)
    d.line((288, 112), (288, 100))
    d.note(180, 212, "a token is a byte (layers of ByT5 small)")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, shown in PICTURES.items():
        drawing = Drawing()
        shown.draw(drawing)
        (FOLDER / f"{name}.svg").write_text(drawing.svg(shown.description), encoding="utf-8")
