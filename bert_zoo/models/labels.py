"""Users' labels become what losses read; labels in tables; what `load` knows about a model's head."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from bert_zoo.config import IGNORED_LABEL, EntityHead, SparsePooling, TokenVectors
from bert_zoo.error_text import listing, nearest, quoted, shown
from bert_zoo.fields import check, is_integer, is_number
from bert_zoo.models.compiling import reads_class_numbers, reads_each_class
from bert_zoo.models.inputs import check_range, is_of_tensorflow
from bert_zoo.text.columns import as_list, column_names, is_missing


def labels_of_table(
    table: Any, argument: str, classes: Sequence[str] | range = (), advice: str = ""
) -> Any:
    """The labels, or weights, in a table of pandas, polars, pyarrow or `datasets`.

    Columns are identified by name and never by order: one column of labels, whose name is not a class; or one
    column per class, which gives an array [rows, classes] in the order of the classes.

    Args:
        argument: name of the argument, for messages.
        classes: names of the classes, or the range of their numbers; empty if labels are not classes.
        advice: further advice for the error message.
    """
    columns = column_names(table)
    is_of_classes = len(columns) == len(set(columns)) == len(classes)
    for order in (classes, range(len(classes))):
        if is_of_classes and set(columns) == set(order):
            return np.column_stack([np.asarray(as_list(table[name])) for name in order])
    # A single column with a class's name only says whether that class applies.
    if len(columns) == 1 and columns[0] not in classes:
        return as_list(table[columns[0]])
    several = f", or one column for each class, of {quoted(classes)}" if classes else ""
    raise ValueError(
        f"{argument} is a table with the columns {quoted(columns)}. Pass one column, such as "
        f"{argument}=table[{columns[0] if columns else 'label'!r}]{several}.{advice}"
    )


DEFAULT_THRESHOLD = 0.5
NUMBER_OF_LABELS = "the number of labels"

Thresholds = float | Sequence[float] | Mapping[str, float]

# --- The names of classes ---


def label_names(num_classes: int | None, labels: Sequence[str] | Mapping | None) -> tuple[str, ...]:
    """The names of the classes, from their number, their names or both.

    Labels are names in the order of their numbers, or a dict from names to numbers or from numbers to names; by
    default `LABEL_0`, ...
    """
    check("num_classes", num_classes, int | None, least=1)
    if labels is None:
        if num_classes is None:
            raise ValueError(
                "Pass the number of classes, num_classes=2, or their names, labels=[...]."
            )
        return _default_names(num_classes)
    labels = _names_in_order(labels)
    if any(not isinstance(label, str) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError(
            f"labels must be different strings, one for each class; got {quoted(labels)}."
        )
    if not labels or num_classes not in (None, len(labels)):
        raise ValueError(
            f"num_classes is {num_classes}, but there are {len(labels)} labels: {listing(labels)}."
        )
    return tuple(map(str, labels))


def _names_in_order(labels) -> tuple:
    if isinstance(labels, Set):
        raise ValueError(
            f"labels is a set, which has no order: {shown(labels)}. Pass a list that starts with the name "
            f"of class 0, such as labels={shown(sorted(labels, key=str))}."
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
    numbers = [key for key in by_number if is_integer(key)]
    if len(by_number) != len(labels) or sorted(numbers) != list(range(len(labels))):
        raise ValueError(
            "A dict of labels must number the names from 0, such as {'negative': 0, 'positive': 1}; "
            f"got {shown(dict(labels))}."
        )
    return tuple(by_number[number] for number in range(len(labels)))


def _default_names(num_classes: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{number}" for number in range(num_classes))


def one_class_error(given: str) -> ValueError:
    """The error for a classifier with one class, whose probability would be 1 for every text; `given` asked for it."""
    return ValueError(
        f"{given}: a classifier with a single class gives every text the probability 1 and learns nothing. "
        "For yes or no, use two classes, such as labels=['no', 'yes']. For labels that each may apply or "
        "not, and for one logit with binary cross-entropy and the labels 0 and 1, load with "
        "task='multi_label_classification'. For a number, such as a score, load with task='regression'."
    )


def label_thresholds(thresholds: Thresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """The threshold of each label of a multi-label model, in the order of the labels.

    They are a probability for all labels, one for each, or a dict of them by label, in which missing labels get 0.5.
    """
    if hasattr(thresholds, "to_dict") and isinstance(next(iter(thresholds.keys()), None), str):
        thresholds = thresholds.to_dict()  # pandas' series by label
    if isinstance(thresholds, Mapping):
        unknown = [name for name in thresholds if name not in labels]
        if unknown:
            raise ValueError(
                f"thresholds has the unknown labels {quoted(unknown)}; the labels are {quoted(labels)}."
            )
        values = [thresholds.get(label, DEFAULT_THRESHOLD) for label in labels]
    elif _is_probability(thresholds):
        values = [thresholds] * len(labels)
    else:
        values = list(thresholds) if hasattr(thresholds, "__iter__") else [thresholds]
    if not all(map(_is_probability, values)):
        raise ValueError(
            f"thresholds is {shown(thresholds)}; a threshold must be a probability from 0 to 1. Pass one for "
            "all labels, one for each, or a dict by label."
        )
    if len(values) != len(labels):
        raise ValueError(
            f"There are {len(values)} thresholds and {len(labels)} labels. Pass one number for all, or one "
            f"for each of {quoted(labels)}."
        )
    return tuple(map(float, values))


def _is_probability(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def class_indices(labels: Any, names: Sequence[str], title: str = "label"):
    """Names of classes, str or bytes, as their numbers, in any shape: integers, or floats if there are any.

    Numbers among the labels stay unchanged. A TensorFlow string tensor becomes int64, and is checked when its
    graph runs. `title` names the labels in messages.
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
    # Without quotes, which TensorFlow would print with backslashes.
    wanted = f"must be names of classes: {listing(names)}.{_how_to_name(names)}"
    return _checked(tf.argmax(matches, -1), tf.reduce_any(matches, -1), labels, title, wanted)


def _if_missing(value: Any, title: str = "label") -> str:
    """Advice about a missing label or weight; empty for other values."""
    what = "weight" if "weight" in title else "label"
    return f" Drop rows without a {what}." if is_missing(value) else ""


def _known(names: Sequence[str]) -> str:
    if not names:
        return "Labels are numbers here: these classes have no names."
    return f"The classes of this model are {quoted(names)}, or their numbers from 0 on."


def _how_to_name(names: Sequence[str], found: Set[str] = frozenset()) -> str:
    """Advice on naming classes that have only default names; empty for others."""
    if not names or tuple(names) != _default_names(len(names)):
        return ""
    example = shown(sorted(found)) if len(found) == len(names) else "[...]"
    return (
        f" The classes have no names yet: pass them to load() as labels={example}, in this order."
    )


# --- The labels of one output: NumPy arrays in memory, or TensorFlow tensors in a graph ---


def _numpy_for(labels):
    """NumPy, or the TensorFlow module with functions of the same names."""
    if not is_of_tensorflow(labels):
        return np
    import tensorflow as tf

    return tf.experimental.numpy


def _kind(labels) -> str:
    """NumPy's one-letter code for the kind of an array's or tensor's dtype."""
    return np.dtype(getattr(labels.dtype, "as_numpy_dtype", labels.dtype)).kind


def _shape(labels) -> tuple[int | None, ...] | None:
    return None if getattr(labels.shape, "rank", 0) is None else tuple(labels.shape)


def _checked(values, valid, labels, title: str, wanted: str):
    """`values`, if all labels are valid; otherwise an error, which a graph raises when it runs.

    `valid` is bool, in the shape of the labels or of their rows. `wanted` says what labels must be.
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
    """Numbers of any kind as an array or tensor; an error names the first that is not finite."""
    labels = _with_nan(_as_array(labels, title))
    if _kind(labels) not in "iubf":
        raise TypeError(
            f"{title}s must be numbers; got {labels.dtype}, such as {_example(labels)}."
        )
    if _kind(labels) != "f":
        return labels
    return _checked(labels, _numpy_for(labels).isfinite(labels), labels, title, "must be finite.")


def _with_nan(array):
    """An array of objects with numbers and missing values as floats; other arrays unchanged."""
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array
    values = [np.nan if is_missing(value) else value for value in array.ravel().tolist()]
    if not all(isinstance(value, Real | np.bool_) for value in values):
        return array
    return np.array(values, np.float64).reshape(array.shape)


@dataclass(frozen=True)
class LabelRange:
    """Valid labels of one output: class numbers in [0, limit), names of classes or one-hot rows."""

    limit: int  # the number of classes
    what: str  # what the limit is, for messages
    axes: tuple[str, ...] = ("batch",)  # with more than the batch, -100 means no label
    names: tuple[str, ...] = ()  # of the classes; empty if they have none

    @property
    def per_token(self) -> bool:
        return self.axes != ("batch",)

    @property
    def columns(self) -> Sequence[str] | range:
        """The names of columns in a table of one-hot rows."""
        return () if self.per_token else self.names or range(self.limit)

    def is_read_by(self, loss) -> bool:
        """Whether a loss reads class numbers."""
        return reads_class_numbers(loss)

    def numbers(self, labels: Any, title: str):
        """Class numbers, int64 in the shape of the labels or [batch]; an error names the first invalid one.

        Labels are an array or list of numbers (also bools and floats), names, or one-hot rows [batch, limit]; or a
        TensorFlow tensor, which is checked when its graph runs. `title` names them in messages.
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
                f"{title}s must be [{', '.join(self.axes)}], one per {each}; got shape {shape}."
            )

    def refuse_one_per_row(self, labels) -> None:
        """Raises ValueError if labels [batch] are for a loss that compares each logit with a label of its own.

        Keras would compare all logits of a row with its one label.
        """
        shape = _shape(labels)
        if len(self.names) > 1 and not self.per_token and shape and shape[1:] in ((), (1,)):
            raise ValueError(
                f"Binary cross-entropy compares each of the {self.limit} logits with a label of its own, but there is "
                "one label per row. Compile with keras.losses.SparseCategoricalCrossentropy(from_logits=True), "
                "which takes 0 and 1 as the numbers of classes. For a model with one logit, load with "
                "task='multi_label_classification', num_classes=1."
            )

    def _wanted(self) -> str:
        names = f", or the names {quoted(self.names)}" if self.names else ""
        return f"must be integers from 0 to {self.limit - 1}, {self.what}{names}"


ONE_HOT = (
    "must be one-hot, as a row has a number for each class: a single 1, and 0 elsewhere. For probabilities "
    "of several classes, compile with keras.losses.CategoricalCrossentropy(from_logits=True)."
)


@dataclass(frozen=True)
class LabelSets:
    """Valid labels of an output with any number of classes per row."""

    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns in a table of such rows."""
        return self.names

    def is_read_by(self, loss) -> bool:
        return True

    def numbers(self, labels: Any, title: str):
        """Rows of 0 and 1, float32 [batch, classes]; an error names the first invalid one.

        Labels are such rows, or a collection of names for each row; for a single class also [batch]; or a TensorFlow
        tensor, which is checked when its graph runs and may have ragged names.
        """
        if is_of_tensorflow(labels):
            if _kind(labels) == "O" and labels.shape.rank == 2:
                return self._from_tensor_of_names(labels, title)
            if _kind(labels) == "O" or hasattr(labels, "ragged_rank"):
                raise TypeError(
                    f"{title}s are {labels.dtype.name} of shape {tuple(labels.shape)}. "
                    f"{self._wanted()} In tf.data, names are string tensors [batch, names], ragged or "
                    "padded with ''."
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
        if shape is not None and len(shape) == len(self.names) == 1:
            labels, shape = labels[:, None], (*shape, 1)
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
            "For each text, pass a list or set of names, which may be empty, or 0 or 1 for each of the "
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
    """Valid labels of an output with one number per row."""

    are_probabilities: bool = False  # whether labels must lie in [0, 1]
    names: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[str, ...]] = ()

    def is_read_by(self, loss) -> bool:
        """Whether a loss compares each label with one output; a user's own loss may read other labels."""
        module = getattr(loss, "__module__", "")
        return isinstance(loss, str) or module.startswith(("keras.", "bert_zoo."))

    def numbers(self, labels: Any, title: str):
        """Finite numbers [batch] from labels [batch] or [batch, 1]."""
        labels = finite_numbers(labels, title)
        shape = _shape(labels)
        if shape is not None and shape[1:] not in ((), (1,)):
            raise ValueError(
                f"{title}s have the shape {shape}, but a regression model predicts one number per row. Pass "
                "one column, [batch], and train a model for each column. If the columns say which of several "
                "labels apply, load the model with task='multi_label_classification'."
            )
        if self.are_probabilities:
            in_range = (labels >= 0) & (labels <= 1)
            wanted = (
                "must lie in [0, 1], because the loss is binary cross-entropy. Scale scores, such as score / 5, "
                'or compile with another loss, such as "mse".'
            )
            labels = _checked(labels, in_range, labels, title, wanted)
        return _numpy_for(labels).reshape(labels, [-1])


# --- The labels of a model ---


def label_arrays(model, x, y):
    """As `checked_labels`, for labels in memory: arrays, lists, columns, tables, tensors, or None."""

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
    """Checks labels, by output if there are several, and converts them for the losses of a model.

    Without the check, a class that does not exist silently gives a loss of NaN on GPUs. Outputs whose loss does not
    read class numbers take all finite numbers. A TensorFlow tensor is checked when its graph runs. The shapes of `x`
    may limit the labels.
    """
    ranges, loss = model.label_ranges(x), getattr(model, "loss", None)
    if isinstance(loss, Mapping):
        # If it is compiled with losses for some outputs, only these are trained.
        ranges = {name: labels for name, labels in ranges.items() if name in loss}
    if ranges and set(y if isinstance(y, Mapping) else {""}) != set(ranges):
        wanted = "one array" if "" in ranges else f"a dict of {sorted(ranges)}"
        got = f"a dict of {sorted(y)}" if isinstance(y, Mapping) else type(y).__name__
        raise ValueError(f"The labels of task {model.task!r} must be {wanted}; got {got}.")

    def numbers(name: str, labels):
        title = f"{name} label" if name else "label"
        own_loss = loss.get(name) if isinstance(loss, Mapping) else loss
        are_labels = not getattr(own_loss, "reads_targets", False)
        if are_labels and name in ranges and ranges[name].is_read_by(own_loss):
            return ranges[name].numbers(labels, title)
        found = finite_numbers(labels, title)
        if reads_each_class(own_loss) and isinstance(ranges.get(name), LabelRange):
            ranges[name].refuse_one_per_row(found)
        return found

    return by_output(numbers, y)


def no_labels(x):
    """Stands for labels of inputs that have none, for Keras: weights come after labels. [rows, 0], see `has_labels`."""
    while not hasattr(x, "shape"):
        x = next(iter(x.values() if isinstance(x, Mapping) else x))
    if not is_of_tensorflow(x):
        return np.zeros((len(x), 0), np.float32)
    import tensorflow as tf

    return tf.zeros([tf.shape(x)[0], 0])


def has_labels(y) -> bool:
    """Whether a step got labels, and not None or `no_labels`."""
    return y is not None and tuple(getattr(y, "shape", ())[1:]) != (0,)


def by_output(function, y):
    """`function(name, part)` for the labels or weights of each output; "" names a single output."""
    if isinstance(y, Mapping):
        return {name: function(name, part) for name, part in y.items()}
    return function("", y)


def _as_array(labels, title: str):
    """Labels as an array; tensors unchanged."""
    if is_of_tensorflow(labels):
        return labels
    try:
        array = np.asarray(labels)
        # NumPy turns a missing value among strings into the string 'nan'.
        return np.asarray(labels, object) if array.dtype.kind in "US" else array
    except ValueError as error:
        raise ValueError(
            f"{title}s must be an array, but these rows have different lengths ({error}). Pad labels of "
            f"tokens with {IGNORED_LABEL}, which is ignored."
        ) from error


def _example(labels) -> str:
    return shown(labels.ravel()[:1].tolist()) if isinstance(labels, np.ndarray) else "no number"


# --- Weights of classes ---


def read_class_weight(model, class_weight):
    """Splits `fit`'s class_weight into a table for `class_weights_of` and an argument for Keras, one of which is None.

    Keras 3.15 supports one label per row; for labels of tokens it would use the largest one. It gets the argument if
    labels have no names or the loss does not read class numbers.
    """
    needs_classes = model.default_optimizer is not None or isinstance(class_weight, str)
    if class_weight is not None and not model.labels and needs_classes:
        raise ValueError(
            f"class_weight is {shown(class_weight)}, but task {model.task!r} has no classes. Pass sample_weight, one "
            "number per row."
        )
    if class_weight is None or not model.labels:
        return None, class_weight
    table = class_weight_table(class_weight, model.labels)
    if model.label_ranges(())[""].is_read_by(model.loss):
        return table, None
    return None, dict(enumerate(table.tolist()))


def class_weight_table(class_weight: Mapping, names: Sequence[str]) -> np.ndarray:
    """float32 [classes] from weights by name or number; missing classes have the weight 1."""
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            f"class_weight is {shown(class_weight)}; it must be a dict of weights by class, such as "
            f"{{{names[0]!r}: 2.0}} or {{0: 2.0}}, or 'balanced'."
        )
    numbers = class_indices([*class_weight], names, "class_weight")
    check_range("class_weight", numbers, len(names), NUMBER_OF_LABELS)
    table = np.ones(len(names), np.float32)
    for number, (name, weight) in zip(numbers, class_weight.items(), strict=True):
        check(f"class_weight[{name!r}]", weight, float, least=0)
        table[int(number)] = weight
    return table


def class_weights_of(labels, table: np.ndarray, sample_weight=None):
    """The weights of labels (class numbers or -100, array or tensor), in the shape of the labels."""
    if sample_weight is not None:
        raise ValueError(
            "class_weight and sample_weight are both given. Multiply them and pass sample_weight."
        )
    functions = _numpy_for(labels)
    return functions.take(table, functions.maximum(labels, 0))


# -------------------------------------------------------------------------------------------------
# What `load` knows about a model's head, from the user and from the checkpoint.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeadChoice:
    """What the user asks of a model's head, and what the checkpoint states of the one that it has."""

    checkpoint: str  # its name, for messages
    # From the user; None where nothing is asked.
    num_classes: int | None = None
    labels: Sequence[str] | None = None
    thresholds: Thresholds | None = None
    # Of the checkpoint's head.
    is_trained: bool = False  # whether the model gets it, and not a randomly initialised one
    num_logits: int | None = None  # per text; None if its file does not tell
    stored_labels: tuple[str, ...] = ()
    stored_thresholds: tuple[float, ...] = ()
    score_activation: str | None = None  # what turns its one logit into a score
    token_vectors: TokenVectors | None = None  # how it makes vectors of tokens
    sparse_pooling: SparsePooling | None = None  # what turns its logits into a sparse vector
    entity_head: EntityHead | None = None  # how it finds entities of named types

    @property
    def sizes(self) -> set[int]:
        """The numbers of classes that the user's arguments imply."""
        return {self.num_classes, self.labels and len(self.labels)} - {None}

    def refuse_classes(self, task: str) -> None:
        """Raises ValueError if there are classes, for a task whose classes users cannot choose."""
        if self.sizes:
            raise ValueError(
                f"Task {task!r} has no classes to name: leave num_classes={self.num_classes!r} and "
                f"labels={self.labels!r} out."
            )

    def refuse_thresholds(self, task: str) -> None:
        """Raises ValueError if there are thresholds, for a task without them."""
        if self.thresholds is not None:
            raise ValueError(
                f"Task {task!r} has no thresholds: leave thresholds={self.thresholds!r} out, or load "
                "task='multi_label_classification'."
            )
