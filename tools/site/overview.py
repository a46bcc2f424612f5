"""Draws docs/figures/overview.svg, README's picture: what goes into a model and what comes out.

python tools/site/overview.py
"""

from collections.abc import Sequence

from charts import MARGIN, ROOT, STYLE, WIDTH, _text

FIGURE = ROOT / "docs" / "figures" / "overview.svg"
TITLE = "What bert_zoo reads, what its models do, and what it writes"
SOURCES = ("Hugging Face", "TF1", "TF-Hub", "Model Garden", "KerasHub", "fairseq")
VERBS = ("classify", "tag", "answer", "embed", "rank", "fill_mask", "generate")
RESULTS = ("SavedModel", "LiteRT", "ONNX", "Hugging Face", "KerasHub", ".keras")
PLACES = "for servers, phones, browsers and other libraries"
ROW, GAP = 26, 8


def draw() -> str:
    """The picture as SVG."""
    parts = [_text(MARGIN, 28, "Checkpoints and directories, heads included", "n")]
    y = _chips(parts, SOURCES, 36, "var(--s1)")
    y = _arrow(parts, y, "bert_zoo.load(...)")
    y = _model(parts, y)
    y = _arrow(parts, y, "bert_zoo.save(...), bert_zoo.export(...)")
    y = _chips(parts, RESULTS, y, "var(--s2)")
    parts.append(_text(MARGIN, y + 16, PLACES, "n"))
    height = y + 28
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH * 1.3:.0f}" '
        f'height="{height * 1.3:.0f}" role="img"><title>{TITLE}</title><style>{STYLE}</style>'
    )
    card = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="var(--card)"/>'
    return "\n".join([head, card, *parts, "</svg>"]) + "\n"


def _chips(parts: list[str], names: Sequence[str], y: int, color: str) -> int:
    """Boxes side by side, as wide as their names ask for, across the picture."""
    room = WIDTH - 2 * MARGIN - GAP * (len(names) - 1)
    letters = sum(len(name) + 3 for name in names)
    x = float(MARGIN)
    for name in names:
        width = room * (len(name) + 3) / letters
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" rx="5" fill="none" stroke="{color}" '
            'stroke-width="1.5"/>'
        )
        parts.append(_text(x + width / 2, y + 17, name, "n", "middle"))
        x += width + GAP
    return y + ROW


def _model(parts: list[str], y: int) -> int:
    height = 92
    parts.append(
        f'<rect x="{MARGIN}" y="{y}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6" fill="none" '
        'stroke="var(--s0)" stroke-width="2"/>'
    )
    parts.append(_text(WIDTH / 2, y + 23, "A Keras 3 model that reads text", "t", "middle"))
    parts.append(_text(WIDTH / 2, y + 45, "tokenizer + encoder + head", "", "middle"))
    parts.append(
        _text(WIDTH / 2, y + 65, "model.fit(texts, labels): fine-tune or pretrain", "", "middle")
    )
    parts.append(_text(WIDTH / 2, y + 83, ", ".join(VERBS), "n", "middle"))
    return y + height


def _arrow(parts: list[str], y: int, text: str) -> int:
    x = WIDTH / 3
    parts.append(
        f'<path d="M{x:.0f} {y + 6}v20m-4 -6l4 6l4 -6" fill="none" stroke="var(--soft)" stroke-width="1.5"/>'
    )
    parts.append(_text(x + 12, y + 21, text, "n"))
    return y + 32


if __name__ == "__main__":
    FIGURE.write_text(draw(), encoding="utf-8")
    print(FIGURE)
