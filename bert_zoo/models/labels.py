"""Labels from users, as people have them, to the class numbers that losses read."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.error_text import listing, nearest, quoted, shown
from bert_zoo.models.compiling import reads_class_numbers
from bert_zoo.models.inputs import check_range, is_of_tensorflow
from bert_zoo.models.label_tables import labels_of_table
from bert_zoo.text.columns import as_list, column_names, is_missing

DEFAULT_THRESHOLD = 0.5
NUMBER_OF_LABELS = "the number of labels"

Thresholds = float | Sequence[float] | Mapping[str, float]

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


def one_class_error(given: str) -> ValueError:
    """What to do about a classifier of one class, whose probability is 1 whatever the text.

    Args:
        given: what says that there is one.
    """
    return ValueError(
        f"{given}: a classifier of a single class gives it the probability 1 whatever the text, and "
        "learns nothing. Yes or no are two classes, such as labels=['no', 'yes']; labels that each may "
        "apply or not are problem_type='multi_label_classification'; a number, such as a score, is "
        "problem_type='regression'."
    )


def label_thresholds(thresholds: Thresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """Where the labels of a multi-label model begin to count: one threshold a label, in their order.

    Args:
        thresholds: a probability for all labels, one for each, or a dict from names of labels to
            them; labels that such a dict leaves out have 0.5.
        labels: the names.

    Raises:
        ValueError: their number does not fit, a name is unknown, or one lies outside [0, 1].
    """
    if hasattr(thresholds, "to_dict") and isinstance(next(iter(thresholds.keys()), None), str):
        thresholds = thresholds.to_dict()  # pandas' series by label
    if isinstance(thresholds, Mapping):
        unknown = [name for name in thresholds if name not in labels]
        if unknown:
            raise ValueError(
                f"thresholds names {quoted(unknown)}; the labels are {quoted(labels)}."
            )
        values = [thresholds.get(label, DEFAULT_THRESHOLD) for label in labels]
    elif _is_probability(thresholds):
        values = [thresholds] * len(labels)
    else:
        values = list(thresholds) if hasattr(thresholds, "__iter__") else [thresholds]
    if not all(map(_is_probability, values)):
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


def _is_probability(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= value <= 1


def class_indices(labels: Any, names: Sequence[str], title: str = "label"):
    """Names of classes to their numbers, of any shape.

    Args:
        labels: an array or sequence of names, str or bytes, where numbers may be among them and stay as
            they are; or a string tensor of TensorFlow, checked when its graph runs.
        names: of the classes, in the order of their numbers.
        title: what messages call the labels.

    Returns:
        An array of integers, or of floats where there are some; or an int64 tensor.

    Raises:
        TypeError, ValueError: a label is neither a name of a class nor a number; says which, and what
            would do.
    """
    if is_of_tensorflow(labels):
        return _class_indices_in_graph(labels, names, title)
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
            missing = _if_missing(label, title)
            raise TypeError(f"{where} ({type(label).__name__}). {_known(names)}{missing}")
        found = {label for label in array.ravel() if isinstance(label, str)}
        raise ValueError(
            f"{where}. {_known(names)}{nearest(text, names)}{_how_to_name(names, found)}"
        )

    found = [number(i, label) for i, label in enumerate(array.ravel().tolist())]
    return np.array(found, None if found else np.int64).reshape(array.shape)


def _class_indices_in_graph(labels, names: Sequence[str], title: str):
    import tensorflow as tf

    if not names:
        raise TypeError(f"{title}s are strings. {_known(names)}")
    matches = labels[..., None] == tf.constant(names)
    # Without quotes, before which TensorFlow would print backslashes.
    wanted = f"must be names of classes: {listing(names)}.{_how_to_name(names)}"
    return _checked(tf.argmax(matches, -1), tf.reduce_any(matches, -1), labels, title, wanted)


def _if_missing(value: Any, title: str = "label") -> str:
    """What to do about a label or a weight that is not there."""
    what = "weight" if "weight" in title else "label"
    return f" Drop rows without a {what}." if is_missing(value) else ""


def _known(names: Sequence[str]) -> str:
    if not names:
        return "Labels are numbers here: these classes have no names."
    return f"The classes of this model are {quoted(names)}, or their numbers from 0 on."


def _how_to_name(names: Sequence[str], found: Set[str] = frozenset()) -> str:
    """What to do about names of classes that have none yet; empty where they have."""
    if not names or tuple(names) != _default_names(len(names)):
        return ""
    example = shown(sorted(found)) if len(found) == len(names) else "[...]"
    return f" They have no names yet: give them to load(), as labels={example}, in this order."


# --- The labels of one output, in memory as NumPy arrays or in the graph as TensorFlow's tensors ---


def _numpy_for(labels):
    """NumPy, or TensorFlow's functions of the same names."""
    if not is_of_tensorflow(labels):
        return np
    import tensorflow as tf

    return tf.experimental.numpy


def _kind(labels) -> str:
    """The kind of an array's or tensor's dtype, as NumPy abbreviates it."""
    return np.dtype(getattr(labels.dtype, "as_numpy_dtype", labels.dtype)).kind


def _shape(labels) -> tuple[int | None, ...] | None:
    return None if getattr(labels.shape, "rank", 0) is None else tuple(labels.shape)


def _checked(values, valid, labels, title: str, wanted: str):
    """`values`, after an error, which a graph gives when it runs, where labels are not `valid`.

    Valid is bool, of the shape of the labels or of their rows; they are `wanted` to be so.
    """
    if isinstance(labels, np.ndarray):
        if not valid.all():
            first = tuple(np.argwhere(~valid)[0].tolist())
            value = labels[first].tolist()
            raise ValueError(
                f"{title}{[*first]} is {shown(value)}; it {wanted}{_if_missing(value, title)}"
            )
        return values
    import tensorflow as tf

    message = [f"{title}s {wanted} These are not:", tf.boolean_mask(labels, ~valid)]
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(valid), message)]):
        return tf.identity(values)


def finite_numbers(labels: Any, title: str):
    """Numbers of any kind, as an array or tensor; an error names the first that is not finite.

    Args:
        labels, title: as for `LabelRange.numbers`.
    """
    labels = _with_nan(_as_array(labels, title))
    if _kind(labels) not in "iubf":
        raise TypeError(
            f"{title}s must be numbers; got {labels.dtype}, such as {_example(labels)}."
        )
    if _kind(labels) != "f":
        return labels
    return _checked(labels, _numpy_for(labels).isfinite(labels), labels, title, "must be finite.")


def _with_nan(array):
    """Numbers among which are missing values, an array of objects, as floats; others as they are."""
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array
    values = [np.nan if is_missing(value) else value for value in array.ravel().tolist()]
    if not all(isinstance(value, Real | np.bool_) for value in values):
        return array
    return np.array(values, np.float64).reshape(array.shape)


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
        return self.axes != ("batch",)

    @property
    def columns(self) -> Sequence[str] | range:
        """What the columns of a table of one-hot rows are called."""
        return () if self.per_token else self.names or range(self.limit)

    def is_read_by(self, loss) -> bool:
        """Whether a loss reads class numbers."""
        return reads_class_numbers(loss)

    def numbers(self, labels: Any, title: str):
        """Class numbers, int64 of the shape of the labels, or [batch]; an error names the first wrong one.

        Args:
            labels: a tensor of TensorFlow, checked when its graph runs; an array, or what makes one: of
                numbers (bools and floats too), names, or one-hot rows [batch, limit].
            title: what messages call them.
        """
        if len(self.names) == 1:
            raise one_class_error(f"{title}s of the one class {self.names[0]!r}")
        labels = _as_array(labels, title)
        if _kind(labels) in "USTO":
            labels = class_indices(labels, self.names, title)
        functions, kind, shape = _numpy_for(labels), _kind(labels), _shape(labels)
        if kind not in "iubf":
            raise TypeError(
                f"{title}s {self._wanted()}; got {labels.dtype}, such as {_example(labels)}."
            )
        are_rows = not self.per_token and shape and len(shape) == 2 and shape[1] == self.limit > 1
        if shape is not None and not are_rows:
            self._check_rank(shape, title)
        if kind != "f":
            labels = functions.asarray(labels, np.int64)
        if are_rows:
            is_one_hot = functions.all((labels == 0) | (labels == 1), -1)
            is_one_hot &= functions.sum(labels, -1) == 1
            return _checked(functions.argmax(labels, -1), is_one_hot, labels, title, ONE_HOT)
        if kind == "f":
            is_integer = functions.isfinite(labels) & (functions.floor(labels) == labels)
            integers = functions.asarray(functions.where(is_integer, labels, 0), np.int64)
            labels = _checked(integers, is_integer, labels, title, f"{self._wanted()}.")
        in_range = (labels >= 0) & (labels < self.limit)
        if self.per_token:
            in_range |= labels == IGNORED_LABEL
        wanted = f"must lie in [0, {self.limit}), {self.what}."
        labels = _checked(labels, in_range, labels, title, wanted)
        return labels if self.per_token else functions.reshape(labels, [-1])

    def _check_rank(self, shape: tuple, title: str) -> None:
        fits = len(shape) == len(self.axes) or (not self.per_token and shape[1:] == (1,))
        if not fits:
            each = "token" if self.per_token else "row"
            raise ValueError(
                f"{title}s must be [{', '.join(self.axes)}], one a {each}; got shape {shape}."
            )

    def _wanted(self) -> str:
        names = f", or the names {quoted(self.names)}" if self.names else ""
        return f"must be integers from 0 to {self.limit - 1}, {self.what}{names}"


ONE_HOT = (
    "must be one-hot, as a row with a number for each class: a single 1, and 0 elsewhere. For shares of "
    "several classes, compile with keras.losses.CategoricalCrossentropy(from_logits=True)."
)


@dataclass(frozen=True)
class LabelSets:
    """What the labels of an output may be where any number of classes may apply to a row.

    Attributes:
        names: of the classes.
    """

    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns of a table of such rows are called."""
        return self.names

    def is_read_by(self, loss) -> bool:
        """Whether a loss reads rows of 0 and 1, which any but class numbers' does."""
        return True

    def numbers(self, labels: Any, title: str):
        """Rows of 0 and 1, float32 [batch, classes]; an error names the first wrong one.

        Args:
            labels: such rows, or a collection of names for each row; or a tensor of TensorFlow, checked
                when its graph runs, in which names may be ragged.
            title: what messages call them.
        """
        if is_of_tensorflow(labels):
            if _kind(labels) == "O" and labels.shape.rank == 2:
                return self._from_tensor_of_names(labels, title)
            if _kind(labels) == "O" or hasattr(labels, "ragged_rank"):
                raise TypeError(
                    f"{title}s are {labels.dtype.name} of shape {tuple(labels.shape)}. "
                    f"{self._wanted()} In tf.data, names are string tensors [batch, names], ragged or "
                    "filled up with ''."
                )
        elif isinstance(labels, list | tuple | np.ndarray) and any(map(_are_names, labels)):
            return self._from_names(labels, title)
        else:
            try:
                labels = np.asarray(labels)
            except ValueError as error:
                raise ValueError(
                    f"{title}s have rows of different lengths. {self._wanted()}"
                ) from error
            if _kind(labels) not in "biuf":
                raise TypeError(f"{title}[0] is {shown(labels.tolist()[0])}. {self._wanted()}")
        shape = _shape(labels)
        if shape is not None and (len(shape) != 2 or shape[1] not in (None, len(self.names))):
            raise ValueError(f"{title}s have the shape {shape}. {self._wanted()}")
        rows = _numpy_for(labels).asarray(labels, np.float32)
        if is_of_tensorflow(rows):
            rows.set_shape([None, len(self.names)])  # metrics need to know
        wanted = f"must be 0 or 1. {self._wanted()}"
        return _checked(rows, (rows >= 0) & (rows <= 1), labels, title, wanted)

    def _from_names(self, labels: Sequence, title: str) -> np.ndarray:
        rows = np.zeros((len(labels), len(self.names)), np.float32)
        for i, row in enumerate(labels):
            where = f"{title}[{i}]"
            if not _are_names(row):
                raise TypeError(f"{where} is {shown(row)}, among rows of names. {self._wanted()}")
            numbers = class_indices(list(row), self.names, where)
            of_row = LabelRange(len(self.names), NUMBER_OF_LABELS)
            rows[i, of_row.numbers(numbers, where)] = 1
        return rows

    def _from_tensor_of_names(self, labels, title: str):
        import tensorflow as tf

        if not isinstance(labels, tf.RaggedTensor):
            labels = tf.RaggedTensor.from_tensor(labels, padding="")
        numbers = class_indices(labels.flat_values, self.names, title)
        present = labels.with_flat_values(tf.one_hot(numbers, len(self.names), True, False))
        return tf.cast(tf.reduce_any(present, axis=1), tf.float32)

    def _wanted(self) -> str:
        return (
            "For each text, give a list or set of names, which may be empty, or 0 or 1 for each of the "
            f"{len(self.names)} labels {quoted(self.names)}."
        )


def _are_names(row: Any) -> bool:
    """True if a row's labels are names (an empty row counts as names)."""
    if isinstance(row, Set):
        return True
    is_list = isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)
    return is_list and (len(row) == 0 or isinstance(row[0], str | bytes))


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """What the labels of an output may be that is one number a row.

    Attributes:
        are_probabilities: whether they must lie in [0, 1].
    """

    are_probabilities: bool = False
    names: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[str, ...]] = ()

    def is_read_by(self, loss) -> bool:
        """Whether a loss compares labels with outputs, one by one; a user's own may read more of them."""
        module = getattr(loss, "__module__", "")
        return isinstance(loss, str) or module.startswith(("keras.", "bert_zoo."))

    def numbers(self, labels: Any, title: str):
        """Finite numbers [batch], of labels [batch] or [batch, 1]; else as `LabelRange.numbers`."""
        labels = finite_numbers(labels, title)
        shape = _shape(labels)
        if shape is not None and shape[1:] not in ((), (1,)):
            raise ValueError(
                f"{title}s have the shape {shape}. A regression model gives a row one number: pass one "
                "column, [batch], and train a model for each. If they say which of several labels "
                "apply, load the model with problem_type='multi_label_classification'."
            )
        if self.are_probabilities:
            in_range = (labels >= 0) & (labels <= 1)
            wanted = (
                "must lie in [0, 1], as the loss is binary cross-entropy. Scale scores, such as score / 5, or "
                'compile with another loss, such as "mse".'
            )
            labels = _checked(labels, in_range, labels, title, wanted)
        return _numpy_for(labels).reshape(labels, [-1])


# --- The labels of a model ---


def label_arrays(model, x, y):
    """As `checked_labels`, of labels in memory: arrays, what makes one, columns, tables, tensors; or None."""

    def in_memory(name, labels):
        label_range = None if column_names(labels) is None else model.label_ranges(x).get(name)
        if label_range is not None:
            names = label_range.names
            advice = _how_to_name(names, {str(column) for column in column_names(labels)})
            return labels_of_table(labels, "y", label_range.columns, advice)
        labels = as_list(labels)
        return np.asarray(labels) if is_of_tensorflow(labels) else labels

    return None if y is None else checked_labels(model, x, by_output(in_memory, y))


def checked_labels(model, x, y):
    """Labels as the losses of a model read them.

    On GPUs a class that does not exist gives a loss of NaN, in silence.

    Args:
        model: a compiled `ZooModel`; outputs whose loss reads no class numbers take numbers of any
            kind, which must be finite.
        x: the inputs, whose shapes may bound the labels.
        y: an array, or a tensor of TensorFlow, which is checked when its graph runs; or a dict of them
            by output.
    """
    ranges, loss = model.label_ranges(x), getattr(model, "loss", None)
    if isinstance(loss, Mapping):
        # Compiled with the losses of some outputs, it is trained on these alone.
        ranges = {name: labels for name, labels in ranges.items() if name in loss}
    if ranges and set(y if isinstance(y, Mapping) else {""}) != set(ranges):
        wanted = "one array" if "" in ranges else f"a dict of {sorted(ranges)}"
        got = f"a dict of {sorted(y)}" if isinstance(y, Mapping) else type(y).__name__
        raise ValueError(f"The labels of task {model.task!r} are {wanted}; got {got}.")

    def numbers(name: str, labels):
        title = f"{name} label" if name else "label"
        own_loss = loss.get(name) if isinstance(loss, Mapping) else loss
        are_labels = not getattr(own_loss, "reads_targets", False)
        if are_labels and name in ranges and ranges[name].is_read_by(own_loss):
            return ranges[name].numbers(labels, title)
        return finite_numbers(labels, title)

    return by_output(numbers, y)


def by_output(function, y):
    """`function(name, part)` of labels or weights, for each output or, as "", for the only one."""
    if isinstance(y, Mapping):
        return {name: function(name, part) for name, part in y.items()}
    return function("", y)


def _as_array(labels, title: str):
    """An array, or a tensor as it is."""
    if is_of_tensorflow(labels):
        return labels
    try:
        array = np.asarray(labels)
        # NumPy makes the string 'nan' of a missing value among strings.
        return np.asarray(labels, object) if array.dtype.kind in "US" else array
    except ValueError as error:
        raise ValueError(
            f"{title}s must be an array; these rows have different lengths ({error}). Pad "
            f"labels of tokens with {IGNORED_LABEL}, which does not count."
        ) from error


def _example(labels) -> str:
    return shown(labels.ravel()[:1].tolist()) if isinstance(labels, np.ndarray) else "no number"


# --- Weights of classes ---


def read_class_weight(model, class_weight):
    """`fit`'s class_weight for a model, as what we apply or as what Keras does.

    Keras 3.15 has it for one label a row alone: of tokens' labels it would take the largest.

    Returns:
        A table for `class_weights_of` and None; or None and the argument for Keras, where labels have
        no names or the loss reads no class numbers.
    """
    if class_weight is None or not model.labels:
        return None, class_weight
    table = class_weight_table(class_weight, model.labels)
    if model.label_ranges(())[""].is_read_by(model.loss):
        return table, None
    return None, dict(enumerate(table.tolist()))


def class_weight_table(class_weight: Mapping, names: Sequence[str]) -> np.ndarray:
    """float32 [classes] from weights by name or by number; classes that are left out weigh 1."""
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            f"class_weight is {shown(class_weight)}; it is a dict of weights by class, such as "
            f"{{{names[0]!r}: 2.0}} or {{0: 2.0}}."
        )
    numbers = class_indices([*class_weight], names, "class_weight")
    check_range("class_weight", numbers, len(names), NUMBER_OF_LABELS)
    table = np.ones(len(names), np.float32)
    for number, (name, weight) in zip(numbers, class_weight.items(), strict=True):
        if not isinstance(weight, Real) or not 0 <= weight < np.inf:
            raise ValueError(
                f"class_weight[{name!r}] is {shown(weight)}; a weight is a number, 0 or more."
            )
        table[int(number)] = weight
    return table


def class_weights_of(labels, table: np.ndarray, sample_weight=None):
    """The weights of labels, class numbers or -100 in an array or tensor, in their shape."""
    if sample_weight is not None:
        raise ValueError(
            "class_weight and sample_weight are both given. Multiply them and pass sample_weight."
        )
    functions = _numpy_for(labels)
    return functions.take(table, functions.maximum(labels, 0))
