"""LoRA: trains low-rank updates of frozen kernels (Hu et al. 2021, arXiv:2106.09685)."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from bert_zoo.error_text import listing
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.private import all_layers
from bert_zoo.training.freezing import forget_functions
from bert_zoo.weights.bind import trained_layers, variables_of


def _attention(block: keras.layers.Layer) -> list[keras.layers.Layer]:
    """A block's attention layers, with a decoder's cross-attention."""
    return [block.attention, *filter(None, [getattr(block, "cross_attention", None)])]


# Value of `targets` -> the parts of a block whose kernels get updates.
TARGETS: dict[str, Callable[[keras.layers.Layer], list[keras.layers.Layer]]] = {
    "attention": _attention,
    "all": lambda block: [block],
}


def add_lora(
    model: ZooModel, rank: int = 8, alpha: float | None = None, targets: str = "attention"
) -> None:
    """Freezes the encoder (and decoder) and trains low-rank updates of its kernels; pooler and head train fully.

    Uses Keras's `Dense.enable_lora`: a kernel W becomes W + alpha / rank * A B, with A [inputs, rank]
    random and B [rank, outputs] zero, so the outputs are the same at first. Query, key and value are
    one kernel here and share A.

    `bert_zoo.save` and `export` merge the updates into W and write an ordinary model. `.keras` files
    merge them too, without the optimizer's state, and in mixed precision with kernels rounded to the
    compute dtype; `bert_zoo.save` keeps float32. `bert_zoo.save(model, directory, format="peft")` writes
    A and B as an adapter of peft, and `TrainingCheckpoint` keeps them for resuming.

    Args:
        model: any model of the zoo, before training starts.
        rank: number of columns of A.
        alpha: numerator of the scale; by default `rank`.
        targets: "attention" for the kernels of attention, "all" for feed-forward layers too.

    Raises:
        ValueError: an argument is invalid, or the model already has LoRA or frozen layers.

    Source: Hu et al. 2021 (arXiv:2106.09685), section 4.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"rank is {rank!r}; it must be a positive integer, such as 8.")
    if targets not in TARGETS:
        raise ValueError(f"targets is {targets!r}; it must be one of {list(TARGETS)}.")
    encoder = encoder_of(model)
    if any(lora_layers(encoder)):
        raise ValueError("This model already has LoRA. Load it again to choose another rank.")
    untrained = [path for path, is_trained in trained_layers(encoder).items() if not is_trained]
    if untrained:
        raise ValueError(
            f"A part of this model is frozen ({listing(untrained)}), but LoRA freezes the encoder itself. "
            "Use only one of them."
        )
    for part in (encoder.backbone.groups().embeddings, *model.stacks):
        for variable in part.weights:
            # `part.trainable = False` would freeze A and B too.
            variable.trainable = False
    for block in (block for stack in model.stacks for block in stack.blocks):
        layers = (layer for part in TARGETS[targets](block) for layer in all_layers(part))
        for layer in layers:
            if isinstance(layer, keras.layers.Dense):
                layer.enable_lora(rank, lora_alpha=alpha)
    forget_functions(model)


def lora_layers(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    return (layer for layer in all_layers(model) if getattr(layer, "lora_enabled", False))


def lora_products(model: ZooModel) -> dict[str, tuple[Any, Any, float]]:
    """Path of each kernel with LoRA -> its variables A and B and their scale."""
    scales = {
        id(weight): layer.lora_alpha / layer.lora_rank
        for layer in lora_layers(model)
        for weight in layer.weights
        if re.fullmatch(r"lora_\w+_a", weight.name)
    }
    values = variables_of(model)
    products = {}
    for path in values:
        parent, name = path.rpartition("/")[::2]
        a, b = (values.get(f"{parent}/lora_{name}_{side}") for side in "ab")
        if a is not None:
            products[path] = a, b, scales[id(a)]
    return products


def without_lora(model: ZooModel) -> ZooModel:
    """The model itself if it has no LoRA, else a copy with LoRA merged into its kernels."""
    products = lora_products(model)
    if not products:
        return model
    copy = type(model).from_config(model.get_config())
    encoder_of(copy)._preprocessor = encoder_of(model)._preprocessor
    values = variables_of(model)
    for path, variable in variables_of(copy).items():
        value = values[path].value
        if path in products:
            a, b, scale = products[path]
            value = value + ops.cast(scale * ops.matmul(a.value, b.value), variable.dtype)
        variable.assign(value)
    return copy


def trained_in_full(model: ZooModel) -> set[str]:
    """The paths of the pooler's and head's variables in a model with LoRA."""
    embeddings = encoder_of(model).backbone.groups().embeddings
    variables = variables_of(model)
    below = {id(v) for part in (embeddings, *model.stacks) for v in part.weights}
    others = [
        path
        for path, variable in variables.items()
        if id(variable) in below and variable.trainable and "/lora_" not in path
    ]
    if others:
        raise ValueError(
            f"{listing(others)} is trained in addition to LoRA, which an adapter of peft cannot hold. Save the "
            "whole model."
        )
    return {path for path, variable in variables.items() if id(variable) not in below}
