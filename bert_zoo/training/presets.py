"""Published settings of trainings by name, and what is made of them."""

import difflib
from typing import Any

from bert_zoo.config import Config
from bert_zoo.models.base import ZooModel
from bert_zoo.presets import LanguageModelPreset, Preset, Reading, Recipe
from bert_zoo.registry import registry
from bert_zoo.tasks.presets import OF_TASKS
from bert_zoo.training.freezing import freeze, rematerialize
from bert_zoo.training.lora import add_lora
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
from bert_zoo.training.reinitialization import reinitialize

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
PRESETS: dict[str, Preset] = {
    p.name: p for presets in (OF_TASKS, *(f.presets for f in _FAMILIES)) for p in presets
}
LANGUAGE_MODEL_PRESETS: dict[str, LanguageModelPreset] = {
    p.name: p for family in _FAMILIES for p in family.language_model_presets
}


def preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ValueError: there is none; the message gives the nearest names.
    """
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=3, cutoff=0)
        raise ValueError(
            f"There is no preset {name!r}. The nearest are {', '.join(nearest)}; "
            "bert_zoo.training.presets.PRESETS lists all of them."
        )
    return PRESETS[name]


def presets_for(family: str, task: str | None = None) -> list[Preset]:
    """The presets of a family.

    Args:
        family: such as "bert".
        task: what `load` calls it; None for all.
    """
    presets = registry().families[family].presets
    return [preset for preset in presets if task is None or task in preset.tasks]


def default_preset(family: str, config: Config, task: str, benchmark: str = "") -> Preset:
    """What to train a model with where nothing else is said.

    Args:
        family: such as "bert".
        config: of the encoder.
        task: what `load` calls it.
        benchmark: the name of the data, such as "rte". Where there is no preset for it, or none is
            given, the preset for any data is taken that fits the model's size best.

    Raises:
        ValueError: there is no preset for models of this family and task.
    """
    known = [*presets_for(family, task), *(p for p in OF_TASKS if task in p.tasks)]
    fitting = [p for p in known if p.fits(config) and p.is_default]
    benchmark = benchmark.lower().replace("-", "")
    found = [p for p in fitting if benchmark and p.benchmark == benchmark]
    # A preset for one size comes after that for all.
    found = found or [p for p in fitting if not p.benchmark][-1:]
    if not found:
        raise ValueError(
            f"There is no preset for task {task!r} of the family {family}. Make a Recipe of your own. "
            f"Presets are {', '.join(PRESETS)}."
        )
    return found[0]


def optimizer_for(recipe: Recipe, total_steps: int | None) -> BertAdamW | Adafactor:
    """The optimizer of a recipe, with its schedule.

    Args:
        recipe: the settings.
        total_steps: updates of the whole training, as `recipe.updates_of` counts them; None for a rate
            that is set from outside, as `TimeBudget` does.
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
    """Freezes, adds LoRA, reinitializes, rematerializes and divides batches as a recipe says.

    Call it between `load` and compiling.
    """
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
    """The arguments of `load` that a recipe says."""
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
