"""Charts for reports and notebooks: curves, heat maps, trees, scatter plots, attention, maps of texts; and answers.

Each function takes plain arrays and names, and returns HTML. A notebook shows a chart directly; a page of your own
must include `STYLE`. Nothing here imports TensorFlow or Keras.
"""

from bert_zoo.charts.answers import folded, marked_text, score_bars, stacked
from bert_zoo.charts.attention import AttentionViewer, attention_viewer
from bert_zoo.charts.svg import (
    STYLE,
    Chart,
    dependency_tree,
    heat_map,
    layer_curves,
    line_chart,
    scatter,
)
from bert_zoo.charts.text_map import TextMap, text_map

__all__ = [
    "STYLE",
    "AttentionViewer",
    "Chart",
    "TextMap",
    "attention_viewer",
    "dependency_tree",
    "folded",
    "heat_map",
    "layer_curves",
    "line_chart",
    "marked_text",
    "scatter",
    "score_bars",
    "stacked",
    "text_map",
]
