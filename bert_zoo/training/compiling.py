"""`compile_for_task`: compiles a model for its task."""

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
        model: a task model; an encoder without a loss stays as it is.
        optimizer: a Keras optimizer, for example from `bert_adamw(learning_rate, total_steps=...)` or
            `language_model_adam(...)`, which add a schedule. By default AdamW at a constant 5e-5; for
            language models Adam at 2.5e-4, for heads on a frozen encoder Adam at 1e-3.
        loss: replaces the task's loss. If it reads a teacher's outputs instead of labels, the task's
            metrics are left out.
        steps_per_execution: batches per call of the compiled training function.
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
