"""Texts that are longer than a model reads at once: cut, or read in windows that are pooled."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

from keras import ops

from bert_zoo.models.chunks import in_chunks
from bert_zoo.models.replicas import compiles_for_each_shape

MODES = ("cut", "mean", "max")


@dataclass(frozen=True)
class LongTexts:
    """What a model does with texts that are longer than it reads at once.

    Attributes:
        mode: "cut" reads their beginning; "mean" and "max" read all of them in windows, and take the
            mean or maximum of the windows' logits or sentence vectors.
        stride: tokens from the beginning of a window to that of the next one; None stands for three
            quarters of a window.

    Raises:
        ValueError: an unknown mode, or a stride that is no positive number or is of no use.
    """

    mode: str = "cut"
    stride: int | None = None

    def __post_init__(self):
        if self.mode not in MODES:
            raise ValueError(
                f"long_texts is {self.mode!r}; it is 'cut', or 'mean' or 'max' over windows."
            )
        if self.stride is None:
            return
        if (
            isinstance(self.stride, bool)
            or not isinstance(self.stride, Integral)
            or self.stride < 1
        ):
            raise ValueError(f"stride is {self.stride!r}; it is a number of tokens, at least 1.")
        if not self.in_windows:
            raise ValueError(
                f"stride is {self.stride}, and long texts are cut: pass long_texts='mean' or 'max' "
                "with it, to read them in windows that begin so many tokens apart."
            )

    @property
    def in_windows(self) -> bool:
        return self.mode != "cut"

    def get_config(self) -> dict[str, Any]:
        return asdict(self)


def are_rows(inputs: Mapping[str, Any]) -> bool:
    """Whether ids are known to be rows, [batch, length], and not windows, [batch, windows, length]."""
    shape = inputs["token_ids"].shape
    has_rank = getattr(shape, "rank", 0) is not None  # a TensorFlow graph that serves both has none
    return has_rank and len(shape) == 2


def over_windows(model, inputs: Mapping[str, Any], training: bool = False) -> Any:
    """What a model gives for the windows of texts, pooled to one row for each text.

    Args:
        model: a `ZooModel` that pools windows.
        inputs: ids [batch, windows, length].
        training: whether it is trained; else a text of any length takes the same memory.

    Returns:
        float32 [batch, size].
    """
    pooled = pooled_windows(
        lambda rows: model.window_outputs(rows, training=training),
        inputs,
        getattr(model, "encoder", model).long_texts.mode,
        gather=not compiles_for_each_shape(getattr(model, "distribute_strategy", None)),
        chunked=not training,
    )
    return model.from_pooled(pooled)


def pooled_windows(
    run: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    mode: str,
    *,
    gather: bool,
    chunked: bool = False,
) -> Any:
    """`run` of all windows, the mean or maximum of each text's.

    Args:
        run: ids [rows, length] to [rows, size].
        inputs: ids [batch, windows, length]. Texts with fewer windows than others have some of
            padding alone, which do not count.
        mode: "mean" or "max".
        gather: whether the windows that count are gathered first, so that others take no time; on
            TensorFlow, but not where XLA compiles, which must know the number of rows.
        chunked: whether few of the gathered windows are run at a time.

    Returns:
        float32 [batch, size].
    """
    inputs = {name: ops.convert_to_tensor(value) for name, value in inputs.items()}
    if "padding_mask" not in inputs:
        inputs["padding_mask"] = ops.ones_like(inputs["token_ids"])
    if not gather:
        return _of_all_windows(run, inputs, mode)
    if chunked:
        run = functools.partial(outputs_in_chunks, run)
    return _of_gathered_windows(run, inputs, mode)


def _of_all_windows(run, inputs: dict[str, Any], mode: str):
    """`pooled_windows` in keras.ops, of windows of padding alone too."""
    length = ops.shape(inputs["token_ids"])[2]
    rows = {name: ops.reshape(value, (-1, length)) for name, value in inputs.items()}
    values = ops.cast(run(rows), "float32")
    counts = ops.any(inputs["padding_mask"] > 0, axis=2)
    values = ops.reshape(values, (-1, ops.shape(counts)[1], values.shape[-1]))
    counts = counts[:, :, None]
    if mode == "max":
        return ops.max(ops.where(counts, values, -1e9), axis=1)
    number = ops.sum(ops.cast(counts, "float32"), axis=1)
    return ops.sum(ops.where(counts, values, 0.0), axis=1) / ops.maximum(number, 1.0)


def _of_gathered_windows(run, inputs: dict[str, Any], mode: str):
    """`pooled_windows` in TensorFlow, of the windows that count."""
    import tensorflow as tf

    shape = tf.shape(inputs["padding_mask"])
    # Rows, where the graph serves them too, are texts of one window.
    inputs = {name: tf.reshape(ids, [shape[0], -1, shape[-1]]) for name, ids in inputs.items()}
    mask = inputs["padding_mask"]
    indices = tf.where(tf.reduce_any(mask > 0, axis=2))
    rows = {name: tf.gather_nd(value, indices) for name, value in inputs.items()}
    return pooled_rows(run(rows), indices[:, 0], tf.shape(mask, tf.int64)[0], mode)


def outputs_in_chunks(run: Callable[[dict[str, Any]], Any], rows: Mapping[str, Any]) -> Any:
    """`run(rows)`, few at a time; on TensorFlow."""
    return in_chunks(lambda rows: {"values": run(rows)}, rows, by_length=True)["values"]


def pooled_rows(values, texts, number, mode: str) -> Any:
    """The mean or maximum of each text's rows; on TensorFlow.

    Args:
        values: [rows, size].
        texts: [rows], the number of each row's text.
        number: of texts.
        mode: "mean" or "max".

    Returns:
        float32 [number, size].
    """
    import tensorflow as tf

    segment = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}[mode]
    return segment(tf.cast(values, tf.float32), texts, number)


def can_pool_windows(model) -> bool:
    """Whether a model's outputs for the windows of a text can be pooled."""
    # A state carries a text on from one segment to the next.
    return model.pools_windows and not getattr(model, "encoder", model).state
