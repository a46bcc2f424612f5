"""What `compile` is given, where Keras takes it in another way than users mean."""

import functools
import logging
from typing import Any

import keras

from bert_zoo.models.metrics import (
    OF_ALL_CLASSES,
    OF_CLASS_NUMBERS,
    OF_ONE_CLASS,
    OfLogits,
    TokenAccuracy,
)

log = logging.getLogger("bert_zoo")

ACCURACY = ("accuracy", "acc", "sparse_categorical_accuracy")
# Keras's losses that read probabilities unless they are told that outputs are logits.
LOSSES_OF_PROBABILITIES = {
    "binary_crossentropy": "BinaryCrossentropy",
    "bce": "BinaryCrossentropy",
    "binary_focal_crossentropy": "BinaryFocalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "categorical_focal_crossentropy": "CategoricalFocalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "crossentropy": "SparseCategoricalCrossentropy",
    "ce": "SparseCategoricalCrossentropy",
}


def reads_class_numbers(loss) -> bool:
    """Whether a loss, as `compile` takes it, is cross-entropy over class numbers."""
    return isinstance(loss, keras.losses.SparseCategoricalCrossentropy) or (
        _loss_class(loss) == "SparseCategoricalCrossentropy"
    )


def _loss_class(loss) -> str | None:
    """The class in keras.losses of a loss that is given by its name or as a function of Keras."""
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "")
    if name in LOSSES_OF_PROBABILITIES.values():
        return name
    return LOSSES_OF_PROBABILITIES.get(name.lower())


def warn_of_probabilities(loss: Any, task: str) -> None:
    """Warns where a loss would read logits as probabilities, from which little is learned.

    Args:
        loss: as `compile` takes it, alone or by output.
        task: of the model.
    """
    for one in keras.tree.flatten(loss):
        wanted = _loss_class(one)
        if getattr(one, "from_logits", None) is False:
            wanted = type(one).__name__
        if wanted is not None:
            log.warning(
                "The outputs of task %r are logits, and this loss (%s) takes them as probabilities: "
                "the model would hardly learn. Compile with loss=keras.losses.%s(from_logits=True).",
                task,
                one if isinstance(one, str) else getattr(one, "name", wanted),
                wanted,
            )


def with_token_accuracy(metrics: Any) -> Any:
    """Metrics in which "accuracy" leaves out what has no label, as the loss does.

    Args:
        metrics: as `compile` takes them, alone or by output.
    """

    def replaced(metric):
        is_accuracy = isinstance(metric, str) and metric in ACCURACY
        return TokenAccuracy(name=metric) if is_accuracy else metric

    return keras.tree.map_structure(replaced, metrics)


def with_probabilities(metrics: Any, activation: str | None) -> Any:
    """Metrics in which those of Keras that read probabilities are given these, and not logits.

    Args:
        metrics: as `compile` takes them, alone or by output.
        activation: what makes probabilities of the model's logits; None where it has none.
    """

    def replaced(metric):
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", None)
        found = metric
        if isinstance(metric, str) or (name and metric.__module__.startswith("keras.")):
            try:
                found = keras.metrics.get(name)
            except ValueError:  # "accuracy" and the like, or no metric of Keras
                return metric
        kind = type(found)
        is_of_keras = kind.__module__.startswith("keras.")
        if is_of_keras and kind.__name__ in OF_ONE_CLASS | OF_ALL_CLASSES | OF_CLASS_NUMBERS:
            return OfLogits(found, activation, name=name)
        return metric

    return metrics if activation is None else keras.tree.map_structure(replaced, metrics)


def sum_slices(optimizer) -> None:
    """Has an optimizer take the gradient of a table that is read in many places as one sum, on TensorFlow.

    Keras 3.15 takes the slices as they come, one for each token: Adam, Nadam, RMSprop, Adadelta and
    Adafactor square each by itself, so that a row which is read n times may move sqrt(n) times too far,
    and norms to clip by are others too.
    """
    import tensorflow as tf

    apply = optimizer.apply

    @functools.wraps(apply)
    def apply_sums(grads, trainable_variables=None):
        sums = [g if g is None else tf.convert_to_tensor(g) for g in grads]
        return apply(sums, trainable_variables)

    optimizer.apply = apply_sums
