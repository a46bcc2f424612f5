"""The Keras models that users hold."""

from bert_zoo.models.encoder import Encoder
from bert_zoo.models.tasks import (
    TASKS,
    Classifier,
    MaskedLM,
    MultipleChoice,
    Pretraining,
    QuestionAnswerer,
    Regressor,
    SentenceEmbedder,
    TokenClassifier,
)

__all__ = [
    "TASKS",
    "Classifier",
    "Encoder",
    "MaskedLM",
    "MultipleChoice",
    "Pretraining",
    "QuestionAnswerer",
    "Regressor",
    "SentenceEmbedder",
    "TokenClassifier",
]
