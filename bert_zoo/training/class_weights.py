"""How much each class counts in the training loss."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bert_zoo.data.files import listed, nearest

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
    weights = dict.fromkeys(range(len(label_names)), 1.0)
    for name, weight in _parsed(setting).items():
        if name not in label_names:
            raise ValueError(
                f"class_weight names the class {name!r}; the classes are {listed(label_names)}."
                f"{nearest(name, label_names)}"
            )
        weights[label_names.index(name)] = weight
    return weights


def _parsed(setting: str | Mapping[str, float]) -> dict[str, float]:
    if isinstance(setting, Mapping):
        pairs = setting.items()
    else:
        pairs = [part.rpartition("=")[::2] for part in setting.split(",")]
    weights = {}
    for name, spelled in pairs:
        try:
            weights[name] = float(spelled)
        except (TypeError, ValueError):
            weights[name] = 0.0
        if not 0 < weights[name] < float("inf"):
            raise ValueError(
                f"class_weight is {setting!r}; it is 'balanced', or positive numbers by class as in "
                "'no=1,yes=5' or {'no': 1, 'yes': 5}."
            )
    return weights
