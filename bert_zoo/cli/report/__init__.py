"""What a fine-tuning run leaves behind for people: a page of its results and a model card.

Nothing here imports TensorFlow or Keras.
"""

from bert_zoo.cli.report.model_card import write_model_card
from bert_zoo.cli.report.page import write_report
from bert_zoo.cli.report.record import HardExample, RunRecord

__all__ = ["HardExample", "RunRecord", "write_model_card", "write_report"]
