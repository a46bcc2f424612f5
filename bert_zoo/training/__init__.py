"""Optimizers, schedules and recipes for fine-tuning."""

from bert_zoo.training.optimizers import BertAdamW, WarmupLinearDecay, bert_adamw
from bert_zoo.training.recipes import compile_for_task

__all__ = ["BertAdamW", "WarmupLinearDecay", "bert_adamw", "compile_for_task"]
