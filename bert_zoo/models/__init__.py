"""The Keras models that `bert_zoo.load` returns."""

import importlib

from bert_zoo.models.encoder import Encoder

# The models of tasks, which are built on this package, are its names, too.
OF_TASKS = (
    "TASKS",
    "BeamQuestionAnswerer",
    "CausalLM",
    "Classifier",
    "EntityRecognizer",
    "LateInteraction",
    "MaskedLM",
    "MultiLabelClassifier",
    "MultipleChoice",
    "NextSentenceClassifier",
    "Pretraining",
    "QuestionAnswerer",
    "Regressor",
    "Reranker",
    "SentenceEmbedder",
    "StatefulLM",
    "TextToText",
    "TokenClassifier",
)

__all__ = ["Encoder", "Preprocessor", *OF_TASKS]


def __getattr__(name: str):
    if name in OF_TASKS:
        return getattr(importlib.import_module("bert_zoo.tasks"), name)
    if name == "Preprocessor":
        return getattr(importlib.import_module("bert_zoo.loading.text_layer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
