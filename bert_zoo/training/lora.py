"""LoRA: training two thin matrices beside each frozen kernel (Hu et al. 2021, arXiv:2106.09685)."""

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
    """A block's attention, and that of a decoder's block to the encoder's text."""
    return [block.attention, *filter(None, [getattr(block, "cross_attention", None)])]


# What gets the thin matrices -> the parts of a block.
TARGETS: dict[str, Callable[[keras.layers.Layer], list[keras.layers.Layer]]] = {
    "attention": _attention,
    "all": lambda block: [block],
}


def add_lora(
    model: ZooModel, rank: int = 8, alpha: float | None = None, targets: str = "attention"
) -> None:
    """Freezes the encoder but its pooler, and a decoder, and trains low-rank updates of their kernels instead.

    Uses Keras's own `Dense.enable_lora`: a kernel W becomes W + alpha / rank * A B, with A
    [inputs, rank] random and B [rank, outputs] zero, so that outputs are the same at first. Query,
    key and value are one kernel here and share A. What stands on the encoder's stack (pooler and
    head) is trained in full.

    `bert_zoo.save` and `export` write W + alpha / rank * A B as W: what they write is an ordinary
    model. So does Keras's `.keras`, without the optimizer's state, and in mixed precision with kernels
    rounded to the type that is computed in; `bert_zoo.save` keeps float32. `bert_zoo.save(model,
    directory, format="peft")` writes A and B themselves, as an adapter of peft, and `TrainingCheckpoint`
    holds them, to go on from.

    Args:
        model: any model of the zoo, before training starts.
        rank: columns of A.
        alpha: numerator of the scale; as `rank` by default.
        targets: "attention" for the kernels of attention, "all" for those of feed-forward layers too.

    Raises:
        ValueError: the arguments, or the model has LoRA or frozen layers.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"rank is {rank!r}; it is a positive integer, such as 8.")
    if targets not in TARGETS:
        raise ValueError(f"targets is {targets!r}; it is one of {list(TARGETS)}.")
    encoder = encoder_of(model)
    if any(lora_layers(encoder)):
        raise ValueError("This model has LoRA already. Load it anew to choose another rank.")
    untrained = [path for path, is_trained in trained_layers(encoder).items() if not is_trained]
    if untrained:
        raise ValueError(
            f"This model is frozen in part ({listing(untrained)}), and LoRA freezes the encoder by "
            "itself. Use one of both."
        )
    for part in (encoder.backbone.groups().embeddings, *model.stacks):
        for variable in part.weights:
            # Not `part.trainable = False`, which would hold for A and B too.
            variable.trainable = False
    for block in (block for stack in model.stacks for block in stack.blocks):
        layers = (layer for part in TARGETS[targets](block) for layer in all_layers(part))
        for layer in layers:
            if isinstance(layer, keras.layers.Dense):
                layer.enable_lora(rank, lora_alpha=alpha)
    forget_functions(model)


def lora_layers(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """The layers of a model that have LoRA."""
    return (layer for layer in all_layers(model) if getattr(layer, "lora_enabled", False))


def lora_products(model: ZooModel) -> dict[str, tuple[Any, Any, float]]:
    """Path of a kernel with LoRA -> its variables A and B, and the scale of A B."""
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
    """The model itself where it has no LoRA, else a copy whose kernels have taken it in.

    Args:
        model: any model of the zoo; it stays as it is.
    """
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
    """Paths of the variables of what stands on the stack of a model with LoRA: its pooler and head.

    Raises:
        ValueError: weights of the encoder besides them are trained too, in the embeddings or the stack.
    """
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
            f"{listing(others)} is trained beside LoRA, which an adapter of peft does not hold. Save the "
            "whole model."
        )
    return {path for path, variable in variables.items() if id(variable) not in below}
