"""Where the labels of a multi-label model begin to count."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bert_zoo.error_text import quoted, shown

DEFAULT_THRESHOLD = 0.5

Thresholds = float | Sequence[float] | Mapping[str, float]


def label_thresholds(thresholds: Thresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """One threshold a label, in the order of the labels.

    Args:
        thresholds: a probability for all labels, one for each, or a dict from names of labels to
            them; labels that such a dict leaves out have 0.5.
        labels: the names.

    Raises:
        ValueError: their number does not fit, a name is unknown, or one lies outside [0, 1].
    """
    if isinstance(thresholds, Mapping):
        unknown = [name for name in thresholds if name not in labels]
        if unknown:
            raise ValueError(
                f"thresholds names {quoted(unknown)}; the labels are {quoted(labels)}."
            )
        values = [thresholds.get(label, DEFAULT_THRESHOLD) for label in labels]
    elif _is_number(thresholds):
        values = [thresholds] * len(labels)
    else:
        values = list(thresholds) if hasattr(thresholds, "__iter__") else [thresholds]
    if not all(_is_number(value) and 0 <= value <= 1 for value in values):
        raise ValueError(
            f"thresholds is {shown(thresholds)}; a threshold is a probability, from 0 to 1: one for all "
            "labels, one for each, or a dict by label."
        )
    if len(values) != len(labels):
        raise ValueError(
            f"There are {len(values)} thresholds and {len(labels)} labels; give one number for all, or "
            f"one for each of {quoted(labels)}."
        )
    return tuple(map(float, values))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.floating) and not isinstance(value, bool)
