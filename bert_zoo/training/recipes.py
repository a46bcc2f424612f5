"""Losses and metrics that belong to a task."""

import keras

from bert_zoo.models.base import ZooModel
from bert_zoo.models.labels import IGNORED_LABEL
from bert_zoo.training.optimizers import BertAdamW, bert_adamw


def _class_loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _token_loss() -> keras.losses.Loss:
    """Cross-entropy over the positions whose label is not -100."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=IGNORED_LABEL)


# Task -> (loss, metrics), made anew for each model.
RECIPES = {
    "classification": lambda: (_class_loss(), ["accuracy"]),
    "multiple_choice": lambda: (_class_loss(), ["accuracy"]),
    "regression": lambda: (keras.losses.MeanSquaredError(), []),
    "token_classification": lambda: (_token_loss(), []),
    # The mean of both, as run_squad.py.
    "question_answering": lambda: (
        {"start_logits": _class_loss(), "end_logits": _class_loss()},
        [],
    ),
    "masked_lm": lambda: (_token_loss(), []),
    "pretraining": lambda: ({"mlm_logits": _token_loss(), "nsp_logits": _class_loss()}, []),
}


def compile_for_task(model: ZooModel, optimizer: BertAdamW | None = None) -> None:
    """Compiles a model with its task's loss and metrics.

    Args:
        model: a task model; an encoder or embedder has no loss and stays as it is.
        optimizer: BERT's AdamW at a constant 5e-5 by default; `bert_adamw(learning_rate,
            total_steps=...)` gives the whole recipe.
    """
    if model.task not in RECIPES:
        return
    loss, metrics = RECIPES[model.task]()
    weights = None
    if model.task == "question_answering":
        weights = {"start_logits": 0.5, "end_logits": 0.5}
    model.compile(
        optimizer=optimizer or bert_adamw(), loss=loss, loss_weights=weights, metrics=metrics
    )
