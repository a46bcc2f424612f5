"""What a fine-tuning run leaves behind for people: a page of its results and a model card.

Nothing here imports TensorFlow or Keras.
"""

from bert_zoo.apps.report.analysis import (
    binary_cross_entropies,
    confusion_matrix,
    cross_entropies,
    hardest_examples,
    hardest_label_sets,
    label_set_table,
    named_set,
    per_label_table,
)
from bert_zoo.apps.report.model_card import write_model_card
from bert_zoo.apps.report.page import write_report
from bert_zoo.apps.report.record import HardExample, RunRecord

__all__ = [
    "HardExample",
    "RunRecord",
    "binary_cross_entropies",
    "confusion_matrix",
    "cross_entropies",
    "hardest_examples",
    "hardest_label_sets",
    "label_set_table",
    "named_set",
    "per_label_table",
    "write_model_card",
    "write_report",
]
