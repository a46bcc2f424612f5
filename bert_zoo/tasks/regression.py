"""Regression: one number per text."""

from dataclasses import replace
from typing import Any

import keras

from bert_zoo.models.labels import HeadChoice, LabelScores
from bert_zoo.models.losses import SquaredError
from bert_zoo.models.task_model import SentenceModel, Use


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(SentenceModel):
    """Predicts a number for a text or a pair of texts.

    Returns numbers [batch, 1]; `fit` takes floats [batch].

    Args:
        encoder: as in `TaskModel`.
        score_name: name of the number, such as "similarity"; optional.
    """

    task = "regression"
    peft_task = "SEQ_CLS"
    taught_by = "score"
    use = Use("text-classification", "predicts a score for a text", "model.predict({texts})")
    problem_type = "regression"
    num_outputs = 1

    def __init__(self, encoder, score_name: str | None = None, **kwargs):
        self.score_name = score_name
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        if head.sizes <= {1}:  # the one number may have a name
            labels = head.labels or head.stored_labels
            head = replace(head, num_classes=None, labels=None)
            name = labels[0] if len(labels) == 1 else None
            return {**super().head_arguments(head), "score_name": name}
        return super().head_arguments(head)

    @property
    def labels_to_save(self) -> tuple[str, ...] | None:
        return None if self.score_name is None else (self.score_name,)

    def default_loss(self):
        return SquaredError()

    def label_ranges(self, inputs) -> dict[str, LabelScores]:
        return {"": LabelScores()}

    def served_answers(self, outputs):
        return {"value": outputs["logits"][:, 0]}

    def get_config(self):
        return {**super().get_config(), "score_name": self.score_name}
