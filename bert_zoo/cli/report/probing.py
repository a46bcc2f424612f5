"""The report of probes, with sections of charts and tables, and its page of attention maps."""

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
    """A section of the report.

    Attributes:
        title: its heading.
        text: what was measured and how, in a few sentences.
        charts: heading -> chart from `bert_zoo.charts`; empty charts are left out.
        tables: caption -> rows of column -> value. The first row must have all columns; the first column
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
    """Writes the report of probes, one HTML file.

    Args:
        path: path of the file.
        title: title of the page, such as the model's name.
        sections: the sections from top to bottom.
        text: what was probed; shown below the title.
        attention: written to `attention.html` in the same folder, and linked. Heat maps link their cells to it with
            `link="attention.html#layer={row}&head={column}"`.
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
