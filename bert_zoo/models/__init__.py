"""The Keras models that users hold."""

from bert_zoo.models.causal_lm import CausalLM
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.recurrent import RecurrentEncoder
from bert_zoo.models.stateful import StatefulLM
from bert_zoo.models.tasks import (
    Classifier,
    MaskedLM,
    MultiLabelClassifier,
    MultipleChoice,
    Pretraining,
    QuestionAnswerer,
    Regressor,
    SentenceEmbedder,
    TokenClassifier,
)
from bert_zoo.models.text_layer import Preprocessor

TASKS = {
    model.task: model
    for model in (
        Encoder,
        Classifier,
        MultiLabelClassifier,
        Regressor,
        TokenClassifier,
        QuestionAnswerer,
        MultipleChoice,
        MaskedLM,
        Pretraining,
        CausalLM,
        SentenceEmbedder,
    )
}

__all__ = [
    "TASKS",
    "CausalLM",
    "Classifier",
    "Encoder",
    "MaskedLM",
    "MultiLabelClassifier",
    "MultipleChoice",
    "Preprocessor",
    "Pretraining",
    "QuestionAnswerer",
    "RecurrentEncoder",
    "Regressor",
    "SentenceEmbedder",
    "StatefulLM",
    "TokenClassifier",
]
