"""Draws the picture of the documentation's front page from the tables of docs/.

python tools/comparison_figure.py            writes docs/figures/comparison.png

Needs matplotlib (bert_zoo[plots]). Nothing is measured here: each bar is a cell of a table, whose section
says how it was measured.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

DOCS = Path(__file__).parents[1] / "docs"
OURS, OTHERS = "#bf360c", "#90a4ae"
# Page, section, beginning of a row, column, and what the bar is called.
RATIOS = [
    ("results.md", "Whole fine-tunings side by side", "SST-2", "Hugging Face Trainer", "fine-tuning, SST-2 / HF Trainer"),
    ("results.md", "Whole fine-tunings side by side", "RTE", "Hugging Face Trainer", "fine-tuning, RTE / HF Trainer"),
    ("results.md", "Whole fine-tunings side by side", "CoLA, all", "Hugging Face Trainer", "fine-tuning, CoLA / HF Trainer"),
    ("results.md", "Whole fine-tunings side by side", "CoLA, 640", "KerasHub", "fine-tuning, CoLA / KerasHub"),
    ("results.md", "Parts of pretraining, side by side", "`pretraining_step", "ratio", "masked step, BERT base / KerasHub"),
    ("results.md", "Speed", "WordPiece", "Hugging Face", "WordPiece / HF's in Rust"),
    ("results.md", "Speed", "SentencePiece (ALBERT)", "Hugging Face", "SentencePiece / HF's in Rust"),
    ("results.md", "Speed", "byte-level BPE (RoBERTa)", "Hugging Face", "byte-level BPE / HF's in Rust"),
    ("performance.md", "BERT beside the machine", "forward, float32", "KerasHub", "forward, BERT base / KerasHub"),
    ("performance.md", "BERT beside the machine", "forward, float32", "torch", "forward, BERT base / HF in torch"),
    ("results.md", "Long texts", "2,048", "Hugging Face (torch, SDPA)", "ModernBERT, 2,048 tokens / HF in torch"),
    ("results.md", "Long texts", "512", "Hugging Face (torch, SDPA)", "ModernBERT, 512 tokens / HF in torch"),
]  # fmt: skip
# Rows of the table of serving.md by their first two cells.
SERVED = [
    ("Hugging Face in torch", "float32"),
    ("sentence-transformers' encode", "float32"),
    ("bert_zoo, SavedModel", "float32"),
    ("bert_zoo, ONNX Runtime", "int8"),
    ("bert_zoo, LiteRT", "int8"),
]
SERVING_COLUMNS = ("memory, MB", "first answer, s", "32 texts, texts/s")


def rows_of(page: str, section: str) -> Iterator[dict[str, str]]:
    """The rows of a section's tables, each a dict of its cells by the heads of their columns.

    Raises:
        ValueError: the page has no such section.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(
        rf"^##+ {re.escape(section)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise ValueError(f"docs/{page} has no section {section!r}; name its heading as it is now.")
    head: list[str] = []
    for line in found[1].splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = cells
        elif not set(line) <= set("|-: "):
            yield dict(zip(head, cells, strict=True))


def first_cell(row: dict[str, str]) -> str:
    return next(iter(row.values()))


def ratio(page: str, section: str, beginning: str, column: str) -> float:
    """How many times as fast a row says that bert_zoo is: the median where it names several rounds."""
    row = next((r for r in rows_of(page, section) if first_cell(r).startswith(beginning)), None)
    if row is None:
        raise ValueError(f"docs/{page}, {section}: no row begins with {beginning!r}.")
    cell = row[column]
    named = re.findall(r"(\d+\.\d+)x", cell) or re.findall(r"^(\d+\.\d+)", cell)
    if not named:
        raise ValueError(
            f"docs/{page}, {section}, {beginning!r}, {column!r}: no ratio in {cell!r}."
        )
    return median(map(float, named))


def served() -> dict[str, dict[str, float]]:
    """Figures of serving by what is served, each a dict by column."""
    found = {}
    for row in rows_of("serving.md", "What it costs"):
        name, numbers = first_cell(row), row.get("numbers", "")
        if (name, numbers) in SERVED and set(SERVING_COLUMNS) <= set(row):
            found[f"{name}, {numbers}"] = {
                column: float(row[column].replace(",", "")) for column in SERVING_COLUMNS
            }
    return found


def draw(path: Path) -> None:
    """Writes the picture as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplot_mosaic(
        [["ratios", column] for column in SERVING_COLUMNS],
        figsize=(11, 5.6),
        width_ratios=(1.15, 1),
        layout="constrained",
    )
    bars = sorted(((ratio(*where), name) for *where, name in RATIOS), key=lambda bar: bar[0])
    ratios = axes["ratios"]
    values = [value for value, _ in bars]
    colours = [OURS if value >= 1 else OTHERS for value in values]
    names = [name for _, name in bars]
    ratios.barh(names, [value - 1 for value in values], left=1, color=colours)
    for name, value in zip(names, values, strict=True):
        ratios.text(1.03 * max(value, 1), name, f"{value:.2f}", verticalalignment="center")
    ratios.axvline(1, color="black", linewidth=0.8)
    ratios.set_xscale("log")
    ratios.set_xlim(0.7, 10)
    ratios.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    ratios.minorticks_off()
    ratios.set_title("bert_zoo, times as fast as ...")
    figures = served()
    for column in SERVING_COLUMNS:
        panel, labels = axes[column], [*reversed(figures)]
        values = [figures[label][column] for label in labels]
        colours = [OURS if label.startswith("bert_zoo") else OTHERS for label in labels]
        panel.bar_label(panel.barh(labels, values, color=colours), padding=2)
        panel.set_xlim(0, max(values) * 1.2)
        panel.set_xticks([])
        panel.set_title({"memory, MB": "serving MiniLM: memory, MB"}.get(column, column))
    for panel in axes.values():
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(DOCS / "figures" / "comparison.png")
