"""Weights of rows and labels: one that is no number would make every weight of the model NaN."""

import logging
import weakref

import keras

from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.label_tables import labels_of_table
from bert_zoo.models.labels import by_output, finite_numbers
from bert_zoo.text.columns import as_list, column_names

log = logging.getLogger("bert_zoo")

NAME = "sample_weight"
_WARNED: weakref.WeakSet[keras.Model] = weakref.WeakSet()


def checked_sample_weight(model, sample_weight):
    """Weights as Keras takes them: finite numbers, with one warning a model where some are negative.

    Args:
        model: that is trained or measured.
        sample_weight: an array, what makes one, a column, a table of one column, or a tensor of
            TensorFlow, which is checked when its graph runs; or a dict of them by output; or None.

    Raises:
        TypeError, ValueError: a weight is no finite number; says which.
    """

    def numbers(output: str, weights):
        if column_names(weights) is not None:
            weights = labels_of_table(weights, NAME)
        if is_of_tensorflow(weights) and hasattr(weights, "numpy"):
            weights = weights.numpy()
        weights = finite_numbers(as_list(weights), NAME)
        warn = _watch_in_graph if is_of_tensorflow(weights) else _warn_of_negative
        warn(model, weights)
        return weights

    return None if sample_weight is None else by_output(numbers, sample_weight)


def _watch_in_graph(model, weights) -> None:
    import tensorflow as tf

    def warn(weights):
        _warn_of_negative(model, weights)
        return True

    tf.cond(
        tf.reduce_any(weights < 0),
        lambda: tf.numpy_function(warn, [weights], tf.bool),
        lambda: tf.constant(False),
    )


def _warn_of_negative(model, weights) -> None:
    lowest = weights.min(initial=0)
    if lowest < 0 and model not in _WARNED:
        _WARNED.add(model)
        log.warning(
            "%s has negative numbers, down to %s: training makes the loss of such rows larger, without "
            "an end. To leave rows out, give them the weight 0.",
            NAME,
            lowest,
        )
