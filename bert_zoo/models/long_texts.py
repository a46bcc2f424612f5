"""Texts longer than a model's limit: cut, or read in windows that are pooled."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import asdict, dataclass
from typing import Any

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.models.data_adapters import is_text, is_tf_dataset
from bert_zoo.models.graphs import in_chunks
from bert_zoo.models.inputs import tokens_of
from bert_zoo.models.replicas import compiles_for_each_shape

MODES = ("cut", "mean", "max")


@dataclass(frozen=True)
class LongTexts:
    """How a model reads texts that are longer than its limit.

    "cut" reads only their start; "mean" and "max" read them whole in windows, and take the mean or maximum of the
    windows' logits or sentence vectors.
    """

    mode: str = "cut"
    # Tokens between the starts of two windows; None for three quarters of a window.
    stride: int | None = None

    def __post_init__(self):
        check("long_texts", self.mode, str, choices=MODES)
        check("stride", self.stride, int | None, least=1)
        if self.stride is not None and not self.in_windows:
            raise ValueError(
                f"stride is {self.stride}, but long texts are cut. To read them in windows that start this "
                "many tokens apart, also pass long_texts='mean' or 'max'."
            )

    @property
    def in_windows(self) -> bool:
        return self.mode != "cut"

    def get_config(self) -> dict[str, Any]:
        return asdict(self)


def are_rows(inputs: Mapping[str, Any]) -> bool:
    """Whether ids are known to be rows, [batch, length], and not windows, [batch, windows, length]."""
    shape = tokens_of(inputs).shape
    has_rank = getattr(shape, "rank", 0) is not None  # a TensorFlow graph that serves both has none
    return has_rank and len(shape) == 2


def over_windows(
    model,
    inputs: Mapping[str, Any],
    training: bool = False,
    from_pooled: Callable[[Any], Any] | None = None,
) -> Any:
    """A model's outputs for windows, ids [batch, windows, length], pooled to float32 [batch, size].

    Except in training, memory does not depend on the lengths of texts. `from_pooled` is by default the
    model's method.
    """
    mode = getattr(model, "encoder", model).long_texts.mode

    def run(rows):
        return model.window_outputs(rows, training=training)

    def run_in_chunks(rows):
        return in_chunks(run, rows, by_length=True)

    # XLA must know the number of rows.
    if compiles_for_each_shape(getattr(model, "distribute_strategy", None)):
        pooled = pooled_windows(run, inputs, mode)
    else:
        pooled = pooled_gathered_windows(run if training else run_in_chunks, inputs, mode)
    return (from_pooled or model.from_pooled)(pooled)


def pooled_windows(
    run: Callable[[dict[str, Any]], Any], inputs: Mapping[str, Any], mode: str
) -> Any:
    """The mean or maximum of `run` over the windows of each text, float32 [batch, size].

    `run` takes ids [rows, length] to [rows, size]. Of the ids [batch, windows, length], windows of nothing but
    padding, in texts with fewer windows than others, are ignored.
    """
    inputs = _with_mask(inputs)
    length = ops.shape(tokens_of(inputs))[2]
    rows = {name: ops.reshape(value, (-1, length)) for name, value in inputs.items()}
    values = ops.cast(run(rows), "float32")
    counts = ops.any(inputs["padding_mask"] > 0, axis=2)
    values = ops.reshape(values, (-1, ops.shape(counts)[1], values.shape[-1]))
    counts = counts[:, :, None]
    if mode == "max":
        return ops.max(ops.where(counts, values, -1e9), axis=1)
    number = ops.sum(ops.cast(counts, "float32"), axis=1)
    return ops.sum(ops.where(counts, values, 0.0), axis=1) / ops.maximum(number, 1.0)


def pooled_gathered_windows(run, inputs: Mapping[str, Any], mode: str) -> Any:
    """As `pooled_windows`, on TensorFlow, without computing windows of nothing but padding."""
    import tensorflow as tf

    inputs = _with_mask(inputs)
    shape = tf.shape(inputs["padding_mask"])
    # If the graph also serves rows, these are texts of one window.
    inputs = {name: tf.reshape(ids, [shape[0], -1, shape[-1]]) for name, ids in inputs.items()}
    mask = inputs["padding_mask"]
    indices = tf.where(tf.reduce_any(mask > 0, axis=2))
    rows = {name: tf.gather_nd(value, indices) for name, value in inputs.items()}
    return pooled_rows(run(rows), indices[:, 0], tf.shape(mask, tf.int64)[0], mode)


def _with_mask(inputs: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {name: ops.convert_to_tensor(value) for name, value in inputs.items()}
    return {"padding_mask": ops.ones_like(tokens_of(inputs)), **inputs}


def pooled_rows(values, texts, number, mode: str) -> Any:
    """The mean or maximum of the rows, [rows, size], of each text, float32 [number, size]; on TensorFlow."""
    import tensorflow as tf

    segment = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}[mode]
    return segment(tf.cast(values, tf.float32), texts, number)


def can_pool_windows(model) -> bool:
    # Models with a state read long texts segment by segment instead.
    return model.pools_windows and not getattr(model, "encoder", model).always_gives_state


# -------------------------------------------------------------------------------------------------
# A warning, shown once per model, about how many texts were cut and how to keep them whole.
# -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def warning_of_cut_texts(
    model, x, *, pooled: bool | None = None, columns: bool = False, parts: int | None = None
) -> Iterator[Callable[[], None] | None]:
    """Reports at its end how many texts of a call were cut (for a tf.data, how many of a batch).

    Args:
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
    ways = []
    if pooled and not are_pairs and can_pool_windows(model):
        ways.append("long_texts='mean' or 'max', which reads them whole, in windows")
    if model.preprocessor.sequence_length < model.longest_input:
        ways.append(f"max_length, up to {model.longest_input}")
    if ways:
        return f"To keep them, call load() with {'; or with '.join(ways)}."
    return f"{'Pairs are always cut, and the' if are_pairs else 'The'} model reads no more at once."
