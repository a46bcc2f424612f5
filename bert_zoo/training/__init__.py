"""Optimizers, schedules, recipes, and stopping and resuming."""

from bert_zoo.training.optimizers import (
    BertAdamW,
    WarmupCosineDecay,
    WarmupLinearDecay,
    bert_adamw,
    language_model_adam,
)
from bert_zoo.training.recipes import compile_for_task
from bert_zoo.training.resume import TrainingCheckpoint, restore

__all__ = [
    "BertAdamW",
    "TrainingCheckpoint",
    "WarmupCosineDecay",
    "WarmupLinearDecay",
    "bert_adamw",
    "compile_for_task",
    "language_model_adam",
    "restore",
]
