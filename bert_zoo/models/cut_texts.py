"""A warning, shown once per model, about how many texts were cut and how to keep them whole."""

import contextlib
from collections.abc import Callable, Iterator, Sized

import keras

from bert_zoo.models.data_adapters import is_text, is_tf_dataset
from bert_zoo.models.long_texts import can_pool_windows


@contextlib.contextmanager
def warning_of_cut_texts(
    model, x, *, pooled: bool | None = None, columns: bool = False, parts: int | None = None
) -> Iterator[Callable[[], None] | None]:
    """Reports at its end how many texts of a call were cut (for a tf.data, how many of a batch).

    Args:
        model: a `ZooModel`.
        x: the data given to `fit`, `evaluate` or `predict`.
        pooled: whether the call has one output per text, for which windows can be pooled; by default
            whether the model has.
        columns: whether a tuple has columns of texts for the model's `columns_to_inputs`, and is not a pair.
        parts: number of texts that are read in each row.

    Yields a function that ends the counting early; None if nothing is counted.
    """
    reports = _holds_texts(x) and model.has_preprocessor
    report = getattr(model.preprocessor, "report", None) if reports else None
    if report is None:
        yield None
        return
    pooled = not model.outputs_per_token if pooled is None else pooled
    is_tuple = isinstance(x, tuple)
    if parts is None:
        parts = 1 + model.labels_are_texts
        parts = len(x) - model.shared_columns if is_tuple and columns else parts
    are_pairs = is_tuple and not (columns and not model.shared_columns)
    with report.of_call(_number(x, parts), advice(model, are_pairs, pooled)) as end_counting:
        yield end_counting


def ended_after_an_epoch(end_counting: Callable[[], None]) -> keras.callbacks.Callback:
    """A callback that ends the counting after the first pass over the data."""
    return keras.callbacks.LambdaCallback(
        on_test_begin=lambda logs: end_counting(),
        on_epoch_end=lambda epoch, logs: end_counting(),
    )


def with_callback(callbacks, one: keras.callbacks.Callback):
    """The callbacks of `fit` with another one."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(one)
        return callbacks
    return [*keras.tree.flatten(callbacks or []), one]


def _holds_texts(x) -> bool:
    if is_tf_dataset(x):
        x = x.element_spec
        while isinstance(x, tuple) and x:
            x = x[0]
    return is_text(x)


def _number(x, parts: int) -> int | None:
    """The number of texts in memory, with `parts` in each row; None if unknown."""
    texts = x[0] if isinstance(x, tuple) and x else x
    if isinstance(texts, str | bytes):
        return 1
    return parts * len(texts) if isinstance(texts, Sized) and not is_tf_dataset(texts) else None


def advice(model, are_pairs: bool, pooled: bool) -> str:
    """How to keep texts whole."""
    ways = []
    if pooled and not are_pairs and can_pool_windows(model):
        ways.append("long_texts='mean' or 'max', which reads them whole, in windows")
    if model.preprocessor.sequence_length < model.longest_input:
        ways.append(f"max_length, up to {model.longest_input}")
    if ways:
        return f"To keep them, call load() with {'; or with '.join(ways)}."
    return f"{'Pairs are always cut, and the' if are_pairs else 'The'} model reads no more at once."
