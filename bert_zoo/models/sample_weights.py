"""Weights of rows and labels: one that is no number would make every weight of the model NaN."""

from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.label_tables import labels_of_table
from bert_zoo.models.labels import by_output, finite_numbers
from bert_zoo.text.columns import as_list, column_names

NAME = "sample_weight"


def checked_sample_weight(sample_weight):
    """Weights as Keras takes them: finite numbers.

    Args:
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
        return finite_numbers(as_list(weights), NAME)

    return None if sample_weight is None else by_output(numbers, sample_weight)
