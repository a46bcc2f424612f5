"""Published training settings by name, the optimizers and models they describe, and `compile_for_task`."""

from typing import Any

import keras

from bert_zoo.config import Config
from bert_zoo.models.base import ZooModel
from bert_zoo.presets import LanguageModelPreset, Preset, Reading, Recipe
from bert_zoo.registry import registry
from bert_zoo.tasks.presets import OF_TASKS, PRESETS, preset
from bert_zoo.training import optimizers
from bert_zoo.training.freezing import add_lora, freeze, reinitialize, rematerialize
from bert_zoo.training.optimizers import (
    Adafactor,
    BertAdamW,
    BertLamb,
    InverseSquareRootDecay,
    SlantedTriangular,
    WarmupLinearDecay,
    WarmupThenConstant,
    WarmupThenLinearDecay,
)

__all__ = [
    "LANGUAGE_MODEL_PRESETS",
    "PRESETS",
    "LanguageModelPreset",
    "Preset",
    "Reading",
    "Recipe",
    "default_preset",
    "load_options",
    "optimizer_for",
    "prepare",
    "preset",
    "presets_for",
]

# Schedule of a recipe -> its class.
SCHEDULE_CLASSES = {
    "linear": WarmupLinearDecay,
    "linear_after_warmup": WarmupThenLinearDecay,
    "constant": WarmupThenConstant,
    "inverse_sqrt": InverseSquareRootDecay,
    "slanted_triangular": SlantedTriangular,
}
ADAMS = {"adamw": BertAdamW, "lamb": BertLamb}
_FAMILIES = registry().families.values()
LANGUAGE_MODEL_PRESETS: dict[str, LanguageModelPreset] = {
    p.name: p for family in _FAMILIES for p in family.language_model_presets
}


def presets_for(family: str, task: str | None = None) -> list[Preset]:
    """Lists the presets of a family.

    Args:
        family: its name, such as "bert".
        task: keep only presets for this task, named as for `load`.
    """
    presets = registry().families[family].presets
    return [preset for preset in presets if task is None or task in preset.tasks]


def default_preset(family: str, config: Config, task: str, benchmark: str = "") -> Preset:
    """Chooses the preset that `bert_zoo finetune` uses by default.

    Args:
        family: its name, such as "bert".
        config: configuration of the encoder.
        task: the task, named as for `load`.
        benchmark: the name of the data, such as "rte". Without a preset for it, the preset for any data
            is chosen, if possible one for the model's size.

    Raises:
        ValueError: there is no preset for this family and task.
    """
    # A family without published settings is trained with those of the first, the default.
    of_family = presets_for(family, task) or presets_for(next(iter(registry().families)), task)
    known = [*of_family, *(p for p in OF_TASKS if task in p.tasks)]
    fitting = [p for p in known if p.fits(config) and p.is_default]
    benchmark = benchmark.lower().replace("-", "")
    found = [p for p in fitting if benchmark and p.benchmark == benchmark]
    # Presets for one size come after those for all.
    found = found or [p for p in fitting if not p.benchmark][-1:]
    if not found:
        raise ValueError(
            f"There is no preset for task {task!r} of the family {family}. Make your own Recipe, or choose one "
            f"of {', '.join(PRESETS)}."
        )
    return found[0]


def optimizer_for(recipe: Recipe, total_steps: int | None) -> BertAdamW | Adafactor:
    """Makes a recipe's optimizer, with its learning rate schedule.

    Args:
        recipe: the settings.
        total_steps: number of updates of the whole training, from `recipe.updates_of`. None makes an
            optimizer with a constant rate, which callbacks such as `TimeBudget` can change.
    """
    rate = recipe.learning_rate
    if total_steps is not None:
        schedule = SCHEDULE_CLASSES[recipe.schedule]
        rate = schedule(rate, total_steps, recipe.warmup_of(total_steps))
    accumulated = recipe.gradient_accumulation_steps
    options = {
        "gradient_accumulation_steps": accumulated if accumulated > 1 else None,
        "clipnorm" if recipe.clip_each else "global_clipnorm": recipe.clip_norm,
    }
    if recipe.optimizer == "adafactor":
        return Adafactor(rate, **options)
    return ADAMS[recipe.optimizer](
        rate,
        bias_correction=recipe.bias_correction,
        layer_decay=recipe.layer_decay,
        updates_per_group=recipe.updates_per_group(total_steps),
        decay_all=recipe.decay_all,
        weight_decay=recipe.weight_decay,
        beta_1=recipe.betas[0],
        beta_2=recipe.betas[1],
        epsilon=recipe.epsilon,
        **options,
    )


def prepare(model: ZooModel, recipe: Recipe) -> None:
    """Applies a recipe to a loaded model: freezing, LoRA, reinitializing, rematerializing and mini-batches."""
    if recipe.freeze_embeddings or recipe.freeze_layers:
        freeze(model, embeddings=recipe.freeze_embeddings, layers=recipe.freeze_layers)
    if recipe.lora_rank is not None:
        add_lora(model, recipe.lora_rank, recipe.lora_alpha, recipe.lora_targets)
    reinitialize(model, recipe.reinitialized_layers)
    if recipe.mini_batch_size is not None:
        model.mini_batch_size = recipe.mini_batch_size
    if recipe.rematerialize:
        rematerialize(model)


def load_options(recipe: Recipe) -> dict[str, Any]:
    return {
        "max_length": recipe.max_length,
        "dtype": recipe.dtype,
        "dropout": recipe.dropout,
        "attention_dropout": recipe.attention_dropout,
        "features": recipe.features,
        "head": recipe.head,
        "head_size": recipe.head_size,
        "padding": "fixed" if recipe.fixed_shapes else "longest",
    }


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
