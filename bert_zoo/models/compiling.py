"""Arguments of `compile` that Keras understands differently from what users mean."""

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
# Keras's losses that expect probabilities unless told that outputs are logits.
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


def reads_each_class(loss) -> bool:
    """Whether a loss, as `compile` takes it, is binary cross-entropy, with a label for each logit."""
    kinds = ("BinaryCrossentropy", "BinaryFocalCrossentropy")
    is_of_keras = isinstance(loss, tuple(getattr(keras.losses, kind) for kind in kinds))
    return is_of_keras or _loss_class(loss) in kinds


def _loss_class(loss) -> str | None:
    """The class in keras.losses of a loss that is given by name or as a Keras function."""
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "")
    if name in LOSSES_OF_PROBABILITIES.values():
        return name
    return LOSSES_OF_PROBABILITIES.get(name.lower())


def warn_of_probabilities(loss: Any, task: str) -> None:
    """Warns if a loss given to `compile` would read logits as probabilities, with which a model learns little."""
    for one in keras.tree.flatten(loss):
        wanted = _loss_class(one)
        if getattr(one, "from_logits", None) is False:
            wanted = type(one).__name__
        if wanted is not None:
            log.warning(
                "The outputs of task %r are logits, but this loss (%s) expects probabilities, so the model "
                "would hardly learn. Compile with loss=keras.losses.%s(from_logits=True).",
                task,
                one if isinstance(one, str) else getattr(one, "name", wanted),
                wanted,
            )


def with_token_accuracy(metrics: Any) -> Any:
    """The metrics given to `compile`, in which "accuracy" ignores tokens without a label, as the loss does."""

    def replaced(metric):
        is_accuracy = isinstance(metric, str) and metric in ACCURACY
        return TokenAccuracy(name=metric) if is_accuracy else metric

    return keras.tree.map_structure(replaced, metrics)


def with_probabilities(metrics: Any, activation: str | None) -> Any:
    """The metrics given to `compile`; Keras's that expect probabilities get them by `activation` instead of logits."""

    def replaced(metric):
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", None)
        found = metric
        if isinstance(metric, str) or (name and metric.__module__.startswith("keras.")):
            try:
                found = keras.metrics.get(name)
            except ValueError:  # "accuracy" and the like, or not a Keras metric
                return metric
        kind = type(found)
        is_of_keras = kind.__module__.startswith("keras.")
        if is_of_keras and kind.__name__ in OF_ONE_CLASS | OF_ALL_CLASSES | OF_CLASS_NUMBERS:
            return OfLogits(found, activation, name=name)
        return metric

    return metrics if activation is None else keras.tree.map_structure(replaced, metrics)


def sum_slices(optimizer) -> None:
    """Makes an optimizer use the summed gradient of an embedding table, on TensorFlow.

    Keras 3.15 uses one slice per token: Adam, Nadam, RMSprop, Adadelta and Adafactor square each slice by
    itself, so a row that is read n times may move sqrt(n) times too far, and norms for clipping differ.
    """
    import tensorflow as tf

    apply = optimizer.apply

    @functools.wraps(apply)
    def apply_sums(grads, trainable_variables=None):
        sums = [g if g is None else tf.convert_to_tensor(g) for g in grads]
        return apply(sums, trainable_variables)

    optimizer.apply = apply_sums
