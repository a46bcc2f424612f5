"""Forgetting what the highest layers have learned, which is of the objective that trained them."""

from collections.abc import Iterable

import keras

from bert_zoo.layers.backbones import Groups
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder


def reinitialize(model: ZooModel, layers: int) -> None:
    """Randomly initialises the highest layers, and what stands on them, as those of a new model are.

    The highest layers know most of the objective that they were pretrained with: the outputs of
    ELECTRA's discriminator, for one, tell little more than whether a token was replaced. On small data
    a fine-tuning is often better, and varies less, where it learns them anew.

    Args:
        model: any model of the zoo; its heads stay as they are.
        layers: how many layers, from the highest; the pooler and a last normalization go with them.
            0 leaves all as it is.

    Raises:
        ValueError: the encoder has fewer layers, lower ones share weights with them, or they are
            frozen, by `freeze` or by LoRA, and would never learn anything.

    Source: Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning" (arXiv:2006.05987), section 5.
    """
    encoder = encoder_of(model)
    groups = encoder.backbone.groups()
    groups.check_layers(layers, "reinitialize")
    if layers == 0:
        return
    below, above = groups.blocks_around(groups.num_layers - layers)
    if below & above:
        raise ValueError(
            f"The highest {layers} layers cannot be reinitialized alone: layers below share weights "
            f"with them. Reinitialize all {groups.num_layers} layers, or none."
        )
    weights = _weights(groups, above)
    if not all(weight.trainable for weight in weights):
        raise ValueError(
            f"The highest {layers} layers are to be reinitialized and have frozen weights, which would "
            "stay random. Freeze fewer layers, or leave LoRA out."
        )
    new = Encoder(encoder.config, encoder.family).backbone.groups()
    for weight, drawn in zip(weights, _weights(new, above), strict=True):
        weight.assign(drawn)


def _weights(groups: Groups, blocks: Iterable[int]) -> list[keras.Variable]:
    """Of these blocks and of what stands on the stack."""
    layers = (*(groups.stack.blocks[number] for number in blocks), *groups.top)
    return [weight for layer in layers for weight in layer.weights]
