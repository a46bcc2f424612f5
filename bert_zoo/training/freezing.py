"""Trains only a part of a model, in less memory, or from randomly initialised highest layers."""

from collections.abc import Iterable

import keras

from bert_zoo.layers.backbones import Groups
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder


def freeze(model: ZooModel, *, embeddings: bool = True, layers: int = 0) -> None:
    """Freezes the embeddings and the lowest layers. Call it before training starts.

    `model.summary()` shows the number of trainable parameters. `.keras` files keep the setting;
    `bert_zoo.save` and `export` do not, so that `load` makes a fully trainable model.

    Args:
        model: any model of the zoo.
        embeddings: whether to freeze the embeddings.
        layers: number of layers to freeze, from the lowest.

    Raises:
        ValueError: the encoder has fewer layers, or higher layers share weights with these.
    """
    encoder_of(model).freeze(embeddings=embeddings, layers=layers)
    forget_functions(model)


def rematerialize(model: ZooModel) -> None:
    """Switches on gradient checkpointing: less memory for a fifth to a third more time.

    Only the input of each block is stored; the rest is recomputed for the gradients. Losses and
    gradients stay the same. Saved models do not keep the setting.

    Args:
        model: any model of the zoo.

    Raises:
        ValueError: the encoder returns attention probabilities, which would have to be stored.
    """
    encoder = encoder_of(model)
    if encoder.output_attentions:
        raise ValueError(
            "Rematerialization does not keep attention probabilities, but this encoder returns them. "
            "Load the model without output_attentions."
        )
    for stack in model.stacks:
        stack.rematerialize = True
    forget_functions(model)


def forget_functions(model: ZooModel) -> None:
    """Makes Keras trace its functions again, after layers have changed."""
    model.train_function = model.test_function = model.predict_function = None


def reinitialize(model: ZooModel, layers: int) -> None:
    """Randomly initialises the encoder's highest layers.

    The highest layers are specific to the pretraining objective. For example, the outputs of ELECTRA's
    discriminator hardly tell more than whether a token was replaced. On small data, fine-tuning is often
    better and varies less if it learns these layers from scratch.

    Args:
        model: any model of the zoo; its heads do not change.
        layers: number of layers, from the highest. The pooler and a final normalization are
            reinitialised with them. 0 changes nothing.

    Raises:
        ValueError: the encoder has fewer layers, lower layers share their weights, or they are frozen
            (by `freeze` or LoRA) and would stay random.

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
            f"The highest {layers} layers cannot be reinitialized alone, because lower layers share their "
            f"weights. Reinitialize all {groups.num_layers} layers, or none."
        )
    weights = _weights(groups, above)
    if not all(weight.trainable for weight in weights):
        raise ValueError(
            f"The highest {layers} layers cannot be reinitialized: they have frozen weights, which would "
            "stay random. Freeze fewer layers, or leave LoRA out."
        )
    new = Encoder(encoder.config, encoder.family).backbone.groups()
    for weight, drawn in zip(weights, _weights(new, above), strict=True):
        weight.assign(drawn)


def _weights(groups: Groups, blocks: Iterable[int]) -> list[keras.Variable]:
    """The weights of these blocks and of the layers on top of the stack."""
    layers = (*(groups.stack.blocks[number] for number in blocks), *groups.top)
    return [weight for layer in layers for weight in layer.weights]
