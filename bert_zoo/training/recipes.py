"""Losses and metrics that belong to a task."""

from collections.abc import Callable
from typing import Any

import keras

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models.base import ZooModel
from bert_zoo.training.losses import BinaryCrossentropy, Crossentropy, SquaredError
from bert_zoo.training.metrics import LabelF1
from bert_zoo.training.optimizers import BertAdamW, bert_adamw, language_model_adam


def _class_loss() -> keras.losses.Loss:
    return Crossentropy(from_logits=True)


def _token_loss() -> keras.losses.Loss:
    """Cross-entropy over the positions whose label is not -100."""
    return Crossentropy(from_logits=True, ignore_class=IGNORED_LABEL)


def _pretraining_losses(model: ZooModel) -> dict[str, keras.losses.Loss]:
    ranges = model.label_ranges({})
    return {
        name: _token_loss() if label_range.per_token else _class_loss()
        for name, label_range in ranges.items()
    }


# Task -> (loss, metrics) of a model.
RECIPES: dict[str, Callable[[ZooModel], tuple[Any, list[Any] | None]]] = {
    "classification": lambda model: (_class_loss(), ["accuracy"]),
    "multi_label_classification": lambda model: (
        BinaryCrossentropy(from_logits=True),
        [LabelF1(model.thresholds, average) for average in ("micro", "macro")],
    ),
    "multiple_choice": lambda model: (_class_loss(), ["accuracy"]),
    "regression": lambda model: (SquaredError(), None),
    "token_classification": lambda model: (_token_loss(), ["accuracy"]),
    # The mean of both, as run_squad.py.
    "question_answering": lambda model: (
        {"start_logits": _class_loss(), "end_logits": _class_loss()},
        None,
    ),
    "masked_lm": lambda model: (_token_loss(), None),
    "pretraining": lambda model: (_pretraining_losses(model), None),
    # Loss and metrics of the model itself.
    "causal_lm": lambda model: (None, None),
}
# Task -> optimizer, where it is not BERT's AdamW.
OPTIMIZERS = {"causal_lm": language_model_adam}


def compile_for_task(
    model: ZooModel, optimizer: BertAdamW | None = None, *, steps_per_execution: int = 1
) -> None:
    """Compiles a model with its task's loss and metrics.

    Args:
        model: a task model; an encoder or embedder has no loss and stays as it is.
        optimizer: BERT's AdamW at a constant 5e-5 by default, and a language model's Adam at 2.5e-4;
            `bert_adamw(learning_rate, total_steps=...)` and `language_model_adam(...)` give the
            whole recipes.
        steps_per_execution: batches that the backend trains on before it answers.
    """
    if model.task not in RECIPES:
        return
    loss, metrics = RECIPES[model.task](model)
    weights = None
    if model.task == "question_answering":
        weights = {"start_logits": 0.5, "end_logits": 0.5}
    model.compile(
        optimizer=optimizer or OPTIMIZERS.get(model.task, bert_adamw)(),
        loss=loss,
        loss_weights=weights,
        metrics=metrics,
        steps_per_execution=steps_per_execution,
    )
