"""Weights of classes in the training loss."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bert_zoo.models.labels import class_weight_table

BALANCED = "balanced"


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
        counts = Counter(labels)
        return {
            i: len(labels) / (len(counts) * counts[i]) if counts[i] else 1.0
            for i in range(len(label_names))
        }
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
