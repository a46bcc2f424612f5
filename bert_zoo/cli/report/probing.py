"""The page of probes: sections of charts and tables, and beside it the page of attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bert_zoo.charts import AttentionViewer
from bert_zoo.cli.report.render import write

ATTENTION = "attention.html"


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: its heading.
        text: a sentence or two on what was measured, and how.
        charts: heading -> chart of `bert_zoo.charts`; an empty chart is left out.
        tables: caption -> rows of column -> value. The first row has all columns, and the first column
            names the row.
    """

    title: str
    text: str = ""
    charts: Mapping[str, Markup] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def write_report(
    path: Path,
    title: str,
    sections: Sequence[Section],
    *,
    text: str = "",
    attention: AttentionViewer | None = None,
) -> None:
    """Writes the page of probes, one HTML file.

    Args:
        path: of the file.
        title: of the page, such as the model's name.
        sections: from top to bottom.
        text: what was probed, below the title.
        attention: written beside the page as `attention.html`, and linked to. The cells of a heat map lead
            into it with `link="attention.html#layer={row}&head={column}"`.
    """
    write(
        "probed.html",
        path,
        title=title,
        text=text,
        sections=sections,
        attention=attention and ATTENTION,
    )
    if attention:
        path.with_name(ATTENTION).write_text(attention, encoding="utf-8", newline="\n")
