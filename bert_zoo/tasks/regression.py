"""Regression: one number per text."""

from dataclasses import replace
from typing import Any

import keras

from bert_zoo.models.labels import HeadChoice, LabelScores
from bert_zoo.models.losses import SquaredError
from bert_zoo.models.task_model import SentenceModel, TaskModel, Use
from bert_zoo.runtime.answers import ranking


class ScoringModel(TaskModel):
    """A task with a score for each text or pair: a method `row_scores` of texts, second texts and `batch_size`."""

    scores_pairs = False  # whether there is no score for a single text

    def prediction_rows(self, texts, second=None, *, batch_size=32, **others):
        if self.scores_pairs and second is None:
            return super().prediction_rows(texts)
        return ({"score": float(score)} for score in self.row_scores(texts, second, batch_size))

    def printed_predictions(self, texts, second=None, **others):
        """Scores; without second texts for pairs, the first text is a query, and the others are ranked."""
        if self.scores_pairs and second is None:
            query, *documents = texts
            if not documents:
                raise ValueError(
                    "Give a query and the documents to rank, or a second text with --second."
                )
            scores = self.row_scores([query] * len(documents), documents)
            return ranking(documents, scores, "linear", top_k=None)
        rows = zip(self.row_scores(texts, second), texts, strict=True)
        return "\n".join(f"{score:.3f}  {text}" for score, text in rows)


@keras.saving.register_keras_serializable("bert_zoo")
class Regressor(ScoringModel, SentenceModel):
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

    def row_scores(self, texts, second=None, batch_size: int = 32):
        texts = texts if second is None else (texts, second)
        return self.predict(texts, batch_size=batch_size, verbose=0)[:, 0]

    def label_ranges(self, inputs) -> dict[str, LabelScores]:
        return {"": LabelScores()}

    def served_answers(self, outputs):
        return {"value": outputs["logits"][:, 0]}

    def get_config(self):
        return {**super().get_config(), "score_name": self.score_name}
