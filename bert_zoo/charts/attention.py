"""A page that draws the attention of a chosen sentence, layer and head."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from bert_zoo.charts.svg import STYLE

HERE = Path(__file__).parent
# Height of the frame in a notebook, in pixels.
HEIGHT = 640
# The page is one file that fetches nothing. Texts come from users, so the browser may run this script only.
PAGE = Markup("""<!DOCTYPE html>
<html lang="en" class="bert-zoo">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<h1>{title}</h1>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
""")


class AttentionViewer(Markup):
    """A complete HTML page, as a string. A notebook shows it in a frame."""

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{HEIGHT}" style="border:0" '
            f'title="Attention" srcdoc="{escape(str(self))}"></iframe>'
        )


def attention_viewer(
    sentences: Iterable[tuple[Sequence[str], ArrayLike]], *, title: str = "Attention"
) -> AttentionViewer:
    """Makes a page that shows the attention of every layer and head within some sentences.

    The page shows all layers and heads as small maps, and the chosen head as lines between words or as a map with
    words. It needs no network. Its address can choose what it shows first, by numbers from 0:
    "attention.html#sentence=0&layer=3&head=7".

    Args:
        sentences: for each sentence its words or tokens, and their attention [layers, heads, words, words]: the
            weight from 0 to 1 that each row gives to each column. Weights are rounded to steps of 1/255.
        title: title of the page.

    Returns:
        The page's HTML. Write it to a file in UTF-8.

    Raises:
        ValueError: the attention of a sentence has another shape.
    """
    rows = []
    for words, maps in sentences:
        maps = np.asarray(maps)
        if maps.ndim != 4 or maps.shape[2:] != (len(words), len(words)):
            raise ValueError(
                f"The attention between {len(words)} words must have the shape [layers, heads, {len(words)}, "
                f"{len(words)}], but has the shape {list(maps.shape)}."
            )
        steps = np.rint(np.clip(np.nan_to_num(maps), 0, 1) * 255).astype(np.uint8)
        rows.append(
            {
                "words": [str(word) for word in words],
                "layers": maps.shape[0],
                "heads": maps.shape[1],
                "maps": base64.b64encode(steps.tobytes()).decode("ascii"),
            }
        )
    style = STYLE + Markup((HERE / "attention.css").read_text(encoding="utf-8"))
    script = (HERE / "attention.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    # "</script>" in a text would end the data, and "<!--" would change how it is parsed.
    data = json.dumps(rows).replace("<", "\\u003c")
    return AttentionViewer(
        PAGE.format(
            title=title,
            style=style,
            data=Markup(data),
            script=Markup(script),
            digest=Markup(f"sha256-{digest}"),
        )
    )
