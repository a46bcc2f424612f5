"""Regression: a number for a text."""

import keras

from bert_zoo.models.labels import LabelScores
from bert_zoo.models.losses import SquaredError
from bert_zoo.models.task_model import SentenceModel, Use


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(SentenceModel):
    """One number a text, [batch, 1], over the first token.

    Args:
        encoder: as in `TaskModel`.
        score_name: what the number is called, such as "similarity", where it has a name.
    """

    task = "regression"
    peft_task = "SEQ_CLS"
    use = Use("text-classification", "gives a text a score", "model.predict({texts})")
    problem_type = "regression"
    num_outputs = 1

    def __init__(self, encoder, score_name: str | None = None, **kwargs):
        self.score_name = score_name
        super().__init__(encoder, **kwargs)

    def default_loss(self):
        return SquaredError()

    def label_ranges(self, inputs) -> dict[str, LabelScores]:
        return {"": LabelScores()}

    def served_answers(self, outputs):
        return {"value": outputs["logits"][:, 0]}

    def get_config(self):
        return {**super().get_config(), "score_name": self.score_name}
