"""Charts as SVG, for reports and notebooks: curves, heat maps, trees, scatter plots, attention.

Each function takes plain arrays and names, and returns HTML. A notebook shows a chart directly; a page of your own
must include `STYLE`. Nothing here imports TensorFlow or Keras.
"""

from bert_zoo.charts.attention import AttentionViewer, attention_viewer
from bert_zoo.charts.heat_map import heat_map
from bert_zoo.charts.lines import layer_curves, line_chart
from bert_zoo.charts.scatter import scatter
from bert_zoo.charts.svg import STYLE, Chart
from bert_zoo.charts.trees import dependency_tree

__all__ = [
    "STYLE",
    "AttentionViewer",
    "Chart",
    "attention_viewer",
    "dependency_tree",
    "heat_map",
    "layer_curves",
    "line_chart",
    "scatter",
]
