"""Converts the data given to `fit`, `evaluate` and `predict` to data for Keras.

Texts and pairs of texts in memory become rows of ids, which are put together in batches
(`bert_zoo.models.text_rows`); batches of a tf.data are tokenized there, in parallel. Dicts of ids are checked and
passed on.
"""

import logging
from collections.abc import Iterator, Mapping, Sized
from copy import copy
from typing import Any

import keras
import numpy as np

from bert_zoo.data.batches import num_rows as rows_in
from bert_zoo.data.buckets import Batches, Batching, Rows
from bert_zoo.data.by_number import without_autotuning
from bert_zoo.error_text import listing, quoted
from bert_zoo.fields import check
from bert_zoo.forks import refuse_fork
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.graphs import mapped, peeked
from bert_zoo.models.inputs import (
    as_array,
    check_range,
    is_of_tensorflow,
    tokens_of,
    warn_of_padding_first,
)
from bert_zoo.models.labels import (
    checked_labels,
    has_labels,
    label_arrays,
    no_labels,
)
from bert_zoo.models.text_rows import (
    checked_sample_weight,
    keeps_rows,
    with_few_lengths,
    with_weights,
)
from bert_zoo.text.columns import column_names

DEFAULT_BATCH_SIZE = 32


def keras_arguments(
    model,
    x,
    y=None,
    sample_weight=None,
    *,
    batch_size: int | None = None,
    shuffle: bool | None = False,
    one_length: bool = False,
    labelled: bool = False,
    class_weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Keras's data arguments for any supported data; texts in memory as `Batches`, see `for_keras`.

    Args:
        x: strings; a tuple of two batches of strings; a dict of id arrays; a tf.data.Dataset of
            batches of these, alone or with labels (and weights); or a generator or PyDataset of
            batches of ids.
        y, sample_weight, batch_size, shuffle: as in `fit`, for strings and arrays. None leaves the order of
            rows open, for measuring.
        one_length: whether to pad all batches to the same length.
        labelled: whether data have labels. The second of two strings in a dataset's elements is then the
            label, if the model's labels are strings or have names.
        class_weights: float32 [classes], for labels without weights.
    """
    refuse_fork()
    if x is None:
        raise TypeError(
            "There is no data: x is None. Pass texts, a dict of ids or a tf.data.Dataset."
        )
    if batch_size is not None:
        check("batch_size", batch_size, int, least=1)
    with_names = labelled and (bool(model.labels) or model.labels_are_texts)
    needs_labels = labelled and getattr(model, "loss", None) is not None
    options = {"one_length": one_length, "with_names": with_names, "class_weights": class_weights}
    if isinstance(x, Batches):
        _refuse_separate_labels("Batches", y, sample_weight)
        return {"x": x if class_weights is None else _weighted(x, class_weights)}
    if isinstance(x, Iterator | keras.utils.PyDataset):
        _refuse_separate_labels("a generator", y, sample_weight)
        batch, x = peeked(x)
        first, *_ = _unpack(batch, with_names)
        if not isinstance(first, Mapping):
            raise TypeError(
                f"The first batch of x has {type(first).__name__}, but generators and PyDatasets must yield "
                "dicts of ids. Pass texts as lists or arrays, or as batches of a dataset: "
                "tf.data.Dataset.from_generator."
            )

        def checked(batch):
            columns = _unpack(batch, with_names)
            columns = _id_columns(model, *columns, needs_labels=needs_labels, table=class_weights)
            return tuple(column for column in columns if column is not None)

        return {"x": mapped(checked, x)}
    if is_tf_dataset(x):
        _refuse_separate_labels("a tf.data.Dataset", y, sample_weight)
        first, *others = _unpack(x.element_spec, with_names)
        if isinstance(first, Mapping):
            _refuse_dict_of_texts(first)
        if needs_labels and (not others or is_none(others[0])):
            raise _no_labels(model)
        if not with_names:
            _refuse_names_as_texts(model, x)
        return {"x": _map_dataset(model, x, **options)}
    if isinstance(x, Mapping):
        columns = _id_columns(
            model, x, y, sample_weight, needs_labels=needs_labels, table=class_weights
        )
        return dict(zip(("x", "y", "sample_weight"), columns, strict=True), batch_size=batch_size)
    size = batch_size or DEFAULT_BATCH_SIZE
    # A mean over the tokens of a batch would depend on its rows.
    groups = model.groups_rows and (shuffle or (shuffle is None and not model.outputs_per_token))
    rows = model.own_rows(x, y, sample_weight)
    if rows is None:
        columns = _text_columns(model, x, y, sample_weight, needs_labels=needs_labels)
        if keeps_rows(model, columns):
            settings = {"class_weights": class_weights, "one_length": one_length}
            rows = model.text_rows(*columns, **settings)
        elif has_tensorflow:
            return {"x": _map_dataset(model, _in_batches(columns, size, shuffle), **options)}
        else:
            rows, groups = _read_again(model, columns, class_weights), False
    batching = Batching(size, group_by_length=groups, shuffle=bool(shuffle))
    return {"x": rows.batches(batching)}


def _weighted(batches: Batches, class_weights: np.ndarray) -> Batches:
    """The same batches with weights by class."""
    gather, found = batches.rows.gather, copy(batches)
    found.rows = batches.rows._replace(
        gather=lambda numbers: with_weights(*gather(numbers), class_weights=class_weights)
    )
    return found


def for_keras(data: dict[str, Any]) -> dict[str, Any]:
    """Keras's data arguments of `evaluate` and `predict`, with `Batches` as data that Keras reads."""
    return data | {"x": data["x"].epoch()} if isinstance(data["x"], Batches) else data


def _no_labels(model) -> ValueError:
    return ValueError(
        f"There are no labels: y is None, but task {model.task!r} is trained and measured on labels. "
        "Pass them as y, or in a tf.data.Dataset of (x, y)."
    )


def split_rows(fraction: float, *columns) -> tuple[tuple, tuple]:
    """The first and the last rows of x, y and sample_weight in memory, for validation_split."""
    check("validation_split", fraction, float, above=0, below=1)
    if yields_batches(columns[0]):
        raise ValueError(
            "validation_split needs data with a length; pass validation_data with a dataset."
        )
    rows = num_rows(columns[0])
    cut = int(rows * (1 - fraction))
    if cut == 0:
        raise ValueError(f"validation_split {fraction} of {rows} rows leaves none to train on.")
    return rows_of(columns, slice(None, cut)), rows_of(columns, slice(cut, None))


def rows_of(value: Any, rows: slice | np.ndarray) -> Any:
    """Some rows of arrays or lists, or of tuples and dicts of these."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(rows_of(part, rows) for part in value)
    if isinstance(value, Mapping):
        return {key: rows_of(part, rows) for key, part in value.items()}
    # pandas objects may have another index than row numbers.
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if hasattr(value, "to_numpy") and column_names(value) is None:
        value = value.to_numpy()
    if isinstance(rows, slice):
        return value[rows]
    # Neither lists nor tensors take an array of row numbers as an index.
    if isinstance(value, list):
        return [value[i] for i in rows]
    if is_of_tensorflow(value):
        import tensorflow as tf

        return tf.gather(value, rows)
    return value[rows]


def num_rows(x) -> int:
    if isinstance(x, Mapping):
        x = next(iter(x.values()))
    return rows_in(x[0] if isinstance(x, tuple) else x)


def with_whole_batches(model, x, batch_size: int | None) -> tuple[Any, int | None]:
    """Data with the last row repeated to the end of the last batch, and their original number of rows.

    For devices that compile for every shape. Data without a length are returned unchanged, with None.
    """
    if x is None or yields_batches(x):
        return x, None
    rows = num_rows(x)
    if not rows or (isinstance(x, Mapping) and set(model.state) & set(x)):
        return x, None
    size = batch_size or DEFAULT_BATCH_SIZE
    numbers = np.minimum(np.arange(-(-rows // size) * size), rows - 1)
    return rows_of(x, numbers), rows


def has_no_rows(x) -> bool:
    """Whether texts in memory, or both parts of a pair, are an empty batch."""
    parts = x if isinstance(x, tuple) else (x,)
    sizes = [getattr(part, "shape", None) for part in parts]
    sizes = [
        size[0] if size is not None else len(part) if isinstance(part, Sized) else None
        for size, part in zip(sizes, parts, strict=True)
    ]
    return {0} == {*sizes} and not any(isinstance(part, str | bytes) for part in parts)


def is_tf_dataset(x) -> bool:
    return hasattr(x, "element_spec") and hasattr(x, "prefetch")


def is_none(spec) -> bool:
    """Whether a part of a dataset's elements is None, by its spec."""
    return getattr(spec, "value_type", None) is type(None)


def yields_batches(x) -> bool:
    return is_tf_dataset(x) or isinstance(x, Iterator | keras.utils.PyDataset | Batches)


def first_batch(x):
    """The first of the batches that a PyDataset, a tf.data or `Batches` yields; None without any."""
    if isinstance(x, Batches):
        return x.at(0)
    return x[0] if isinstance(x, keras.utils.PyDataset) else next(iter(x.take(1)), None)


def is_text(x) -> bool:
    """Whether data in memory are strings, or anything else but ids."""
    first = x[0] if isinstance(x, tuple) and x else x
    return x is not None and not yields_batches(x) and not isinstance(first, Mapping)


def _refuse_separate_labels(what: str, *others) -> None:
    if any(other is not None for other in others):
        raise ValueError(f"{what} contains its labels and weights; leave y and sample_weight out.")


def checked_arrays(model, x: Mapping) -> dict[str, Any]:
    """Arrays of ids, converted from lists, after checks of their values."""
    _refuse_dict_of_texts(x)
    limits = model.id_limits()
    arrays = {}
    for name, value in x.items():
        if name in model.state and name not in limits:  # a tensor per layer, empty at first
            arrays[name] = [np.asarray(layer) for layer in value]
            continue
        arrays[name] = as_array(name, value)
        if 0 in arrays[name].shape and name not in model.state:
            raise ValueError(f"{name} is empty: its shape is {tuple(arrays[name].shape)}.")
    for name, (limit, what) in limits.items():
        if name in arrays:
            check_range(name, arrays[name], limit, what)
    if getattr(model, "reads_first_only", False):
        warn_of_padding_first(arrays.get("padding_mask"))
    return arrays


def text_rows(model, x):
    texts = model.as_text_rows(x)
    if isinstance(texts, tuple) and num_rows(texts[0]) != num_rows(texts[1]):
        raise ValueError(
            f"A pair is (first texts, second texts), where text i of one belongs to text i of the other, but "
            f"there are {num_rows(texts[0])} first and {num_rows(texts[1])} second texts."
        )
    return texts


def with_prompt(prompt: str, texts):
    """A batch of texts, or several in any structure, with a prompt before each text; traceable."""
    return keras.tree.map_structure(lambda batch: prompt + batch, texts) if prompt else texts


def _text_columns(model, x, y=None, sample_weight=None, *, needs_labels: bool) -> tuple:
    """The user's strings with their labels and weights, if any, checked."""
    if has_no_rows(x):
        raise ValueError("There are no texts: x is empty.")
    texts = text_rows(model, x)
    if needs_labels and y is None:
        raise _no_labels(model)
    check_rows(texts, y, sample_weight)
    labels = None if y is None else model.as_text_labels(texts, y)
    if sample_weight is None:
        return (texts,) if labels is None else (texts, labels)
    weights = model.as_text_weights(texts, sample_weight)
    return texts, no_labels(weights) if labels is None else labels, weights


def _id_columns(
    model, x: Mapping, y=None, sample_weight=None, *, needs_labels: bool, table: np.ndarray | None
) -> tuple:
    """The user's ids with labels and weights, checked; `table` is for `class_weights_of`."""
    x = checked_arrays(model, x)
    if needs_labels and y is None:
        raise _no_labels(model)
    y = label_arrays(model, x, y)
    check_rows(x, y, sample_weight)
    columns = with_weights(x, y, checked_sample_weight(sample_weight), class_weights=table)
    return (*columns, None, None)[:3]


def check_rows(x, y, sample_weight) -> None:
    rows = num_rows(x)
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        if column is not None and num_rows(column) != rows:
            raise ValueError(
                f"{name} has {num_rows(column)} rows and x has {rows}; the numbers must agree."
            )


def _in_batches(columns: tuple, batch_size: int, shuffle: bool | None):
    """Columns in memory as a dataset of batches."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(columns)
    if shuffle:
        dataset = dataset.shuffle(num_rows(columns[0]))
    return dataset.batch(batch_size)


def _map_dataset(
    model, dataset, *, one_length: bool, with_names: bool, class_weights: np.ndarray | None
):
    """Adds tokenization, or checks on ids, to a dataset of batches."""
    import tensorflow as tf

    check_ranks(dataset)
    x_spec, *_ = _unpack(dataset.element_spec, with_names)
    preprocessor = None
    if not isinstance(x_spec, Mapping):
        check_text_spec(x_spec)
        preprocessor = model.text_reader
        if one_length and preprocessor.get_config()["padding"] != "fixed":
            preprocessor = _one_length(model, preprocessor, dataset)

    # AutoGraph would needlessly rewrite all code that a batch runs through.
    @tf.autograph.experimental.do_not_convert
    def prepare(*element):
        columns = _unpack(element if len(element) > 1 else element[0], with_names)
        return _read(model, preprocessor, class_weights, *columns)

    dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return without_autotuning(dataset)


def _read(
    model, preprocessor, class_weights: np.ndarray | None, x, y=None, sample_weight=None
) -> tuple:
    """A batch of x, alone or with labels and weights, for Keras; traceable. Ids have no preprocessor."""
    is_text, is_labelled = preprocessor is not None, has_labels(y)
    if is_text and is_labelled:
        inputs, y = model.labelled_texts_to_inputs(x, y, preprocessor)
    else:
        inputs = model.texts_to_inputs(x, preprocessor) if is_text else model.check_in_graph(x)
        y = checked_labels(model, x, y) if is_labelled else None
    if is_text and sample_weight is not None:
        sample_weight = model.weights_of_text_labels(x, sample_weight, preprocessor)
    else:
        sample_weight = checked_sample_weight(sample_weight)
    return with_weights(inputs, y, sample_weight, class_weights=class_weights)


def _read_again(model, columns: tuple, class_weights: np.ndarray | None) -> Rows:
    """Columns in memory as rows that are read with NumPy whenever they are in a batch."""
    reader = with_few_lengths(model.text_reader)

    def gather(numbers):
        return _read(model, reader, class_weights, *rows_of(columns, numbers))

    return Rows(np.ones(num_rows(columns[0]), int), gather)


def _unpack(element, with_names: bool = False) -> tuple:
    """Splits a dataset's element into x, y and sample_weight, as many as it has.

    Two strings are a pair of texts, unless labels may be strings (`with_names`).
    """
    if not isinstance(element, tuple):
        return (element,)
    if _are_two_strings(element) and not with_names:
        return (element,)
    if not 1 <= len(element) <= 3:
        raise ValueError(
            "A dataset's elements are x, (x, y) or (x, y, sample_weight), with a pair of texts as "
            f"x = (first, second); got {len(element)} parts."
        )
    return element


def _are_two_strings(element) -> bool:
    return isinstance(element, tuple) and len(element) == 2 and all(map(holds_strings, element))


def holds_strings(value) -> bool:
    """Whether a value, or a dataset's spec, is one or several texts."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "name", None) == "string" or getattr(dtype, "kind", None) in ("U", "S", "T"):
        return True
    if isinstance(value, str | bytes):
        return True
    is_column = isinstance(value, list | tuple) or getattr(dtype, "kind", None) == "O"
    return is_column and isinstance(next(iter(value), None), str | bytes)


def _refuse_dict_of_texts(x: Mapping) -> None:
    texts = [name for name, value in x.items() if holds_strings(value)]
    if texts:
        raise TypeError(
            f"x is a dict whose {listing(map(repr, texts))} has strings, but dicts must have arrays of ids, "
            "such as token_ids. Pass only the strings: in memory x['text'], or (x['a'], x['b']) for "
            "pairs; in tf.data dataset.map(lambda row: (row['text'], row['label']))."
        )


def _refuse_names_as_texts(model, dataset) -> None:
    if not _are_two_strings(dataset.element_spec):
        return
    names = {name.encode() for name in model.labels}
    for _, seconds in dataset.take(1):
        found = {*getattr(seconds, "flat_values", seconds).numpy().ravel().tolist()}
        if found and found <= names:
            raise ValueError(
                "The dataset's elements are two strings, which are read as a pair of texts, but the "
                f"second ones are names of this model's labels, such as {found.pop().decode()!r}. "
                "Leave the labels out: dataset.map(lambda text, label: text). If they are second "
                "texts: dataset.map(lambda first, second: ((first, second),))."
            )


def check_ranks(dataset) -> None:
    import tensorflow as tf

    shapes = (getattr(spec, "shape", None) for spec in tf.nest.flatten(dataset.element_spec))
    if any(isinstance(shape, tf.TensorShape) and shape.rank is None for shape in shapes):
        raise ValueError(
            "The dataset does not say how many axes its tensors have, as after tf.py_function. Call "
            "set_shape on what that returns, such as [None] for a batch of texts, and give "
            "from_generator an output_signature."
        )


def check_text_spec(spec) -> None:
    for part in spec if isinstance(spec, tuple) else (spec,):
        if part.dtype != "string":
            raise TypeError(
                f"The dataset's inputs are {part.dtype}; pass strings, a pair of strings, or a dict "
                "of ids."
            )
        if part.shape.rank == 0:
            raise ValueError("The dataset yields single texts. Batch it first: dataset.batch(32).")


def input_length(model, texts, *, preprocessor):
    """The number of tokens of a batch's longest row in any input; traceable."""
    silent = preprocessor.with_options(report_truncation=False)  # texts will be read again
    inputs = dict(model.texts_to_inputs(texts, silent))
    if "char_ids" in inputs:
        inputs["char_ids"] = tokens_of(inputs)
    inputs = [*inputs.values()]
    if isinstance(inputs[0], np.ndarray):
        return max(ids.shape[-1] for ids in inputs)
    import tensorflow as tf

    return tf.reduce_max([tf.shape(ids)[-1] for ids in inputs])


def _one_length(model, preprocessor, dataset):
    """The preprocessor with padding to the longest row of the whole dataset."""
    import tensorflow as tf

    def length(*element):
        texts, *_ = _unpack(element if len(element) > 1 else element[0])
        return input_length(model, texts, preprocessor=preprocessor)

    lengths = dataset.map(length, num_parallel_calls=tf.data.AUTOTUNE)
    longest = without_autotuning(lengths).reduce(np.int32(1), tf.maximum)
    return preprocessor.with_options(sequence_length=int(longest), padding="fixed")


# -------------------------------------------------------------------------------------------------
# Counts the classes of labels in memory: for balanced weights, and for classes that are never trained.
# -------------------------------------------------------------------------------------------------

log = logging.getLogger("bert_zoo")

BALANCED = "balanced"


def class_counts(model, x, y) -> np.ndarray:
    """The number of labels of each class, int64 [classes], for texts or ids in memory.

    With several labels per row or per token, each counts; -100 does not.
    """
    labels = model.labels_in_memory(x, y)
    if labels is None:
        return np.zeros(len(model.labels), np.int64)
    labels = np.asarray(getattr(labels, "flat_values", labels))
    if labels.dtype == object:  # an array for each row of words
        labels = np.concatenate(labels)
    if labels.ndim == 2 and not model.outputs_per_token:  # a number for each class
        return np.count_nonzero(labels > 0.5, axis=0)
    numbers = labels[labels >= 0].astype(np.int64)
    return np.bincount(numbers, minlength=len(model.labels))


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Weights that give every class with labels the same total weight, as in scikit-learn; 1 for others.

    They are float64 [classes], n / (k * count) for n labels of k classes, of which there are `counts`, int [classes].
    """
    share = counts.sum() / max(np.count_nonzero(counts), 1)
    return np.where(counts, share / np.maximum(counts, 1), 1.0)


def balanced_class_weight(model, x, y) -> dict[str, float]:
    """`class_weight="balanced"` of `fit` as a dict by class; ValueError if data are not in memory."""
    if yields_batches(x):
        raise ValueError(
            f"class_weight={BALANCED!r} counts the labels, but x is a {type(x).__name__}, which is read batch by "
            "batch. Count them yourself and pass a dict of weights by class, such as "
            f"{{{model.labels[0]!r}: 2.0}}."
        )
    weights = balanced_weights(class_counts(model, x, y)).tolist()
    return dict(zip(model.labels, weights, strict=True))


def warn_of_untrained_classes(model, training: tuple, validation: tuple) -> None:
    """Warns if the rows (x, y) of `validation_split` have classes that the training rows lack."""
    trained, measured = class_counts(model, *training), class_counts(model, *validation)
    missing = [
        name for name, n, m in zip(model.labels, trained, measured, strict=True) if m > n == 0
    ]
    if missing:
        log.warning(
            "validation_split takes the last rows, and the rows before them have no label of the classes %s, which "
            "the model therefore cannot learn. Shuffle rows that are sorted by label, or pass validation_data.",
            quoted(missing),
        )
