"""Weights of classes in the training loss."""

from collections.abc import Mapping, Sequence

import numpy as np

from bert_zoo.models.class_counts import BALANCED, balanced_weights
from bert_zoo.models.labels import class_weight_table


def class_weights(
    setting: str | Mapping[str, float], labels: Sequence[int], label_names: Sequence[str]
) -> dict[int, float]:
    """Returns the class weights of a recipe, by class id.

    Args:
        setting: "balanced" gives every class the same total weight, and keeps the sum over all rows.
            Or weights by class name, as a mapping or as "no=1,yes=5"; missing classes get 1.
        labels: class ids of the training rows, [N].
        label_names: the classes in the order of their ids.

    Raises:
        ValueError: a name is not a class, or a weight is not a positive number.
    """
    if setting == BALANCED:
        counts = np.bincount(labels, minlength=len(label_names))
        return dict(enumerate(balanced_weights(counts).tolist()))
    is_mapping = isinstance(setting, Mapping)
    spelled = setting if is_mapping else dict(p.rpartition("=")[::2] for p in setting.split(","))
    try:
        given = {name: float(weight) for name, weight in spelled.items()}
    except (TypeError, ValueError):
        given = {}
    if not given or not all(0 < weight < float("inf") for weight in given.values()):
        raise ValueError(
            f"class_weight is {setting!r}; it must be 'balanced', or positive numbers by class, such as "
            "'no=1,yes=5' or {'no': 1, 'yes': 5}."
        )
    return dict(enumerate(class_weight_table(given, label_names).tolist()))
