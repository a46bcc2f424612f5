"""Checks on the labels that models are trained and evaluated with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models.inputs import check_range


@dataclass(frozen=True)
class LabelRange:
    """What the labels of one output may be: class numbers in [0, limit).

    Attributes:
        limit: the first number that is too large.
        what: what the limit is, for messages.
        axes: of the labels; beyond the batch, -100 stands where nothing is to be learned.
    """

    limit: int
    what: str
    axes: tuple[str, ...] = ("batch",)

    @property
    def per_token(self) -> bool:
        return len(self.axes) > 1


def as_arrays(column):
    """Labels or weights, alone or by output, as NumPy arrays."""
    if isinstance(column, Mapping):
        return {name: np.asarray(part) for name, part in column.items()}
    return None if column is None else np.asarray(column)


def check_labels(model, x, y) -> None:
    """Checks labels in memory against the model's outputs.

    On GPUs a class that does not exist gives a loss of NaN, in silence.

    Args:
        model: a compiled `ZooModel`; outputs with another loss than cross-entropy over class
            numbers are only checked for numbers that are not finite.
        x: the inputs, whose shapes may bound the labels.
        y: an array, a dict of arrays by output, or None.

    Raises:
        TypeError, ValueError: names the first wrong label and what would do.
    """
    if y is None:
        return
    ranges = _ranges(model, x, y)
    for name, column in _columns(y).items():
        labels = _as_array(name, column)
        label_range = ranges.get(name)
        if label_range is None:
            _check_finite(name, labels)
            continue
        if labels.dtype.kind not in "iub":
            raise TypeError(
                _not_integers(name, label_range, labels.dtype, labels.ravel()[:1].tolist())
            )
        _check_rank(name, label_range, labels.shape)
        if label_range.per_token:
            labels = np.where(labels == IGNORED_LABEL, 0, labels)
        check_range(_title(name), labels, label_range.limit, label_range.what)


def labels_checked_in_graph(model, x, y):
    """The labels of a tf.data element, checked as `check_labels` does when the pipeline runs."""
    import tensorflow as tf

    ranges = _ranges(model, x, y)

    def checked(name: str, labels):
        label_range = ranges.get(name)
        if label_range is None:
            valid = tf.math.is_finite(labels) if labels.dtype.is_floating else None
            wanted = "must be finite numbers"
        else:
            if not labels.dtype.is_integer:
                raise TypeError(_not_integers(name, label_range, labels.dtype.name))
            if labels.shape.rank is not None:
                _check_rank(name, label_range, tuple(labels.shape))
            valid = (labels >= 0) & (labels < label_range.limit)
            if label_range.per_token:
                valid |= labels == IGNORED_LABEL
            wanted = f"must lie in [0, {label_range.limit}), {label_range.what}"
        if valid is None:
            return labels
        message = f"{_title(name)}s {wanted}. These do not:"
        check = tf.debugging.Assert(
            tf.reduce_all(valid), [message, tf.boolean_mask(labels, ~valid)]
        )
        with tf.control_dependencies([check]):
            return tf.identity(labels)

    if isinstance(y, Mapping):
        return {name: checked(name, labels) for name, labels in y.items()}
    return checked("", y)


def _columns(y) -> Mapping[str, Any]:
    return y if isinstance(y, Mapping) else {"": y}


def _ranges(model, x, y) -> dict[str, LabelRange]:
    """The ranges of the outputs whose loss reads class numbers."""
    ranges = model.label_ranges(x)
    if ranges and set(_columns(y)) != set(ranges):
        wanted = "one array" if "" in ranges else f"a dict of {sorted(ranges)}"
        got = f"a dict of {sorted(y)}" if isinstance(y, Mapping) else type(y).__name__
        raise ValueError(f"The labels of task {model.task!r} are {wanted}; got {got}.")
    loss = getattr(model, "loss", None)
    return {
        name: label_range
        for name, label_range in ranges.items()
        if _reads_classes(loss.get(name) if isinstance(loss, Mapping) else loss)
    }


def _reads_classes(loss) -> bool:
    return loss == "sparse_categorical_crossentropy" or isinstance(
        loss, keras.losses.SparseCategoricalCrossentropy
    )


def _as_array(name: str, column) -> np.ndarray:
    try:
        return np.asarray(column)
    except ValueError as error:
        raise ValueError(
            f"{_title(name)}s must be an array; these rows have different lengths ({error}). Pad "
            f"labels of tokens with {IGNORED_LABEL}, which does not count."
        ) from error


def _check_finite(name: str, labels: np.ndarray) -> None:
    if labels.dtype.kind not in "iubf":
        raise TypeError(
            f"{_title(name)}s must be numbers; got {labels.dtype}, such as "
            f"{labels.ravel()[:1].tolist()}."
        )
    wrong = ~np.isfinite(labels)
    if wrong.any():
        position = [int(i) for i in np.argwhere(wrong)[0]]
        raise ValueError(
            f"{_title(name)}{position} is {labels[wrong][0]}; labels must be finite numbers. Drop "
            "these rows or give them a value."
        )


def _check_rank(name: str, label_range: LabelRange, shape: tuple) -> None:
    axes = f"[{', '.join(label_range.axes)}]"
    if label_range.per_token:
        fits, wanted = len(shape) == len(label_range.axes), f"{axes}, one a token"
    else:
        fits, wanted = len(shape) == 1 or shape[1:] == (1,), f"{axes}, one a row"
    if not fits:
        raise ValueError(f"{_title(name)}s must be {wanted}; got shape {shape}.")


def _not_integers(name: str, label_range: LabelRange, dtype, example: list | None = None) -> str:
    shown = f", such as {example}" if example else ""
    return (
        f"{_title(name)}s must be integers from 0 to {label_range.limit - 1}, {label_range.what}; "
        f"got {dtype}{shown}."
    )


def _title(name: str) -> str:
    return f"{name} label" if name else "label"
