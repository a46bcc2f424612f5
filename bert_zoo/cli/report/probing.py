"""The page of probing results, with sections of charts and tables, and the attention page."""

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
    """A section of the page.

    Attributes:
        title: its heading.
        text: one or two sentences on what was measured and how.
        charts: heading -> chart of `bert_zoo.charts`. Empty charts are left out.
        tables: caption -> rows of column -> value. The first row has all columns, and the first column
            names the rows.
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
    """Writes the page of probing results as one HTML file.

    Args:
        path: the file.
        title: the page's title, such as the model's name.
        sections: sections from top to bottom.
        text: text below the title: what was probed.
        attention: a viewer to write to `attention.html` next to the page and to link to. Heat maps can link
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
