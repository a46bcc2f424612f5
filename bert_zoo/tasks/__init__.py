"""Tasks, one module or package each, with model, loss, metrics, prediction methods and served outputs.

Models are imported on first use, so that programs know the names of tasks without importing TensorFlow or Keras.
"""

import importlib
from typing import Any

from bert_zoo.error_text import nearest

# The name of each task -> its model's class and module.
_MODELS = {
    "encoder": ("Encoder", "bert_zoo.models.encoder"),
    "classification": ("Classifier", "bert_zoo.tasks.classification"),
    "multi_label_classification": ("MultiLabelClassifier", "bert_zoo.tasks.classification"),
    "reranking": ("Reranker", "bert_zoo.tasks.reranking"),
    "regression": ("Regressor", "bert_zoo.tasks.classification"),
    "token_classification": ("TokenClassifier", "bert_zoo.tasks.token_classification"),
    "entity_recognition": ("EntityRecognizer", "bert_zoo.tasks.entity_recognition"),
    "question_answering": ("QuestionAnswerer", "bert_zoo.tasks.question_answering"),
    "beam_question_answering": ("BeamQuestionAnswerer", "bert_zoo.tasks.beam_question_answering"),
    "multiple_choice": ("MultipleChoice", "bert_zoo.tasks.classification"),
    "masked_lm": ("MaskedLM", "bert_zoo.tasks.masked_lm"),
    "next_sentence_prediction": ("NextSentenceClassifier", "bert_zoo.tasks.classification"),
    "pretraining": ("Pretraining", "bert_zoo.tasks.pretraining"),
    "causal_lm": ("CausalLM", "bert_zoo.tasks.causal_lm"),
    "text_to_text": ("TextToText", "bert_zoo.tasks.text_to_text"),
    "embedding": ("SentenceEmbedder", "bert_zoo.tasks.embedding"),
    "late_interaction": ("LateInteraction", "bert_zoo.tasks.late_interaction"),
    "hybrid_embedding": ("HybridEmbedder", "bert_zoo.tasks.hybrid_embedding"),
    "sparse_embedding": ("SparseEmbedder", "bert_zoo.tasks.sparse_embedding"),
}
NAMES = tuple(_MODELS)
_MODULES = dict(_MODELS.values()) | {"StatefulLM": "bert_zoo.tasks.causal_lm"}

# Names in other libraries and in the literature.
_OTHER_WORDS = {
    "feature_extraction": "encoder",
    "backbone": "encoder",
    "text_classification": "classification",
    "sequence_classification": "classification",
    "sentiment_analysis": "classification",
    "zero_shot_classification": "classification",
    "nli": "classification",
    "multilabel": "multi_label_classification",
    "multilabel_classification": "multi_label_classification",
    "cross_encoder": "reranking",
    "text_ranking": "reranking",
    "sts": "regression",
    "ner": "token_classification",
    "pos": "token_classification",
    "tagging": "token_classification",
    "gliner": "entity_recognition",
    "zero_shot_ner": "entity_recognition",
    "qa": "question_answering",
    "squad": "question_answering",
    "fill_mask": "masked_lm",
    "mlm": "masked_lm",
    "nsp": "next_sentence_prediction",
    "next_sentence": "next_sentence_prediction",
    "text_generation": "causal_lm",
    "lm": "causal_lm",
    "clm": "causal_lm",
    "text2text_generation": "text_to_text",
    "seq2seq": "text_to_text",
    "sequence_to_sequence": "text_to_text",
    "summarization": "text_to_text",
    "translation": "text_to_text",
    "sentence_similarity": "embedding",
    "sentence_embedding": "embedding",
    "embeddings": "embedding",
    "colbert": "late_interaction",
    "bge_m3": "hybrid_embedding",
    "multi_vector": "late_interaction",
    "multi_vector_encoder": "late_interaction",
    "splade": "sparse_embedding",
    "sparse_encoder": "sparse_embedding",
}


def no_such_task(name: str) -> str:
    """The message for an unknown task, with a suggestion if there is one."""
    spelled = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    if spelled in _OTHER_WORDS:
        meant = f" Did you mean {_OTHER_WORDS[spelled]!r}?"
    else:
        meant = nearest(spelled, NAMES)
    return f"There is no task {name!r}.{meant} The tasks are {', '.join(NAMES)}."


def name_of(model: str) -> str:
    """The task of a model's class, by the name of the class."""
    return next(task for task, (name, _) in _MODELS.items() if name == model)


def __getattr__(name: str) -> Any:
    if name != "TASKS" and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # All at once, because Keras reads only files of classes that are imported.
    models = {n: getattr(importlib.import_module(module), n) for n, module in _MODULES.items()}
    globals().update(models, TASKS={task: models[model] for task, (model, _) in _MODELS.items()})
    return globals()[name]
