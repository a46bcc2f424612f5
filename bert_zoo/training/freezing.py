"""Training a part of a model, and training it in less memory."""

from bert_zoo.models.base import ZooModel, encoder_of


def freeze(model: ZooModel, *, embeddings: bool = True, layers: int = 0) -> None:
    """Keeps the embeddings and the lowest layers as they are; call it before training starts.

    `model.summary()` counts what is left to train. A `.keras` file keeps it; `bert_zoo.save` and
    `export` write all weights, and what `load` makes of them is trainable throughout.

    Args:
        model: any model of the zoo.
        embeddings: whether the embeddings are frozen.
        layers: how many layers are, from the lowest.

    Raises:
        ValueError: the encoder has fewer layers, or higher layers share weights with these.
    """
    encoder_of(model).freeze(embeddings=embeddings, layers=layers)
    forget_functions(model)


def rematerialize(model: ZooModel) -> None:
    """Trains in less memory and a fifth to a third more time (gradient checkpointing).

    Of each block its input alone is kept; the gradient computes the rest again. Losses and gradients
    stay the same. A saved model does not remember it.

    Args:
        model: any model of the zoo.

    Raises:
        ValueError: the encoder returns attention probabilities, which would have to be kept.
    """
    encoder = encoder_of(model)
    if encoder.output_attentions:
        raise ValueError(
            "Rematerialization throws attention probabilities away, and this encoder returns them. "
            "Load the model without output_attentions."
        )
    for stack in model.stacks:
        stack.rematerialize = True
    forget_functions(model)


def forget_functions(model: ZooModel) -> None:
    """Has Keras make its compiled functions anew: those of old know old layers."""
    model.train_function = model.test_function = model.predict_function = None
