"""Checks weights of rows and labels: a single NaN would make every weight of the model NaN."""

from collections.abc import Mapping

from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.label_tables import labels_of_table
from bert_zoo.models.labels import by_output, finite_numbers
from bert_zoo.models.losses import weights_of_labels
from bert_zoo.text.columns import as_list, column_names

NAME = "sample_weight"


def checked_sample_weight(sample_weight):
    """The weights for Keras, checked to be finite numbers.

    Args:
        sample_weight: an array, a list, a column, a table of one column, or a TensorFlow tensor, which is
            checked when its graph runs; or a dict of these by output; or None.

    Raises:
        TypeError, ValueError: a weight is not a finite number; the message names it.
    """

    def numbers(output: str, weights):
        if column_names(weights) is not None:
            weights = labels_of_table(weights, NAME)
        if is_of_tensorflow(weights) and hasattr(weights, "numpy"):
            weights = weights.numpy()
        return finite_numbers(as_list(weights), NAME)

    return None if sample_weight is None else by_output(numbers, sample_weight)


def weights_beside(labels, sample_weight):
    """Weights by output if labels are, each with the axes of its labels; see `weights_of_labels`.

    Raises:
        ValueError: weights are for other outputs than labels, or have another shape.
    """
    are_by_output = isinstance(labels, Mapping)
    if are_by_output and not isinstance(sample_weight, Mapping):
        sample_weight = dict.fromkeys(labels, sample_weight)
    if isinstance(sample_weight, Mapping) and set(sample_weight) != set(
        labels if are_by_output else ()
    ):
        raise ValueError(
            f"sample_weight is a dict of {sorted(sample_weight)}, but the labels are "
            f"{f'a dict of {sorted(labels)}' if are_by_output else 'one array'}. Pass one number per row."
        )
    return by_output(
        lambda name, weights: weights_of_labels(weights, labels[name] if are_by_output else labels),
        sample_weight,
    )
