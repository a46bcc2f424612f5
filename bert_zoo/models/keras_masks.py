"""Keras masks on an encoder's outputs, with which Keras's own layers leave padding out."""

from collections.abc import Mapping
from typing import Any

from keras import ops

from bert_zoo import private


def mask_padding(
    outputs: Mapping[str, Any], padding_mask: Any, *, is_partial: bool = False
) -> None:
    """Sets the Keras mask of an encoder's outputs with one vector per token.

    Args:
        outputs: an encoder's outputs, or those of its SavedModel.
        padding_mask: [batch, length], 1 for real tokens; the batch axis may be 1.
        is_partial: whether the last layer computed only some tokens. Its outputs then get no mask.
    """
    states = [*outputs.get("hidden_states", ()), *outputs.get("encoder_outputs", ())]
    sequences = states[:-1] if is_partial else [*states, outputs["sequence_output"]]
    if not sequences:
        return
    mask = ops.cast(padding_mask, "bool")
    if 1 in mask.shape:
        mask = ops.logical_and(mask, ops.ones_like(sequences[0][..., 0], "bool"))
    for x in sequences:
        private.set_mask(x, mask)
