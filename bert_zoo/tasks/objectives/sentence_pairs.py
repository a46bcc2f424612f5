"""Sentence pairs: whether the second text follows the first (BERT), or whether they are in order (ALBERT).

`bert_zoo.pretraining.rows.SentencePairs` makes the rows and their labels.
"""

from dataclasses import dataclass

from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import class_loss
from bert_zoo.tasks.objectives.model import Prediction


@dataclass(frozen=True)
class SentencePrediction(Prediction):
    """Predicts two classes from the pooled first token: logits [batch, 2], for rows of single documents.

    Attributes:
        classes: description of the two classes.
    """

    classes: str = ""
    loss = staticmethod(class_loss)

    def head(self, model, name):
        # The originals have no dropout before this layer.
        return model.output_head(2, name, dropout=0.0)

    def logits(self, head, model, encoded, inputs):
        pooled = encoded.get("pooled_output")
        return None if pooled is None else head(pooled)

    def label_range(self, model, inputs):
        return LabelRange(2, self.classes)
