"""Checks on the dict of ids that models are called with."""

import functools
import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.layers.common import concrete
from bert_zoo.private import runs_for_shapes

log = logging.getLogger("bert_zoo")


def is_of_tensorflow(value: Any) -> bool:
    """Whether a value is a TensorFlow tensor, eager or not; does not import TensorFlow."""
    return type(value).__module__.startswith("tensorflow")


def check_is_dict(inputs: Any) -> None:
    """Raises TypeError for text and other inputs that a model cannot be called with."""
    if not isinstance(inputs, Mapping):
        raise TypeError(
            f"The model is called with a dict of id tensors; got {type(inputs).__name__}. For text, "
            "use model.preprocessor(texts) first, or pass text to fit, evaluate or predict."
        )


def tokens_of(inputs: Mapping[str, Any]) -> Any:
    """One number per token, int [batch, ..., length]: its id, or the id of its first character."""
    return inputs["token_ids"] if "token_ids" in inputs else inputs["char_ids"][..., 0]


def real_tokens(inputs: Mapping[str, Any]) -> Any:
    """[batch, ..., length], 1 for real tokens; None if all are real."""
    mask = inputs.get("padding_mask")
    if mask is None and "char_ids" in inputs:
        return ops.cast(ops.any(ops.not_equal(inputs["char_ids"], 0), axis=-1), "int32")
    return mask


def warn_of_padding_first(padding_mask: Any) -> None:
    """Logs once that rows begin with padding, for a head that reads the first token."""
    mask = None if padding_mask is None else concrete(padding_mask)
    if mask is not None and mask.size and (mask[..., 0] < mask.max(axis=-1)).any():
        _warn_once_of_padding_first()


@functools.cache
def _warn_once_of_padding_first() -> None:
    log.warning(
        "Some rows begin with padding, but the model's head reads their first token, so its outputs for these rows "
        "depend on the padding. (transformers reads padding there too, and where it sees no token, its results "
        "differ by implementation.) Put padding at the end of rows. (Shown once.)"
    )


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
    """A list of rows as an array; other values unchanged."""
    if not isinstance(value, list | tuple):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"The rows of {name} have different lengths ({error}). Pad them and pass a padding_mask that is "
            "0 for padding, or pass text."
        ) from error


def as_ids(name: str, value: Any):
    """The value as an int32 tensor; raises TypeError if it is not of integers."""
    tensor = ops.convert_to_tensor(value)
    # When Keras 3.15 loads a custom model, it builds the layers by calling the model with float32 for
    # every input (`Model.build_from_config`).
    if not runs_for_shapes():
        check_is_integer(name, tensor)
    return ops.cast(tensor, "int32")


def as_strings(texts: Any):
    """Texts unchanged, or strings in place of the float32 inputs that `as_ids` mentions."""
    import tensorflow as tf

    stand_in = runs_for_shapes() and getattr(texts, "dtype", None) == "float32"
    return tf.strings.as_string(texts) if stand_in else texts


def with_string_tensors(inputs: Any) -> Any:
    """A layer's inputs, with a string or list of strings turned into a string tensor [batch].

    Keras does not treat plain strings as inputs. A list of two strings is a batch and not a pair.
    """
    from bert_zoo.text.batches import text_batch

    texts = inputs if isinstance(inputs, list) else [inputs]
    is_batch = any(isinstance(text, str | bytes) for text in texts)
    return text_batch(texts) if is_batch else inputs


def check_is_integer(name: str, tensor: Any) -> None:
    """Raises TypeError unless a tensor, symbolic or not, has an integer dtype."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not dtype.startswith(("int", "uint", "bool")):
        raise TypeError(f"{name} must be integers; got {dtype}.")


def outside(name: str, ids: Any, limit: Any):
    """A mask of ids (array or TensorFlow tensor) outside of [0, limit); labels may also be -100."""
    wrong = (ids < 0) | (ids >= limit)
    return wrong & (ids != IGNORED_LABEL) if name == "labels" else wrong


def check_range(name: str, value: Any, limit: int, what: str) -> None:
    """Checks that values lie in [0, limit), if they are known; ValueError names the first one outside.

    Without the check, GPUs silently read zeros, and JAX the last row, for an id outside of a table.
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
