"""How much each class counts in the training loss."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bert_zoo.models.labels import class_weight_table

BALANCED = "balanced"


def class_weights(
    setting: str | Mapping[str, float], labels: Sequence[int], label_names: Sequence[str]
) -> dict[int, float]:
    """The weights that a recipe asks for, by class id.

    Args:
        setting: "balanced" for weights with which each class counts as much as any other and all rows
            together as much as without; or weights by class, as a mapping or as "no=1,yes=5", 1 for a
            class that is not named.
        labels: class ids of the training rows [N].
        label_names: the classes in the order of their ids.

    Raises:
        ValueError: the setting names no class, or gives it no positive number.
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
            f"class_weight is {setting!r}; it is 'balanced', or positive numbers by class as in "
            "'no=1,yes=5' or {'no': 1, 'yes': 5}."
        )
    return dict(enumerate(class_weight_table(given, label_names).tolist()))
