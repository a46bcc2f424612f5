"""Draws what a notebook shows of answers on pages of docs, by running the examples above it.

    python tools/site/pictures.py          # writes docs/figures/answers/*.svg, in minutes

A comment right above a picture has its height and the expression that it shows, with the names of the examples:

    <!-- picture 40: found -->
    ![Two names marked in a sentence](../figures/answers/tag.svg)

The pictures take light or dark colours from the reader's system.
"""

import os
import re
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURE = (
    r"^<!-- picture (?P<height>\d+): (?P<shown>[^\n]+) -->\n"
    r"!\[(?P<description>[^\]]+)\]\((?P<file>\.\./figures/answers/[^)]+)\)$"
)
PARTS = re.compile(
    rf"^(?P<not_run><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```$|{PICTURE}",
    re.MULTILINE | re.DOTALL,
)
WIDTH, SCALE = 400, 1.15


def draw(html: str, description: str, height: int) -> str:
    """A part of a page as an SVG file."""
    # Unlike in HTML, a drawing within must say that it is one.
    html = html.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH * SCALE:.0f}" '
        f'height="{height * SCALE:.0f}" role="img"><title>{escape(description)}</title>\n'
        f'<foreignObject width="{WIDTH}" height="{height}"><div xmlns="http://www.w3.org/1999/xhtml">'
        f"<style>.bert-zoo>.chart{{box-sizing:border-box;min-height:{height}px;border:1px solid rgb(var(--edge));"
        "border-radius:8px}</style>\n"
        f"{html}</div></foreignObject></svg>\n"
    )


def write_pictures(page: Path) -> None:
    """Runs a page's examples down to its last picture, and writes its pictures."""
    names = {"__name__": "__main__"}
    parts = [*PARTS.finditer(page.read_text(encoding="utf-8"))]
    while parts and not parts[-1]["shown"]:
        parts.pop()
    for part in parts:
        if part["shown"]:
            html = eval(part["shown"], names)._repr_html_()
            picture = draw(html, part["description"], int(part["height"]))
            (page.parent / part["file"]).resolve().write_text(picture, encoding="utf-8")
            print(page.name, part["file"])
        elif not part["not_run"]:
            exec(part["code"], names)


if __name__ == "__main__":
    (DOCS / "figures" / "answers").mkdir(exist_ok=True)
    for page in sorted(DOCS.rglob("*.md")):
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            write_pictures(page)
