"""A page that draws the attention of a chosen sentence, layer and head."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from bert_zoo.charts.page import Page, encode


class AttentionViewer(Page):
    """A complete HTML page, as a string. A notebook shows it in a frame."""

    name = "Attention"


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
                "maps": encode(steps),
            }
        )
    return AttentionViewer.of("attention", rows, title=title)
