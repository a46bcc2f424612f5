"""Labels from users, as people have them, to the class numbers that losses read."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import listing, nearest, quoted, shown
from bert_zoo.models.compiling import reads_class_numbers
from bert_zoo.models.inputs import check_range

# --- The names of classes ---


def label_names(num_classes: int | None, labels: Sequence[str] | Mapping | None) -> tuple[str, ...]:
    """The names of the classes, from either or both of their number and names.

    Args:
        num_classes: how many there are; `len(labels)` by default.
        labels: the names in the order of their numbers, or a dict from names to numbers or from
            numbers to names; `LABEL_0`, ... by default.

    Raises:
        ValueError: neither is given, they disagree, names repeat or have no order.
    """
    if num_classes is not None and (not _is_integer(num_classes) or num_classes < 1):
        raise ValueError(f"num_classes is {num_classes!r}; it must be a positive integer.")
    if labels is None:
        if num_classes is None:
            raise ValueError("Say how many classes there are: num_classes=2, or labels=[...].")
        return _default_names(num_classes)
    labels = _names_in_order(labels)
    if any(not isinstance(label, str) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError(
            f"labels must be different strings, one for each class; got {quoted(labels)}."
        )
    if not labels or num_classes not in (None, len(labels)):
        raise ValueError(
            f"num_classes is {num_classes} and there are {len(labels)} labels: {listing(labels)}."
        )
    return tuple(map(str, labels))


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _names_in_order(labels) -> tuple:
    if isinstance(labels, Set):
        raise ValueError(
            f"labels is a set, which has no order: {shown(labels)}. Pass a list, whose first name is "
            f"that of class 0, such as labels={shown(sorted(labels, key=str))}."
        )
    if isinstance(labels, str | bytes) or not hasattr(labels, "__iter__"):
        raise ValueError(
            f"labels is {shown(labels)} ({type(labels).__name__}); it must be a list of names, or a "
            "dict from names to the numbers of classes."
        )
    if not isinstance(labels, Mapping):
        return tuple(labels)
    # {"negative": 0, "positive": 1} or {0: "negative", 1: "positive"}
    by_number = labels
    if all(isinstance(key, str) for key in labels):
        by_number = {number: name for name, number in labels.items()}
    numbers = [key for key in by_number if _is_integer(key)]
    if len(by_number) != len(labels) or sorted(numbers) != list(range(len(labels))):
        raise ValueError(
            "A dict of labels gives each name a number from 0 on, such as {'negative': 0, "
            f"'positive': 1}}; got {shown(dict(labels))}."
        )
    return tuple(by_number[number] for number in range(len(labels)))


def _default_names(num_classes: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{number}" for number in range(num_classes))


def class_indices(labels: Any, names: Sequence[str], title: str = "label") -> np.ndarray:
    """Names of classes to their numbers; numbers stay as they are.

    Args:
        labels: an array or sequence of names, str or bytes, of any shape; numbers may be among them.
        names: of the classes, in the order of their numbers.
        title: what messages call the labels.

    Returns:
        An array of integers, or of floats where there are some, of the same shape.

    Raises:
        TypeError, ValueError: a label is neither a name of a class nor a number; says which, and what
            would do.
    """
    array = np.asarray(labels, object)
    numbers = {name: number for number, name in enumerate(names)}

    def number(i: int, label):
        if isinstance(label, Real | np.bool_):
            return label
        text = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
        if isinstance(text, str) and text in numbers:
            return numbers[text]
        where = f"{title}{[int(k) for k in np.unravel_index(i, array.shape)]} is {shown(text)}"
        if not isinstance(text, str):
            missing = " Drop rows without a label." if label is None else ""
            raise TypeError(f"{where} ({type(label).__name__}). {_known(names)}{missing}")
        found = {label for label in array.ravel() if isinstance(label, str)}
        raise ValueError(
            f"{where}. {_known(names)}{nearest(text, names)}{_how_to_name(names, found)}"
        )

    found = [number(i, label) for i, label in enumerate(array.ravel().tolist())]
    return np.array(found, None if found else np.int64).reshape(array.shape)


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    """Where the first True stands."""
    return tuple(map(int, np.argwhere(wrong)[0]))


def _known(names: Sequence[str]) -> str:
    if not names:
        return "Labels are numbers here: these classes have no names."
    return f"The classes of this model are {quoted(names)}, or their numbers from 0 on."


def _how_to_name(names: Sequence[str], found: Set[str] = frozenset()) -> str:
    """What to do about names of classes that have none yet; empty where they have."""
    if tuple(names) != _default_names(len(names)):
        return ""
    example = shown(sorted(found)) if len(found) == len(names) else "[...]"
    return f" They have no names yet: give them to load(), as labels={example}, in this order."


def class_indices_in_graph(labels, names: Sequence[str], title: str = "label"):
    """As `class_indices`, of a string tensor, when the TensorFlow graph runs; int64."""
    import tensorflow as tf

    matches = labels[..., None] == tf.constant(names)
    known = tf.reduce_any(matches, -1)
    # Without quotes, before which TensorFlow would print backslashes.
    message = f"{title}s must be names of classes: {listing(names)}.{_how_to_name(names)}"
    return _asserted(tf.argmax(matches, -1), known, labels, message)


def _asserted(values, valid, labels, message: str):
    """Values, with a check when the graph runs that shows the labels that are not valid."""
    import tensorflow as tf

    message = [f"{message} These are not:", tf.boolean_mask(labels, ~valid)]
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(valid), message)]):
        return tf.identity(values)


# --- The labels of one output ---


@dataclass(frozen=True)
class LabelRange:
    """What the labels of one output may be: class numbers in [0, limit), or what stands for them.

    Attributes:
        limit: the first number that is too large.
        what: what the limit is, for messages.
        axes: of the labels; beyond the batch, -100 stands where nothing is to be learned.
        names: of the classes, which stand for their numbers; empty where they have none.
    """

    limit: int
    what: str
    axes: tuple[str, ...] = ("batch",)
    names: tuple[str, ...] = ()

    @property
    def per_token(self) -> bool:
        return len(self.axes) > 1

    def is_read_by(self, loss) -> bool:
        """Whether a loss reads class numbers."""
        return reads_class_numbers(loss)

    def numbers(self, labels: Any, title: str) -> np.ndarray:
        """Class numbers, checked.

        Args:
            labels: an array, or what makes one, of numbers (bools and floats too), names, or one-hot
                rows [batch, limit].
            title: what messages call them.

        Raises:
            TypeError, ValueError: names the first label that is none, and what would do.
        """
        labels = self.values(_as_array(labels, title), title)
        self._check_rank(labels.shape, title)
        self.check(labels, title)
        return labels if self.per_token else labels.reshape(-1)

    def check(self, labels: np.ndarray, title: str) -> None:
        """Raises ValueError where labels do not lie in the range."""
        counted = np.where(labels == IGNORED_LABEL, 0, labels) if self.per_token else labels
        check_range(title, counted, self.limit, self.what)

    def values(self, labels: np.ndarray, title: str) -> np.ndarray:
        """Integers from numbers, names or one-hot rows; not yet checked to lie in the range."""
        if labels.dtype.kind in "USTO":
            labels = class_indices(labels, self.names, title)
        if labels.dtype.kind not in "iubf":
            raise TypeError(self._not_numbers(title, labels.dtype, labels))
        if self._are_one_hot(labels.shape):
            valid = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1)
            if not valid.all():
                row = int(np.argmin(valid))
                where = f"{title}[{row}] is {shown(labels[row].tolist())}"
                raise ValueError(f"{where}; {self._one_hot_wanted()}")
            return labels.argmax(axis=1)
        if labels.dtype.kind == "f":
            wrong = ~np.isfinite(labels) | (labels != np.trunc(labels))
            if wrong.any():
                value = labels[_first(wrong)]
                advice = " Drop rows without a label." if np.isnan(value) else ""
                raise ValueError(
                    f"{title}{[*_first(wrong)]} is {value}; labels {self._wanted()}.{advice}"
                )
        return labels.astype(np.int64, copy=False)

    def numbers_in_graph(self, labels, title: str):
        """As `numbers`, of a tensor, checked when the TensorFlow graph runs."""
        import tensorflow as tf

        if labels.dtype == tf.string and self.names:
            labels = class_indices_in_graph(labels, self.names, title)
        elif labels.dtype.is_floating:
            whole = tf.cast(labels, tf.int64)
            valid = tf.cast(whole, labels.dtype) == labels
            labels = _asserted(whole, valid, labels, f"{title}s {self._wanted()}.")
        elif labels.dtype == tf.bool:
            labels = tf.cast(labels, tf.int32)
        elif not labels.dtype.is_integer:
            raise TypeError(self._not_numbers(title, labels.dtype.name))
        if labels.shape.rank is not None:
            if self._are_one_hot(tuple(labels.shape)):
                rows = tf.reduce_all((labels == 0) | (labels == 1), -1)
                valid = rows & (tf.reduce_sum(labels, -1) == 1)
                message = f"{title}s {self._one_hot_wanted()}"
                return _asserted(tf.argmax(labels, -1), valid, labels, message)
            self._check_rank(tuple(labels.shape), title)
        valid = (labels >= 0) & (labels < self.limit)
        if self.per_token:
            valid |= labels == IGNORED_LABEL
        message = f"{title}s must lie in [0, {self.limit}), {self.what}."
        labels = _asserted(labels, valid, labels, message)
        return labels if self.per_token else tf.reshape(labels, [-1])

    def _are_one_hot(self, shape: tuple) -> bool:
        return not self.per_token and len(shape) == 2 and shape[1] == self.limit > 1

    def _one_hot_wanted(self) -> str:
        return (
            f"rows of {self.limit} numbers must be one-hot: a single 1, and 0 elsewhere. For shares of "
            "several classes, compile with keras.losses.CategoricalCrossentropy(from_logits=True)."
        )

    def _check_rank(self, shape: tuple, title: str) -> None:
        if self.per_token:
            fits, each = len(shape) == len(self.axes), "token"
        else:
            fits, each = len(shape) == 1 or shape[1:] == (1,), "row"
        if not fits:
            raise ValueError(
                f"{title}s must be [{', '.join(self.axes)}], one a {each}; got shape {shape}."
            )

    def _wanted(self) -> str:
        names = f", or the names {quoted(self.names)}" if self.names else ""
        return f"must be integers from 0 to {self.limit - 1}, {self.what}{names}"

    def _not_numbers(self, title: str, dtype, labels: np.ndarray | None = None) -> str:
        example = "" if labels is None else f", such as {shown(labels.ravel()[:1].tolist())}"
        return f"{title}s {self._wanted()}; got {dtype}{example}."


@dataclass(frozen=True)
class LabelSets:
    """What the labels of an output may be where any number of classes may apply to a row.

    Attributes:
        names: of the classes.
    """

    names: tuple[str, ...]

    def is_read_by(self, loss) -> bool:
        """Whether a loss reads rows of 0 and 1, which any but class numbers' does."""
        return True

    def numbers(self, labels: Any, title: str) -> np.ndarray:
        """Rows of 0 and 1, float32 [batch, classes], checked.

        Args:
            labels: such rows, or a collection of names for each row.
            title: what messages call them.

        Raises:
            TypeError, ValueError: names the first label that is none, and what would do.
        """
        if hasattr(labels, "to_list"):  # TensorFlow's ragged tensors and pandas' columns
            labels = labels.to_list()
        if isinstance(labels, list | tuple | np.ndarray) and any(map(_are_names, labels)):
            return self._from_names(labels, title)
        try:
            rows = np.asarray(labels)
        except ValueError as error:
            raise ValueError(
                f"{title}s have rows of different lengths. {self._wanted()}"
            ) from error
        if rows.dtype.kind not in "biuf":
            raise TypeError(f"{title}[0] is {shown(labels[0])}. {self._wanted()}")
        self._check_shape(rows.shape, title)
        wrong = ~((rows >= 0) & (rows <= 1))
        if wrong.any():
            raise ValueError(
                f"{title}{[*_first(wrong)]} is {rows[_first(wrong)]}. {self._wanted()}"
            )
        return rows.astype(np.float32)

    def _from_names(self, labels: Sequence, title: str) -> np.ndarray:
        rows = np.zeros((len(labels), len(self.names)), np.float32)
        for i, row in enumerate(labels):
            where = f"{title}[{i}]"
            if not _are_names(row):
                raise TypeError(f"{where} is {shown(row)}, among rows of names. {self._wanted()}")
            numbers = class_indices(list(row), self.names, where)
            check_range(where, numbers, len(self.names), "the number of labels")
            rows[i, numbers] = 1
        return rows

    def numbers_in_graph(self, labels, title: str):
        """As `numbers`, of a tensor, checked when the TensorFlow graph runs; names may be ragged."""
        import tensorflow as tf

        if labels.dtype == tf.string and labels.shape.rank == 2:
            if not isinstance(labels, tf.RaggedTensor):
                labels = tf.RaggedTensor.from_tensor(labels, padding="")
            numbers = class_indices_in_graph(labels.flat_values, self.names, title)
            present = labels.with_flat_values(tf.one_hot(numbers, len(self.names), True, False))
            return tf.cast(tf.reduce_any(present, axis=1), tf.float32)
        if labels.dtype == tf.string or isinstance(labels, tf.RaggedTensor):
            raise TypeError(
                f"{title}s are {labels.dtype.name} of shape {tuple(labels.shape)}. {self._wanted()} "
                "In tf.data, names are string tensors [batch, names], ragged or filled up with ''."
            )
        if labels.shape.rank is not None:
            self._check_shape(tuple(labels.shape), title)
        rows = tf.cast(labels, tf.float32)
        return _asserted(rows, (rows >= 0) & (rows <= 1), rows, f"{title}s must be 0 or 1.")

    def _check_shape(self, shape: tuple, title: str) -> None:
        if len(shape) != 2 or shape[1] not in (None, len(self.names)):
            raise ValueError(f"{title}s have the shape {shape}. {self._wanted()}")

    def _wanted(self) -> str:
        return (
            "For each text, give a list or set of names, which may be empty, or 0 or 1 for each of the "
            f"{len(self.names)} labels {quoted(self.names)}."
        )


def _are_names(row: Any) -> bool:
    """Whether the labels of a row are said by name; no labels at all are."""
    if isinstance(row, Set):
        return True
    is_list = isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)
    return is_list and (len(row) == 0 or isinstance(row[0], str | bytes))


@dataclass(frozen=True)
class ClassWeights:
    """What the rows (or tokens) of each class weigh in the loss.

    Keras 3.15 has it for one label a row alone: of tokens' labels it would take the largest.

    Attributes:
        table: float32 [classes].
    """

    table: np.ndarray

    @classmethod
    def read(cls, class_weight: Mapping, names: Sequence[str]) -> "ClassWeights":
        """From weights by name or by number; classes that are left out weigh 1."""
        if not isinstance(class_weight, Mapping):
            raise TypeError(
                f"class_weight is {shown(class_weight)}; it is a dict of weights by class, such as "
                f"{{{names[0]!r}: 2.0}} or {{0: 2.0}}."
            )
        numbers = class_indices([*class_weight], names, "class_weight")
        check_range("class_weight", numbers, len(names), "the number of labels")
        table = np.ones(len(names), np.float32)
        for number, (name, weight) in zip(numbers, class_weight.items(), strict=True):
            if not isinstance(weight, Real) or not 0 <= weight < np.inf:
                raise ValueError(
                    f"class_weight[{name!r}] is {shown(weight)}; a weight is a number, 0 or more."
                )
            table[int(number)] = weight
        return cls(table)

    def of(self, labels: np.ndarray, sample_weight=None) -> np.ndarray:
        """Weights of the shape of the labels, which are class numbers or -100."""
        self._check_alone(sample_weight)
        return self.table[np.maximum(labels, 0)]

    def in_graph(self, labels, sample_weight=None):
        """As `of`, of tensors of TensorFlow."""
        import tensorflow as tf

        self._check_alone(sample_weight)
        return tf.gather(self.table, tf.maximum(labels, 0))

    def _check_alone(self, sample_weight) -> None:
        if sample_weight is not None:
            raise ValueError(
                "class_weight and sample_weight are both given. Multiply them and pass sample_weight."
            )


# --- The labels of a model ---


def read_class_weight(model, class_weight):
    """`fit`'s class_weight for a model, as what we apply or as what Keras does.

    Returns:
        `ClassWeights` and None; or None and the argument for Keras, where labels have no names or
        the loss reads no class numbers.

    Raises:
        TypeError, ValueError: names the first key that is no class, or weight that is none.
    """
    names = class_names(model)
    if class_weight is None or not names:
        return None, class_weight
    label_range = model.label_ranges(())[""]
    if isinstance(label_range, LabelSets):
        raise ValueError(
            "class_weight is for models with one class a row; several may apply here. Weigh rows with "
            "sample_weight."
        )
    weights = ClassWeights.read(class_weight, names)
    if label_range.is_read_by(model.loss):
        return weights, None
    return None, dict(enumerate(weights.table.tolist()))


def class_names(model) -> tuple[str, ...]:
    """The names of a model's classes, in the order of their numbers; empty where it has none."""
    return getattr(model, "labels", ())


def as_arrays(column):
    """Labels or weights, alone or by output, as NumPy arrays."""
    if isinstance(column, Mapping):
        return {name: np.asarray(part) for name, part in column.items()}
    return None if column is None else np.asarray(column)


def label_arrays(model, x, y):
    """Labels in memory as the losses of a model read them.

    On GPUs a class that does not exist gives a loss of NaN, in silence.

    Args:
        model: a compiled `ZooModel`; outputs whose loss reads no class numbers take numbers of any
            kind, which must be finite.
        x: the inputs, whose shapes may bound the labels.
        y: an array or what makes one, a dict of them by output, or None.

    Returns:
        NumPy arrays, alone or by output, as `y`.

    Raises:
        TypeError, ValueError: names the first wrong label and what would do.
    """
    if y is None:
        return None
    ranges = _ranges(model, x, y)

    def numbers(name: str, column):
        label_range = ranges.get(name)
        if label_range is not None:
            return label_range.numbers(column, _title(name))
        labels = _as_array(column, _title(name))
        _check_finite(name, labels)
        return labels

    return _by_output(numbers, y)


def labels_in_graph(model, x, y):
    """As `label_arrays`, of a tf.data element, checked when the pipeline runs."""
    import tensorflow as tf

    ranges = _ranges(model, x, y)

    def numbers(name: str, labels):
        label_range = ranges.get(name)
        if label_range is not None:
            return label_range.numbers_in_graph(labels, _title(name))
        if not labels.dtype.is_floating:
            return labels
        valid = tf.math.is_finite(labels)
        return _asserted(labels, valid, labels, f"{_title(name)}s must be finite numbers.")

    return _by_output(numbers, y)


def _by_output(function, y):
    if isinstance(y, Mapping):
        return {name: function(name, part) for name, part in y.items()}
    return function("", y)


def _ranges(model, x, y) -> dict[str, LabelRange | LabelSets]:
    """What the labels may be of the outputs whose loss reads such labels."""
    ranges = model.label_ranges(x)
    if ranges and set(y if isinstance(y, Mapping) else {""}) != set(ranges):
        wanted = "one array" if "" in ranges else f"a dict of {sorted(ranges)}"
        got = f"a dict of {sorted(y)}" if isinstance(y, Mapping) else type(y).__name__
        raise ValueError(f"The labels of task {model.task!r} are {wanted}; got {got}.")
    loss = getattr(model, "loss", None)
    return {
        name: label_range
        for name, label_range in ranges.items()
        if label_range.is_read_by(loss.get(name) if isinstance(loss, Mapping) else loss)
    }


def _as_array(column, title: str) -> np.ndarray:
    try:
        return np.asarray(column)
    except ValueError as error:
        raise ValueError(
            f"{title}s must be an array; these rows have different lengths ({error}). Pad "
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
        raise ValueError(
            f"{_title(name)}{[*_first(wrong)]} is {labels[wrong][0]}; labels must be finite numbers. Drop "
            "these rows or give them a value."
        )


def _title(name: str) -> str:
    return f"{name} label" if name else "label"
