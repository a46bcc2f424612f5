"""Writes a model's LoRA as an adapter of peft, and reads bert_zoo directories as an adapter's base."""

import logging
from pathlib import Path

from keras import ops

from bert_zoo.config import Config
from bert_zoo.family import Family
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.task_model import LabelledModel
from bert_zoo.registry import registry
from bert_zoo.training.freezing import lora_products, trained_in_full
from bert_zoo.weights.adapters import ArraysSource, write_adapter
from bert_zoo.weights.bind import Plan, to_stored, variables_of
from bert_zoo.weights.files import remove_leftovers
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")


def save_adapter(model: ZooModel, directory: Path) -> None:
    """Writes a model's LoRA, pooler and head in peft's format.

    Raises:
        ValueError: the model has no LoRA, trains other weights too, or Hugging Face has no such model.
    """
    products = lora_products(model)
    if not products:
        raise ValueError(
            'format="peft" writes LoRA, but this model has none; bert_zoo.training.add_lora(model) adds it '
            "before training. Leave format out to save the whole model."
        )
    encoder = encoder_of(model)
    family = registry().families[encoder.family]
    fmt = family.formats.get(HuggingFace.name)
    is_bare = model.task not in family.heads
    task = "encoder" if is_bare else model.task
    if fmt is None or fmt.class_of(task, encoder.config) is None:
        raise ValueError(
            f"Hugging Face transformers has no class for {model.task!r} of the family {family.name} that peft "
            "could adapt. Leave format out to save the whole model."
        )
    plan = family.plan(fmt, encoder.config, fmt.root_in(task)).renamed(fmt.module_name)
    bindings = plan.bindings(model.task, encoder.config.pooler)
    if any(binding.encoder for binding in bindings):
        raise ValueError(
            'peft does not support models of two encoders. Leave out format="peft"; LoRA is then merged.'
        )
    if encoder.loaded_from is None:
        log.warning(
            "%s does not name its base model, because the model was not loaded from a single place. Pass the "
            "base model to peft, or write base_model_name_or_path.",
            directory,
        )
    if isinstance(model, LabelledModel):
        log.warning(
            "peft's format has no label names: load the adapter with labels=%s.",
            list(model.labels),
        )
    trained = trained_in_full(model)
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    write_adapter(
        directory,
        plan,
        bindings,
        {
            path: (*map(ops.convert_to_numpy, (a, b)), scale)
            for path, (a, b, scale) in products.items()
        },
        variables_of(model),
        trained,
        task_type=model.peft_task,
        base=encoder.loaded_from,
    )


def in_hugging_face_names(
    source: TensorSource, family: Family, config: Config, task: str
) -> tuple[TensorSource, Plan]:
    """Returns the tensors of a bert_zoo directory with Hugging Face's names and layout."""
    plan = family.plan(HuggingFace.name, config)
    bindings = [b for b in plan.bindings(task, config.pooler) if b.variable in source]
    arrays = to_stored({b.variable: source[b.variable] for b in bindings}, bindings)
    return ArraysSource(source.location, arrays), plan
