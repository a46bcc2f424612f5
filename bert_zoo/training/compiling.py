"""Models compiled as their tasks are trained."""

from typing import Any

import keras

from bert_zoo.models.base import ZooModel
from bert_zoo.training import optimizers
from bert_zoo.training.optimizers import BertAdamW


def compile_for_task(
    model: ZooModel,
    optimizer: BertAdamW | None = None,
    *,
    loss: Any = None,
    steps_per_execution: int = 1,
) -> None:
    """Compiles a model with its task's loss and metrics.

    Args:
        model: a task model; an encoder or embedder has no loss and stays as it is.
        optimizer: BERT's AdamW at a constant 5e-5 by default, and a language model's Adam at 2.5e-4;
            `bert_adamw(learning_rate, total_steps=...)` and `language_model_adam(...)` give the
            whole recipes.
        loss: in place of the task's; without the task's metrics, where it reads no labels of the task.
        steps_per_execution: batches that the backend trains on before it answers.
    """
    if model.default_optimizer is None:
        return
    is_taught = any(getattr(one, "reads_targets", False) for one in keras.tree.flatten(loss))
    model.compile(
        optimizer=optimizer or getattr(optimizers, model.default_optimizer)(),
        loss=loss or model.default_loss(),
        loss_weights=model.default_loss_weights,
        # With None, Keras 3.15 would keep the metrics that the model was compiled with before.
        metrics=[] if is_taught else model.default_metrics(),
        steps_per_execution=steps_per_execution,
    )
