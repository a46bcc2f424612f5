"""Fills the templates of pages and model cards."""

import re
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from bert_zoo.charts import STYLE, line_chart
from bert_zoo.cli.report.analysis import most_confused, used_labels
from bert_zoo.cli.report.wording import duration, setting, settings, words
from bert_zoo.runtime.printed import number

TEMPLATES = Path(__file__).parent / "templates"
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
MARKDOWN = re.compile(r"([\\`*\[\]|#])")


def write(template: str, path: str | PathLike, **values: Any) -> None:
    """Fills a template of this package with values and writes it to a file."""
    text = ENVIRONMENT.get_template(template).render(values)
    # Characters that UTF-8 cannot encode, such as lone surrogates, become numeric references.
    Path(path).write_text(text, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def linked(text: str) -> Markup:
    """Turns arXiv numbers in a text into links, for a page."""
    return Markup(ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">\g<0></a>', str(escape(text))))


def plain(value: str) -> str:
    """Returns a text as one line, escaped for Markdown."""
    line = " ".join(value.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", line)


def plain_linked(text: str) -> str:
    """Turns arXiv numbers in a text into links, for a card."""
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", plain(text))


def row(*cells: Any) -> str:
    """Returns a row of a card's table."""
    return f"| {' | '.join(plain(number(cell)) for cell in cells)} |"


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=jinja2.select_autoescape(["html"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    each.__name__: each
    for each in (duration, linked, number, plain, plain_linked, setting, settings, words)
}
ENVIRONMENT.filters |= {
    "named": lambda name, run: run.named(name),
    "of": lambda name, row: row.get(name),
}
ENVIRONMENT.globals |= {
    each.__name__: each for each in (line_chart, most_confused, row, used_labels)
}
ENVIRONMENT.globals["STYLE"] = STYLE
