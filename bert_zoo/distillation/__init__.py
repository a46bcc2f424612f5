"""Make small models and train them on the outputs of large ones.

Names are loaded on first use, so importing the package needs no TensorFlow.
"""

from bert_zoo.lazy_names import loaded_on_first_use

# Name -> the module that defines it.
_NAMES: dict[str, str] = {
    "TaughtLoss": "bert_zoo.distillation.losses",
    "VectorLoss": "bert_zoo.distillation.losses",
    "attention_score_loss": "bert_zoo.distillation.general_losses",
    "augment": "bert_zoo.distillation.augmentation",
    "cosine_loss": "bert_zoo.distillation.general_losses",
    "distill": "bert_zoo.distillation.losses",
    "distill_on_text": "bert_zoo.distillation.general",
    "hidden_state_loss": "bert_zoo.distillation.general_losses",
    "prune_vocabulary": "bert_zoo.distillation.vocabularies",
    "relation_loss": "bert_zoo.distillation.general_losses",
    "relations": "bert_zoo.distillation.general_losses",
    "soft_token_loss": "bert_zoo.distillation.general_losses",
    "static_from": "bert_zoo.distillation.tables",
    "targets_of": "bert_zoo.distillation.losses",
    "teacher_answers": "bert_zoo.distillation.losses",
    "student_of": "bert_zoo.distillation.students",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = loaded_on_first_use(__name__, _NAMES)
