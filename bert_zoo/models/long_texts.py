"""Texts that are longer than a model reads at once: cut, or read in windows that are pooled."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

from keras import ops

from bert_zoo.models.chunks import in_chunks
from bert_zoo.models.inputs import tokens_of
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
        is_integer = isinstance(self.stride, Integral) and not isinstance(self.stride, bool)
        if not is_integer or self.stride < 1:
            raise ValueError(f"stride is {self.stride!r}; it is a number of tokens, at least 1.")
        if not self.in_windows:
            raise ValueError(
                f"stride is {self.stride}, and long texts are cut: pass long_texts='mean' or 'max' "
                "with it, to read them in windows that begin that many tokens apart."
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
    """What a model gives for windows, ids [batch, windows, length], pooled to float32 [batch, size].

    Where it is not trained, a text of any length takes the same memory. `from_pooled` is the model's by
    default.
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
    """`run` of all windows, the mean or maximum of each text's, float32 [batch, size].

    Args:
        run: ids [rows, length] to [rows, size].
        inputs: ids [batch, windows, length]. Texts with fewer windows than others have some of
            padding alone, which do not count.
        mode: "mean" or "max".
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
    """As `pooled_windows`, on TensorFlow, where windows of padding alone take no time."""
    import tensorflow as tf

    inputs = _with_mask(inputs)
    shape = tf.shape(inputs["padding_mask"])
    # Rows, where the graph serves them too, are texts of one window.
    inputs = {name: tf.reshape(ids, [shape[0], -1, shape[-1]]) for name, ids in inputs.items()}
    mask = inputs["padding_mask"]
    indices = tf.where(tf.reduce_any(mask > 0, axis=2))
    rows = {name: tf.gather_nd(value, indices) for name, value in inputs.items()}
    return pooled_rows(run(rows), indices[:, 0], tf.shape(mask, tf.int64)[0], mode)


def _with_mask(inputs: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {name: ops.convert_to_tensor(value) for name, value in inputs.items()}
    return {"padding_mask": ops.ones_like(tokens_of(inputs)), **inputs}


def pooled_rows(values, texts, number, mode: str) -> Any:
    """The mean or maximum of each text's rows, float32 [number, size]; on TensorFlow.

    Args:
        values: [rows, size].
        texts: [rows], the number of each row's text, below `number`.
    """
    import tensorflow as tf

    segment = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}[mode]
    return segment(tf.cast(values, tf.float32), texts, number)


def can_pool_windows(model) -> bool:
    """Whether a model's outputs for the windows of a text can be pooled."""
    # A state carries a text on from one segment to the next.
    return model.pools_windows and not getattr(model, "encoder", model).always_gives_state
