"""Optimizers, learning rate schedules, recipes, LoRA, freezing and resuming."""

from bert_zoo.models.cores import use_cores
from bert_zoo.models.losses import TokenCrossentropy
from bert_zoo.models.metrics import SpanF1, TokenAccuracy
from bert_zoo.presets import Recipe
from bert_zoo.tasks.presets import preset
from bert_zoo.training.distribution import strategy
from bert_zoo.training.freezing import (
    add_lora,
    freeze,
    reinitialize,
    rematerialize,
    set_head_range,
    start_from_frequencies,
    start_from_mean,
)
from bert_zoo.training.optimizers import (
    Adafactor,
    AveragedSGD,
    BertAdamW,
    BertLamb,
    InverseSquareRootDecay,
    SlantedTriangular,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupThenConstant,
    WarmupThenLinearDecay,
    bert_adamw,
    language_model_adam,
)
from bert_zoo.training.presets import compile_for_task, default_preset, optimizer_for, presets_for
from bert_zoo.training.runs import TimeBudget, TrainingCheckpoint, restore

__all__ = [
    "Adafactor",
    "AveragedSGD",
    "BertAdamW",
    "BertLamb",
    "InverseSquareRootDecay",
    "Recipe",
    "SlantedTriangular",
    "SpanF1",
    "TimeBudget",
    "TokenAccuracy",
    "TokenCrossentropy",
    "TrainingCheckpoint",
    "WarmupCosineDecay",
    "WarmupLinearDecay",
    "WarmupThenConstant",
    "WarmupThenLinearDecay",
    "add_lora",
    "bert_adamw",
    "compile_for_task",
    "default_preset",
    "freeze",
    "language_model_adam",
    "optimizer_for",
    "preset",
    "presets_for",
    "reinitialize",
    "rematerialize",
    "restore",
    "set_head_range",
    "start_from_frequencies",
    "start_from_mean",
    "strategy",
    "use_cores",
]
