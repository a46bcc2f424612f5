"""Trains only a part of a model, or trains it in less memory."""

from bert_zoo.models.base import ZooModel, encoder_of


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
