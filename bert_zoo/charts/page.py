"""Interactive pages of one file, which fetch nothing."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from markupsafe import Markup, escape

from bert_zoo.charts.svg import STYLE

HERE = Path(__file__).parent
# Texts come from users, so the browser may run this script only.
PAGE = Markup("""<!DOCTYPE html>
<html lang="en" class="bert-zoo">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '{digest}'{more}">
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


class Page(Markup):
    """A complete HTML page, as a string. A notebook shows it in a frame."""

    name = "Page"  # what a screen reader calls the frame
    height = 640  # of the frame, in pixels

    digest: Markup  # of its script, as policies name it; a page that has this one in a frame must allow it too

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{self.height}" style="border:0" '
            f'title="{self.name}" srcdoc="{escape(str(self))}"></iframe>'
        )

    @classmethod
    def of(cls, files: str, data: Any, *, title: str, policy: str = "") -> Self:
        """The page whose script and style are the files of this name, such as "attention". `policy` is what its
        Content-Security-Policy allows besides, such as "connect-src 'self'"."""
        style, script = (
            "".join(
                (HERE / f"{name}.{kind}").read_text(encoding="utf-8") for name in ("page", files)
            )
            for kind in ("css", "js")
        )
        code = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        digest = Markup(f"sha256-{code}")
        # "</script>" in a text would end the data, and "<!--" would change how it is parsed.
        data = json.dumps(data).replace("<", "\\u003c")
        page = cls(
            PAGE.format(
                title=title,
                style=STYLE + Markup(style),
                data=Markup(data),
                script=Markup(script),
                digest=digest,
                more=Markup(f"; {policy}" if policy else ""),
            )
        )
        page.digest = digest
        return page


def encode(array: np.ndarray) -> str:
    """The bytes of an array in Base64, little-endian as browsers read them."""
    array = array.astype(array.dtype.newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")
