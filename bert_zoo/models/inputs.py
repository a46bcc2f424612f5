"""Checks on the dict of ids that models are called with."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL, is_integer
from bert_zoo.layers.common import concrete
from bert_zoo.private import runs_for_shapes


def is_of_tensorflow(value: Any) -> bool:
    """Whether a value is a tensor of TensorFlow, eager or not, told without importing it."""
    return type(value).__module__.startswith("tensorflow")


def check_batch_size(value: Any, name: str = "batch_size") -> None:
    """Raises ValueError where a number of rows is not a positive integer."""
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a positive integer.")


def check_is_dict(inputs: Any) -> None:
    """Raises TypeError for text and whatever else a model cannot be called with."""
    if not isinstance(inputs, Mapping):
        raise TypeError(
            f"The model is called with a dict of id tensors; got {type(inputs).__name__}. For text, "
            "use model.preprocessor(texts) first, or pass text to fit, evaluate or predict."
        )


def tokens_of(inputs: Mapping[str, Any]) -> Any:
    """One number for each token, int [batch, ..., length]: its id, or of characters the first one's."""
    return inputs["token_ids"] if "token_ids" in inputs else inputs["char_ids"][..., 0]


def real_tokens(inputs: Mapping[str, Any]) -> Any:
    """[batch, ..., length], 1 for real tokens; None where all are."""
    mask = inputs.get("padding_mask")
    if mask is None and "char_ids" in inputs:
        return ops.cast(ops.any(ops.not_equal(inputs["char_ids"], 0), axis=-1), "int32")
    return mask


def check_rank(token_ids: Any, rank: int, wanted: str) -> None:
    """Raises ValueError unless ids have `rank` dimensions, described by `wanted`."""
    shape = tuple(token_ids.shape)
    if len(shape) != rank:
        raise ValueError(
            f"token_ids must be {wanted}; got shape {shape}. One row is a batch of one, "
            "token_ids[None]; a tf.data.Dataset of rows needs .batch(32)."
        )
    if shape[-1] == 0:
        raise ValueError(f"token_ids is empty: its shape is {shape}.")


def as_array(name: str, value: Any):
    """An array of a list of rows; anything else as it is."""
    if not isinstance(value, list | tuple):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"The rows of {name} have different lengths ({error}). Pad them, with a padding_mask of "
            "0 there, or pass text."
        ) from error


def as_ids(name: str, value: Any):
    """An int32 tensor; TypeError where the value has no integers."""
    tensor = ops.convert_to_tensor(value)
    # To build the layers of a user's own model that it loads, Keras 3.15 calls the model with float32
    # for every input (`Model.build_from_config`).
    if not runs_for_shapes():
        check_is_integer(name, tensor)
    return ops.cast(tensor, "int32")


def as_strings(texts: Any):
    """Texts as they are; strings for the float32 that stand for them where `as_ids` says."""
    import tensorflow as tf

    stand_in = runs_for_shapes() and getattr(texts, "dtype", None) == "float32"
    return tf.strings.as_string(texts) if stand_in else texts


def with_string_tensors(inputs: Any) -> Any:
    """A layer's inputs with a string or a list of strings as a string tensor [batch].

    Keras takes strings outside of tensors for other arguments. A list of two is a batch, and no pair.
    """
    from bert_zoo.text.batches import text_batch

    texts = inputs if isinstance(inputs, list) else [inputs]
    is_batch = any(isinstance(text, str | bytes) for text in texts)
    return text_batch(texts) if is_batch else inputs


def check_is_integer(name: str, tensor: Any) -> None:
    """Raises TypeError unless a tensor, or the symbol of one, has an integer type."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not dtype.startswith(("int", "uint", "bool")):
        raise TypeError(f"{name} must be integers; got {dtype}.")


def outside(name: str, ids: Any, limit: Any):
    """Where ids, an array or a TensorFlow tensor, do not lie in [0, limit); labels may be -100."""
    wrong = (ids < 0) | (ids >= limit)
    return wrong & (ids != IGNORED_LABEL) if name == "labels" else wrong


def check_range(name: str, value: Any, limit: int, what: str) -> None:
    """Checks that values lie in [0, limit), where they are known.

    GPUs read zeros, and JAX the last row, where an id is outside of a table: both in silence.

    Raises:
        ValueError: names the first value that does not, its position and the range.
    """
    values = concrete(value)
    if values is None or not values.size:
        return
    wrong = outside(name, values, limit)
    if wrong.any():
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name}{list(position)} is {values[position]}, outside of [0, {limit}): {what}."
        )
